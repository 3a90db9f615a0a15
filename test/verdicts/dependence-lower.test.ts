// A certain fall, as the judge says it: how, how gravely, until when, and when it says nothing.
import { describe, expect, it } from 'vitest';
import type { StepMetrics } from '../../src/metrics/step-metrics.js';
import type { TextMetrics } from '../../src/metrics/text-metrics.js';
import { Judge, type Verdict } from '../../src/verdicts/index.js';
import { uniformNumbers } from '../support/random-numbers.js';

interface Figures {
  readonly mi: number;
  readonly error?: number;
  readonly pairs?: number;
  readonly prompts?: number;
  /** Columns of the scores, of which some may be one prompt. */
  readonly columns?: number;
}

function metricsOf({ mi, error = 0.05, pairs = mi / 4, prompts = 16, columns = prompts }: Figures): StepMetrics {
  const batch = { low: mi - 0.2, high: mi + 0.2, error: 0.1 };
  const errors = Number.isNaN(error) ? {} : { mi_seq_standard_error: error, mi_seq_at_2_standard_error: error / 6 };
  return {
    profile: 'strict',
    label: 'collapse_first_turn_sample',
    values: { mi_seq_estimate: mi, mi_seq_at_2: pairs, conditional_entropy_est: 0.8, ...errors },
    absent: {},
    certainty: { mi_seq_estimate: { batch, population: batch, pValue: 0.001 } },
    notes: [],
    rows: { total: 8 * prompts, used: 8 * prompts, zeroLength: 0, nonFinite: [] },
    columns: { total: columns, distinct: prompts },
    logged: {},
  };
}

const bellOf = (uniform: () => number) => (): number =>
  Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());

/** Levels with a scatter of .05. */
function scattered(levels: readonly number[], seed = 1): number[] {
  const bell = bellOf(uniformNumbers(seed));
  return levels.map((level) => level + 0.05 * bell());
}

const times = (many: number, level: number): number[] => Array<number>(many).fill(level);

/** What is said of `dependence_lower` at each step; the steps are numbered as given. */
function said(
  figures: readonly Figures[],
  { stepAt = (at: number) => at + 1, judge = new Judge() } = {},
): (Verdict | undefined)[] {
  return figures.map((one, at) =>
    judge.add({ step: stepAt(at), metrics: metricsOf(one) }).verdicts.find(({ kind }) => kind === 'dependence_lower'),
  );
}

const firstOf = (verdicts: readonly (Verdict | undefined)[]): Verdict | undefined => verdicts.find(Boolean);

const ofLevels = (levels: readonly number[], seed = 1): Figures[] => scattered(levels, seed).map((mi) => ({ mi }));

describe('a certain fall', () => {
  const fall = ofLevels([...times(20, 2.4), ...times(8, 1.9)]);

  it('is said within a few steps, with what is lost and since when', () => {
    const found = firstOf(said(fall)) as Verdict;
    expect(found.step).toBeLessThanOrEqual(23);
    expect(found.raised).toBe(found.step);
    const { sinceLow, sinceHigh, lost, lostLow, lostHigh } = found.evidence as Record<string, number>;
    expect(sinceLow).toBeLessThanOrEqual(21);
    expect(sinceHigh).toBeGreaterThanOrEqual(21);
    expect(lostLow).toBeLessThanOrEqual(lost as number);
    expect(lostHigh).toBeGreaterThanOrEqual(lost as number);
    const whole = (share: number | undefined) => Math.round(100 * (share as number));
    expect(found.sentence).toContain(
      `I(X;Z) has fallen since step ${found.since} (${sinceLow} to ${sinceHigh}): these prompts are told apart less, by ` +
        `${whole(lost)}% (${whole(lostLow)} to ${whole(lostHigh)})`,
    );
  });

  it('is an information for a tenth, and a warning for a quarter, from the step on at which it is so grave', () => {
    // Of ln 16: from 2.4 to 2.18 is 17% of d, to 1.2 far more.
    const small = said(ofLevels([...times(20, 2.4), ...times(40, 2.18)]));
    expect(new Set(small.filter(Boolean).map((one) => one?.severity))).toEqual(new Set(['info']));
    const both = said(ofLevels([...times(20, 2.4), ...times(12, 2.1), ...times(10, 1.2)]));
    expect(firstOf(both)?.severity).toBe('info');
    const graver = both.find((one) => one?.severity === 'warning') as Verdict;
    expect(graver.since).toBe(firstOf(both)?.since);
    expect(graver.sentence).toContain(`has fallen since step ${graver.since} (`);
    expect(graver.evidence.lost).toBeGreaterThan(firstOf(both)?.evidence.lost as number);
    expect(both.at(-1)?.severity).toBe('warning');
  });

  it('keeps its words and figures while it holds, with a clause for now', () => {
    const verdicts = said(fall).filter((one) => one !== undefined);
    const [first, last] = [verdicts[0], verdicts.findLast(({ severity }) => severity === verdicts[0]?.severity)];
    expect(last?.evidence.pValue).toBe(first?.evidence.pValue);
    expect(last?.sentence).toMatch(new RegExp(`; at step ${last?.step} it is `));
    expect(first?.sentence).not.toMatch(/it is /);
  });

  it('ends when the mean of four steps is back, and is said again when it falls again', () => {
    const verdicts = said(ofLevels([...times(20, 2.4), ...times(6, 1.6), ...times(20, 2.4), ...times(16, 0.8)]));
    const holds = verdicts.map(Boolean);
    expect(holds.slice(0, 20)).not.toContain(true);
    expect(holds[25]).toBe(true);
    const end = holds.indexOf(false, 25);
    expect(end).toBeGreaterThanOrEqual(27);
    expect(end).toBeLessThanOrEqual(30);
    expect(holds.slice(end, 46)).not.toContain(true);
    expect(holds.slice(46)).toContain(true);
    expect(verdicts.at(-1)?.raised).toBeGreaterThan(46);
  });

  it('counts computed steps, whatever their numbers', () => {
    const sparse = said(fall, { stepAt: (at) => 3 + 7 * at + (at > 9 ? 400 : 0) });
    const dense = said(fall);
    expect(sparse.map(Boolean)).toEqual(dense.map(Boolean));
    const at = sparse.findIndex(Boolean);
    const since = dense[at]?.since as number;
    expect(sparse[at]?.since).toBe(3 + 7 * (since - 1) + 400);
  });

  it('goes on to the bit from a judge that was saved at any step', () => {
    const whole = said(fall);
    for (let at = 1; at < fall.length; at += 4) {
      const judge = new Judge();
      said(fall.slice(0, at), { judge });
      const later = Judge.from(JSON.parse(JSON.stringify(judge)));
      expect(said(fall.slice(at), { judge: later, stepAt: (place) => at + place + 1 })).toEqual(whole.slice(at));
      expect(JSON.stringify(later.toJSON())).toBe(
        JSON.stringify(Judge.from(JSON.parse(JSON.stringify(later))).toJSON()),
      );
    }
  });

  it('is not said of a level, a rise, one low step, or a start that cannot be told from zero', () => {
    for (let seed = 1; seed <= 5; seed++) {
      expect(firstOf(said(ofLevels(times(120, 1.5), seed)))).toBeUndefined();
      expect(firstOf(said(ofLevels([...times(10, 1), ...times(60, 2)], seed)))).toBeUndefined();
      expect(firstOf(said(ofLevels([...times(20, 1.5), 0, ...times(20, 1.5)], seed)))).toBeUndefined();
      const nothing = scattered([...times(20, 0.01), ...times(20, -3)], seed).map((mi) => ({ mi, error: 0.05 }));
      expect(firstOf(said(nothing))).toBeUndefined();
    }
  });

  it('passes over steps whose figures cannot be used, and figures without an error over prompts', () => {
    const spoilt = fall.flatMap((one, at) => [one, ...(at % 3 === 0 ? [{ mi: Number.NaN }] : [])]);
    expect(firstOf(said(spoilt))?.evidence).toMatchObject({ pValue: firstOf(said(fall))?.evidence.pValue });
    expect(firstOf(said(fall.map((one) => ({ ...one, error: Number.NaN }))))).toBeUndefined();
    // Three prompts give no evidence.
    const few = fall.flatMap((one, at) => [one, ...(at % 3 === 0 ? [{ mi: 0.2, prompts: 3 }] : [])]);
    expect(firstOf(said(few))?.evidence.pValue).toBe(firstOf(said(fall))?.evidence.pValue);
  });

  it('has no doubt where figures do not scatter at all', () => {
    const exact = [...times(20, 1.5), ...times(5, 1.2)].map((mi) => ({ mi, error: 0 }));
    const found = firstOf(said(exact)) as Verdict;
    expect(found).toMatchObject({ since: 21, evidence: { sinceLow: 21, sinceHigh: 21 } });
    expect(firstOf(said(times(30, 1.5).map((mi) => ({ mi, error: 0 }))))).toBeUndefined();
  });
});

describe('batches of other numbers of prompts', () => {
  it('are compared by information among two, which does not change with them', () => {
    const uniform = uniformNumbers(3);
    const bell = bellOf(uniform);
    const figures = (fallAt: number): Figures[] =>
      Array.from({ length: 50 }, (_, at) => {
        const prompts = [4, 6, 8, 16, 32, 64][Math.floor(6 * uniform())] as number;
        const pairs = (at < fallAt ? 0.5 : 0.25) + 0.02 * bell();
        return { mi: 0.7 * Math.log(prompts) + 0.05 * bell(), pairs, prompts, error: 0.12 };
      });
    expect(firstOf(said(figures(99)))).toBeUndefined();
    const found = firstOf(said(figures(30))) as Verdict;
    expect(found.step).toBeGreaterThan(30);
    expect(found.step).toBeLessThanOrEqual(36);
    expect(found.sentence).toMatch(/^I\(X;Z\) among 2 prompts has fallen/);
    expect(found.evidence.prompts).toBe(2);
  });

  it('of a prompt more or less are compared as they are, without their ceilings', () => {
    // From the ceiling of 16 to that of 15: nothing is lost.
    const ceiling = (prompts: number) => Math.log(prompts) - 0.02;
    const bell = bellOf(uniformNumbers(5));
    const shrinks = Array.from({ length: 60 }, (_, at) => {
      const prompts = at < 20 ? 16 : 15;
      return { mi: ceiling(prompts) + 0.004 * bell(), prompts, error: 0.004, pairs: 0.69 };
    });
    expect(firstOf(said(shrinks))).toBeUndefined();
    const falls = ofLevels([...times(20, 2.4), ...times(8, 1.9)]).map((one, at) => ({
      ...one,
      prompts: 16 - (at % 2),
    }));
    expect(firstOf(said(falls))?.sentence).toMatch(/^I\(X;Z\) has fallen/);
  });
});

describe('texts', () => {
  const textsOf = (bound: number, prompts = 16): TextMetrics => ({
    values: { mi_bound: bound, prompts_used: prompts, rows_used: 8 * prompts, sibling_novelty: 0.6, specificity: 1 },
    absent: {},
    interval: { low: bound - 0.2, high: bound + 0.2, error: 0.1 },
    pValue: 0.001,
    notes: [],
    rows: { total: 8 * prompts, used: 8 * prompts, empty: 0, repeated: 0 },
    prompts: { used: prompts, known: true },
    byPrompts: false,
    phrases: [],
    logged: {},
  });
  const saidOf = (steps: readonly TextMetrics[]) => {
    const judge = new Judge();
    return steps.map((texts, at) =>
      judge.add({ step: at + 1, texts }).verdicts.find(({ kind }) => kind === 'dependence_lower'),
    );
  };
  const levels = scattered([...times(20, 2.2), ...times(8, 1.4)]);

  it('are told by their bound where there are no scores', () => {
    const found = firstOf(saidOf(levels.map((bound) => textsOf(bound)))) as Verdict;
    expect(found.step).toBeLessThanOrEqual(23);
    expect(found.sentence).toMatch(/^The text bound of I\(X;Z\) has fallen .* by a lower bound\.$/);
  });

  it('of batches half or twice as large are passed over, and of nearly as large ones compared', () => {
    const some = levels.flatMap((bound, at) => [textsOf(bound), ...(at % 4 === 0 ? [textsOf(bound / 2, 8)] : [])]);
    expect(firstOf(saidOf(some))?.evidence.pValue).toBe(
      firstOf(saidOf(levels.map((bound) => textsOf(bound))))?.evidence.pValue,
    );
    const nearly = saidOf(levels.map((bound, at) => textsOf(bound, 14 + (at % 5))));
    expect(firstOf(nearly)?.step).toBeLessThanOrEqual(24);
  });

  it('say nothing beside scores', () => {
    const judge = new Judge();
    levels.forEach((bound, at) => {
      const { verdicts } = judge.add({ step: at + 1, metrics: metricsOf({ mi: 1.5 }), texts: textsOf(bound) });
      expect(verdicts.map(({ kind }) => kind)).not.toContain('dependence_lower');
    });
  });
});
