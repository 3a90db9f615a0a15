// One library's peers beside collapsar on one case: tried on a part of it, then timed in turns at the size that both
// budgets allow, and only if their results are ours.
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { smallerCase } from '../suite/cases.mjs';
import { makeInput } from '../suite/data.mjs';
import { interleave } from '../suite/interleave.mjs';
import { callOf, namedResults } from '../suite/operations.mjs';
import { median } from '../suite/statistics.mjs';
import { writeCase } from './process.mjs';
import { chooseSizes, partsOf, probeSize, sizeCount, slowestCall } from './sizes.mjs';

/** Fewest calls that a peer is timed with, which its share of the time must hold. */
const leastCalls = 3;

/** A case in all its sizes: made, computed and written when first asked for. */
export class Sizes {
  #folder;
  #engine;
  #made = new Map();
  /** @type {import('../suite/cases.mjs').Case[]} by size */
  cases;

  constructor(given, engine, folder) {
    this.#engine = engine;
    this.#folder = folder;
    this.cases = Array.from({ length: sizeCount }, (_, size) => smallerCase(given, partsOf(size)));
  }

  /**
   * @returns {Promise<{ given: import('../suite/cases.mjs').Case, input: import('../suite/data.mjs').Input,
   *   written: object }>}
   */
  async at(size) {
    const given = this.cases[size];
    const made = this.#made.get(given.id) ?? (await this.#make(given));
    this.#made.set(given.id, made);
    return made;
  }

  async #make(given) {
    const input = makeInput(given, this.#engine);
    const ours = namedResults(given, await callOf(given, input)(this.#engine));
    const path = join(this.#folder, `case-${this.#made.size}.bin`);
    return { given, input, path, written: await writeCase(path, given, input, ours) };
  }

  async close() {
    for (const { path } of this.#made.values()) await rm(path, { force: true });
  }
}

/**
 * @param {import('./libraries.mjs').Library} library
 * @param {Sizes} sizes
 * @param {import('../suite/budget.mjs').TimeBudget} time  of this library on this case
 * @param {import('../suite/measure.mjs').Run} run
 */
export async function measureBeside(library, sizes, time, run) {
  const id = sizes.cases[0].id;
  try {
    const peers = await library.process();
    const probed = await probe(peers, await sizes.at(probeSize), time, run);
    if (probed.length === 0) return;
    const bytes = sizes.cases.map(({ shape }) => shape.reduce((product, extent) => product * extent));
    const whole = (await sizes.at(0)).input.tensor.data.byteLength;
    const free = (size) => run.watch.free() - 2 * whole * (bytes[size] / bytes[0]); // its copy, and the file in a tmpfs
    const share = time.left() / (leastCalls * probed.length);
    const callSeconds = Math.min(slowestCall, Math.max(run.effort.slice, share)); // a round is at least as long anyway
    const chosen = chooseSizes(probed, { callSeconds, bytes: bytes.map((of) => (of / bytes[0]) * whole), free });
    for (const { peer, size, why } of chosen) {
      const what = `${id}: ${peer.name}, ${threadsInWords(peer.threads)}`;
      if (size === undefined) run.skip(`${what}: not measured: ${why}`);
      else if (size > 0) run.note(`${what}: measured with ${rowsInWords(sizes.cases[size])}: ${why}`);
    }
    for (let size = 0; size < sizeCount; size++) {
      const here = chosen.filter((one) => one.size === size).map(({ peer }) => peer);
      if (here.length > 0) await measureAt(peers, here, await sizes.at(size), time, run);
    }
  } catch (error) {
    run.skip(`${id}: ${library.name}: ${error.message}`);
  } finally {
    await library.rest();
  }
}

const threadsInWords = (threads) => `${threads} ${threads === 1 ? 'thread' : 'threads'}`;
const rowsInWords = ({ shape }) => `[${shape.join(', ')}]`;

/**
 * Each peer on a part of the case: whether its results are ours, and what a call takes. One at least; further ones
 * while the library's share of the time lasts.
 * @returns {Promise<import('./sizes.mjs').Probed[]>}
 */
async function probe(peers, { given, written }, time, run) {
  const probed = [];
  for (const peer of await peers.load(written, run.threadCounts)) {
    if (probed.length > 0 && time.left() <= 0) {
      run.skip(`${given.id}: ${peer.name}, ${threadsInWords(peer.threads)}: its share of the time was over`);
      continue;
    }
    const { value, kept, passing } = await peers.measureMemory(async () => {
      const { problem } = await peers.check(peer);
      return problem === null ? { seconds: await peers.time(peer, run.effort.slice / 2) } : { problem };
    });
    if (value.problem === undefined) probed.push({ ...peer, seconds: value.seconds, kept, passing });
    else run.skip(`${given.id}: ${peer.name}: ${value.problem}`);
  }
  return probed;
}

async function measureAt(peers, here, { given, input, written }, time, run) {
  await run.measureOwnOnce(given, input, time);
  await peers.load(written, run.threadCounts);
  const tasks = run.ownTasks(given, input);
  const broken = new Set();
  for (const peer of here) {
    const { errors, problem } = await peers.check(peer);
    if (problem !== null) {
      run.skip(`${given.id}: ${peer.name}: ${problem}`);
      continue;
    }
    const name = `${peer.name} ${peer.threads}`;
    const call = async () => {
      if (broken.has(name)) return 0;
      try {
        return await peers.time(peer, run.effort.slice);
      } catch (error) {
        broken.add(name); // those beside it are measured all the same
        run.skip(`${given.id}: ${name}: ${error.message}`);
        return 0;
      }
    };
    const what = { runner: 'peer', peer: peer.name, threads: peer.threads, errors };
    tasks.push({ name, what, run: call, warm: true }); // the check has called it
  }
  const times = await interleave(tasks, run.effort, time);
  const ownSeconds = (threads) => median((times.get(`collapsar ${threads}`) ?? []).map(median));
  for (const { name, what } of tasks) {
    if (broken.has(name)) continue;
    const beside = what.runner === 'peer' ? { ownSeconds: ownSeconds(what.threads) } : {};
    run.record(given, input, { ...what, ...beside }, times.get(name));
  }
}
