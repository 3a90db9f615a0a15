// Scores summed straight from a local file: the bits of sumTokens, and what each failure to read becomes.
import { mkdtempSync, readdirSync, rmSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tokenSums } from '../../src/analysis/measuring/token-sums.js';
import { ArgumentError, DisposedError, FileError } from '../../src/checks/errors.js';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import type { DType, Tensor, TensorData } from '../../src/engine/tensor/tensor.js';
import type { StepData } from '../../src/logs/steps/step-data.js';
import { readStepFile } from '../../src/logs/steps/step-file.js';
import { fileOf } from '../support/logs-files.js';
import { uniformNumbers } from '../support/random-numbers.js';

let engine: Engine;
let folder: string;
beforeAll(async () => {
  engine = await openEngine({ threads: 3 });
  folder = mkdtempSync(join(tmpdir(), 'collapsar-file-sums-'));
});
afterAll(async () => {
  await engine.dispose();
  rmSync(folder, { recursive: true, force: true });
});

const elementBytes = { float64: 8, float32: 4, float16: 2, bfloat16: 2 } as const;
const { signal } = new AbortController();
const ignore = () => undefined;

/** Any bits at all: NaN, infinities and subnormal numbers among them. */
function randomBits(dtype: DType, elements: number, seed: number): TensorData {
  const bytes = new Uint8Array(Math.ceil((elements * elementBytes[dtype]) / 8) * 8);
  const next = uniformNumbers(seed);
  for (let i = 0; i < bytes.length; i++) bytes[i] = 256 * next();
  const Typed = dtype === 'float64' ? Float64Array : dtype === 'float32' ? Float32Array : Uint16Array;
  const data = new Typed(bytes.buffer, 0, elements);
  // Plain log-probs mostly: one NaN and there is nothing left to compare.
  for (let i = 0; i < elements; i++) {
    if (i % 997 === 0) continue;
    if (data instanceof Uint16Array) data[i] = dtype === 'float16' ? 0x8000 | (i % 0x4800) : 0xc000 | (i % 0x80);
    else data[i] = -((Math.imul(i, 2654435761) >>> 8) % 100003) / 12345.6;
  }
  return data;
}

function bytesOf(data: TensorData): Uint8Array {
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

async function withFile<T>(bytes: Uint8Array, use: (fd: number, path: string) => Promise<T>): Promise<T> {
  const path = join(folder, 'scores');
  writeFileSync(path, bytes);
  const handle = await open(path);
  try {
    return await use(handle.fd, path);
  } finally {
    await handle.close();
  }
}

const bits = (tensor: Tensor): BigUint64Array => new BigUint64Array((tensor.data as Float64Array).slice().buffer);

describe('engine.sumFileTokens', () => {
  it('gives the bits of sumTokens on the same scores in memory', async () => {
    const shapes = fc.oneof(
      fc.tuple(fc.integer({ min: 1, max: 6 }), fc.nat(9), fc.nat(700)),
      fc.tuple(fc.integer({ min: 1, max: 2 }), fc.integer({ min: 1, max: 3 }), fc.nat(150_000)),
      fc.tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 200, max: 9000 }), fc.nat(5)),
    );
    const dtypes = fc.constantFrom<DType>('float64', 'float32', 'float16', 'bfloat16');
    await fc.assert(
      fc.asyncProperty(shapes, dtypes, fc.nat(70), fc.integer(), async ([P, R, T], dtype, offset, seed) => {
        const data = randomBits(dtype, P * R * T, seed);
        const lengths = Int32Array.from({ length: R }, (_, r) => (Math.imul(r + 1, seed | 1) >>> 0) % (T + 1));
        const expected = await engine.sumTokens({ data, dtype, shape: [P, R, T] }, lengths);
        const bytes = new Uint8Array(offset + data.byteLength);
        bytes.set(bytesOf(data), offset);
        await withFile(bytes, async (fd) => {
          const out = engine.alloc('float64', [R, P]);
          const scores = { fd, offset, dtype, shape: [P, R, T] as const };
          const into = await engine.sumFileTokens(scores, lengths, { out });
          const fresh = await engine.sumFileTokens(scores, lengths);
          expect(into.sums).toBe(out);
          expect(fresh.sums.shape).toEqual([R, P]);
          for (const { sums, firstInvalid } of [into, fresh]) {
            expect(bits(sums)).toEqual(bits(expected.sums));
            expect(firstInvalid).toEqual(expected.firstInvalid);
          }
        });
      }),
      { numRuns: 60 },
    );
  });

  it('says where a file ends too early, and needs nothing beyond the last valid token', async () => {
    const data = new Float32Array(2 * 3 * 40_000).fill(-1);
    const scores = (fd: number) => ({ fd, offset: 0, dtype: 'float32' as const, shape: [2, 3, 40_000] as const });
    const short = bytesOf(data).subarray(0, data.byteLength - 4);
    await withFile(short, async (fd) => {
      const cut = engine.sumFileTokens(scores(fd), [40_000, 40_000, 40_000]);
      await expect(cut).rejects.toMatchObject({ code: 'ERR_FILE', system: undefined, offset: short.length });
      const { sums } = await engine.sumFileTokens(scores(fd), [40_000, 40_000, 39_999]);
      expect([...sums.data]).toEqual([-40_000, -40_000, -40_000, -40_000, -39_999, -39_999]);
    });
  });

  it('names the error of the system', async () => {
    const scores = { fd: 2 ** 30, offset: 0, dtype: 'float32' as const, shape: [1, 1, 1] as const };
    await expect(engine.sumFileTokens(scores, [1])).rejects.toMatchObject({
      system: 'EBADF',
      offset: 0,
      path: `file descriptor ${scores.fd}`,
    });
    await expect(engine.sumFileTokens(scores, [1])).rejects.toBeInstanceOf(FileError);
  });

  it('refuses arguments that cannot be right, by name', async () => {
    const good = { fd: 0, offset: 0, dtype: 'float32' as const, shape: [1, 2, 3] as [number, number, number] };
    const refused = async (name: string, scores: object, lengths: number[] = [1, 1], options: object = {}) => {
      const error = await engine.sumFileTokens(scores as never, lengths, options as never).catch((thrown) => thrown);
      expect(error).toBeInstanceOf(ArgumentError);
      expect(error.argument).toBe(name);
    };
    await refused('scores', null as never);
    await refused('scores.fd', { ...good, fd: -1 });
    await refused('scores.fd', { ...good, fd: 2 ** 40 });
    await refused('scores.offset', { ...good, offset: 1.5 });
    await refused('scores.dtype', { ...good, dtype: 'int8' });
    await refused('scores.shape', { ...good, shape: [1, 2] });
    await refused('scores.shape', { ...good, shape: [2 ** 17, 2 ** 17, 2 ** 17] });
    await refused('scores', { ...good, shape: [0, 2, 3] });
    await refused('lengths', good, [1, 4]);
    await refused('lengths', good, [1]);
    await refused('options.out', good, [1, 1], { out: engine.alloc('float64', [1, 2]) });
    await refused('options.out.dtype', good, [1, 1], { out: engine.alloc('float32', [2, 1]) });
  });

  it('stops when it is aborted, reports progress, and ends with the engine', async () => {
    const data = new Float32Array(2 ** 22);
    await withFile(bytesOf(data), async (fd) => {
      const scores = { fd, offset: 0, dtype: 'float32' as const, shape: [64, 64, 1024] as const };
      const lengths = new Int32Array(64).fill(1024);
      const abort = new AbortController();
      const stopped = engine.sumFileTokens(scores, lengths, { signal: abort.signal });
      abort.abort(new Error('enough'));
      await expect(stopped).rejects.toThrow('enough');
      const shares: number[] = [];
      await engine.sumFileTokens(scores, lengths, { onProgress: (share) => shares.push(share) });
      expect(shares.at(-1)).toBe(1);
      const other = await openEngine({ threads: 1 });
      const lost = other.sumFileTokens(scores, lengths);
      const disposed = other.dispose();
      await expect(lost).rejects.toBeInstanceOf(DisposedError);
      await disposed;
    });
  });
});

describe('the sums of a step file', () => {
  const [P, R, T] = [3, 8, 50];

  function stepFile(spoil: (scores: Float32Array) => void = ignore): string {
    const scores = randomBits('float32', P * R * T, 5) as Float32Array;
    scores.forEach((value, at) => {
      if (!(value <= 0 && value > -100)) scores[at] = -2;
    });
    spoil(scores);
    const path = join(folder, 'step.safetensors');
    const lengths = Int32Array.from({ length: R }, (_, r) => (r * 13) % (T + 1));
    const group = Int32Array.from({ length: R }, (_, r) => r % P);
    writeFileSync(
      path,
      fileOf({
        cross_logprobs: { dtype: 'F32', shape: [P, R, T], data: scores },
        lengths: { dtype: 'I32', shape: [R], data: lengths },
        group: { dtype: 'I32', shape: [R], data: group },
      }),
    );
    return path;
  }

  /** The same step as one from elsewhere, which is read in blocks. */
  function inBlocks(step: StepData): StepData {
    const { inFile, ...scores } = step.scores as Extract<StepData['scores'], { kind: 'logprobs' }>;
    return { ...step, scores };
  }

  it('are the same in blocks and straight from the file, and all bytes are told of', async () => {
    const step = await readStepFile(stepFile());
    let bytes = 0;
    const straight = await tokenSums(engine, step, 'error', signal, (count) => {
      bytes += count;
    });
    expect(bits(straight)).toEqual(bits(await tokenSums(engine, inBlocks(step), 'error', signal)));
    expect(bytes).toBe(P * R * T * 4);
  });

  it('name the first log-prob that cannot be right, as in blocks', async () => {
    const step = await readStepFile(
      stepFile((scores) => {
        scores[(1 * R + 3) * T + 7] = Number.NaN;
        scores[(2 * R + 1) * T] = Number.POSITIVE_INFINITY;
      }),
    );
    const straight = await tokenSums(engine, step, 'error', signal).catch((error) => error);
    const blocks = await tokenSums(engine, inBlocks(step), 'error', signal).catch((error) => error);
    expect(straight).toBeInstanceOf(FileError);
    expect(straight.message).toBe(blocks.message);
    expect(straight.message).toContain('prompt 1, row 3, token 7');
    expect(bits(await tokenSums(engine, step, 'exclude', signal))).toEqual(
      bits(await tokenSums(engine, inBlocks(step), 'exclude', signal)),
    );
  });

  it('fail when the file is cut while it is read: path, tensor, offset', async () => {
    const path = stepFile();
    const { scores, lengths, bytes } = await readStepFile(path);
    if (scores.kind !== 'logprobs' || scores.inFile === undefined) throw new Error('expected scores in a local file');
    const kept = scores.offsetOf(1, 0, 0);
    const cut = scores.inFile((file) => {
      truncateSync(path, kept);
      return engine.sumFileTokens(file, lengths);
    });
    const error = await cut.catch((thrown) => thrown);
    expect(error).toBeInstanceOf(FileError);
    expect(error).toMatchObject({ path, tensor: 'cross_logprobs', offset: kept });
    expect(error.message).toMatch(/ends here, \d+ bytes short .* cut while it was read/);
    expect(bytes).toBeGreaterThan(kept);
  });

  it('fail when the file changes while it is read or was replaced before, and leave no file open', async () => {
    const path = stepFile();
    const step = await readStepFile(path);
    const { scores, lengths } = step;
    if (scores.kind !== 'logprobs' || scores.inFile === undefined) throw new Error('expected scores in a local file');
    const openFiles = () => readdirSync('/dev/fd').length;
    const before = openFiles();
    const changed = scores.inFile((file) => {
      utimesSync(path, 1, 1);
      return engine.sumFileTokens(file, lengths);
    });
    await expect(changed).rejects.toThrow('changed while it was read');
    await expect(tokenSums(engine, step, 'error', signal)).rejects.toThrow('changed after its header was read');
    expect(openFiles()).toBe(before);
  });
});
