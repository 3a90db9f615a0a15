// Step files: what readStepFile gives, and that every fault of a file is named by path, offset and tensor.
import { execFileSync } from 'node:child_process';
import { appendFile, open, readdir, readFile, truncate, utimes, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ArgumentError, FileError } from '../../src/checks/errors.js';
import type { ReadStepOptions } from '../../src/logs/steps/read-step-options.js';
import type { StepData } from '../../src/logs/steps/step-data.js';
import { readStepFile, readStepHeader } from '../../src/logs/steps/step-file.js';
import { container, fileErrorOf, fileOf, fullStep, put, type RawTensor, smallStep } from '../support/logs-files.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const folder = temporaryDirectory();
/** As numbers, in file order. */
const SMALL_SCORES = [...(smallStep().cross_logprobs as { data: Float32Array } & RawTensor).data];
let files = 0;

async function write(bytes: Uint8Array): Promise<string> {
  return put(join(folder, `step_${files++}.safetensors`), bytes);
}

async function read(tensors: Record<string, RawTensor>, options?: ReadStepOptions): Promise<StepData> {
  return readStepFile(await write(fileOf(tensors)), options);
}

/** The scores as they came, block by block. */
async function scoreBlocks(
  step: StepData,
): Promise<{ firstPrompt: number; shape: readonly number[]; data: number[] }[]> {
  if (step.scores.kind !== 'logprobs') throw new Error('no blocks');
  const blocks = [];
  for await (const { firstPrompt, logprobs } of step.scores.blocks()) {
    blocks.push({ firstPrompt, shape: logprobs.shape, data: [...logprobs.data] });
  }
  return blocks;
}

async function openFiles(): Promise<number> {
  return (await readdir('/proc/self/fd')).length;
}

describe('what a step gives', () => {
  it('everything that the file has, however it lies', async () => {
    const path = await write(fileOf(fullStep(), { step: '120', run: 'grid', note: 'x' }));
    const step = await readStepFile(path);
    expect(step).toMatchObject({ file: path, step: 120, run: 'grid', bytes: (await readFile(path)).length });
    expect({ ...step.metadata }).toEqual({ step: '120', run: 'grid', note: 'x' });
    expect(step.lengths).toEqual(Int32Array.of(3, 0, 2, 1));
    expect(step.group).toEqual(BigInt64Array.of(7n, 5n, 7n, 5n));
    expect(step.columnGroup).toEqual(Int32Array.of(7, 5));
    expect(step.prompts).toEqual([Int32Array.of(1, 2, 3), Int32Array.of(4, 5)]);
    expect(step.responseIds?.shape).toEqual([4, 3]);
    expect(step.rewards).toEqual(Float64Array.of(0.5, 1, -1, 0));
    expect(step.outcome).toEqual(Float64Array.of(0, 1, 0, 1));
    expect(step.correct).toEqual(Uint8Array.of(0, 1, 0, 1));
    expect(step.valid).toEqual(Uint8Array.of(1, 1, 1, 0));
    expect(step.actions).toEqual(BigInt64Array.of(-1n, 2n ** 62n, 0n, 3n));
    expect(step.episode).toEqual(Int32Array.of(0, 0, 1, 1));
    expect(step.turn).toEqual(Int32Array.of(0, 1, 0, 1));
    expect(step.tokenEntropy).toMatchObject({ dtype: 'float32', shape: [4, 3] });
    expect([...(step.tokenEntropy?.data ?? [])].slice(0, 3)).toEqual([0, 0.125, 0.25]);
    expect(step.ablatedLogprobs).toMatchObject({ dtype: 'bfloat16', shape: [4, 3] });
    expect(step.ablatedLogprobs?.data).toBeInstanceOf(Uint16Array);
    expect(step.actionLogprobs).toMatchObject({ dtype: 'float32', shape: [5, 4] });
    expect(await scoreBlocks(step)).toEqual([{ firstPrompt: 0, shape: [2, 4, 3], data: SMALL_SCORES }]);
  });

  it('the bare minimum: run by folder, columns by sorted group id, nothing else', async () => {
    const step = await read(smallStep());
    expect(step.run).toBe(basename(folder));
    expect(step.columnGroup).toEqual(BigInt64Array.of(5n, 7n));
    for (const absent of ['prompts', 'rewards', 'outcome', 'correct', 'valid', 'actions', 'episode'] as const) {
      expect(step[absent]).toBeUndefined();
    }
  });

  it('names and metadata keys that objects inherit have no meaning', async () => {
    const bytes = fileOf(smallStep(), JSON.parse('{"step":"1","__proto__":"x"}') as Record<string, string>);
    const step = await readStepFile(await write(bytes));
    expect(Object.entries(step.metadata)).toEqual([
      ['step', '1'],
      ['__proto__', 'x'],
    ]);
    expect(Object.getPrototypeOf(step.metadata)).toBeNull();
  });

  it('sums, in any of their types', async () => {
    const { lengths, group } = smallStep() as { lengths: RawTensor; group: RawTensor };
    const sums = { dtype: 'F64', shape: [4, 2], data: Float64Array.of(-1, -2, -3, -4, -5, -6, -7, Number.NaN) };
    const step = await read({
      note: { dtype: 'U8', shape: [1], data: Uint8Array.of(1) },
      cross_logprob_sums: sums,
      lengths,
      group,
    });
    if (step.scores.kind !== 'sums') throw new Error('expected sums');
    expect(step.scores).toMatchObject({ dtype: 'float64', shape: [4, 2] });
    expect([...(await step.scores.read()).data]).toEqual([...sums.data]);
    const bytes = await readFile(step.file);
    expect(bytes.readDoubleLE(step.scores.offsetOf(2, 1))).toBe(-6);
  });

  it('blocks of whole prompts, at least one, in one aligned buffer that the caller may give', async () => {
    const asked: number[] = [];
    const allocate = (bytes: number) => {
      asked.push(bytes);
      return new ArrayBuffer(bytes);
    };
    const path = await write(fileOf(fullStep()));
    for (const [blockBytes, counts] of [
      [1, [1, 1]],
      [48, [1, 1]],
      [95, [1, 1]],
      [96, [2]],
      [Number.POSITIVE_INFINITY, [2]],
    ] as const) {
      const step = await readStepFile(path, { blockBytes, allocate });
      asked.length = 0;
      const blocks = await scoreBlocks(step);
      expect(blocks.map((block) => block.shape[0])).toEqual(counts);
      expect(blocks.flatMap((block) => block.data)).toEqual(SMALL_SCORES);
      expect(asked).toEqual([48 * (counts[0] as number)]);
    }
    const step = await readStepFile(path);
    if (step.scores.kind !== 'logprobs') throw new Error('expected logprobs');
    for await (const { logprobs } of step.scores.blocks())
      expect(logprobs.data.buffer).toBeInstanceOf(SharedArrayBuffer);
    await expect(readStepFile(path, { blockBytes: Number.NaN })).rejects.toThrow(ArgumentError);
  });

  it('offsets that find the value in the file', async () => {
    const step = await read(fullStep());
    if (step.scores.kind !== 'logprobs') throw new Error('expected logprobs');
    const bytes = await readFile(step.file);
    expect(bytes.readFloatLE(step.scores.offsetOf(1, 2, 1))).toBe(-121);
  });

  it('steps without rows, without tokens, without columns', async () => {
    const empty = (p: number, r: number, t: number, group: number[]) => ({
      cross_logprobs: { dtype: 'BF16', shape: [p, r, t], data: new Uint16Array(p * r * t) },
      lengths: { dtype: 'I64', shape: [r], data: new BigInt64Array(r) },
      group: { dtype: 'I32', shape: [r], data: Int32Array.from(group) },
      column_group: { dtype: 'I32', shape: [p], data: Int32Array.from({ length: p }, (_, i) => i) },
    });
    expect(await scoreBlocks(await read(empty(2, 0, 5, [])))).toMatchObject([{ shape: [2, 0, 5] }]);
    expect(await scoreBlocks(await read(empty(2, 2, 0, [1, 0])))).toMatchObject([{ shape: [2, 2, 0] }]);
    expect(await scoreBlocks(await read(empty(0, 0, 3, [])))).toEqual([]);
  });

  it('a header that is longer than the first read, and tensors far apart', async () => {
    const far = { dtype: 'U8', shape: [200_000], data: new Uint8Array(200_000) };
    const { cross_logprobs, lengths, group } = smallStep() as Record<string, RawTensor>;
    const tensors = { lengths, far, group, cross_logprobs } as Record<string, RawTensor>;
    const path = await write(fileOf(tensors, { step: '1', long: 'x'.repeat(50_000) }));
    const step = await readStepFile(path);
    expect(step.lengths).toEqual(Int32Array.of(3, 0, 2, 1));
    expect(step.group).toEqual(BigInt64Array.of(7n, 5n, 7n, 5n));
    expect((await readStepHeader(path)).layout).toEqual({ prompts: 2, rows: 4, tokens: 3, promptTokens: undefined });
  });

  it('a per-token tensor that is read straight into its own memory', async () => {
    const rows = 1024;
    const tokens = 512;
    const entropy = Float32Array.from({ length: rows * tokens }, (_, i) => i);
    const step = await read({
      cross_logprob_sums: { dtype: 'F32', shape: [rows, 1], data: new Float32Array(rows) },
      lengths: { dtype: 'I32', shape: [rows], data: new Int32Array(rows).fill(tokens) },
      group: { dtype: 'I32', shape: [rows], data: new Int32Array(rows) },
      token_entropy: { dtype: 'F32', shape: [rows, tokens], data: entropy },
      rewards: { dtype: 'F64', shape: [rows], data: new Float64Array(rows).fill(2) },
    });
    expect(
      Buffer.compare(Buffer.from(step.tokenEntropy?.data.buffer as SharedArrayBuffer), Buffer.from(entropy.buffer)),
    ).toBe(0);
    expect(step.rewards).toEqual(new Float64Array(rows).fill(2));
  });
});

describe('what is refused, by tensor', () => {
  const wrongDType: Record<string, string> = {
    cross_logprobs: 'I32',
    lengths: 'F32',
    group: 'U64',
    column_group: 'F32',
    prompt_ids: 'F32',
    prompt_lengths: 'F64',
    response_ids: 'U32',
    rewards: 'U32',
    outcome: 'C64',
    correct: 'I8',
    valid: 'I8',
    actions: 'F64',
    token_entropy: 'I32',
    episode: 'U32',
    turn: 'F32',
    action_logprobs: 'I32',
    ablated_logprobs: 'I16',
  };

  it.each(Object.entries(wrongDType))('names %s as %s', async (name, dtype) => {
    const tensors = fullStep();
    tensors[name] = { ...(tensors[name] as RawTensor), dtype };
    const path = await write(fileOf(tensors));
    const error = await fileErrorOf(readStepFile(path));
    expect(error).toMatchObject({ path, tensor: name });
    expect(error.message).toContain(`dtype ${dtype}, expected`);
    expect((await readFile(path)).subarray(error.offset).toString('latin1')).toMatch(new RegExp(`^"${name}"`));
  });

  it.each(Object.keys(wrongDType))('names %s of another shape', async (name) => {
    const tensors = fullStep();
    const tensor = tensors[name] as RawTensor;
    const transposed = {
      ...tensor,
      shape: tensor.shape.length > 1 ? [...tensor.shape].reverse() : [1, ...tensor.shape],
    };
    const error = await fileErrorOf(read({ ...tensors, [name]: transposed }));
    // The scores settle P, R and T: when theirs are wrong, the next tensor is the one that disagrees.
    expect(error.tensor).toBe(name === 'cross_logprobs' ? 'column_group' : name);
    expect(error.message).toMatch(/shape \[[0-9, ]+\], expected \[/);
    const flat = { ...tensor, shape: [tensor.shape.reduce((a, b) => a * b), 1, 1, 1] };
    expect((await fileErrorOf(read({ ...tensors, [name]: flat }))).tensor).toBe(name);
  });

  it.each(['cross_logprobs', 'lengths', 'group'])('names a file without %s', async (name) => {
    const { [name]: _, ...rest } = smallStep();
    const error = await fileErrorOf(read(rest));
    expect(error).toMatchObject({ tensor: name, offset: 8 });
    expect(error.message).toContain('missing');
  });

  it('scores under another name are named', async () => {
    const { cross_logprobs: scores, ...rest } = smallStep();
    const error = await fileErrorOf(read({ logprobs: scores as RawTensor, ...rest }));
    expect(error.message).toMatch(/missing: a step needs cross_logprobs .*; there are logprobs, lengths, group$/);
    const many = Object.fromEntries(Array.from({ length: 9 }, (_, at) => [`t${at}`, rest.lengths as RawTensor]));
    expect((await fileErrorOf(read(many))).message).toMatch(/t7 and 1 more$/);
  });

  it('both scores, and prompt_lengths alone', async () => {
    const sums = { dtype: 'F32', shape: [4, 2], data: new Float32Array(8) };
    expect((await fileErrorOf(read({ ...smallStep(), cross_logprob_sums: sums }))).message).toContain('keep that one');
    const { prompt_ids: _, ...rest } = fullStep();
    expect((await fileErrorOf(read(rest))).tensor).toBe('prompt_lengths');
  });

  const values: [what: string, tensor: string, data: RawTensor['data'], index: number, message: RegExp][] = [
    ['a length over T', 'lengths', Int32Array.of(3, 4, 2, 1), 1, /4 in row 1, expected 0 to 3/],
    ['a negative length', 'lengths', Int32Array.of(3, 0, -1, 1), 2, /-1 in row 2/],
    ['a prompt length over L', 'prompt_lengths', BigInt64Array.of(3n, 4n), 1, /4 in column 1, expected 0 to 3/],
    ['a prompt length of 2^63 − 1', 'prompt_lengths', BigInt64Array.of(2n ** 63n - 1n, 0n), 0, /in column 0/],
    ['a group that no column has', 'group', BigInt64Array.of(7n, 5n, 6n, 5n), 2, /row 2 has group id 6/],
    ['a group that only the low bits match', 'group', BigInt64Array.of(7n, 5n, 7n + 2n ** 32n, 5n), 2, /4294967303/],
    ['two columns of one group', 'column_group', Int32Array.of(5, 5), 1, /columns 0 and 1 both have group id 5/],
    ['a truth value of 2', 'correct', Uint8Array.of(0, 1, 2, 1), 2, /2 in row 2, expected 0 or 1/],
    ['a truth value of 255', 'valid', Uint8Array.of(255, 1, 0, 1), 0, /255 in row 0/],
  ];
  it.each(values)('names the fault: %s', async (_what, tensor, data, index, message) => {
    const tensors = fullStep();
    tensors[tensor] = { ...(tensors[tensor] as RawTensor), data };
    const path = await write(fileOf(tensors));
    const error = await fileErrorOf(readStepFile(path));
    expect(error.tensor).toBe(tensor);
    expect(error.message).toMatch(message);
    const size = data.byteLength / (data as Int32Array).length;
    const element = Buffer.from(data.buffer, index * size, size);
    expect((await readFile(path)).subarray(error.offset, (error.offset as number) + size)).toEqual(element);
  });

  it('group ids that do not tell the columns', async () => {
    const tensors = { ...smallStep(), group: { dtype: 'I32', shape: [4], data: Int32Array.of(1, 2, 3, 1) } };
    const error = await fileErrorOf(read(tensors));
    expect(error.tensor).toBe('group');
    expect(error.message).toMatch(/3 distinct ids for 2 columns: add column_group/);
  });

  it.each([[undefined], ['x'], ['1.5'], [''], ['99999999999999999999'], ['1e3']])('step %s', async (step) => {
    const path = await write(fileOf(smallStep(), step === undefined ? {} : { step }));
    const error = await fileErrorOf(readStepFile(path));
    expect(error.message).toMatch(/step in __metadata__ is/);
    await fileErrorOf(readStepHeader(path));
  });
});

describe('files that are not what they should be', () => {
  it('missing, a directory, a device, a pipe, empty', async () => {
    expect((await fileErrorOf(readStepFile(join(folder, 'none.safetensors')))).message).toContain('no such file');
    expect((await fileErrorOf(readStepFile(join(folder, '.')))).message).toContain('directory');
    expect((await fileErrorOf(readStepFile('/dev/zero'))).message).toContain('regular file');
    execFileSync('mkfifo', [join(folder, 'pipe')]);
    expect((await fileErrorOf(readStepFile(join(folder, 'pipe')))).message).toContain('regular file');
    expect((await fileErrorOf(readStepFile(await write(new Uint8Array(0))))).message).toContain('truncated');
  });

  it('cut at every byte', async () => {
    const whole = fileOf(smallStep());
    const path = await write(whole);
    expect((await readStepFile(path)).step).toBe(3);
    for (let length = whole.length - 1; length >= 0; length--) {
      await truncate(path, length);
      expect((await fileErrorOf(readStepFile(path))).path).toBe(path);
    }
  });

  it('any flipped bytes either read or are refused, in memory no larger than the file', async () => {
    const whole = fileOf(fullStep());
    const path = await write(whole);
    const allocate = (bytes: number) => {
      expect(bytes).toBeLessThanOrEqual(whole.length);
      return new ArrayBuffer(bytes);
    };
    const flips = fc.array(fc.tuple(fc.nat(whole.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(flips, async (changes) => {
        const bytes = Buffer.from(whole);
        for (const [at, value] of changes) bytes[at] = value;
        await writeFile(path, bytes);
        const problem = await readStepFile(path, { allocate })
          .then(scoreBlocks)
          .catch((error: unknown) => error);
        if (problem instanceof Error) expect(problem).toBeInstanceOf(FileError);
      }),
      { numRuns: 400 },
    );
  });

  it('a sparse file that claims more than memory can hold', async () => {
    const rows = 2 ** 40;
    const header = {
      __metadata__: { step: '1' },
      cross_logprob_sums: { dtype: 'F32', shape: [rows, 1], data_offsets: [0, 4 * rows] },
      lengths: { dtype: 'I32', shape: [rows], data_offsets: [4 * rows, 8 * rows] },
      group: { dtype: 'I32', shape: [rows], data_offsets: [8 * rows, 12 * rows] },
    };
    const bytes = container(header);
    const path = await write(bytes);
    await truncate(path, bytes.length + 12 * rows);
    const error = await fileErrorOf(readStepFile(path));
    expect(error.message).toMatch(/no memory for [0-9]+ bytes: .*; write steps of fewer rows/);
    expect(error.tensor).toBe('lengths');
  });

  it('cut, rewritten or replaced between header and scores', async () => {
    const whole = fileOf(smallStep());
    for (const change of [
      (path: string) => truncate(path, whole.length - 1),
      (path: string) => appendFile(path, 'x'),
      (path: string) => utimes(path, 1, 1),
    ]) {
      const path = await write(whole);
      const step = await readStepFile(path);
      await change(path);
      expect((await fileErrorOf(scoreBlocks(step))).message).toContain('changed');
    }
  });

  it('cut while the scores are read: the place where it ends', async () => {
    const path = await write(fileOf(fullStep()));
    const step = await readStepFile(path, { blockBytes: 1 });
    if (step.scores.kind !== 'logprobs') throw new Error('expected logprobs');
    const end = step.scores.offsetOf(1, 0, 2);
    const blocks = step.scores.blocks()[Symbol.asyncIterator]();
    expect((await blocks.next()).done).toBe(false);
    await truncate(path, end);
    const error = await fileErrorOf(blocks.next());
    expect(error).toMatchObject({ path, tensor: 'cross_logprobs', offset: end });
    expect(error.message).toMatch(/ends here, 40 bytes short/);
  });

  it('rewritten while the scores are read', async () => {
    const path = await write(fileOf(fullStep()));
    const step = await readStepFile(path, { blockBytes: 1 });
    if (step.scores.kind !== 'logprobs') throw new Error('expected logprobs');
    const blocks = step.scores.blocks()[Symbol.asyncIterator]();
    await blocks.next();
    const handle = await open(path, 'r+');
    await handle.write(Buffer.of(1), 0, 1, step.scores.offsetOf(1, 0, 0));
    await handle.utimes(1, 1);
    await handle.close();
    expect((await fileErrorOf(blocks.next())).message).toContain('changed while it was read');
  });
});

describe('abort and file handles', () => {
  it.skipIf(process.platform !== 'linux')(
    'no handle stays open: not by an early exit, not by an error, not by an abort',
    async () => {
      const path = await write(fileOf(fullStep()));
      const broken = await write(fileOf(smallStep()).subarray(0, 300));
      const step = await readStepFile(path, { blockBytes: 1 });
      if (step.scores.kind !== 'logprobs') throw new Error('expected logprobs');
      const before = await openFiles();
      for (let i = 0; i < 20; i++) {
        for await (const _ of step.scores.blocks()) break;
        step.scores.blocks();
        await fileErrorOf(readStepFile(broken));
        const aborted = step.scores.blocks(AbortSignal.abort('stop'))[Symbol.asyncIterator]();
        await expect(aborted.next()).rejects.toBe('stop');
      }
      expect(await openFiles()).toBe(before);
    },
  );

  it('rejects with the reason of the signal, between blocks too', async () => {
    const path = await write(fileOf(fullStep()));
    const reason = new Error('stop');
    await expect(readStepFile(path, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const controller = new AbortController();
    const step = await readStepFile(path, { blockBytes: 1, signal: controller.signal });
    if (step.scores.kind !== 'logprobs') throw new Error('expected logprobs');
    const blocks = step.scores.blocks()[Symbol.asyncIterator]();
    await blocks.next();
    controller.abort(reason);
    await expect(blocks.next()).rejects.toBe(reason);
  });

  it('refuses by name what is no signal', async () => {
    const refused = { name: 'ArgumentError', argument: 'signal' };
    const options = { blockBytes: 1 } as unknown as AbortSignal;
    const { scores: tokens } = await readStepFile(await write(fileOf(fullStep())));
    if (tokens.kind !== 'logprobs') throw new Error('expected logprobs');
    await expect(tokens.blocks(options)[Symbol.asyncIterator]().next()).rejects.toMatchObject(refused);
    const { cross_logprobs: _, ...others } = smallStep();
    const cross_logprob_sums: RawTensor = { dtype: 'F64', shape: [4, 2], data: new Float64Array(8).fill(-1) };
    const { scores: sums } = await readStepFile(await write(fileOf({ ...others, cross_logprob_sums })));
    if (sums.kind !== 'sums') throw new Error('expected sums');
    await expect(sums.read(options)).rejects.toMatchObject(refused);
  });
});
