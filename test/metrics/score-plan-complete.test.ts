// A plan that scores every pair gives what crossScoreMetrics gives: figures and intervals, equal prompts and all.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import { readSteps } from '../../src/logs/steps/read-steps.js';
import { crossScoreMetrics } from '../../src/metrics/cross-score-metrics.js';
import { isDerived, isOfProfile } from '../../src/metrics/figures/derived.js';
import { SCORE_FIGURES } from '../../src/metrics/figures/score-figures.js';
import { estimateFromPairs } from '../../src/metrics/sampled/estimates.js';
import { completeSums, sumPairTokens } from '../../src/metrics/sampled/pair-scores.js';
import { planScores, type ScorePlan } from '../../src/metrics/sampled/plan.js';
import { exampleRuns } from '../support/analysis-logs.js';
import { drawnStep, type SampledStep, scoresOf, stepOf } from './score-plan-steps.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ device: 'cpu', threads: 2 });
});
afterAll(() => engine.dispose());

const ALL = 1_000;

async function whole(step: SampledStep, plan: ScorePlan) {
  return crossScoreMetrics(
    engine,
    { ...step.input, sums: completeSums(plan, { sums: scoresOf(step, plan) }) },
    { permutations: 0 },
  );
}

/** What a plan of pairs gives. */
const OF_PAIRS = SCORE_FIGURES.filter(
  (entry) => isOfProfile(entry, 'strict') && (isDerived(entry) || entry.ofPairs !== 'every pair'),
).map(({ key }) => key);

/** 1e-12 relative to the size of what was added up. */
function expectNear(found: number | undefined, wanted: number, scale: number, key: string): void {
  if (found === undefined || !(Math.abs(found - wanted) <= 1e-12 * Math.max(1, scale))) expect(found, key).toBe(wanted);
}

async function expectSame(step: SampledStep, options: { turns?: boolean } = {}): Promise<void> {
  const input = options.turns ? { ...step.input, promptTurns: step.sums[0]?.map((_, p) => p % 3) ?? [] } : step.input;
  const plan = planScores(input, { negatives: ALL });
  expect(plan.complete).toBe(true);
  const found = await estimateFromPairs(engine, plan, { sums: scoresOf(step, plan) });
  const wanted = await whole(step, plan);
  // Few prompts may have equal scores by chance: then crossScoreMetrics sees placeholders, or one prompt twice, and a
  // plan none.
  fc.pre(wanted.rows.placeholders === undefined && found.rows.placeholders === undefined);
  fc.pre(!wanted.notes.some((note) => note.includes('counted once')));
  const scale = Math.max(...step.sums.flat().map((s) => (Number.isFinite(s) ? Math.abs(s) : 0)));
  for (const [key, value] of Object.entries(found.values)) {
    if (key.startsWith('retrieval_accuracy_of_')) continue;
    expectNear(value, wanted.values[key] as number, scale, key);
  }
  // Of these nothing is left to crossScoreMetrics.
  for (const key of OF_PAIRS) expect(key in found.values, key).toBe(key in wanted.values);
  expect(found.rows).toEqual(wanted.rows);
  for (const key of ['mi_seq_estimate', 'mi_seq_loo_estimate', 'mi_per_token', 'mi_estimate']) {
    expect(key in found.values, key).toBe(key in wanted.values);
    const [a, b] = [found.certainty[key], wanted.certainty[key]];
    for (const estimand of ['batch', 'population'] as const) {
      const [interval, same] = [a?.[estimand], b?.[estimand]];
      if (same === undefined || 'absent' in same) {
        expect(interval).toEqual(same);
        continue;
      }
      // Square roots of variances: what rounding leaves of a variance of zero is the root of it, times Student's t.
      const size = Math.max(1, scale);
      const tolerance = same.error < 1e-6 * size ? 1e-6 * size : 1e-9 * size;
      for (const bound of ['low', 'high', 'error'] as const) {
        const got = (interval as { low: number })[bound as 'low'];
        if (!(Math.abs(got - same[bound]) <= tolerance)) {
          expect({ key, estimand, interval }).toEqual({ key, estimand, interval: same });
        }
      }
    }
  }
  const above = ['retrieval_accuracy', 'retrieval_accuracy@2', 'retrieval_accuracy@4', 'retrieval_accuracy@8'];
  for (const key of above) expect(found.values[key], key).toBe(wanted.values[key]);
}

describe('a complete plan', () => {
  it('agrees with crossScoreMetrics on any step', async () => {
    await fc.assert(
      fc.asyncProperty(drawnStep(), (step) => expectSame(step)),
      { numRuns: 150 },
    );
  });

  it('agrees with same-turn negatives in a stratum of their own', async () => {
    await fc.assert(
      fc.asyncProperty(drawnStep(), (step) => expectSame(step, { turns: true })),
      { numRuns: 50 },
    );
  });

  it('agrees on the shipped runs', async () => {
    let steps = 0;
    for await (const data of readSteps(exampleRuns)) {
      if (steps++ % 10 > 0) continue;
      await expectSame(await stepOf(engine, data));
    }
  });

  it('takes token log-probs through the engine', async () => {
    const input = { groups: [3, 3, 5], lengths: [2, 1, 0] };
    const plan = planScores(input, { negatives: 3 });
    expect([...plan.rows]).toEqual([0, 1, 0, 1]);
    expect([...plan.prompts]).toEqual([0, 0, 1, 1]);
    const logprobs = { data: Float32Array.of(-1, -2, -3, -4, -5, -6), dtype: 'float32', shape: [1, 6] } as const;
    expect([...(await sumPairTokens(engine, plan, logprobs, input.lengths))]).toEqual([-3, -3, -9, -6]);
    const padded = Float64Array.of(-1, -2, -3, Number.NaN, -4, -5, -6, Number.NaN);
    const sums = await sumPairTokens(engine, plan, { data: padded, dtype: 'float64', shape: [1, 4, 2] }, input.lengths);
    expect([...sums]).toEqual([-3, -3, -9, -6]);
    await expect(sumPairTokens(engine, plan, logprobs, [2, 1])).rejects.toThrow(/lengths/);
    await expect(sumPairTokens(engine, plan, { ...logprobs, shape: [2, 3] }, input.lengths)).rejects.toThrow(
      /logprobs/,
    );
  });
});
