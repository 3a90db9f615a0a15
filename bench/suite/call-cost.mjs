// What a call costs besides the computation: time of the JS thread, time to settle, kinds of input memory.
import { setTimeout as sleep } from 'node:timers/promises';
import { loadAddon } from '../../dist/engine/addon.js';
import { maxBufferBytes } from '../../dist/engine/memory.js';
import { interleave } from './interleave.mjs';

/**
 * @typedef {object} CallCost
 * @property {string} name
 * @property {string} what
 * @property {number} seconds
 * @property {number[]} rounds
 * @property {number} spread
 */

const burstCalls = 1000;

/** Seconds of the part of a call that runs before it returns; the job itself is waited for outside. */
async function synchronousPart(call) {
  const from = performance.now();
  const promise = call();
  const seconds = (performance.now() - from) / 1000;
  await promise;
  return seconds;
}

/** Seconds per call in which the JS thread was not idle, over calls one after the other. */
async function busyPart(call) {
  const before = performance.eventLoopUtilization();
  for (let at = 0; at < burstCalls; at++) await call();
  return performance.eventLoopUtilization(before).active / 1000 / burstCalls;
}

/** Seconds per call when all are started before any has ended. */
async function burst(call) {
  const from = performance.now();
  await Promise.all(Array.from({ length: burstCalls }, call));
  return (performance.now() - from) / 1000 / burstCalls;
}

/**
 * @param {import('../../dist/index.js').Engine} engine
 * @param {import('./interleave.mjs').Effort} effort
 * @param {import('./budget.mjs').TimeBudget} time
 * @param {import('./collected.mjs').Collected} collected  receives what becomes a CallCost each
 */
export async function measureCalls(engine, effort, time, collected) {
  const { rounds } = effort;
  const native = new (loadAddon().NativeEngine)(1, maxBufferBytes);
  const mebibyte = 2 ** 20;
  const firstToken = (data) => {
    const tensor = { data, dtype: /** @type {const} */ ('float32'), shape: [1, 1, data.length] };
    return () => engine.sumTokens(tensor, [1]);
  };
  const engineMemory = engine.alloc('float32', [4 * mebibyte]).data;
  const small = firstToken(engineMemory.subarray(0, 1));
  const rows = 64;
  const scores = engine.alloc('float32', [rows, 64]);
  const own = new Int32Array(rows);
  const lengths = new Int32Array(rows).fill(100);
  const stats = () => engine.scoreStats(scores, { own, lengths });
  const manyLengths = new Int32Array(4096).fill(1);
  const rowsOfOne = /** @type {const} */ ({ dtype: 'float32', shape: [1, 4096, 1] });
  const manyRows = { data: engineMemory.subarray(0, 4096), ...rowsOfOne };

  const views = [
    ['engine memory', firstToken(engineMemory)],
    ['a subarray of engine memory, at an odd element', firstToken(engineMemory.subarray(1))],
    ['a SharedArrayBuffer of 16 MiB', firstToken(new Float32Array(new SharedArrayBuffer(16 * mebibyte)))],
    ['an ArrayBuffer of 16 MiB, read in place', firstToken(new Float32Array(4 * mebibyte))],
    ['an ArrayBuffer of 64 KiB, copied', firstToken(new Float32Array(mebibyte / 64))],
    ['an ArrayBuffer of 1 MiB, copied', firstToken(new Float32Array(mebibyte / 4))],
  ];
  const what = new Map();
  const task = (name, meaning, run) => {
    what.set(name, meaning);
    return { name, run };
  };
  const latency = 'from the call until the promise has settled';
  const tasks = [
    task('settle: an empty job', 'submitting nothing to the native threads, until it has settled', async () => {
      await new Promise((resolve) => native.start(resolve));
    }),
    task('settle: sumTokens of one token', latency, async () => {
      await small();
    }),
    task('settle: scoreStats [64, 64]', `${latency}, eleven arrays`, async () => {
      await stats();
    }),
    task('sync: sumTokens of one token', 'the JS thread until the call returns', () => synchronousPart(small)),
    task('sync: scoreStats [64, 64]', 'the JS thread until the call returns', () => synchronousPart(stats)),
    task('sync: sumTokens of 4096 rows', 'the JS thread until the call returns: lengths are checked and copied', () =>
      synchronousPart(() => engine.sumTokens(manyRows, manyLengths)),
    ),
    ...views.map(([kind, call]) =>
      task(`sync: ${kind}`, 'the JS thread until the call returns', () => synchronousPart(call)),
    ),
  ];
  // Thousands of calls each: the compiler has seen them, and the median is that of a warm program.
  for (const { run } of tasks) for (let at = 0; at < 500; at++) await run();
  const measured = await interleave(tasks, effort, time);

  /** @type {[name: string, meaning: string, run: () => Promise<number>][]} */
  const batches = [
    [
      'busy: sumTokens of one token',
      'the JS thread not idle, per call, one call after the other',
      () => busyPart(small),
    ],
    ['busy: scoreStats [64, 64]', 'the JS thread not idle, per call, one call after the other', () => busyPart(stats)],
    [`burst: sumTokens of one token × ${burstCalls}`, 'per call, all started before any has ended', () => burst(small)],
  ];
  const inBatches = batches.map(() => /** @type {number[][]} */ ([]));
  for (let round = 0; round < rounds; round++) {
    for (const [at, [, , run]] of batches.entries()) {
      await sleep(1); // a turn of the event loop of its own
      inBatches[at].push([await run()]);
    }
  }
  for (const [name, samples] of measured) collected.add({ key: name, name, what: what.get(name) }, samples);
  for (const [at, [name, meaning]] of batches.entries())
    collected.add({ key: name, name, what: meaning }, inBatches[at]);
  await new Promise((resolve) => native.close(resolve));
}
