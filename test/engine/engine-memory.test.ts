// Memory that a job reads cannot go away under it, and nothing stays behind afterwards.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { MessageChannel } from 'node:worker_threads';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ArgumentError } from '../../src/checks/errors.js';
import { loadAddon } from '../../src/engine/addon.js';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import type { Tensor } from '../../src/engine/tensor/tensor.js';
import { buildIfStale } from '../support/built-command.js';
import { collected } from './engine-leaks.js';

// Node's own types leave it to those of browsers.
declare const WebAssembly: {
  Memory: new (size: { initial: number; maximum?: number }) => { buffer: ArrayBuffer; grow(pages: number): number };
};

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ device: 'cpu', threads: 2 });
});
afterAll(() => engine.dispose());

const elements = 2 ** 21; // 16 MiB of float64: read in place, and long enough under way to interfere with
const column = (data: Float64Array | Float32Array, dtype: 'float64' | 'float32' = 'float64'): Tensor => ({
  data,
  dtype,
  shape: [1, data.length],
});
const filled = (buffer: ArrayBufferLike): Float64Array => new Float64Array(buffer).fill(-0.5);
const expected = -0.5 * elements;

/** Sums the array while `interfere` runs; the buffer is one nobody else holds. */
async function sumWhile(data: Float64Array, interfere: (buffer: ArrayBufferLike) => void): Promise<number> {
  const { length } = data;
  const running = engine.sumTokens(column(data), [length]);
  interfere(data.buffer);
  return (await running).sums.data[0] as number;
}

describe('a buffer in use', () => {
  // What these do to it differs between versions of Node: copy, or throw. What must not happen is a crash or a wrong
  // sum.
  const attempts: [string, (buffer: ArrayBufferLike) => void][] = [
    ['structuredClone with transfer', (buffer) => void structuredClone(buffer, { transfer: [buffer as ArrayBuffer] })],
    [
      'postMessage with transfer',
      (buffer) => {
        const { port1, port2 } = new MessageChannel();
        try {
          port1.postMessage(buffer, [buffer as ArrayBuffer]);
        } finally {
          port1.close();
          port2.close();
        }
      },
    ],
    ['transfer()', (buffer) => void (buffer as unknown as { transfer(): void }).transfer()],
    ['transfer(0)', (buffer) => void (buffer as unknown as { transfer(n: number): void }).transfer(0)],
    [
      'transferToFixedLength()',
      (buffer) => void (buffer as unknown as { transferToFixedLength(): void }).transferToFixedLength(),
    ],
  ];
  it.each(attempts)('survives %s', async (_, interfere) => {
    const data = filled(new ArrayBuffer(elements * 8));
    const sum = await sumWhile(data, (buffer) => {
      try {
        interfere(buffer);
      } catch {
        // refused, or not there in this version
      }
      expect(buffer.byteLength).toBe(elements * 8);
    });
    expect(sum).toBe(expected);
    expect(data.length).toBe(elements);
    // What forbade transfer() is gone with the job.
    expect(Object.getOwnPropertyNames(data.buffer)).toEqual([]);
  });

  it('may be dropped', async () => {
    const running = engine.sumTokens(column(filled(new ArrayBuffer(elements * 8))), [elements]);
    globalThis.gc?.();
    expect((await running).sums.data[0]).toBe(expected);
  });

  it('may be detached if it is engine memory', async () => {
    const { data } = engine.alloc('float64', [elements]);
    data.fill(-0.5);
    const sum = await sumWhile(data as Float64Array, (buffer) => {
      try {
        structuredClone(buffer, { transfer: [buffer as ArrayBuffer] });
      } catch {
        // newer versions of Node refuse to transfer such a buffer
      }
    });
    expect(sum).toBe(expected);
  });

  it('may be small and written at once: the job has a copy', async () => {
    const data = new Float64Array(1000).fill(-0.5);
    const running = engine.sumTokens(column(data), [1000]);
    structuredClone(data.buffer, { transfer: [data.buffer] });
    expect(data.length).toBe(0);
    expect((await running).sums.data[0]).toBe(-500);
  });

  it('may be resizable and shrink: the job has a copy', async () => {
    const resizable = new (ArrayBuffer as unknown as new (bytes: number, options: object) => ArrayBuffer)(
      elements * 8,
      {
        maxByteLength: elements * 8,
      },
    );
    const data = filled(resizable);
    const sum = await sumWhile(data, (buffer) => (buffer as unknown as { resize(n: number): void }).resize(0));
    expect(sum).toBe(expected);
  });

  it('may be shared and grow', async () => {
    const growable = new (SharedArrayBuffer as unknown as new (bytes: number, options: object) => SharedArrayBuffer)(
      elements * 8,
      { maxByteLength: elements * 16 },
    );
    const data = filled(growable).subarray(0, elements);
    const sum = await sumWhile(data, (buffer) => (buffer as unknown as { grow(n: number): void }).grow(elements * 16));
    expect(sum).toBe(expected);
  });

  it('may be WebAssembly memory that grows: the job has a copy', async () => {
    const memory = new WebAssembly.Memory({ initial: (elements * 8) / 65536, maximum: 4096 });
    const data = filled(memory.buffer);
    const sum = await sumWhile(data, () => memory.grow(1));
    expect(data.length).toBe(0);
    expect(sum).toBe(expected);
  });

  it('is refused if it could shrink and is too large to copy', async () => {
    const bytes = 2 ** 26 + 2 ** 16;
    const resizable = new (ArrayBuffer as unknown as new (bytes: number, options: object) => ArrayBuffer)(bytes, {
      maxByteLength: bytes,
    });
    const memory = new WebAssembly.Memory({ initial: bytes / 65536 });
    for (const buffer of [resizable, memory.buffer]) {
      const error = await engine.sumTokens(column(new Float64Array(buffer)), [1]).catch((error: unknown) => error);
      expect(error).toBeInstanceOf(ArgumentError);
      expect((error as ArgumentError).message).toMatch(/use engine\.alloc\(\) or a SharedArrayBuffer/);
    }
  });

  it('makes the job fail if it was detached all the same', async () => {
    const data = filled(new ArrayBuffer(elements * 8));
    const reader = new ReadableStream({ type: 'bytes', pull: (stream) => stream.byobRequest?.respond(1) }).getReader({
      mode: 'byob',
    });
    // A BYOB reader takes what markAsUntransferable() forbids to others, up to Node 22. `read` keeps the memory alive.
    const running = engine.sumTokens(column(data), [elements]).catch((error: unknown) => error);
    const read = await reader.read(new Uint8Array(data.buffer)).catch(() => 'refused');
    const result = await running;
    if (read === 'refused') expect(result).toMatchObject({ sums: { data: Float64Array.of(expected) } });
    else expect(result).toMatchObject({ argument: 'logprobs', message: expect.stringMatching(/was detached while/) });
  });

  it('counts as empty once detached', async () => {
    const data = new Float64Array(4);
    structuredClone(data.buffer, { transfer: [data.buffer] });
    await expect(engine.sumTokens({ data, dtype: 'float64', shape: [1, 4] }, [4])).rejects.toThrow(/data has 0/);
  });
});

it('passes results on in place, and keeps them for the job alone', async () => {
  const rows = 2 ** 18;
  const logprobs: Tensor = { data: new Float32Array(4 * rows).fill(-1), dtype: 'float32', shape: [4, rows, 1] };
  const lengths = new Int32Array(rows).fill(1);
  const own = new Int32Array(rows);
  const first = await engine.sumTokens(logprobs, lengths);
  const before = loadAddon().live().bytes;
  const running = engine.scoreStats(first.sums, { own, lengths: first.lengths, topK: 1 });
  expect(loadAddon().live().bytes - before).toBeLessThan(first.sums.data.byteLength + rows * 100);
  const stats = await running;
  expect(stats.marginalSeq.every((value) => value === -1)).toBe(true);
  expect(stats.matchedSeq.buffer).toBe(stats.topColumns.buffer);
});

it('takes views of more than 2^31 elements', async () => {
  // Zeros that were never touched: reading them costs no memory.
  const count = 2 ** 31 + 4096;
  const big = engine.alloc('bfloat16', [1, count]);
  const bits = big.data as Uint16Array;
  expect(bits.length).toBe(count);
  bits[count - 1] = 0xbf80; // -1
  bits[3] = 0xc000; // -2
  const sums = await engine.sumTokens({ ...big, shape: [1, 1, count] }, new BigInt64Array([BigInt(count)]));
  expect(sums.sums.data[0]).toBe(-3);
  const tail = await engine.sumTokens(big, [2, 4], { offsets: [2 ** 31 + 4094, 2] });
  expect([...tail.sums.data]).toEqual([-1, -2]);
  const picked = await engine.gatherScores({ ...big, shape: [2, 1], strides: [count - 1, 1] });
  expect([...picked.data]).toEqual([0, -1]);
});

it('frees what results and tensors no longer use', async () => {
  const before = await collected();
  for (let i = 0; i < 200; i++) {
    const tensor = engine.alloc('float32', [64, 64]);
    const { sums } = await engine.sumTokens({ ...tensor, shape: [8, 8, 64] }, new Int32Array(8).fill(64));
    await engine.scoreStats(sums, { own: new Int32Array(8), lengths: new Int32Array(8) });
  }
  const after = await collected();
  expect(after.blocks - before.blocks).toBeLessThan(10);
  expect(after.jobs).toBe(0);
});

it('uses the memory of results again, but only of those that are gone', async () => {
  const rows = 30_000; // 3 MB of results
  const labels = { own: new Int32Array(rows), lengths: new Int32Array(rows).fill(1) };
  const statsOf = async (score: number) => {
    const scores = engine.alloc('float32', [rows, 2]);
    (scores.data as Float32Array).fill(score);
    return await engine.scoreStats(scores, labels);
  };
  const kept = await statsOf(-1);
  for (let turn = 0; turn < 4; turn++) {
    const stats = await statsOf(turn);
    expect(stats.matchedSeq.every((score) => score === turn)).toBe(true);
    expect(stats.looMarginalToken.every((score) => score === turn)).toBe(true);
    await collected();
    const zeros = engine.alloc('float64', [rows * 12]).data as Float64Array;
    expect(zeros.every((element) => element === 0)).toBe(true);
  }
  expect(kept.matchedSeq.every((score) => score === -1)).toBe(true);
});

// A sanitizer reserves more address space than the limit leaves.
describe.skipIf(process.platform !== 'linux' || process.env.COLLAPSAR_SANITIZED !== undefined)(
  'memory that is not there',
  () => {
    beforeAll(buildIfStale, 300_000);

    it('is named: how much, what for, and what to do', async () => {
      const index = join(fileURLToPath(new URL('../..', import.meta.url)), 'dist/index.js');
      // 500 prompts x 2^20 rows of sums take 4 GiB, more than the process may address; the scores are one number seen
      // again.
      const script = `
      import { openEngine } from ${JSON.stringify(index)};
      const engine = await openEngine({ device: 'cpu', threads: 1 });
      const scores = { data: new Float32Array(1), dtype: 'float32', shape: [500, 2 ** 20, 1], strides: [0, 0, 0] };
      const error = await engine.sumTokens(scores, new Int32Array(2 ** 20)).catch((problem) => problem);
      const { name, reason, askedBytes, message } = error;
      console.log(JSON.stringify({ name, reason, askedBytes, message }));
      await engine.dispose();`;
      const limited = 'ulimit -v 4000000; exec "$0" --input-type=module -e "$1"';
      const { stdout } = await promisify(execFile)('sh', ['-c', limited, process.execPath, script]);
      const { message, askedBytes, ...error } = JSON.parse(stdout);
      expect(error).toEqual({ name: 'DeviceError', reason: 'out_of_memory' });
      expect(askedBytes).toBeGreaterThanOrEqual(500 * 2 ** 20 * 8);
      expect(message).toBe(
        `sumTokens: not enough memory: ${askedBytes} bytes could not be had; give fewer rows or prompts at a time, or run ` +
          'where there is more memory',
      );
    });

    it('ends no process, whichever native function lacks it', async () => {
      const dist = join(fileURLToPath(new URL('../..', import.meta.url)), 'dist/');
      // 2 GiB of labels, which nothing has touched, can be passed but not copied.
      const script = `
      import { loadAddon } from ${JSON.stringify(`${dist}engine/addon.js`)};
      import { openEngine } from ${JSON.stringify(`${dist}index.js`)};
      const addon = loadAddon();
      const huge = new Int32Array(2 ** 29), lengths = new Float64Array(huge.buffer), one = Int32Array.of(0);
      const sink = new addon.NativeTokenSink(1, Float64Array.of(3), 2 ** 40);
      const engine = await openEngine({ device: 'cpu', threads: 1 });
      const scores = { data: new Float32Array(1), dtype: 'float32', shape: [1, huge.length], strides: [0, 0] };
      const own = { own: huge, lengths: huge };
      const calls = {
        constructor: () => new addon.NativeTokenSink(1, lengths, 2 ** 40),
        claim: () => sink.claim(huge, one, 0, 3, 1),
        claimRows: () => sink.claim(one, huge, 0, 3, 1),
        missing: () => sink.missing(0, huge),
        alloc: () => addon.alloc(2 ** 45),
        actionDependence: () =>
          addon.actionDependence(undefined, huge, huge, one, Float64Array.of(0), 1, 1, new Uint32Array(4)),
        matchedOrders: () => addon.matchedOrders(undefined, Float64Array.of(0), huge, 0, 1, new Uint32Array(4)),
        periodicEpisodes: () => addon.periodicEpisodes(undefined, huge, one, 1, new Uint32Array(4)),
        sumTokens: () => engine.sumTokens(scores, huge),
        scoreStats: () => engine.scoreStats({ ...scores, shape: [huge.length, 1] }, own),
      };
      const problems = {};
      for (const [name, call] of Object.entries(calls)) {
        try {
          await call();
        } catch (error) {
          problems[name] = error.reason ?? error.name;
        }
      }
      // What failed has left nothing claimed.
      problems.after = sink.claim(one, one, 0, 3, 1) === 0 ? 'claimed' : 'lost';
      await engine.dispose();
      console.log(JSON.stringify(problems));`;
      const limited = 'ulimit -v 5000000; exec "$0" --input-type=module -e "$1"';
      const { stdout } = await promisify(execFile)('sh', ['-c', limited, process.execPath, script]);
      const problems = JSON.parse(stdout);
      for (const [name, problem] of Object.entries(problems)) {
        if (name !== 'after') expect([name, problem]).toEqual([name, expect.stringMatching(/no_memory|out_of_memory/)]);
      }
      expect(Object.keys(problems).length).toBe(11);
      expect(problems.after).toBe('claimed');
    });

    it('is refused for a tensor too', () => {
      // More than any process may address.
      expect(() => engine.alloc('float64', [2 ** 46])).toThrow(
        /cannot allocate 562949953421312 bytes .*: take fewer rows/,
      );
    });
  },
);
