// Steps of few prompts as one: what their figures come to together.
import { describe, expect, it } from 'vitest';
import type { EnvironmentStep } from '../../src/verdicts/environments/environment-step.js';
import { joinedLevels } from '../../src/verdicts/environments/joined-steps.js';
import { CROSS_SCORES, TEXTS_ALONE } from '../../src/verdicts/levels/instrument.js';
import { studentWidth } from '../../src/verdicts/statistics/shared-level.js';

const estimate = (value: number, half = 0.2, error = 0.1) => ({ value, low: value - half, high: value + half, error });

const step = (prompts: number, mi: number, more: Partial<EnvironmentStep> = {}): EnvironmentStep => ({
  prompts,
  rows: 8 * prompts,
  two: estimate(mi),
  all: estimate(mi),
  ofPrompts: { pairs: { value: mi, error: 0.1 }, whole: { value: mi, error: 0.1 } },
  margin: estimate(10 * mi),
  entropy: 0.8,
  tokens: 12,
  retrieval: 0.75,
  chance: 1 / prompts,
  pValue: 0.04,
  retrievalP: 0.5,
  ...more,
});

describe('the figures of steps that are judged together', () => {
  it('are means, with errors and intervals as of means, and p-values by Fisher', () => {
    const levels = joinedLevels([step(2, 0.3), step(2, 0.5)], CROSS_SCORES);
    expect(levels).toMatchObject({ prompts: 4, rows: 32, entropy: 0.8, tokens: 12, retrieval: 0.75, chance: 0.5 });
    const [at, ...others] = levels.mi;
    expect(others).toEqual([]);
    expect(at?.prompts).toBe(2);
    expect(at?.value).toBeCloseTo(0.4, 12);
    expect(at?.error).toBeCloseTo(0.1 / Math.SQRT2, 12);
    expect((at?.high ?? 0) - (at?.value ?? 0)).toBeCloseTo(0.2 / Math.SQRT2, 12);
    expect(levels.whole.value).toBe(at?.value);
    expect(levels.margin?.value).toBeCloseTo(4, 12);
    expect(levels.pValue).toBeCloseTo(0.0016 * (1 - Math.log(0.0016)), 12);
    expect(levels.dependence).toMatchObject({ prompts: 3, pairs: { among: 2 }, whole: { among: 2 } });
    expect(levels.instrument.mi).toBe('I(X;Z) over 2 steps');
  });

  it('are among two prompts alone where the steps have other numbers of them', () => {
    const levels = joinedLevels([step(2, 0.3), step(3, 0.5)], CROSS_SCORES);
    expect(levels.mi.map(({ prompts }) => prompts)).toEqual([2]);
    expect(levels).toMatchObject({ prompts: 5, dependence: { prompts: 4, whole: null } });
    const alike = joinedLevels(
      [step(3, 0.3, { all: estimate(0.6) }), step(3, 0.5, { all: estimate(0.8) })],
      CROSS_SCORES,
    );
    expect(alike.mi.map(({ prompts, value }) => [prompts, Number(value.toFixed(9))])).toEqual([
      [2, 0.4],
      [3, 0.7],
    ]);
  });

  it('have of texts an interval for as many degrees of freedom as they have together', () => {
    const texts = { two: null, margin: null, tokens: null };
    const levels = joinedLevels([step(2, 0.3, texts), step(2, 0.5, texts)], TEXTS_ALONE);
    const [at] = levels.mi;
    expect(at?.prompts).toBe(2);
    expect((at?.high ?? 0) - (at?.value ?? 0)).toBeCloseTo((studentWidth(2) * 0.1) / Math.SQRT2, 12);
    expect(levels).toMatchObject({ margin: null, tokens: null });
    expect(levels.retrievalP).toBe(levels.pValue);
  });

  it('leave out what one of the steps does not have', () => {
    const levels = joinedLevels(
      [step(2, 0.3), step(2, 0.5, { margin: null, retrieval: null, pValue: null })],
      CROSS_SCORES,
    );
    expect(levels).toMatchObject({ margin: null, retrieval: null });
    expect(levels.pValue).toBeCloseTo(0.04, 12);
  });
});
