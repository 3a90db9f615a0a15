// writeStep: what is written is read again, nothing is left half there, and the reader's rules hold before anything is
// written.
import { spawnSync } from 'node:child_process';
import { lstat, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ArgumentError } from '../../src/checks/errors.js';
import type { DType, HostTensor } from '../../src/engine/tensor/tensor.js';
import { readStepFile } from '../../src/logs/steps/step-file.js';
import { type StepToWrite, writeStep } from '../../src/logs/steps/write-step.js';
import { fileErrorOf } from '../support/logs-files.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { canBeUnprivileged, withoutPrivileges } from '../support/unprivileged.js';

const folder = temporaryDirectory();

/** P = 2, R = 3, T = 2. */
function minimal(): StepToWrite {
  return {
    step: 7,
    logprobs: { data: Float32Array.from({ length: 12 }, (_, i) => -i), dtype: 'float32', shape: [2, 3, 2] },
    lengths: Int32Array.of(2, 1, 0),
    group: Int32Array.of(0, 1, 0),
  };
}

const arrays = { float64: Float64Array, float32: Float32Array, float16: Uint16Array, bfloat16: Uint16Array };

function tensor(dtype: DType, shape: number[], bits: () => number): HostTensor {
  const data = new arrays[dtype](shape.reduce((a, b) => a * b, 1));
  const bytes = new Uint8Array(data.buffer);
  for (let i = 0; i < bytes.length; i++) bytes[i] = bits();
  return { data, dtype, shape };
}

function bytesOf(view: ArrayBufferView | undefined): string | undefined {
  return view && Buffer.from(view.buffer, view.byteOffset, view.byteLength).toString('hex');
}

it.runIf(process.platform === 'linux')('leaves neither the file nor its folder open', async () => {
  const openFiles = async () => (await readdir('/proc/self/fd')).length;
  const write = (name: string, data: StepToWrite) => writeStep(join(folder, name), data);
  await write('closed.safetensors', minimal());
  const before = await openFiles();
  for (let again = 0; again < 5; again++) await write('closed.safetensors', minimal());
  expect(await openFiles()).toBe(before);
});

it('what is written is read again, bit for bit', async () => {
  const path = join(folder, 'round.safetensors');
  const size = fc.nat(4);
  const dtype = fc.constantFrom<DType>('float64', 'float32', 'float16', 'bfloat16');
  const shapes = fc.record({
    P: fc.integer({ min: 1, max: 4 }),
    R: size,
    T: size,
    wide: fc.boolean(),
    all: fc.boolean(),
    dtype,
  });
  await fc.assert(
    fc.asyncProperty(shapes, fc.infiniteStream(fc.nat(255)), async ({ P, R, T, wide, all, dtype }, bits) => {
      const bit = () => bits.next().value as number;
      const integers = (count: number, value: (i: number) => number) =>
        wide
          ? BigInt64Array.from({ length: count }, (_, i) => BigInt(value(i)))
          : Int32Array.from({ length: count }, (_, i) => value(i));
      const perToken = dtype === 'float64' ? 'float32' : dtype;
      const step: StepToWrite = {
        step: 41,
        run: 'r',
        metadata: { model: 'ø', time: '"now"' },
        logprobs: tensor(dtype, [P, R, T], bit),
        lengths: integers(R, () => bit() % (T + 1)),
        group: integers(R, (r) => 10 * (r % P)),
        columnGroup: integers(P, (p) => 10 * p),
        ...(all && {
          prompts: Array.from({ length: P }, (_, p) => integers(p + 1, bit)),
          responseIds: { data: integers(R * T, bit), shape: [R, T] },
          rewards: Float64Array.from({ length: R }, bit),
          outcome: Float32Array.from({ length: R }, bit),
          correct: Uint8Array.from({ length: R }, () => bit() % 2),
          valid: Uint8Array.from({ length: R }, () => bit() % 2),
          actions: integers(R, bit),
          episode: integers(R, bit),
          turn: integers(R, bit),
          tokenEntropy: tensor(perToken, [R, T], bit),
          ablatedLogprobs: tensor(perToken, [R, T], bit),
          actionLogprobs: tensor('float32', [2, R], bit),
        }),
      };
      await writeStep(path, step);
      const back = await readStepFile(path);
      expect(back).toMatchObject({ step: 41, run: 'r' });
      expect({ ...back.metadata }).toEqual({ step: '41', run: 'r', model: 'ø', time: '"now"' });
      const same = [
        'lengths',
        'group',
        'columnGroup',
        'prompts',
        'correct',
        'valid',
        'actions',
        'episode',
        'turn',
      ] as const;
      for (const field of same) expect(back[field], field).toEqual(step[field]);
      expect(back.responseIds).toEqual(step.responseIds);
      expect(back.rewards && [...back.rewards]).toEqual(step.rewards && [...step.rewards]);
      expect(back.outcome && [...back.outcome]).toEqual(step.outcome && [...step.outcome]);
      for (const field of ['tokenEntropy', 'ablatedLogprobs', 'actionLogprobs'] as const) {
        expect(bytesOf(back[field]?.data), field).toBe(bytesOf(step[field]?.data));
        expect(back[field]?.dtype).toBe(step[field]?.dtype);
      }
      if (back.scores.kind !== 'logprobs') throw new Error('expected logprobs');
      expect(back.scores.dtype).toBe(dtype);
      let scores = '';
      for await (const { logprobs } of back.scores.blocks()) scores += bytesOf(logprobs.data);
      expect(scores).toBe(bytesOf(step.logprobs?.data));
      const file = await readFile(path);
      expect(file.readBigUInt64LE(0) % 8n).toBe(0n);
    }),
    { numRuns: 60 },
  );
});

it('sums, subarrays and shared memory', async () => {
  const path = join(folder, 'sums.safetensors');
  const shared = new Float64Array(new SharedArrayBuffer(80), 8, 8).fill(-2);
  const lengths = Int32Array.of(99, 1, 2, 3, 4, 99).subarray(1, 5);
  const sums: HostTensor = { data: shared, dtype: 'float64', shape: [4, 2], strides: [2, 1] };
  await writeStep(path, { step: 1, sums, lengths, group: Int32Array.of(3, 9, 3, 9) });
  const back = await readStepFile(path);
  if (back.scores.kind !== 'sums') throw new Error('expected sums');
  expect([...(await back.scores.read()).data]).toEqual(Array(8).fill(-2));
  expect([...back.lengths]).toEqual([1, 2, 3, 4]);
  expect([...back.columnGroup]).toEqual([3, 9]);
});

describe('what is refused before anything is written', () => {
  const cases: [what: string, change: Partial<StepToWrite>, argument: string, message: RegExp][] = [
    ['no scores', { logprobs: undefined }, 'step (cross_logprobs)', /missing/],
    ['a step that is no integer', { step: 1.5 }, 'step.step', /whole number/],
    ['lengths of another size', { lengths: Int32Array.of(1) }, 'step.lengths', /R = 3 as in cross_logprobs/],
    ['a length over T', { lengths: Int32Array.of(1, 3, 0) }, 'step.lengths', /3 in row 1/],
    ['floats for ids', { group: Float32Array.of(0, 1, 0) as never }, 'step.group', /dtype F32, expected I32/],
    ['a plain array', { group: [0, 1, 0] as never }, 'step.group', /got an array of 3, expected a typed array/],
    ['group ids that do not tell the columns', { group: Int32Array.of(0, 0, 0) }, 'step.group', /add column_group/],
    ['a group without a column', { columnGroup: Int32Array.of(0, 2) }, 'step.group', /group id 1/],
    [
      'a shape that does not fit the data',
      { logprobs: { data: new Float32Array(11), dtype: 'float32', shape: [2, 3, 2] } },
      'step.logprobs',
      /has 12 elements, but the array has 11/,
    ],
    [
      'data of another type',
      { logprobs: { data: new Float32Array(12), dtype: 'float16', shape: [2, 3, 2] } },
      'step.logprobs',
      /Float32Array, expected Uint16Array/,
    ],
    [
      'an unknown dtype',
      { logprobs: { data: new Float32Array(12), dtype: 'int8' as never, shape: [2, 3, 2] } },
      'step.logprobs',
      /expected one of float64/,
    ],
    [
      'strides that are not dense',
      { logprobs: { data: new Float32Array(12), dtype: 'float32', shape: [2, 3, 2], strides: [1, 2, 6] } },
      'step.logprobs',
      /row-major/,
    ],
    ['flags above 1', { correct: Uint8Array.of(0, 1, 3) }, 'step.correct', /3 in row 2/],
    ['text cut within a character', { run: '😀'.slice(0, 1) }, 'step.metadata.run', /surrogate/],
    ['metadata that is no string', { metadata: { time: 3 as never } }, 'step.metadata.time', /expected a string/],
    ['two names for the run', { run: 'a', metadata: { run: 'b' } }, 'step.metadata.run', /give it once/],
  ];
  it.each(cases)('names the fault: %s', async (_what, change, argument, message) => {
    const path = join(folder, 'refused.safetensors');
    const error = await writeStep(path, { ...minimal(), ...change }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ArgumentError);
    expect((error as ArgumentError).argument).toBe(argument);
    expect((error as ArgumentError).message).toMatch(message);
    expect(await readdir(join(folder, '.'))).not.toContain('refused.safetensors');
  });
});

describe('whole or not at all', () => {
  it('replaces what is there and leaves no temporary file', async () => {
    await mkdir(join(folder, 'whole'));
    const path = join(folder, 'whole/s.safetensors');
    await writeFile(path, 'old');
    await writeStep(path, minimal());
    expect((await readStepFile(path)).step).toBe(7);
    expect(await readdir(join(folder, 'whole'))).toEqual(['s.safetensors']);
  });

  it('leaves the old file and no temporary one when it fails or is aborted', async () => {
    await mkdir(join(folder, 'failed'));
    const path = join(folder, 'failed/s.safetensors');
    await writeFile(path, 'old');
    const data = new Float32Array(12);
    const writing = writeStep(path, { ...minimal(), logprobs: { data, dtype: 'float32', shape: [2, 3, 2] } });
    structuredClone(data.buffer, { transfer: [data.buffer] });
    expect((await fileErrorOf(writing)).message).toContain('transferred');
    await expect(writeStep(path, minimal(), { signal: AbortSignal.abort('stop') })).rejects.toBe('stop');
    expect(await readFile(path, 'utf8')).toBe('old');
    expect(await readdir(join(folder, 'failed'))).toEqual(['s.safetensors']);
    const controller = new AbortController();
    const aborted = writeStep(path, minimal(), { signal: controller.signal });
    controller.abort('late');
    await expect(aborted).rejects.toBe('late');
    expect(await readdir(join(folder, 'failed'))).toEqual(['s.safetensors']);
  });

  it('says what to do about a folder that is missing, no folder, or a path that is one', async () => {
    await mkdir(join(folder, 'taken/s.safetensors'), { recursive: true });
    await writeFile(join(folder, 'file'), '');
    expect((await fileErrorOf(writeStep(join(folder, 'none/s.safetensors'), minimal()))).message).toContain(
      'no such file or directory',
    );
    expect((await fileErrorOf(writeStep(join(folder, 'file/s.safetensors'), minimal()))).message).toContain(
      'is a file, not a directory',
    );
    expect((await fileErrorOf(writeStep(join(folder, 'taken/s.safetensors'), minimal()))).message).toContain(
      'this is a directory',
    );
    expect(await readdir(join(folder, 'taken'))).toEqual(['s.safetensors']);
  });

  it.skipIf(process.platform === 'win32')('does not take the place of a device or a pipe', async () => {
    await mkdir(join(folder, 'pipes'));
    spawnSync('mkfifo', [join(folder, 'pipes/s.safetensors')]);
    const { message } = await fileErrorOf(writeStep(join(folder, 'pipes/s.safetensors'), minimal()));
    expect(message).toContain('cannot write here: this is a device, a pipe or a socket');
    expect((await lstat(join(folder, 'pipes/s.safetensors'))).isFIFO()).toBe(true);
    expect(await readdir(join(folder, 'pipes'))).toEqual(['s.safetensors']);
  });

  it.skipIf(!canBeUnprivileged)('leaves nothing in a folder without the right to write', async () => {
    await mkdir(join(folder, 'shut'), { mode: 0o555 });
    const error = await withoutPrivileges(() => fileErrorOf(writeStep(join(folder, 'shut/s.safetensors'), minimal())));
    expect(error.message).toContain('no permission');
    expect(await readdir(join(folder, 'shut'))).toEqual([]);
  });
});
