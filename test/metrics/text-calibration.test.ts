// A short version of bench/text-calibration.mjs: how often text figures err where the truth is known.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import type { TextRows } from '../../src/engine/operations/texts/text-rows.js';
import { textMetrics } from '../../src/metrics/text-metrics.js';
import { uniformNumbers } from '../support/random-numbers.js';

type Uniform = () => number;
interface TextDraws {
  independentSteps: Record<string, (uniform: Uniform) => TextRows>;
  dependentStep(uniform: Uniform, shape: { prompts: number; each: number; moved: number }): TextRows;
  dependence(shape: { prompts: number; moved: number }): number;
  uniformity(values: readonly number[], permutations: number): { distance: number; pValue: number };
}
const { independentSteps, dependentStep, dependence, uniformity }: TextDraws = await import(
  new URL('../../bench/text-draws.mjs', import.meta.url).href
);

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ device: 'cpu', threads: 2 });
});
afterAll(() => engine.dispose());

const draws = process.env.COLLAPSAR_SANITIZED === '1' ? 20 : 150;

describe('independent texts and labels', () => {
  it.each(Object.entries(independentSteps))(
    '%s: p-values are uniform, and the bound is not above zero',
    async (_, stepOf) => {
      const bounds: number[] = [];
      const ps: number[] = [];
      for (let draw = 0; draw < draws; draw++) {
        const step = stepOf(uniformNumbers(draw * 7919 + 1));
        const { values, pValue } = await textMetrics(engine, step, { permutations: 199, seed: draw });
        bounds.push(values.mi_bound as number);
        ps.push(pValue as number);
      }
      expect(bounds.reduce((sum, bound) => sum + bound, 0) / draws).toBeLessThan(0.005);
      expect(uniformity(ps, 199).pValue).toBeGreaterThan(1e-4);
    },
  );
});

describe('texts of known dependence', () => {
  it.each([0.1, 0.25, 0.5, 0.75])(
    'a share of %d moved: the interval is below the truth, around its mean',
    async (moved) => {
      const shape = { prompts: 16, each: 4, moved };
      const results: [bound: number, low: number, high: number][] = [];
      for (let draw = 0; draw < draws; draw++) {
        const step = dependentStep(uniformNumbers(draw * 104_729 + 1), shape);
        const { interval, values } = await textMetrics(engine, step, { permutations: 0 });
        const { low, high } = interval as { low: number; high: number };
        results.push([values.mi_bound as number, low, high]);
      }
      const truth = dependence(shape);
      const mean = results.reduce((sum, [bound]) => sum + bound, 0) / draws;
      expect(mean).toBeLessThan(truth);
      // 3% and 90% in 2,000 draws; so many or more are one in a thousand here.
      expect(results.filter(([, low]) => low > truth).length / draws).toBeLessThan(draws > 100 ? 0.08 : 0.3);
      expect(results.filter(([, low, high]) => low <= mean && mean <= high).length / draws).toBeGreaterThan(
        draws > 100 ? 0.82 : 0.6,
      );
    },
  );
});
