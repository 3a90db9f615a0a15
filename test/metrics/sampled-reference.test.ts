// Estimates from pairs against their definition, on any step.
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import { estimateFromPairs } from '../../src/metrics/sampled/estimates.js';
import { planScores } from '../../src/metrics/sampled/plan.js';
import { referenceEstimates } from './sampled-reference.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ device: 'cpu', threads: 2 });
});
afterAll(() => engine.dispose());

/** Prompts, some of them equal, with rows of finite scores: every row is used. */
const steps = fc.integer({ min: 6, max: 16 }).chain((prompts) =>
  fc
    .record({
      tokens: fc.array(fc.integer({ min: 0, max: 14 }), { minLength: prompts, maxLength: prompts }),
      rows: fc.array(
        fc.record({
          own: fc.nat(prompts - 1),
          length: fc.integer({ min: 1, max: 9 }),
          scores: fc.array(fc.integer({ min: -12_000, max: -1 }), { minLength: 15, maxLength: 15 }),
        }),
        { minLength: 6, maxLength: 30 },
      ),
    })
    .filter(({ tokens }) => new Set(tokens).size > 4)
    .map(({ tokens, rows }) => ({
      input: {
        groups: rows.map(({ own }) => own),
        lengths: rows.map(({ length }) => length),
        columnGroups: tokens.map((_, prompt) => prompt),
        promptTokens: tokens.map((token) => [token]),
      },
      sums: rows.map(({ scores }) => tokens.map((token) => (scores[token] as number) / 1000)),
    })),
);

it('estimates what the definition says, with its errors', async () => {
  await fc.assert(
    fc.asyncProperty(steps, fc.integer({ min: 3, max: 14 }), fc.nat(), async ({ input, sums }, negatives, seed) => {
      const plan = planScores(input, { negatives, seed });
      const scores = Float64Array.from(plan.rows, (row, at) => sums[row]?.[plan.prompts[at] as number] as number);
      const { values, certainty, error, notes } = await estimateFromPairs(engine, plan, { sums: scores });
      const { batch, population } = certainty.mi_seq_estimate ?? {};
      if (batch === undefined || population === undefined) throw new Error('there is no MI');
      const sampled = !notes.some((note) => note.includes('do not look sampled'));
      // Whether expectations are used, the result does not tell: they are that of one of the two.
      const wanted = [true, false].map((calibrated) => referenceEstimates(plan, scores, calibrated && sampled));
      const near = (found: number, of: readonly number[]) =>
        Math.min(...of.map((value) => Math.abs(found - value))) <= 1e-9 * Math.max(1, Math.abs(found));
      const [first] = wanted;
      expect(near(values.mi_seq_estimate as number, [first?.value ?? Number.NaN])).toBe(true);
      expect(near((error.mi_seq_estimate?.negatives ?? Number.NaN) ** 2, [first?.drawVariance ?? Number.NaN])).toBe(
        true,
      );
      if ('error' in batch) {
        expect(
          near(
            batch.error ** 2,
            wanted.map((one) => one.batch),
          ),
        ).toBe(true);
        expect(
          batch.low <= (values.mi_seq_estimate as number) && (values.mi_seq_estimate as number) <= batch.high,
        ).toBe(true);
      }
      if ('error' in population) {
        expect(
          near(
            population.error ** 2,
            wanted.map((one) => one.population),
          ),
        ).toBe(true);
      }
    }),
    { numRuns: 200 },
  );
});
