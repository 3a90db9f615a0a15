// engine.promptMatrices against plain float64: posteriors and pointwise information by their definitions.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import type { PromptMatrices } from '../../src/engine/operations/prompt-matrices.js';
import { fromBits, logMeanExp } from './engine-reference.js';

let engines: Engine[];
beforeAll(async () => {
  engines = [await openEngine({ device: 'cpu', threads: 1 }), await openEngine({ device: 'cpu', threads: 3 })];
});
afterAll(() => Promise.all(engines.map((engine) => engine.dispose())));

interface Step {
  readonly columns: number;
  readonly own: readonly number[];
  /** By row. */
  readonly scores: readonly (readonly number[])[];
}

/** Few values, so that scores tie; −infinity where a row is impossible under another prompt. */
const stepArbitrary: fc.Arbitrary<Step> = fc
  .tuple(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 25 }))
  .chain(([columns, rows]) =>
    fc.record({
      columns: fc.constant(columns),
      own: fc.array(fc.nat(columns - 1), { minLength: rows, maxLength: rows }),
      scores: fc.array(
        fc.array(
          fc.oneof(
            fc.constantFrom(-3, -2, -2.5, Number.NEGATIVE_INFINITY),
            fc.double({ min: -40, max: 0, noNaN: true }),
          ),
          { minLength: columns, maxLength: columns },
        ),
        { minLength: rows, maxLength: rows },
      ),
    }),
  )
  .map(({ columns, own, scores }) => ({
    columns,
    own,
    scores: scores.map((row, r) => row.map((score, p) => (p === own[r] ? Math.max(score, -40) : score))),
  }));

async function matricesOf(engine: Engine, { columns, own, scores }: Step, matrices = true): Promise<PromptMatrices> {
  const sums = { data: Float64Array.from(scores.flat()), dtype: 'float64', shape: [own.length, columns] } as const;
  const labels = { own: Int32Array.from(own), lengths: new Int32Array(own.length).fill(4) };
  return engine.promptMatrices(sums, await engine.scoreStats(sums, labels), { ...labels, matrices });
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

describe('promptMatrices', () => {
  it('gives the means over the rows of each prompt that plain float64 gives', async () => {
    await fc.assert(
      fc.asyncProperty(stepArbitrary, fc.nat(1), async (step, which) => {
        const { columns, own, scores } = step;
        const found = await matricesOf(engines[which] as Engine, step);
        const counts = Array.from({ length: columns }, (_, p) => own.filter((one) => one === p).length);
        expect([...found.rows]).toEqual(counts);
        const posterior = found.posterior as Uint8Array;
        const nats = found.nats as Uint16Array;
        for (let i = 0; i < columns; i++) {
          const rows = scores.filter((_, r) => own[r] === i);
          const cells = Array.from({ length: columns }, (_, p) => i * columns + p);
          if (rows.length === 0) {
            expect(cells.every((cell) => posterior[cell] === 0 && nats[cell] === 0x7e00)).toBe(true);
            expect([found.mi[i], found.low[i], found.high[i], found.retrieval[i]]).toEqual(Array(4).fill(Number.NaN));
            continue;
          }
          const excess = rows.map((row) => row.map((score) => score - logMeanExp(row)));
          expect(found.mi[i]).toBeCloseTo(mean(excess.map((row) => row[i] as number)), 9);
          const retrieved = rows.map((row) => Number(row.indexOf(Math.max(...row)) === i));
          expect(found.retrieval[i]).toBeCloseTo(mean(retrieved), 12);
          const likely = rows.map((row) => {
            const top = Math.max(...row);
            const weights = row.map((score, p) => (counts[p] as number) * Math.exp(score - top));
            const total = weights.reduce((sum, weight) => sum + weight, 0);
            return weights.map((weight) => weight / total);
          });
          for (const [p, cell] of cells.entries()) {
            const share = 255 * mean(likely.map((row) => row[p] as number));
            expect(Math.abs((posterior[cell] as number) - share)).toBeLessThan(0.5 + 1e-6);
            const expected = mean(excess.map((row) => row[p] as number));
            const given = fromBits(nats[cell] as number, 'float16');
            if (Number.isFinite(expected)) {
              expect(Math.abs(given - expected)).toBeLessThanOrEqual(Math.abs(expected) / 2048 + 1e-7);
            } else expect(given).toBe(expected);
          }
          const [low, high] = [found.low[i] as number, found.high[i] as number];
          if (rows.length < 2 || columns < 2) expect([low, high]).toEqual([Number.NaN, Number.NaN]);
          else {
            expect(low).toBeLessThanOrEqual(found.mi[i] as number);
            expect(high).toBeGreaterThanOrEqual(found.mi[i] as number);
            expect(high).toBeLessThanOrEqual(Math.max(found.mi[i] as number, Math.log(columns)) + 1e-9);
          }
        }
      }),
      { numRuns: 150 },
    );
  });

  it('gives the same bits for any number of threads, and without matrices the same figures', async () => {
    await fc.assert(
      fc.asyncProperty(stepArbitrary, async (step) => {
        const [one, three] = [
          await matricesOf(engines[0] as Engine, step),
          await matricesOf(engines[1] as Engine, step),
        ];
        expect(three).toEqual(one);
        const figures = await matricesOf(engines[1] as Engine, step, false);
        expect(figures).toEqual({ ...one, posterior: undefined, nats: undefined });
      }),
      { numRuns: 50 },
    );
  });

  it('refuses rows that are not finite under their own prompt or all together, and options that are none', async () => {
    const [engine] = engines as [Engine];
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
      const step = {
        columns: 2,
        own: [0, 1],
        scores: [
          [-1, -2],
          [-3, bad],
        ],
      };
      await expect(matricesOf(engine, step)).rejects.toMatchObject({ argument: 'stats.matchedSeq' });
    }
    const nan = {
      columns: 2,
      own: [0, 1],
      scores: [
        [-1, -2],
        [Number.NaN, -3],
      ],
    };
    await expect(matricesOf(engine, nan)).rejects.toMatchObject({ argument: 'stats.marginalSeq' });
    const step = {
      columns: 2,
      own: [0, 1],
      scores: [
        [-1, -2],
        [-3, -2],
      ],
    };
    await expect(matricesOf(engine, step, 'yes' as unknown as boolean)).rejects.toMatchObject({
      argument: 'options.matrices',
    });
    const stats = await engine.scoreStats(
      { data: new Float64Array(4), dtype: 'float64', shape: [2, 2] },
      { own: new Int32Array(2), lengths: new Int32Array(2) },
    );
    const sums = { data: new Float64Array(6), dtype: 'float64', shape: [3, 2] } as const;
    const labels = { own: new Int32Array(2), lengths: new Int32Array(2) };
    await expect(engine.promptMatrices(sums, stats, labels)).rejects.toMatchObject({ argument: 'sums.shape' });
  });
});
