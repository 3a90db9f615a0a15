// A run: what it measures with, and what it has measured so far.
import { loadAddon } from '../../dist/engine/addon.js';
import { openEngine } from '../../dist/index.js';
import { measureCalls } from './call-cost.mjs';
import { Collected, fastestReads } from './collected.mjs';
import { interleave } from './interleave.mjs';
import { callOf } from './operations.mjs';
import { Reader, readPlans } from './roofline.mjs';

/**
 * @typedef {import('./interleave.mjs').Task & { what: What }} Measured  a task, and whose time it takes
 *
 * @typedef {object} What
 * @property {string} runner
 * @property {number} threads
 * @property {string} [peer]
 * @property {Record<string, number>} [errors]
 * @property {number} [prefetchBytes]
 */

export class Run {
  #addon = loadAddon();
  #engines = new Map();
  #readers = new Map();
  #measured = new Collected();
  #calls = new Collected();
  #ownDone = new Set();
  /** In words: what was not measured, and what was measured otherwise than asked. */
  /** @type {string[]} */
  skipped = [];
  /** @type {string[]} */
  notes = [];

  /**
   * @param {object} given
   * @param {import('./interleave.mjs').Effort} given.effort
   * @param {number[]} given.threadCounts
   * @param {import('./budget.mjs').TimeBudget} given.time
   * @param {import('./footprint.mjs').MemoryWatch} given.watch
   */
  constructor({ effort, threadCounts, time, watch }) {
    this.effort = effort;
    this.threadCounts = threadCounts;
    this.time = time;
    this.watch = watch;
  }

  /** @param {ConstructorParameters<typeof Run>[0]} given */
  static async open(given) {
    const run = new Run(given);
    for (const threads of run.threadCounts) {
      run.#engines.set(threads, await openEngine({ device: 'cpu', threads }));
      run.#readers.set(threads, new Reader(threads));
    }
    return run;
  }

  /** The engine with one thread. */
  get engine() {
    return this.#engines.get(1);
  }

  get isa() {
    return this.engine.info.isa;
  }

  skip(what) {
    this.skipped.push(what);
  }

  note(what) {
    this.notes.push(what);
  }

  record({ id, smallerThan }, { elements, bytes }, what, rounds) {
    const all = { case: id, smallerThan, elements, bytes, isa: this.isa, ...what };
    const key = JSON.stringify([id, all.runner, all.peer, all.threads, all.isa, all.prefetchBytes]);
    this.#measured.add({ key, ...all }, rounds);
  }

  /** @returns {Measured[]} collapsar on every number of threads */
  ownTasks(given, input) {
    const call = callOf(given, input);
    return this.threadCounts.map((threads) => ({
      name: `collapsar ${threads}`,
      what: { runner: 'collapsar', threads },
      run: async () => {
        await call(this.#engines.get(threads));
      },
    }));
  }

  /**
   * What bounds a case: reading its bytes, of which the faster way counts; arithmetic; and where rows have padding
   * between them the cache lines of their tokens.
   * @returns {Measured[]}
   */
  #rooflineTasks({ operation }, { tensor, lengths, elements }) {
    const ofTokens = operation === 'sumTokens' || operation === 'step';
    return [...this.#readers].flatMap(([threads, reader]) => {
      const task = (what, run) => ({
        name: `${what.runner} ${threads} ${what.prefetchBytes ?? ''}`,
        what: { ...what, threads },
        run,
      });
      return [
        ...readPlans.map((prefetchBytes) =>
          task({ runner: 'read', prefetchBytes }, () => reader.read(tensor, elements, prefetchBytes)),
        ),
        task({ runner: 'arithmetic' }, () => reader.multiplyAdds()),
        ...(ofTokens ? [task({ runner: 'lines' }, () => reader.touch(tensor, lengths))] : []),
      ];
    });
  }

  /** Rooflines and collapsar in turns. */
  async measureOwn(given, input, time) {
    this.#ownDone.add(given.id);
    const tasks = [...this.#rooflineTasks(given, input), ...this.ownTasks(given, input)];
    const times = await interleave(tasks, this.effort, time);
    for (const { name, what } of tasks) this.record(given, input, what, times.get(name));
  }

  /** The same, unless it was done: of a size that only some peers need. */
  async measureOwnOnce(given, input, time) {
    if (!this.#ownDone.has(given.id)) await this.measureOwn(given, input, time);
  }

  /** The other instruction sets, with one thread. */
  async measureIsas(given, input, time) {
    const chosen = this.isa;
    const call = callOf(given, input);
    const others = this.engine.info.isaAvailable.filter((name) => name !== chosen);
    try {
      for (const [at, isa] of others.entries()) {
        if (!this.#addon.forceIsa(isa)) throw new Error(`cannot force ${isa}`);
        const run = async () => {
          await call(this.engine);
        };
        const times = await interleave([{ name: isa, run }], this.effort, time.share(others.length - at));
        this.record(given, input, { runner: 'collapsar', threads: 1, isa }, times.get(isa));
      }
    } finally {
      this.#addon.forceIsa(chosen);
    }
  }

  async measureCalls(time) {
    await measureCalls(this.engine, this.effort, time, this.#calls);
  }

  /** What was measured until now. */
  results() {
    const { skipped, notes } = this;
    return { calls: this.#calls.all(), measures: fastestReads(this.#measured.all()), notes, skipped };
  }

  async close() {
    for (const engine of this.#engines.values()) await engine.dispose();
  }
}
