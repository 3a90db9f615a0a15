// Step files compressed whole: what they give, in constant memory, and that what is cut, damaged or made to burst is
// refused.
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createGzip, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { measureOptions } from '../../src/analysis/measuring/measure-options.js';
import { measureStepFile } from '../../src/analysis/measuring/measure-step-data.js';
import { FileError } from '../../src/checks/errors.js';
import { openEngine } from '../../src/engine/open-engine.js';
import { findSteps, readSteps } from '../../src/logs/steps/read-steps.js';
import type { StepData } from '../../src/logs/steps/step-data.js';
import { readStepFile, readStepHeader } from '../../src/logs/steps/step-file.js';
import { container, fileErrorOf, fileOf, fullStep, put, smallStep } from '../support/logs-files.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const folder = temporaryDirectory();
let files = 0;

async function write(bytes: Uint8Array, ending = '.gz'): Promise<string> {
  return put(join(folder, `step_${files++}.safetensors${ending}`), bytes);
}

async function drain(step: StepData): Promise<number[]> {
  if (step.scores.kind !== 'logprobs') throw new Error('expected logprobs');
  const values: number[] = [];
  for await (const { logprobs } of step.scores.blocks()) for (const value of logprobs.data) values.push(value);
  return values;
}

/** Scores of `prompts` × `rows` × `tokens` whose value tells their place, after the small tensors or before them. */
function largeStep(prompts: number, rows: number, tokens: number, scoresFirst: boolean): Buffer {
  const data = Float32Array.from({ length: prompts * rows * tokens }, (_, i) => -((i * 7919) % 10007) / 97);
  const cross_logprobs = { dtype: 'F32', shape: [prompts, rows, tokens], data };
  const small = {
    lengths: { dtype: 'I32', shape: [rows], data: new Int32Array(rows).fill(tokens) },
    group: { dtype: 'I32', shape: [rows], data: Int32Array.from({ length: rows }, (_, row) => row % prompts) },
  };
  return fileOf(scoresFirst ? { cross_logprobs, ...small } : { ...small, cross_logprobs });
}

describe('.gz', () => {
  const pack = (bytes: Uint8Array) => gzipSync(bytes);

  it.each([true, false])('gives what the file gives; scores before the rest: %s', async (scoresFirst) => {
    const bytes = largeStep(4, 64, 1000, scoresFirst);
    const plain = await put(join(folder, `plain-${scoresFirst}.safetensors`), bytes);
    const packed = await write(pack(bytes));
    const [expected, header] = [await readStepHeader(plain), await readStepHeader(packed)];
    expect(header).toMatchObject({ step: 3, bytes: bytes.length, layout: expected.layout });
    const engine = await openEngine({ threads: 1 });
    const measured = (path: string) =>
      measureStepFile(engine, path, measureOptions({ permutations: 19 }), 256_000, AbortSignal.timeout(30_000));
    expect(await measured(packed)).toEqual(await measured(plain));
    engine.dispose();
    expect(await drain(await readStepFile(packed, { blockBytes: 1 }))).toEqual(await drain(await readStepFile(plain)));
  });

  it('every tensor, in any order', async () => {
    const bytes = fileOf(fullStep(), { step: '7', run: 'r' });
    const { file: _, scores: __, bytes: size, ...expected } = await readStepFile(await write(bytes, ''));
    const step = await readStepFile(await write(pack(bytes)));
    expect(step).toMatchObject(expected);
    expect(step.bytes).toBe(size);
  });

  it('cut at every place, or with bytes after its end', async () => {
    const whole = pack(fileOf(smallStep()));
    for (let end = 0; end < whole.length; end++) {
      const path = await put(join(folder, 'cut.safetensors.gz'), whole.subarray(0, end));
      const error = await fileErrorOf(readStepFile(path).then(drain));
      expect(error.message).toMatch(/truncated|too early|end after|too few|damaged/);
    }
    const longer = await write(Buffer.concat([whole, Buffer.from('more')]));
    expect((await fileErrorOf(readStepFile(longer).then(drain))).message).toMatch(
      /belong to nothing|damaged|more data/,
    );
    const twice = await write(Buffer.concat([whole, whole]));
    expect((await fileErrorOf(readStepFile(twice).then(drain))).message).toMatch(/more data come|belong to nothing/);
  });

  it('any flipped bytes are refused or change nothing', async () => {
    const original = fileOf(smallStep());
    const whole = pack(original);
    const expected = await drain(await readStepFile(await write(original, '')));
    const flips = fc.array(fc.tuple(fc.nat(whole.length - 1), fc.nat(255)), { minLength: 1, maxLength: 3 });
    await fc.assert(
      fc.asyncProperty(flips, async (changes) => {
        const bytes = Buffer.from(whole);
        for (const [at, value] of changes) bytes[at] = value;
        const path = await put(join(folder, 'flipped.safetensors.gz'), bytes);
        const outcome = await readStepFile(path)
          .then(drain)
          .catch((error: unknown) => error);
        if (outcome instanceof Error) expect(outcome).toBeInstanceOf(FileError);
        else expect(outcome).toEqual(expected);
      }),
      { numRuns: 200 },
    );
  });

  it('refuses what is made to burst: before it is unpacked', async () => {
    const rows = 2 ** 36;
    const header = (bytes: number) => ({
      __metadata__: { step: '1' },
      lengths: { dtype: 'I32', shape: [bytes / 4], data_offsets: [0, bytes] },
      group: { dtype: 'I32', shape: [bytes / 4], data_offsets: [bytes, 2 * bytes] },
      cross_logprob_sums: { dtype: 'F32', shape: [bytes / 4, 1], data_offsets: [2 * bytes, 3 * bytes] },
    });
    const before = process.memoryUsage().rss;
    const promised = await write(pack(container(header(4 * rows))));
    expect((await fileErrorOf(readStepFile(promised))).message).toMatch(/cannot hold the/);
    // Half a gigabyte of zeros each: what such a file can hold, and more than is taken.
    const zeros = pack(Buffer.concat([container(header(2 ** 29)), Buffer.alloc(2 ** 22)]));
    const large = await write(Buffer.concat([zeros, Buffer.alloc(2 ** 21)]));
    expect((await fileErrorOf(readStepFile(large))).message).toMatch(/bytes are to be held at once/);
    const long = Buffer.alloc(2 ** 25, ' ');
    long.writeBigUInt64LE(BigInt(long.length - 8));
    const headed = await write(pack(long));
    expect((await fileErrorOf(readStepFile(headed))).message).toMatch(/a header of 33554424 bytes, unpacked from/);
    expect(process.memoryUsage().rss - before).toBeLessThan(2 ** 28);
  });

  it('packed in several parts, one after the other, is the same', async () => {
    for (const scoresFirst of [true, false]) {
      const bytes = largeStep(4, 64, 1000, scoresFirst);
      const expected = await drain(await readStepFile(await write(bytes, '')));
      for (const size of [bytes.length, 2 ** 16 + 1, 100_003]) {
        const parts = [pack(Buffer.alloc(0))];
        for (let at = 0; at < bytes.length; at += size) parts.push(pack(bytes.subarray(at, at + size)));
        const path = await write(Buffer.concat([...parts, pack(Buffer.alloc(0))]));
        const step = await readStepFile(path, { blockBytes: 300_000 });
        expect([...step.lengths]).toEqual(new Array(64).fill(1000));
        expect(await drain(step)).toEqual(expected);
        const more = await write(Buffer.concat([...parts, pack(Buffer.of(1))]));
        const error = await fileErrorOf(readStepFile(more).then(drain));
        expect(error.message).toMatch(/more data come than the header promises/);
      }
    }
  });

  it('that is cut is named where it ends', async () => {
    const packed = pack(largeStep(4, 64, 1000, true));
    const path = await write(packed.subarray(0, -9));
    const { offset } = await fileErrorOf(readStepFile(path).then(drain));
    expect(offset).toBe(packed.length - 9);
  });

  it('is no compressed file', async () => {
    const path = await write(fileOf(smallStep()));
    expect((await fileErrorOf(readStepFile(path))).message).toMatch(/does not begin as gzip data do/);
  });

  it.skipIf(process.platform !== 'linux')('no handle stays open, and an abort ends it', async () => {
    const path = await write(pack(largeStep(4, 64, 1000, true)));
    const open = async () => (await readdir('/proc/self/fd')).length;
    const before = await open();
    for (let i = 0; i < 20; i++) {
      const step = await readStepFile(path, { blockBytes: 1 });
      if (step.scores.kind !== 'logprobs') throw new Error('expected logprobs');
      for await (const _ of step.scores.blocks()) break;
      await expect(readStepFile(path, { signal: AbortSignal.abort('stop') })).rejects.toBe('stop');
    }
    expect(await open()).toBe(before);
  });
});

it('constant memory, however much is unpacked', async () => {
  const rows = 256;
  const tokens = 4096;
  const prompts = 64;
  const bytes = prompts * rows * tokens * 4;
  const header = Buffer.from(
    JSON.stringify({
      __metadata__: { step: '1' },
      lengths: { dtype: 'I32', shape: [rows], data_offsets: [0, 4 * rows] },
      group: { dtype: 'I32', shape: [rows], data_offsets: [4 * rows, 8 * rows] },
      column_group: { dtype: 'I32', shape: [prompts], data_offsets: [8 * rows, 8 * rows + 4 * prompts] },
      cross_logprobs: {
        dtype: 'F32',
        shape: [prompts, rows, tokens],
        data_offsets: [8 * rows + 4 * prompts, 8 * rows + 4 * prompts + bytes],
      },
    }),
  );
  const gzip = createGzip({ level: 1 });
  const pieces: Buffer[] = [];
  gzip.on('data', (piece: Buffer) => pieces.push(piece));
  const ended = new Promise((resolve) => gzip.once('end', resolve));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  const columns = Int32Array.from({ length: prompts }, (_, i) => i);
  gzip.write(Buffer.concat([length, header, Buffer.alloc(8 * rows), Buffer.from(columns.buffer)]));
  const zeros = Buffer.alloc(2 ** 22);
  for (let done = 0; done < bytes; done += zeros.length) {
    if (!gzip.write(zeros)) await new Promise((resolve) => gzip.once('drain', resolve));
  }
  gzip.end();
  await ended;
  const step = await readStepFile(await write(Buffer.concat(pieces)), { blockBytes: 2 ** 22 });
  if (step.scores.kind !== 'logprobs') throw new Error('expected logprobs');
  const before = process.memoryUsage().rss;
  let seen = 0;
  let most = 0;
  for await (const { logprobs } of step.scores.blocks()) {
    seen += logprobs.data.byteLength;
    most = Math.max(most, process.memoryUsage().rss);
  }
  expect(seen).toBe(bytes);
  expect(most - before).toBeLessThan(100 * 2 ** 20);
});

it('a file of zstd is refused with what to do, also where a folder holds it', async () => {
  const problem = 'zstd is not read: unpack it first (zstd -d), or pack it with gzip';
  await mkdir(join(folder, 'zstd'));
  const path = await put(join(folder, 'zstd/step_1.safetensors.zst'), Buffer.from('28b52ffd', 'hex'));
  expect((await fileErrorOf(readStepFile(path))).message).toBe(`${path}: ${problem}`);
  expect((await findSteps(join(folder, 'zstd'))).files).toMatchObject([{ path }]);
});

it('a folder of compressed and plain files is one run', async () => {
  await mkdir(join(folder, 'mixed'));
  await put(join(folder, 'mixed/a.safetensors'), fileOf(smallStep(), { step: '2' }));
  await put(join(folder, 'mixed/b.safetensors.gz'), gzipSync(fileOf(smallStep(), { step: '1' })));
  const steps = [];
  for await (const { step, run } of readSteps(join(folder, 'mixed'))) steps.push([step, run]);
  expect(steps).toEqual([
    [1, 'mixed'],
    [2, 'mixed'],
  ]);
});
