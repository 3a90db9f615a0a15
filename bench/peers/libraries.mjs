// The libraries that peers are written with: which of them are here, and the process of each.
import { fileURLToPath } from 'node:url';
import { PeerProcess } from './process.mjs';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const inNode = (name, weight) => ({
  name,
  weight,
  program: process.execPath,
  args: ['--expose-gc', here('./serve.mjs'), name],
});
const inPython = (name, weight) => ({
  name,
  weight,
  program: process.env.COLLAPSAR_PYTHON || 'python3',
  args: [here('./serve.py'), name],
});

/**
 * @typedef {object} Program
 * @property {string} name
 * @property {number} weight  of a case's time: how much of it the library's peers take
 * @property {string} program
 * @property {string[]} args
 */

/** @returns {Program[]} */
const allPrograms = () => [
  inNode('plain loop', 1),
  inNode('onnxruntime', 2),
  inPython('torch', 3),
  inPython('numpy', 1),
  inPython('scipy', 1),
];

/** What a process may hold more than when it was new, before it must end to give it back. */
const keptAtMost = 64 * 2 ** 20;

/** A library's process: kept from case to case, as starting one takes seconds, while it gives its memory back. */
export class Library {
  #program;
  #time;
  #watch;
  #process;
  #newBytes;

  /**
   * @param {Program} program
   * @param {import('../suite/budget.mjs').TimeBudget} time
   * @param {import('../suite/footprint.mjs').MemoryWatch} watch
   */
  constructor(program, time, watch) {
    this.#program = program;
    this.#time = time;
    this.#watch = watch;
  }

  get name() {
    return this.#program.name;
  }

  get weight() {
    return this.#program.weight;
  }

  /** Versions by name; throws with the reason if the library is not here. */
  async versions() {
    return await (await this.process()).versions();
  }

  /** Its process, started if there is none. */
  async process() {
    if (this.#process === undefined) {
      this.#process = new PeerProcess(this.#program, this.#time, this.#watch);
      await this.#process.versions(); // once it answers, it has loaded its modules
      this.#newBytes = this.#process.memory();
    }
    return this.#process;
  }

  /** After a case: the process lets go of its data, or ends if it broke or holds on to memory. */
  async rest() {
    try {
      await this.#process.unload();
    } catch {
      return await this.close();
    }
    const bytes = this.#process.memory();
    if (bytes === undefined || bytes > this.#newBytes + keptAtMost) await this.close();
  }

  async close() {
    await this.#process?.close();
    this.#process = undefined;
  }
}

export async function findLibraries(time, watch, programs = allPrograms()) {
  /** @type {{ libraries: Library[], versions: Record<string, string>, absent: string[] }} */
  const found = { libraries: [], versions: {}, absent: [] };
  for (const program of programs) {
    const library = new Library(program, time, watch);
    try {
      Object.assign(found.versions, await library.versions());
      found.libraries.push(library);
    } catch (error) {
      found.absent.push(`${program.name}: ${error.message}`);
      await library.close();
    }
  }
  return found;
}
