// Sums over tokens from blocks of any shape and order: the bits of the whole; what is held meanwhile; what is refused.
import { getEventListeners } from 'node:events';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TokenBlock, TokenSums, TokenSumsSink } from '../../src/exports/engine.js';
import { ArgumentError, DisposedError, type DType, type Engine, openEngine } from '../../src/index.js';
import {
  type BoxOfStep,
  blockOf,
  layouts,
  partition,
  storage,
  tensorOf,
  type WholeStep,
  wholeStep,
} from './token-blocks.js';

// Where the process's memory tells what was freed; a sanitizer keeps that for a while.
const onLinux = it.skipIf(process.platform !== 'linux' || process.env.COLLAPSAR_SANITIZED === '1');

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ device: 'cpu', threads: 2 });
});
afterAll(() => engine.dispose());

const dtypes = fc.constantFrom<DType>('float64', 'float32', 'float16', 'bfloat16');
const plain = { order: [2, 1, 0], gap: 0, skip: 0 } as const;

const bits = ({ sums, lengths, firstInvalid }: TokenSums) => ({
  sums: [...new BigUint64Array(sums.data.slice().buffer)],
  shape: sums.shape,
  lengths: [...lengths],
  firstInvalid,
});

const sinkOf = ({ prompts, lengths }: WholeStep) => engine.tokenSumsSink({ prompts, rows: lengths.length, lengths });

async function refused(work: Promise<unknown>, argument: string, words: string): Promise<void> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ArgumentError);
  expect((error as ArgumentError).message).toContain(words);
  expect((error as ArgumentError).argument).toBe(argument);
}

/**
 * What is held after these boxes, by the doc comment: rows that have begun, and tokens that came ahead of others of
 * their leaf.
 */
function waitingTokens(
  { prompts, lengths }: WholeStep,
  boxes: readonly BoxOfStep[],
): { pairs: number; tokens: number } {
  let [pairs, tokens] = [0, 0];
  for (let prompt = 0; prompt < prompts; prompt++) {
    lengths.forEach((length, row) => {
      const of = boxes
        .filter((box) => box.prompts.includes(prompt) && box.rows.includes(row) && box.from < length)
        .sort((a, b) => a.from - b.from);
      let come = 0;
      for (let begin = 0; begin < length; begin += 4096) {
        const end = Math.min(begin + 4096, length);
        let inOrder = begin;
        let here = 0;
        for (const { from, to } of of) {
          here += Math.max(0, Math.min(to, end) - Math.max(from, begin));
          if (from <= inOrder) inOrder = Math.max(inOrder, Math.min(to, end));
        }
        tokens += here - (inOrder - begin);
        come += here;
      }
      if (come > 0 && come < length) pairs++;
    });
  }
  return { pairs, tokens };
}

describe('a sink of blocks', () => {
  it('gives the bits of the whole for any partition, order, dtype and strides, and holds what it says', async () => {
    const cases = fc.record({
      dtype: dtypes,
      prompts: fc.integer({ min: 1, max: 4 }),
      lengths: fc.array(fc.oneof(fc.nat(80), fc.constantFrom(0, 1)), { minLength: 1, maxLength: 6 }),
      seed: fc.integer(),
      share: fc.constantFrom(0, 0, 0.02),
      cuts: fc.nat(25),
      picks: fc.infiniteStream(fc.nat()),
      layout: fc.infiniteStream(layouts),
      together: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(cases, async ({ dtype, prompts, lengths, seed, share, cuts, picks, layout, together }) => {
        const step = wholeStep(dtype, prompts, lengths, seed, share);
        const boxes = partition(step, cuts, () => picks.next().value as number);
        const sink = sinkOf(step);
        const begun: Promise<void>[] = [];
        for (const [at, box] of boxes.entries()) {
          const adding = sink.add(blockOf(step, box, layout.next().value));
          if (together) begun.push(adding);
          else {
            await adding;
            const { bytes, ...held } = sink.held;
            expect(held).toEqual(waitingTokens(step, boxes.slice(0, at + 1)));
            expect(bytes > 0).toBe(held.pairs > 0);
          }
        }
        const found = await sink.finish();
        await Promise.all(begun);
        expect(bits(found)).toEqual(bits(await engine.sumTokens(tensorOf(step), lengths)));
        expect(sink.held).toEqual({ pairs: 0, tokens: 0, bytes: 0 });
      }),
      { numRuns: 250 },
    );
  });

  it('gives the bits of the whole at the borders of leaves', async () => {
    const length = fc.constantFrom(4095, 4096, 4097, 8191, 8192, 8193, 12289, 5000, 100, 0);
    const cases = fc.record({
      dtype: dtypes,
      prompts: fc.integer({ min: 1, max: 2 }),
      lengths: fc.array(length, { minLength: 1, maxLength: 3 }),
      seed: fc.integer(),
      share: fc.constantFrom(0, 0, 0, 1e-4),
      cuts: fc.nat(12),
      picks: fc.infiniteStream(fc.nat()),
      layout: fc.infiniteStream(layouts),
    });
    const places = [1, 4095, 4096, 4097, 8192, 8193, 12288];
    await fc.assert(
      fc.asyncProperty(cases, async ({ dtype, prompts, lengths, seed, share, cuts, picks, layout }) => {
        const step = wholeStep(dtype, prompts, lengths, seed, share);
        const boxes = partition(step, cuts, () => picks.next().value as number, places);
        const sink = sinkOf(step);
        for (const [at, box] of boxes.entries()) {
          await sink.add(blockOf(step, box, layout.next().value));
          const { bytes, ...held } = sink.held;
          expect(held).toEqual(waitingTokens(step, boxes.slice(0, at + 1)));
          expect(bytes > 0).toBe(held.pairs > 0);
        }
        expect(bits(await sink.finish())).toEqual(bits(await engine.sumTokens(tensorOf(step), lengths)));
      }),
      { numRuns: 80 },
    );
  });

  it('takes whole rows without tokens, packed rows and sums', async () => {
    const cases = fc.record({
      dtype: dtypes,
      lengths: fc.array(fc.nat(9), { minLength: 3, maxLength: 8 }),
      seed: fc.integer(),
      share: fc.constantFrom(0, 0.05),
      cut: fc.tuple(fc.nat(), fc.nat()),
      backwards: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(cases, async ({ dtype, lengths, seed, share, cut, backwards }) => {
        const step = wholeStep(dtype, 3, lengths, seed, share);
        const whole = await engine.sumTokens(tensorOf(step), lengths);
        const [first, second] = cut.map((at) => at % (lengths.length + 1)).sort((a, b) => a - b) as [number, number];
        const run = (from: number, to: number) => {
          const rows = Array.from({ length: to - from }, (_, at) => from + at);
          return backwards ? rows.reverse() : rows;
        };
        const padded = blockOf(step, { prompts: [2, 0, 1], rows: run(0, first), from: 0, to: step.tokens }, plain);
        const rows = run(first, second);
        const tokens = [0, 1, 2].flatMap((prompt) =>
          rows.flatMap((row) => {
            const start = (prompt * lengths.length + row) * step.tokens;
            return [...step.data.subarray(start, start + (lengths[row] as number))];
          }),
        );
        const packed = storage(dtype, tokens.length);
        packed.set(tokens);
        const sink = sinkOf(step);
        await sink.addSums({
          rows: { from: second },
          sums: { ...whole.sums, data: whole.sums.data.subarray(second * 3), shape: [lengths.length - second, 3] },
        });
        const { tokens: _, ...asWhole } = padded;
        await sink.add(asWhole);
        await sink.add({ rows, logprobs: { data: packed, dtype, shape: [3, tokens.length / 3] } });
        const found = await sink.finish();
        expect(bits(found).sums).toEqual(bits(whole).sums);
        // Sums do not say which token was invalid.
        if (second === lengths.length) expect(found.firstInvalid).toEqual(whole.firstInvalid);
      }),
      { numRuns: 80 },
    );
  });

  it('holds no token of rows that come in order, however long they are', async () => {
    const step = wholeStep('bfloat16', 2, [20_000, 9000], 3, 0);
    const expected = bits(await engine.sumTokens(tensorOf(step), step.lengths));
    for (const size of [4096, 8192, 5000, 1000, 300, 33]) {
      const sink = sinkOf(step);
      for (let from = 0; from < 20_000; from += size) {
        const box = { prompts: [0, 1], rows: [0, 1], from, to: Math.min(from + size, 20_000) };
        await sink.add(blockOf(step, box, plain));
        expect(sink.held.tokens).toBe(0);
        expect(sink.held.bytes).toBeLessThanOrEqual(sink.held.pairs * 1024);
      }
      expect(bits(await sink.finish())).toEqual(expected);
    }
  });

  onLinux('keeps nothing of blocks that are in', async () => {
    const [rows, tokens] = [2000, 300];
    const lengths = Array<number>(rows).fill(tokens);
    const sink = engine.tokenSumsSink({ prompts: 1, rows, lengths });
    const data = new Float32Array(rows).fill(-1);
    const before = process.memoryUsage().rss;
    // What each goes on from takes some 0.8 MB, until the next begins.
    for (let from = 0; from < tokens; from++)
      await sink.add({ tokens: { from }, logprobs: { data, dtype: 'float32', shape: [1, rows, 1] } });
    expect(process.memoryUsage().rss - before).toBeLessThan(100e6);
    expect((await sink.finish()).sums.data.every((sum) => sum === -tokens)).toBe(true);
  });

  it('has one NaN for all: +inf in one leaf and −inf in another', async () => {
    const step = wholeStep('float32', 1, [8192], 6, 0);
    step.data[7] = Infinity;
    step.data[5000] = -Infinity;
    const sink = sinkOf(step);
    for (const from of [4096, 0])
      await sink.add(blockOf(step, { prompts: [0], rows: [0], from, to: from + 4096 }, plain));
    const found = bits(await sink.finish());
    expect(found).toEqual(bits(await engine.sumTokens(tensorOf(step), step.lengths)));
    expect([found.sums, found.firstInvalid]).toEqual([[0x7ff8000000000000n], { prompt: 0, row: 0, token: 7 }]);
  });

  it('holds copies of tokens that come ahead of others, until these have come', async () => {
    const step = wholeStep('float32', 2, [1000, 700], 4, 0);
    const sink = sinkOf(step);
    const box = (from: number, to: number) => blockOf(step, { prompts: [0, 1], rows: [0, 1], from, to }, plain);
    await sink.add(box(500, 1000));
    const { tokens, bytes } = sink.held;
    expect(tokens).toBe(2 * (500 + 200));
    expect(bytes).toBeGreaterThan(4 * tokens);
    expect(bytes).toBeLessThan(4 * tokens + 4 * 1024);
    await sink.add(box(0, 400));
    expect(sink.held.tokens).toBe(tokens);
    await sink.add(box(400, 500));
    expect(sink.held).toEqual({ pairs: 0, tokens: 0, bytes: 0 });
    expect(bits(await sink.finish())).toEqual(bits(await engine.sumTokens(tensorOf(step), step.lengths)));
  });

  it('reads a block in memory that cannot go away, once it is its turn', async () => {
    const step = wholeStep('float32', 4, Array(500).fill(1000), 5, 0);
    const rows = [...Array(500).keys()];
    const most = { prompts: [0, 1, 2, 3], rows, from: 0, to: 999 };
    const sink = sinkOf(step);
    await sink.add(blockOf(step, { ...most, from: 999, to: 1000 }, plain));
    const before = sink.held;
    expect(before).toMatchObject({ pairs: 2000, tokens: 2000 });

    // Before it is its turn, it can go away.
    for (const tokens of [10, 999]) {
      const early = blockOf(step, { ...most, prompts: [0], rows: [0], to: tokens }, plain);
      const gone = sink.add(early);
      const { buffer: memory } = early.logprobs.data as Float32Array;
      structuredClone(memory, { transfer: [memory as ArrayBuffer] });
      await refused(gone, 'logprobs', 'detached');
      expect(sink.held).toEqual(before);
    }

    const large = blockOf(step, most, plain);
    const adding = sink.add(large);
    await new Promise(setImmediate);
    const { buffer } = large.logprobs.data as Float32Array;
    // Node 20 copies what is being read, later versions throw.
    try {
      structuredClone(buffer, { transfer: [buffer as ArrayBuffer] });
    } catch (error) {
      expect((error as Error).name).toBe('DataCloneError');
    }
    await adding;
    expect(sink.held).toEqual({ pairs: 0, tokens: 0, bytes: 0 });
    expect(bits(await sink.finish())).toEqual(bits(await engine.sumTokens(tensorOf(step), step.lengths)));
  });
});

describe('what is refused', () => {
  const step = wholeStep('float32', 3, [5, 0, 9, 7], 1, 0);
  const box = (prompts: number[], rows: number[], from: number, to: number): TokenBlock =>
    blockOf(step, { prompts, rows, from, to }, plain);

  it('the same token twice, by name; the sink stays as it was', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer(),
        fc.nat(12),
        fc.infiniteStream(fc.nat()),
        fc.nat(),
        async (seed, cuts, picks, which) => {
          const small = wholeStep('float16', 2, [6, 1, 4, 8], seed, 0);
          const pick = () => picks.next().value as number;
          const boxes = partition(small, cuts, pick);
          const sink = sinkOf(small);
          const at = which % boxes.length;
          for (const each of boxes.slice(0, at + 1)) await sink.add(blockOf(small, each, plain));
          const last = boxes[at] as BoxOfStep;
          const row = last.rows.find((each) => (small.lengths[each] as number) > last.from);
          const before = sink.held;
          if (row === undefined) await sink.add(blockOf(small, last, plain));
          else {
            const again = { prompts: [1, 0], rows: [row], from: last.from, to: last.from + 1 };
            await refused(
              sink.add(blockOf(small, again, plain)),
              'block',
              `row ${row}, token ${last.from} came before`,
            );
            await refused(sink.add({ logprobs: tensorOf(small) }), 'block', 'came before: give each token');
          }
          expect(sink.held).toEqual(before);
          for (const each of boxes.slice(at + 1)) await sink.add(blockOf(small, each, plain));
          expect(bits(await sink.finish())).toEqual(bits(await engine.sumTokens(tensorOf(small), small.lengths)));
        },
      ),
      { numRuns: 80 },
    );
  });

  it('what is being taken in, too', async () => {
    const sink = sinkOf(step);
    const first = sink.add(box([0, 1, 2], [0, 1, 2, 3], 0, 9));
    await refused(sink.add(box([1], [2], 3, 4)), 'block', 'prompt 1, row 2, token 3 came before');
    await first;
    expect(sink.missing()).toEqual([]);
  });

  it('to finish with something missing: it is named, and can still be added', async () => {
    const sink = sinkOf(step);
    await sink.add(box([0, 1], [0, 1, 2, 3], 0, 9));
    await sink.add(box([2], [0, 1], 0, 9));
    await sink.add(box([2], [2], 2, 5));
    await refused(
      sink.finish(),
      'blocks',
      'prompt 2 lacks 2 rows (row 2: tokens 0 to 1). Add it, then call finish() again',
    );
    await sink.add(box([2], [2, 3], 0, 2));
    expect(sink.missing()).toEqual([{ prompt: 2, rows: 2, row: 2, from: 5, to: 9, untouched: false }]);
    await sink.add(box([2], [3], 2, 9));
    await sink.add(box([2], [2], 5, 9));
    const found = await sink.finish();
    expect(bits(found)).toEqual(bits(await engine.sumTokens(tensorOf(step), step.lengths)));
    expect(await sink.finish()).toBe(found);
    await refused(sink.add(box([2], [2], 5, 9)), 'block', 'came after finish()');
  });

  it('to finish without prompts: eight are named, the others counted', async () => {
    const sentenceOf = async (prompts: number) => {
      const finished = engine.tokenSumsSink({ prompts, rows: 1, lengths: [3] }).finish();
      return finished.then(
        () => '',
        ({ message }: Error) => message,
      );
    };
    const named = (prompts: number) =>
      Array.from(
        { length: prompts },
        (_, p) => `prompt ${p} lacks 1 row, none of which has come (row 0: tokens 0 to 2)`,
      );
    expect(await sentenceOf(8)).toBe(
      `blocks: not all has come: ${named(8).join('; ')}. Add it, then call finish() again`,
    );
    expect(await sentenceOf(11)).toBe(
      `blocks: not all has come: ${named(8).join('; ')}; and 3 more prompts. Add it, then call finish() again`,
    );
  });

  it('to finish while a block begins: it is waited for, or missing', async () => {
    const lengths = [4, 4];
    const block = (row: number): TokenBlock => ({
      prompts: [0],
      rows: [row],
      logprobs: { data: new Float32Array(4).fill(-1), dtype: 'float32', shape: [1, 1, 4] },
    });
    const ends = new Set<string>();
    // In whichever microtask it begins.
    for (let ticks = 0; ticks < 20; ticks++) {
      const sink = engine.tokenSumsSink({ prompts: 1, rows: 2, lengths });
      const first = sink.add(block(0));
      if (ticks % 2 === 0) await first;
      const finishing = sink.finish().then(
        ({ sums }) => [...sums.data].join(),
        (error: Error) => error.message,
      );
      for (let tick = 0; tick < ticks >> 1; tick++) await null;
      await sink.add(block(1));
      const end = await finishing;
      if (end !== '-4,-4') expect(end).toContain('prompt 0 lacks 1 row (row 1');
      ends.add(end);
      expect([...(await sink.finish()).sums.data]).toEqual([-4, -4]);
    }
    expect(ends.size).toBe(2);
  });

  it('nothing but the pairs asked for, where some are', async () => {
    const { prompts, lengths } = step;
    const pairs = [{ prompt: 2, rows: [0, 3] }];
    const sink = engine.tokenSumsSink({ prompts, rows: 4, lengths, pairs });
    await sink.add(box([2], [3], 0, 9));
    await refused(sink.finish(), 'blocks', 'prompt 2 lacks 1 row (row 0: tokens 0 to 4)');
    await sink.add(box([2], [0], 0, 9));
    const { sums } = await sink.finish();
    const whole = await engine.sumTokens(tensorOf(step), lengths);
    const kept = [2, 11];
    // A row without tokens sums to 0 under every prompt.
    expect([...sums.data]).toEqual(
      [...whole.sums.data].map((sum, at) => (kept.includes(at) || (at >= 3 && at < 6) ? sum : Number.NaN)),
    );
  });

  const tensor = (shape: number[], strides?: number[]) => ({
    data: new Float32Array(12),
    dtype: 'float32' as const,
    shape,
    ...(strides && { strides }),
  });
  it.each<[string, string, object | undefined]>([
    ['logprobs', 'expected a tensor', undefined],
    ['logprobs.shape', 'got [12]', { logprobs: tensor([12]) }],
    ['prompts', '1 of 3 prompts; give their indices', { logprobs: tensor([1, 4, 3]) }],
    ['rows', '3 of 4 rows', { prompts: [0], logprobs: tensor([1, 3, 4]) }],
    ['rows', 'names 2 rows, but the tensor has 3', { prompts: [0], rows: [0, 1], logprobs: tensor([1, 3, 4]) }],
    ['rows', 'row 0 is named twice', { prompts: [0], rows: [0, 2, 0], logprobs: tensor([1, 3, 4]) }],
    ['rows', 'row 1 is named twice', { prompts: [0], rows: [0, 1, 1], logprobs: tensor([1, 3, 4]) }],
    [
      'rows',
      'names 2 rows, but the tensor has 3',
      { prompts: [0], rows: { from: 0, to: 2 }, logprobs: tensor([1, 3, 4]) },
    ],
    [
      'rows',
      'entry 1 is 0.5, expected a row: 0 to 3',
      { prompts: [0], rows: [0, 0.5, 1], logprobs: tensor([1, 3, 4]) },
    ],
    ['rows', 'entry 0 is -1', { prompts: [0], rows: [-1, 0, 1], logprobs: tensor([1, 3, 4]) }],
    ['rows.from', 'got 0.5', { prompts: [0], rows: { from: 0.5 }, logprobs: tensor([1, 3, 4]) }],
    ['rows.to', 'got 0.5', { prompts: [0], rows: { from: 0, to: 0.5 }, logprobs: tensor([1, 3, 4]) }],
    ['rows.to', 'before from (2)', { prompts: [0], rows: { from: 2, to: 1 }, logprobs: tensor([1, 3, 4]) }],
    ['prompts', 'got null', { prompts: null, logprobs: tensor([1, 4, 3]) }],
    ['prompts', 'entry 0 is 3, expected a prompt: 0 to 2', { prompts: [3], logprobs: tensor([1, 4, 3]) }],
    ['prompts', 'entry 0 is "0"', { prompts: ['0'], logprobs: tensor([1, 4, 3]) }],
    ['prompts', 'got 0', { prompts: 0, logprobs: tensor([1, 4, 3]) }],
    ['prompts', 'ends after the 3 prompts', { prompts: { from: 2, to: 4 }, logprobs: tensor([2, 4, 1]) }],
    ['prompts.from', 'got undefined', { prompts: { from: undefined }, logprobs: tensor([1, 4, 3]) }],
    ['prompts.from', 'got -1', { prompts: { from: -1 }, logprobs: tensor([1, 4, 3]) }],
    ['prompts.to', 'before from', { prompts: { from: 2, to: 1 }, logprobs: tensor([1, 4, 3]) }],
    ['tokens', 'got 3', { prompts: [0], tokens: 3, logprobs: tensor([1, 4, 3]) }],
    ['tokens.from', 'got 0.5', { prompts: [0], tokens: { from: 0.5 }, logprobs: tensor([1, 4, 3]) }],
    ['tokens', 'names 2 tokens', { prompts: [0], tokens: { from: 1, to: 3 }, logprobs: tensor([1, 4, 3]) }],
    ['logprobs.shape', 'packed scores are of whole rows', { rows: [0], tokens: { from: 0 }, logprobs: tensor([3, 4]) }],
    ['rows.to', 'packed', { rows: { from: 0 }, logprobs: tensor([3, 4]) }],
    ['logprobs', 'has 12', { prompts: [0], tokens: { from: 0 }, logprobs: tensor([1, 4, 3], [0, 4, 1]) }],
    [
      'logprobs',
      'a negative stride reaches before',
      { prompts: [0], tokens: { from: 0 }, logprobs: tensor([1, 4, 3], [0, 3, -1]) },
    ],
    [
      'logprobs.shape',
      'holds 3 tokens a row, but row 2 of the step has 9',
      { prompts: [0], rows: [2], logprobs: tensor([1, 1, 3]) },
    ],
  ])('%s: %s', async (argument, words, block) => {
    const sink = sinkOf(step);
    await refused(sink.add(block as TokenBlock), argument, words);
    await sink.add({ logprobs: tensorOf(step) });
    expect(bits(await sink.finish())).toEqual(bits(await engine.sumTokens(tensorOf(step), step.lengths)));
  });

  it('nothing of a block that holds nothing, nor of a row that the step does not have, by any list', async () => {
    const sink = sinkOf(step);
    const empty = { data: new Float32Array(0), dtype: 'float32', shape: [3, 0, 4] } as const;
    for (const rows of [[], { from: 2, to: 2 }, { from: 4 }]) await sink.add({ rows, logprobs: empty });
    expect(sink.missing()).toHaveLength(3);
  });

  it('tokens of one row in two dtypes', async () => {
    const sink = sinkOf(step);
    await sink.add(box([0], [2], 0, 4));
    const half = wholeStep('bfloat16', 3, step.lengths, 1, 0);
    const rest = blockOf(half, { prompts: [0], rows: [2], from: 4, to: 9 }, plain);
    await refused(sink.add(rest), 'logprobs.dtype', 'prompt 0, row 2 came as float32');
    // Other rows may be of another.
    await sink.add(blockOf(half, { prompts: [1], rows: [2], from: 4, to: 9 }, plain));
  });

  it.each<[object, string]>([
    [{ prompts: -1 }, 'options.prompts'],
    [{ prompts: 2 ** 31 }, 'options.prompts'],
    [{ rows: 3 }, 'options.lengths'],
    [{ rows: 5 }, 'options.lengths'],
    [{ lengths: [1, 2, 3, 2 ** 53] }, 'options.lengths'],
    [{ pairs: 5 }, 'options.pairs'],
    [{ pairs: [null] }, 'options.pairs[0]'],
    [{ pairs: [{ prompt: -1, rows: [] }] }, 'options.pairs[0].prompt'],
    [{ pairs: [{ prompt: 0, rows: 5 }] }, 'options.pairs[0].rows'],
    [{ pairs: [{ prompt: 0, rows: { from: 0, to: 2 } }] }, 'options.pairs[0].rows'],
    [{ lengths: [1, 2, 3, -1] }, 'options.lengths'],
    [{ lengths: [1, 2, 3, 0.5] }, 'options.lengths'],
    [{ pairs: [{ prompt: 3, rows: [] }] }, 'options.pairs[0].prompt'],
    [{ pairs: [{ prompt: 0, rows: [4] }] }, 'options.pairs[0].rows'],
    [{ signal: 1 }, 'options.signal'],
  ])('tokenSumsSink(%j)', (options, argument) => {
    const all = { prompts: 3, rows: 4, lengths: step.lengths, ...options };
    const opening = () => engine.tokenSumsSink(all as Parameters<Engine['tokenSumsSink']>[0]);
    expect(opening).toThrow(expect.objectContaining({ argument }));
  });
});

describe('a sink', () => {
  const sums = { data: new Float64Array(1).fill(-3), dtype: 'float64', shape: [1, 1] } as const;

  it('of no prompts, of no rows or of rows without tokens is complete', async () => {
    for (const [prompts, lengths] of [
      [0, [3, 4]],
      [2, []],
      [2, [0, 0]],
    ] as const) {
      const sink = engine.tokenSumsSink({ prompts, rows: lengths.length, lengths });
      expect(sink.missing()).toEqual([]);
      const found = await sink.finish();
      expect(found).toMatchObject({ sums: { shape: [lengths.length, prompts] }, firstInvalid: null });
      expect([...found.sums.data].every((sum) => Object.is(sum, 0))).toBe(true);
    }
  });

  it('that has ended takes nothing more, lacks nothing, cannot be aborted, and listens no longer', async () => {
    const controller = new AbortController();
    const sink = engine.tokenSumsSink({ prompts: 1, rows: 1, lengths: [3], signal: controller.signal });
    const session = sink.session();
    const own = new AbortController();
    await session.addSums({ sums }, { signal: own.signal });
    expect(getEventListeners(own.signal, 'abort')).toHaveLength(0);
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1);
    const found = await sink.finish();
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);
    expect(sink.missing()).toEqual([]);
    await refused(sink.addSums({ sums }), 'block', 'came after finish()');
    // What a stream of it does that is aborted too late.
    await session.undo();
    sink.abort();
    expect(await sink.finish()).toBe(found);
    expect([...found.sums.data]).toEqual([-3]);
  });

  it('that was aborted gives the first reason to whatever comes, whether or not it had begun', async () => {
    const reason = new Error('enough');
    const aborted = AbortSignal.abort(reason);
    const before = engine.tokenSumsSink({ prompts: 1, rows: 1, lengths: [3], signal: aborted });
    const later = engine.tokenSumsSink({ prompts: 1, rows: 1, lengths: [3] });
    const session = later.session();
    await session.addSums({ sums });
    later.abort(reason);
    later.abort(new Error('again'));
    await session.undo();
    for (const sink of [before, later]) {
      await expect(sink.addSums({ sums })).rejects.toBe(reason);
      await expect(sink.finish()).rejects.toBe(reason);
      expect(() => sink.missing()).toThrow(reason);
    }
    const open = engine.tokenSumsSink({ prompts: 1, rows: 1, lengths: [3] });
    await expect(open.addSums({ sums }, { signal: aborted })).rejects.toBe(reason);
    await open.addSums({ sums });
    const finishing = open.finish();
    open.abort(reason);
    // Nothing ran: it had ended already.
    expect([...(await finishing).sums.data]).toEqual([-3]);
  });

  it('names what it lacks by rising prompt, whatever the order of its pairs', async () => {
    const pairs = [
      { prompt: 2, rows: [0] },
      { prompt: 0, rows: [1] },
      { prompt: 1, rows: [0, 1] },
    ];
    const sink = engine.tokenSumsSink({ prompts: 3, rows: 2, lengths: [3, 4], pairs });
    expect(sink.missing().map(({ prompt, rows, row }) => [prompt, rows, row])).toEqual([
      [0, 1, 1],
      [1, 2, 0],
      [2, 1, 0],
    ]);
    await refused(sink.finish(), 'blocks', 'prompt 0 lacks 1 row');
    await sink.addSums({
      prompts: [0, 1, 2],
      rows: [0],
      sums: { data: new Float64Array(3), dtype: 'float64', shape: [1, 3] },
    });
    // One pair of all is enough to go on.
    await sink.addSums({ prompts: [1], rows: [1], sums });
    await refused(sink.finish(), 'blocks', 'not all has come: prompt 0 lacks 1 row');
    await sink.addSums({ prompts: [0], rows: [1], sums });
    expect(await sink.finish()).toMatchObject({ firstInvalid: null });
  });
});

describe('an end before the end', () => {
  const step = wholeStep('float32', 2, [9000, 5000, 700, 9001], 2, 0);
  const half = { prompts: [0, 1], rows: [0, 1, 2, 3], from: 0, to: 6000 };
  const rest = { ...half, from: 6000, to: 9001 };

  it('of a block: it may come again', async () => {
    const sink = sinkOf(step);
    const reason = new Error('enough');
    await expect(sink.add(blockOf(step, half, plain), { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const during = new AbortController();
    const adding = sink.add(blockOf(step, half, plain), { signal: during.signal });
    during.abort(reason);
    await expect(adding).rejects.toBe(reason);
    expect(sink.held).toEqual({ pairs: 0, tokens: 0, bytes: 0 });
    await sink.add(blockOf(step, rest, plain));
    const before = sink.held;
    const again = new AbortController();
    const more = sink.add(blockOf(step, half, plain), { signal: again.signal });
    queueMicrotask(() => again.abort(reason));
    await expect(more).rejects.toBe(reason);
    expect(sink.held).toEqual(before);
    await sink.add(blockOf(step, half, plain));
    expect(bits(await sink.finish())).toEqual(bits(await engine.sumTokens(tensorOf(step), step.lengths)));
  });

  it('of a block at any moment: it is in or it may come again', async () => {
    const cases = fc.record({ turns: fc.nat(12), cuts: fc.nat(8), picks: fc.infiniteStream(fc.nat()) });
    const expected = bits(await engine.sumTokens(tensorOf(step), step.lengths));
    await fc.assert(
      fc.asyncProperty(cases, async ({ turns, cuts, picks }) => {
        const sink = sinkOf(step);
        const adding = partition(step, cuts, () => picks.next().value as number, [4096, 8192]).map(async (box) => {
          for (;;) {
            const controller = new AbortController();
            const end = (async () => {
              for (let turn = 0; turn < turns; turn++) await (turn % 2 ? new Promise(setImmediate) : undefined);
              controller.abort();
            })();
            try {
              await sink.add(blockOf(step, box, plain), turns === 12 ? {} : { signal: controller.signal });
              return;
            } catch (error) {
              expect((error as Error).name).toBe('AbortError');
            }
            await end;
            await sink.add(blockOf(step, box, plain));
            return;
          }
        });
        await Promise.all(adding);
        expect(bits(await sink.finish())).toEqual(expected);
      }),
      { numRuns: 60 },
    );
  });

  it('of a block that was not asked for, at any moment: of what is not in nothing stays', async () => {
    const lengths = Array(300).fill(40);
    const all = wholeStep('float32', 2, lengths, 3, 0.2);
    const whole = blockOf(all, { prompts: [1, 0], rows: lengths.map((_, row) => row), from: 0, to: 40 }, plain);
    const ends = new Set<boolean>();
    for (let turns = 0; ends.size < 2; turns++) {
      const sink = engine.tokenSumsSink({ prompts: 2, rows: 300, lengths, pairs: [] });
      const controller = new AbortController();
      const adding = sink.add(whole, { signal: controller.signal }).then(
        () => true,
        () => false,
      );
      for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate);
      controller.abort();
      const taken = await adding;
      ends.add(taken);
      const { sums, firstInvalid } = await sink.finish();
      expect(taken ? firstInvalid : [...sums.data].every(Number.isNaN)).toEqual(taken ? expect.anything() : true);
    }
  });

  it('of the sink: all that runs and comes later rejects with the reason, and nothing is held', async () => {
    const controller = new AbortController();
    const { prompts, lengths } = step;
    const sink = engine.tokenSumsSink({ prompts, rows: 4, lengths, signal: controller.signal });
    await sink.add(blockOf(step, half, plain));
    expect(sink.held.pairs).toBe(4);
    const running = sink.add(blockOf(step, rest, plain));
    const reason = new Error('over');
    controller.abort(reason);
    expect(sink.held).toEqual({ pairs: 0, tokens: 0, bytes: 0 });
    await expect(running).rejects.toBe(reason);
    await expect(sink.add(blockOf(step, rest, plain))).rejects.toBe(reason);
    await expect(sink.finish()).rejects.toBe(reason);
    const other = sinkOf(step);
    other.abort();
    await expect(other.finish()).rejects.toThrow('the sink was aborted');
  });

  it('of a block that is being computed, whichever kind: it is not taken in', async () => {
    const one = Float32Array.of(-1);
    const rows = 2e6;
    const calls: [number, (sink: TokenSumsSink, signal: AbortSignal) => Promise<void>][] = [
      [
        2 ** 28,
        (sink, signal) =>
          sink.add(
            { logprobs: { data: one, dtype: 'float32', shape: [1, 1, 2 ** 28], strides: [0, 0, 0] } },
            { signal },
          ),
      ],
      [
        2 ** 28,
        (sink, signal) =>
          sink.add(
            {
              tokens: { from: 1 },
              logprobs: { data: one, dtype: 'float32', shape: [1, 1, 2 ** 28 - 1], strides: [0, 0, 0] },
            },
            { signal },
          ),
      ],
      [
        1,
        (sink, signal) =>
          sink.addSums({ sums: { data: one, dtype: 'float32', shape: [rows, 2], strides: [0, 0] } }, { signal }),
      ],
    ];
    for (const [length, call] of calls) {
      const lengths = length === 1 ? new BigInt64Array(rows).fill(1n) : [length];
      const sink = engine.tokenSumsSink({ prompts: length === 1 ? 2 : 1, rows: lengths.length, lengths });
      const controller = new AbortController();
      const reason = new Error('enough');
      const adding = expect(call(sink, controller.signal)).rejects.toBe(reason);
      // All that comes before the job is done in microtasks; the job takes tens of milliseconds.
      await new Promise(setImmediate);
      controller.abort(reason);
      await adding;
      expect(sink.missing()[0]).toMatchObject({ rows: lengths.length, untouched: true });
    }
  });

  it('of a block that waits, at once; what comes behind it still waits for what is before it', async () => {
    const [rows, length] = [64, 2 ** 20];
    const sink = engine.tokenSumsSink({ prompts: 2, rows, lengths: Array<number>(rows).fill(length) });
    // One element for all: a tenth of a second to compute, and nothing to lay out.
    const block = (prompt: number, from: number, to: number): TokenBlock => ({
      prompts: [prompt],
      tokens: { from, to },
      logprobs: { data: Float32Array.of(-1), dtype: 'float32', shape: [1, rows, to - from], strides: [0, 0, 0] },
    });
    const order: string[] = [];
    const controller = new AbortController();
    const first = sink.add(block(0, 0, length - 1)).then(() => order.push('first'));
    const waiting = sink.add(block(1, 0, length), { signal: controller.signal }).catch(() => order.push('aborted'));
    const last = sink.add(block(0, length - 1, length)).then(() => order.push('last'));
    await new Promise(setImmediate);
    controller.abort();
    await new Promise(setImmediate);
    // The first is computed before this thread can take it in: the last, were it computed next, would not know of it.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
    await Promise.all([first, waiting, last]);
    expect(order).toEqual(['aborted', 'first', 'last']);
    await sink.add(block(1, 0, length));
    expect((await sink.finish()).sums.data.every((sum) => sum === -length)).toBe(true);
  });

  it('of a block in any microtask before it is computed: it is not taken in', async () => {
    for (let ticks = 0; ticks < 60; ticks++) {
      const sink = engine.tokenSumsSink({ prompts: 1, rows: 1, lengths: [2] });
      const controller = new AbortController();
      const reason = new Error('enough');
      const logprobs = { data: Float32Array.of(-1, -2), dtype: 'float32', shape: [1, 1, 2] } as const;
      const sums = { data: Float32Array.of(-3), dtype: 'float32', shape: [1, 1] } as const;
      const { signal } = controller;
      const adding = ticks % 2 === 0 ? sink.add({ logprobs }, { signal }) : sink.addSums({ sums }, { signal });
      const refusal = expect(adding).rejects.toBe(reason);
      for (let tick = 0; tick < ticks / 2; tick++) await null;
      controller.abort(reason);
      await refusal;
      expect(sink.missing()).toHaveLength(1);
    }
  });

  it('of a sink stops what is being computed, however long it would take', async () => {
    // Half a minute's work.
    const lengths = Array<number>(2 ** 16).fill(2 ** 20);
    const logprobs = {
      data: Float32Array.of(-1),
      dtype: 'float32',
      shape: [1, 2 ** 16, 2 ** 20],
      strides: [0, 0, 0],
    } as const;
    const sink = engine.tokenSumsSink({ prompts: 1, rows: 2 ** 16, lengths });
    const adding = expect(sink.add({ logprobs })).rejects.toThrow('the sink was aborted');
    await new Promise(setImmediate);
    const begin = performance.now();
    sink.abort();
    await adding;
    await engine.sumTokens({ data: Float32Array.of(-1), dtype: 'float32', shape: [1, 1, 1] }, [1]);
    expect(performance.now() - begin).toBeLessThan(8000);
  });

  it('of a stream that is aborted between two blocks: what it gave is forgotten', async () => {
    const sink = sinkOf(step);
    const writer = sink.writable().getWriter();
    await writer.write(blockOf(step, half, plain));
    expect(sink.held.pairs).toBe(4);
    await writer.abort(new Error('gone'));
    expect(sink.held).toEqual({ pairs: 0, tokens: 0, bytes: 0 });
    expect(sink.missing()).toEqual(
      [0, 1].map((prompt) => ({ prompt, rows: 4, row: 0, from: 0, to: 9000, untouched: true })),
    );
  });

  it('rejects what waits when the engine ends', async () => {
    const own = await openEngine({ device: 'cpu', threads: 1 });
    const sink = own.tokenSumsSink({ prompts: 2, rows: 4, lengths: step.lengths });
    await sink.add(blockOf(step, half, plain));
    const fresh = own.tokenSumsSink({ prompts: 2, rows: 1, lengths: [3] });
    const sums = { data: new Float64Array(2), dtype: 'float64', shape: [1, 2] } as const;
    await own.dispose();
    await expect(sink.add(blockOf(step, { ...rest, rows: [0], to: 9000 }, plain))).rejects.toThrow(DisposedError);
    await expect(fresh.addSums({ sums })).rejects.toThrow(DisposedError);
    expect(sink.missing()[0]).toMatchObject({ prompt: 0, rows: 2, row: 0, from: 6000, to: 9000 });
    expect(() => own.tokenSumsSink({ prompts: 2, rows: 4, lengths: step.lengths })).toThrow(DisposedError);
  });

  it('of a stream: the rows that it gave something of are forgotten and may come again; others stay', async () => {
    const sink = sinkOf(step);
    await sink.add(blockOf(step, { ...half, rows: [1] }, plain));
    await sink.add(blockOf(step, { ...rest, rows: [0] }, plain));
    const before = sink.held;
    const writer = sink.writable().getWriter();
    await writer.write(blockOf(step, { ...half, rows: [2, 3] }, plain));
    expect(sink.held.pairs).toBe(4);
    const pending = writer.write(blockOf(step, { ...rest, rows: [3] }, plain));
    await writer.abort(new Error('gone'));
    await expect(pending).rejects.toThrow('gone');
    expect(sink.held).toEqual(before);
    expect(sink.missing().map(({ rows, row, from }) => [rows, row, from])).toEqual([
      [3, 0, 0],
      [3, 0, 0],
    ]);
    await ReadableStream.from([
      blockOf(step, { ...half, rows: [3, 0, 2] }, plain),
      blockOf(step, { ...rest, rows: [3] }, plain),
    ]).pipeTo(sink.writable());
    expect(bits(await sink.finish())).toEqual(bits(await engine.sumTokens(tensorOf(step), step.lengths)));
  });

  it('of a session, anywhere: as if its rows had never come, NaN and +inf included', async () => {
    const cases = fc.record({
      dtype: dtypes,
      lengths: fc.array(fc.constantFrom(0, 1, 5, 30, 4096, 4100, 8200), { minLength: 1, maxLength: 4 }),
      seed: fc.integer(),
      cuts: fc.nat(10),
      picks: fc.infiniteStream(fc.nat()),
      share: fc.constantFrom(0, 0.001, 0.1),
    });
    await fc.assert(
      fc.asyncProperty(cases, async ({ dtype, lengths, seed, cuts, picks, share }) => {
        const spoilt = wholeStep(dtype, 2, lengths, seed, 0.2);
        const right = wholeStep(dtype, 2, lengths, seed + 1, share);
        const pick = () => picks.next().value as number;
        const boxes = partition(right, cuts, pick, [4096, 8192]);
        const sink = sinkOf(right);
        const session = sink.session();
        // What the session gives of other numbers is undone; so are the rows to which others gave something as well.
        const undone = new Set<number>();
        const outside: BoxOfStep[] = [];
        for (const box of boxes) {
          if (pick() % 2 === 0) outside.push(box);
          else {
            for (const prompt of box.prompts) {
              for (const row of box.rows) if ((lengths[row] as number) > box.from) undone.add(prompt * 9 + row);
            }
          }
          await (outside.at(-1) === box ? sink : session).add(
            blockOf(outside.at(-1) === box ? right : spoilt, box, plain),
          );
        }
        await session.undo();
        for (const { prompts, rows, ...range } of boxes) {
          const isOutside = outside.some(
            (box) => box.prompts === prompts && box.rows === rows && box.from === range.from,
          );
          for (const prompt of prompts) {
            const again = isOutside ? rows.filter((row) => undone.has(prompt * 9 + row)) : rows;
            await sink.add(blockOf(right, { prompts: [prompt], rows: again, ...range }, plain));
          }
        }
        expect(bits(await sink.finish())).toEqual(bits(await engine.sumTokens(tensorOf(right), lengths)));
      }),
      { numRuns: 80 },
    );
  });

  it('of a session, while a block of the same row begins: it is undone with it, or comes after', async () => {
    const lengths = [4, 4];
    const block = (row: number, from: number): TokenBlock => ({
      prompts: [0],
      rows: [row],
      tokens: { from },
      logprobs: { data: new Float32Array(2).fill(-1), dtype: 'float32', shape: [1, 1, 2] },
    });
    // In whichever microtask it begins.
    for (let ticks = 0; ticks < 20; ticks++) {
      const sink = engine.tokenSumsSink({ prompts: 1, rows: 2, lengths });
      const session = sink.session();
      await session.add(block(0, 0));
      const controller = new AbortController();
      const aborted = sink.add(block(1, 0), { signal: controller.signal });
      controller.abort();
      const refusal = expect(aborted).rejects.toThrow();
      const undone = session.undo();
      for (let tick = 0; tick < ticks; tick++) await null;
      await sink.add(block(0, 2));
      await refusal;
      await undone;
      const { pairs, tokens } = sink.held;
      // All of row 0 is missing, or its second half is there.
      const there = sink.missing().some(({ row, to }) => row === 0 && to === 2);
      expect({ pairs, tokens }).toEqual({ pairs: there ? 1 : 0, tokens: there ? 2 : 0 });
      await sink.add(block(0, 0));
      if (!there) await sink.add(block(0, 2));
      for (const from of [0, 2]) await sink.add(block(1, from));
      expect([...(await sink.finish()).sums.data]).toEqual([-4, -4]);
    }
  });

  it('of a stream by a block that is refused', async () => {
    const sink = sinkOf(step);
    const blocks = [blockOf(step, half, plain), blockOf(step, half, plain)];
    await expect(ReadableStream.from(blocks).pipeTo(sink.writable())).rejects.toThrow('came before');
    expect(sink.held).toEqual({ pairs: 0, tokens: 0, bytes: 0 });
  });
});
