// What each operation computes, for any shape, dtype, strides and number of threads.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadAddon } from '../../src/engine/addon.js';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import type { DType, Tensor, TensorData } from '../../src/engine/tensor/tensor.js';
import { uniformNumbers } from '../support/random-numbers.js';
import { fromBits, moments, rowStats } from './engine-reference.js';

const engines: Engine[] = [];
beforeAll(async () => {
  for (const threads of [1, 2, 3, 4]) engines.push(await openEngine({ device: 'cpu', threads }));
});
afterAll(() => Promise.all(engines.map((engine) => engine.dispose())));
const engineOf = (threads: number): Engine => engines[threads - 1] as Engine;

function close(actual: number, expected: number, tolerance: number): void {
  if (Number.isNaN(expected)) expect(actual).toBeNaN();
  else expect(Math.abs(actual - expected)).toBeLessThanOrEqual(tolerance * (1 + Math.abs(expected)));
}

const dtypeArbitrary = fc.constantFrom<DType>('float64', 'float32', 'float16', 'bfloat16');

/** Log-prob-like elements: storage of `count` of them, and the numbers they stand for. */
function elements(dtype: DType, count: number, seed: number): { data: TensorData; values: number[] } {
  const next = uniformNumbers(seed);
  if (dtype === 'float64' || dtype === 'float32') {
    const data = dtype === 'float64' ? new Float64Array(count) : new Float32Array(count);
    for (let i = 0; i < count; i++) data[i] = -12 * next();
    return { data, values: [...data] };
  }
  const data = new Uint16Array(count);
  // Negative, of magnitude 2^-3 to 2^3.
  const bits =
    dtype === 'float16' ? () => 0x8000 | ((12 + 6 * next()) << 10) : () => 0x8000 | ((124 + 6 * next()) << 7);
  const fraction = dtype === 'float16' ? 1023 : 127;
  for (let i = 0; i < count; i++) data[i] = (bits() & ~fraction) | Math.floor(fraction * next());
  return { data, values: [...data].map((value) => fromBits(value, dtype)) };
}

/** A tensor of this shape whose axes stand in memory in the given order, with gaps, at an odd start of its buffer. */
function scattered(dtype: DType, shape: number[], order: number[], gap: number, seed: number) {
  const strides = new Array<number>(shape.length).fill(0);
  let stride = 1;
  for (const axis of order) {
    strides[axis] = stride;
    stride *= (shape[axis] as number) + gap;
  }
  const { data, values } = elements(dtype, stride + 3, seed);
  const tensor: Tensor = { data: data.subarray(3), dtype, shape, strides };
  const at = (...index: number[]) =>
    values[3 + index.reduce((sum, i, axis) => sum + i * (strides[axis] as number), 0)] as number;
  return { tensor, at };
}

const shuffledAxes = (axes: number) =>
  fc.shuffledSubarray([...Array(axes).keys()], { minLength: axes, maxLength: axes });

describe('sumTokens', () => {
  it('adds the valid tokens of padded scores of any shape, dtype and strides', async () => {
    await fc.assert(
      fc.asyncProperty(
        dtypeArbitrary,
        fc.tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 0, max: 6 }), fc.integer({ min: 0, max: 70 })),
        shuffledAxes(3),
        fc.nat(3),
        fc.integer(),
        fc.integer({ min: 1, max: 4 }),
        async (dtype, [prompts, rows, tokens], order, gap, seed, threads) => {
          const { tensor, at } = scattered(dtype, [prompts, rows, tokens], order, gap, seed);
          const lengths = Array.from({ length: rows }, (_, row) => (tokens * (row + 1)) % (tokens + 1));
          const { sums, lengths: given, firstInvalid } = await engineOf(threads).sumTokens(tensor, lengths);
          expect(sums.shape).toEqual([rows, prompts]);
          expect([...given]).toEqual(lengths.map(BigInt));
          expect(firstInvalid).toBeNull();
          for (let row = 0; row < rows; row++) {
            for (let prompt = 0; prompt < prompts; prompt++) {
              let sum = 0;
              for (let token = 0; token < (lengths[row] as number); token++) sum += at(prompt, row, token);
              close(sums.data[row * prompts + prompt] as number, sum, 1e-13);
            }
          }
        },
      ),
      { numRuns: 150 },
    );
  });

  it('puts sums right before and right behind the scores, in one memory', async () => {
    const engine = engineOf(2);
    const { data } = engine.alloc('float64', [36]);
    data.set(
      Array.from({ length: 24 }, (_, i) => -i),
      6,
    );
    const part = (from: number, to: number, shape: number[]): Tensor => ({
      data: data.subarray(from, to),
      dtype: 'float64',
      shape,
    });
    const logprobs = part(6, 30, [2, 3, 4]);
    for (const [from, to] of [
      [0, 6],
      [30, 36],
    ] as const) {
      await engine.sumTokens(logprobs, [2, 1, 0], { out: part(from, to, [3, 2]) });
      expect([...data.subarray(from, to)]).toEqual([-1, -25, -4, -16, 0, 0]);
    }
    expect([...data.subarray(6, 30)]).toEqual(Array.from({ length: 24 }, (_, i) => -i));
  });

  it('finds packed rows one after the other, or where offsets say', async () => {
    const { data, values } = elements('float32', 2 * 10, 5);
    const logprobs: Tensor = { data, dtype: 'float32', shape: [2, 10] };
    const sum = (from: number, to: number) => values.slice(from, to).reduce((total, value) => total + value, 0);
    const running = await engineOf(2).sumTokens(logprobs, [3, 0, 7]);
    expect(running.sums.shape).toEqual([3, 2]);
    [sum(0, 3), sum(10, 13), 0, 0, sum(3, 10), sum(13, 20)].forEach((expected, i) => {
      close(running.sums.data[i] as number, expected, 1e-14);
    });
    const placed = await engineOf(2).sumTokens(logprobs, new BigInt64Array([2n, 4n]), {
      offsets: new Int32Array([8, 3]),
    });
    [sum(8, 10), sum(18, 20), sum(3, 7), sum(13, 17)].forEach((expected, i) => {
      close(placed.sums.data[i] as number, expected, 1e-14);
    });
  });

  it('writes into out, at the columns given, and leaves the others alone', async () => {
    const engine = engineOf(2);
    const out = engine.alloc('float64', [2, 4]);
    out.data.fill(7);
    const logprobs: Tensor = { data: new Float64Array([-1, -2, -3, -4]), dtype: 'float64', shape: [2, 2, 1] };
    const result = await engine.sumTokens(logprobs, [1, 1], { out, columns: [3, 1] });
    expect(result.sums).toBe(out);
    expect([...out.data]).toEqual([7, -3, 7, -1, 7, -4, 7, -2]);
    const shared = { data: new Float64Array(new SharedArrayBuffer(32)), dtype: 'float64' as const, shape: [2, 2] };
    await engine.sumTokens(logprobs, [1, 1], { out: shared });
    expect([...shared.data]).toEqual([-1, -3, -2, -4]);
    const permuted = await engine.sumTokens(logprobs, [1, 1], { columns: [1, 0] });
    expect([...permuted.sums.data]).toEqual([-3, -1, -4, -2]);
  });

  it('names the first NaN or +inf that it used, and none that it did not', async () => {
    const data = new Float32Array(2 * 2 * 3).fill(-1);
    data[2] = NaN; // prompt 0, row 0, past its length
    data[7] = Infinity; // prompt 1, row 0, token 1
    data[9] = NaN; // prompt 1, row 1, token 0
    const result = await engineOf(2).sumTokens({ data, dtype: 'float32', shape: [2, 2, 3] }, [2, 3]);
    expect(result.firstInvalid).toEqual({ prompt: 1, row: 0, token: 1 });
    expect([...result.sums.data]).toEqual([-2, Infinity, -3, NaN]);
  });
});

describe('scoreStats', () => {
  it('agrees with the reference for any shape, dtype and strides', async () => {
    await fc.assert(
      fc.asyncProperty(
        dtypeArbitrary,
        fc.tuple(fc.integer({ min: 0, max: 6 }), fc.integer({ min: 1, max: 40 })),
        shuffledAxes(2),
        fc.nat(3),
        fc.integer(),
        fc.integer({ min: 1, max: 4 }),
        fc.nat(8),
        fc.boolean(),
        async (dtype, [rows, columns], order, gap, seed, threads, topK, alike) => {
          const { tensor, at } = scattered(dtype, [rows, columns], order, gap, seed);
          const own = Int32Array.from({ length: rows }, (_, row) => (row * 7) % columns);
          const lengths = Array.from({ length: rows }, (_, row) => row * 3);
          const signatures = Array.from({ length: columns }, (_, column) => (alike ? (column % 3) % columns : column));
          const stats = await engineOf(threads).scoreStats(tensor, {
            own,
            lengths,
            topK,
            signatures: alike ? signatures : undefined,
          });
          const k = Math.min(topK, columns);
          expect([stats.rows, stats.columns, stats.topK]).toEqual([rows, columns, k]);
          expect(stats.topColumns).toHaveLength(rows * k);
          const tolerance = dtype === 'float64' ? 1e-13 : 1e-6;
          for (let row = 0; row < rows; row++) {
            const scores = Array.from({ length: columns }, (_, column) => at(row, column));
            const expected = rowStats(scores, own[row] as number, lengths[row] as number, signatures, k);
            for (const field of [
              'matchedSeq',
              'matchedToken',
              'marginalSeq',
              'marginalToken',
              'looMarginalSeq',
              'looMarginalToken',
              'posteriorEntropy',
            ] as const) {
              close(stats[field][row] as number, expected[field], tolerance);
            }
            expect(stats.argmax[row]).toBe(expected.argmax);
            expect(stats.rankAbove[row]).toBe(expected.rankAbove);
            expect(stats.rankEqual[row]).toBe(expected.rankEqual);
            expect(stats.hitRank[row]).toBe(expected.hitRank);
            expect([...stats.topColumns.subarray(row * k, row * k + k)]).toEqual(expected.topColumns);
          }
        },
      ),
      { numRuns: 150 },
    );
  });

  it('gives zero rows for zero rows', async () => {
    const stats = await engineOf(1).scoreStats(
      { data: new Float64Array(0), dtype: 'float64', shape: [0, 5] },
      { own: [], lengths: [] },
    );
    expect([stats.rows, stats.columns, stats.topK, stats.matchedSeq.length]).toEqual([0, 5, 0, 0]);
    const none = await engineOf(1).sumTokens({ data: new Float32Array(0), dtype: 'float32', shape: [3, 0, 4] }, []);
    expect([none.sums.shape, none.sums.data.length, none.lengths.length]).toEqual([[0, 3], 0, 0]);
  });
});

describe('tokenRowStats', () => {
  it('reads its labels at the call: what is written to them later changes nothing', async () => {
    const { data } = elements('float32', 3 * 4 * 5, 7);
    const logprobs: Tensor = { data, dtype: 'float32', shape: [3, 4, 5] };
    const [lengths, own, signatures] = [
      [5, 3, 1, 4],
      [0, 2, 1, 2],
      [0, 1, 1],
    ];
    const engine = engineOf(2);
    const { sums } = await engine.sumTokens(logprobs, lengths);
    const expected = await engine.scoreStats(sums, { own, lengths, signatures });
    for (const copy of [(values: number[]) => [...values], (values: number[]) => Int32Array.from(values)]) {
      const labels = { own: copy(own), signatures: copy(signatures) };
      const running = engine.tokenRowStats(logprobs, lengths, labels);
      labels.own.fill(-1);
      labels.signatures.fill(0);
      expect((await running).stats).toEqual(expected);
    }
  });
});

describe('gatherScores', () => {
  it('picks rows and columns, repeated ones too, as dense float64', async () => {
    await fc.assert(
      fc.asyncProperty(
        dtypeArbitrary,
        fc.tuple(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 6 })),
        shuffledAxes(2),
        fc.option(fc.array(fc.nat(5)), { nil: undefined }),
        fc.option(fc.array(fc.nat(5), { minLength: 1 }), { nil: undefined }),
        fc.integer(),
        async (dtype, [rows, columns], order, rowPicks, columnPicks, seed) => {
          const { tensor, at } = scattered(dtype, [rows, columns], order, 2, seed);
          const pickedRows = rowPicks?.map((row) => row % rows);
          const pickedColumns = columnPicks?.map((column) => column % columns);
          const gathered = await engineOf(2).gatherScores(tensor, { rows: pickedRows, columns: pickedColumns });
          const outRows = pickedRows ?? [...Array(rows).keys()];
          const outColumns = pickedColumns ?? [...Array(columns).keys()];
          expect(gathered.dtype).toBe('float64');
          expect(gathered.shape).toEqual([outRows.length, outColumns.length]);
          expect([...gathered.data]).toEqual(outRows.flatMap((row) => outColumns.map((column) => at(row, column))));
        },
      ),
      { numRuns: 80 },
    );
  });
});

describe('stepMoments', () => {
  it('gives means, deviations and hits of the rows', async () => {
    const engine = engineOf(2);
    const [rows, columns] = [37, 9];
    const { tensor, at } = scattered('float64', [rows, columns], [1, 0], 0, 11);
    const own = Array.from({ length: rows }, (_, row) => row % columns);
    const lengths = Array.from({ length: rows }, (_, row) => 1 + (row % 5));
    const signatures = Array.from({ length: columns }, (_, column) => Math.min(column, 6));
    const stats = await engine.scoreStats(tensor, { own, lengths, signatures });
    const result = await engine.stepMoments(stats, { own, lengths, signatures });
    const reference = own.map((column, row) =>
      rowStats(
        Array.from({ length: columns }, (_, p) => at(row, p)),
        column,
        lengths[row] as number,
        signatures,
        8,
      ),
    );
    const fields = {
      matchedToken: reference.map((row) => row.matchedToken),
      marginalToken: reference.map((row) => row.marginalToken),
      matchedSeq: reference.map((row) => row.matchedSeq),
      marginalSeq: reference.map((row) => row.marginalSeq),
      excessSeq: reference.map((row) => row.matchedSeq - row.marginalSeq),
      excessToken: reference.map((row) => row.matchedToken - row.marginalToken),
      excessPerToken: reference.map((row, i) => (row.matchedSeq - row.marginalSeq) / (lengths[i] as number)),
      looExcessSeq: reference.map((row) => row.matchedSeq - row.looMarginalSeq),
      posteriorEntropy: reference.map((row) => row.posteriorEntropy),
    };
    expect(result.rows).toBe(rows);
    for (const [name, values] of Object.entries(fields)) {
      const actual = result[name as keyof typeof fields];
      close(actual.mean, moments(values).mean, 1e-12);
      close(actual.std, moments(values).std, 1e-12);
    }
    const hits = [1, 2, 4, 8].map(
      (k) =>
        reference.filter((row, i) =>
          row.topColumns.slice(0, k).some((column) => signatures[column] === signatures[own[i] as number]),
        ).length,
    );
    expect(result.hits).toEqual(hits);
  });
});

describe('inferStep', () => {
  it('estimates the same means as the moments, with intervals around them and p-values of the right size', async () => {
    const engine = engineOf(2);
    const [prompts, perPrompt] = [8, 6];
    const rows = prompts * perPrompt;
    const own = Array.from({ length: rows }, (_, row) => Math.floor(row / perPrompt));
    const { data } = elements('float64', rows * prompts, 3);
    own.forEach((column, row) => {
      (data as Float64Array)[row * prompts + column] = -0.5; // what a row was sampled from explains it best
    });
    const sums: Tensor = { data, dtype: 'float64', shape: [rows, prompts] };
    const lengths = own.map(() => 4);
    const stats = await engine.scoreStats(sums, { own, lengths });
    const means = await engine.stepMoments(stats, { own, lengths });
    const options = { own, lengths, permutations: 199, seed: 1 };
    const inference = await engine.inferStep(sums, stats, options);
    const figures = inference.figures;
    close(figures.miSeq.estimate, means.excessSeq.mean, 1e-12);
    close(figures.miSeqLoo.estimate, means.looExcessSeq.mean, 1e-12);
    close(figures.miPerToken.estimate, means.excessPerToken.mean, 1e-12);
    close(figures.miToken.estimate, means.excessToken.mean, 1e-12);
    close(figures.retrieval1.estimate, means.hits[0] / rows, 1e-12);
    expect(figures.miSeq.pValue).toBe(1 / 200);
    expect(figures.miSeq.batchLow).toBeLessThanOrEqual(figures.miSeq.estimate);
    expect(figures.miSeq.batchHigh).toBeGreaterThanOrEqual(figures.miSeq.estimate);
    expect(inference.withinVariance).toBe(true);
    expect(await engineOf(4).inferStep(sums, stats, options)).toEqual(inference);
  });
});

it('gives the same bits whatever the threads and the instruction set', async () => {
  const addon = loadAddon();
  const { data } = elements('float32', 7 * 23 * 97, 9);
  const logprobs: Tensor = { data, dtype: 'float32', shape: [7, 23, 97] };
  const lengths = Array.from({ length: 23 }, (_, row) => (row * 31) % 98);
  const own = lengths.map((_, row) => row % 7);
  const best = addon.isa();
  const results: unknown[] = [];
  try {
    for (const isa of addon.isaAvailable()) {
      expect(addon.forceIsa(isa)).toBe(true);
      for (const engine of engines) {
        const { sums } = await engine.sumTokens(logprobs, lengths);
        const narrow: Tensor = { ...sums, data: Float32Array.from(sums.data), dtype: 'float32' };
        const stats = [
          await engine.scoreStats(sums, { own, lengths }),
          await engine.scoreStats(narrow, { own, lengths }),
        ];
        results.push([sums.data, stats, await engine.stepMoments(stats[0] as never, { own, lengths })]);
      }
    }
  } finally {
    addon.forceIsa(best);
  }
  expect(results.length).toBeGreaterThanOrEqual(4);
  for (const result of results) expect(result).toEqual(results[0]);
});
