// What verdicts rest on, alone: a figure's level and its errors, where it stands, correlations, and when an early
// warning ends.
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import type { StepMetrics } from '../../src/metrics/step-metrics.js';
import { RunLevel } from '../../src/verdicts/levels/run-level.js';
import { stepLevels } from '../../src/verdicts/levels/step-levels.js';
import { correlate } from '../../src/verdicts/statistics/correlation.js';
import { fixedExp, fixedHypot, fixedLog } from '../../src/verdicts/statistics/fixed-math.js';
import { rankTrend } from '../../src/verdicts/statistics/rank-trend.js';
import { countNow } from '../../src/verdicts/statistics/shuffle-counts.js';
import { normalTail, studentTail } from '../../src/verdicts/statistics/tail-probabilities.js';
import { advance, compare, isSurelyFallen } from '../../src/verdicts/statistics/threshold-state.js';
import { actionOscillation } from '../../src/verdicts/warnings/action-oscillation.js';
import { MiFalling } from '../../src/verdicts/warnings/mi-falling.js';
import { MiOvershoot } from '../../src/verdicts/warnings/mi-overshoot.js';
import { fallsFromStart } from '../../src/verdicts/warnings/start-falling.js';

function levelOf(values: readonly number[], error = 0): RunLevel {
  const level = new RunLevel();
  for (const [at, value] of values.entries()) level.add(at + 1, value, error);
  return level;
}

describe('the level of a run', () => {
  it('scatters by no less than the values’ own errors', () => {
    expect(levelOf(Array(10).fill(1)).sigma).toBe(0);
    expect(levelOf(Array(10).fill(1), 0.25).sigma).toBeCloseTo(0.25, 12);
    // Of some error and none the mean square counts.
    const mixed = levelOf(Array(4).fill(1), 0.25);
    for (let step = 5; step <= 8; step++) mixed.add(step, 1);
    expect(mixed.sigma).toBeCloseTo(Math.sqrt(0.25 ** 2 / 2), 12);
  });

  it('scatters about its trend: a steady fall adds nothing to what it is measured with', () => {
    const bends = [0.01, -0.01, 0.01, 0.01, -0.01];
    const around = (slope: number) =>
      levelOf(Array.from({ length: 24 }, (_, at) => 1 - slope * at + (bends[at % 5] ?? 0)));
    expect(around(0.02).sigma).toBeLessThan(1.7 * around(0).sigma);
    expect(around(0.02).start).toBeGreaterThan(1.5 * around(0.02).recentMean(1));
  });

  it('scatters more where a step has fewer prompts than those before', () => {
    const level = new RunLevel();
    for (let step = 1; step <= 12; step++) level.add(step, 1 + 0.1 * (-1) ** step, 0, 32);
    expect(level.excessSigma(32)).toBe(0);
    expect(level.excessSigma(64)).toBe(0);
    expect(level.excessSigma(4)).toBeCloseTo(level.sigma * Math.sqrt(7), 12);
  });

  it('starts from the mean of five, or where these fall from the highest mean of three among eight', () => {
    const level = levelOf([3, 5, 4, 2, 1, 1, 1, 1, 9]);
    expect(level.start).toBe(3);
    level.noteFallFromStart();
    expect(level.start).toBe(4);
  });
});

describe('a start that falls', () => {
  const falls = (...values: number[]) => fallsFromStart(levelOf(values));
  it('does so steadily or at once, to less than three fifths', () => {
    // Margins of real runs: every fifth step of a fall, and one that slows down.
    expect(falls(24.6, 15.9, 7.7, 5.8, 3.2)).toBe(true);
    expect(falls(24.5, 24.1, 17.5, 12.8, 11.8, 11.3)).toBe(true);
    expect(falls(25, 24.8, 25.1, 8, 8.1)).toBe(true);
  });
  it('does not where it scatters, rises, settles at three quarters, or there are too few values', () => {
    expect(falls(24.5, 25.7, 24, 26.3, 25.5, 26, 24.8, 25.9)).toBe(false);
    expect(falls(8.4, 10.3, 10.6, 10.1, 11, 10.4)).toBe(false);
    expect(falls(1.02, 0.98, 1, 1.01, 0.99, 0.76, 0.75, 0.74)).toBe(false);
    expect(falls(10, 6, 3, 1)).toBe(false);
  });
});

describe('where a figure stands', () => {
  const at = (value: number, half: number) => compare(value, half, half, 1, 0);

  it('one step that says so is no verdict, two are, and so is one beyond doubt', () => {
    expect(at(0.8, 0.15)).toEqual({ state: 'fallen', beyondDoubt: false });
    expect(at(0.8, 0.1)).toEqual({ state: 'fallen', beyondDoubt: true });
    const once = advance(null, at(0.8, 0.15), 7);
    expect(once).toEqual({ state: 'fallen', since: 7, sure: 1 });
    expect(advance(once, at(0.8, 0.15), 8)).toEqual({ state: 'fallen', since: 7, sure: 2 });
    expect(isSurelyFallen(once)).toBe(false);
    expect(isSurelyFallen(advance(once, at(0.8, 0.15), 8))).toBe(true);
    expect(isSurelyFallen(advance(null, at(0.8, 0.1), 7))).toBe(true);
  });

  it('what stands is never beyond doubt, and what is open stays what it was', () => {
    expect(at(9, 0.1)).toEqual({ state: 'stands', beyondDoubt: false });
    expect(at(1, 0.1)).toEqual({ state: 'open', beyondDoubt: false });
    const fallen = advance(null, at(0.8, 0.15), 7);
    expect(advance(fallen, at(1, 0.1), 8)).toEqual(fallen);
    expect(advance(fallen, at(9, 0.1), 8)).toEqual({ state: 'stands', since: 8, sure: 1 });
    // Before the first that says something, nothing is known.
    expect(advance(null, at(1, 0.1), 7)).toBeNull();
  });

  it('the threshold’s own error widens the gap that is asked for', () => {
    expect(compare(0.8, 0.1, 0.1, 1, 0.05).state).toBe('fallen');
    expect(compare(0.8, 0.1, 0.1, 1, 0.1).state).toBe('open');
    expect(compare(1.2, 0.1, 0.1, 1, 0.1).state).toBe('open');
  });
});

describe('correlations over steps', () => {
  it('have Fisher’s interval for values, and Bonett and Wright’s for ranks, at both ends', () => {
    // Neighbours that go up and down: every step counts as one.
    const x = [1, 9, 2, 8, 3, 7, 4, 6];
    const y = [2, 5, 1, 9, 6, 3, 4, 8];
    const found = correlate(x, y);
    if (typeof found === 'string') throw new Error(found);
    const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const dot = (a: number[], b: number[]) =>
      a.reduce((sum, value, at) => sum + (value - mean(a)) * ((b[at] as number) - mean(b)), 0);
    const pearsonOf = (a: number[], b: number[]) => dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
    const rank = (values: number[]) => values.map((value) => values.filter((other) => other <= value).length);
    const n = found.effectiveSteps;
    const pearson = pearsonOf(x, y);
    const spearman = pearsonOf(rank(x), rank(y));
    for (const [interval, r, error] of [
      [found.pearson, pearson, 1 / Math.sqrt(n - 3)],
      [found.spearman, spearman, Math.sqrt((1 + spearman ** 2 / 2) / (n - 3))],
    ] as const) {
      expect(interval.estimate).toBeCloseTo(r, 12);
      expect(interval.low).toBeCloseTo(Math.tanh(Math.atanh(r) - 1.959963984540054 * error), 12);
      expect(interval.high).toBeCloseTo(Math.tanh(Math.atanh(r) + 1.959963984540054 * error), 12);
    }
  });
});

describe('an early warning', () => {
  const start = Array(5).fill(1);
  const look = (mi: number, entropy: number) => {
    const level = levelOf([...start, ...Array(20).fill(mi)]);
    const ofEntropy = levelOf([...start, ...Array(20).fill(entropy)]);
    const falling = new MiFalling({ since: 5 });
    const overshoot = new MiOvershoot({ peak: { step: 9, value: 2, prompts: 16 }, since: 9 });
    const found = [falling.look(level, ofEntropy), overshoot.look(25, level, 16, ofEntropy)];
    return { kinds: found.flatMap((one) => one?.kind ?? []), state: [falling.toJSON(), overshoot.toJSON()] };
  };

  it('stays while MI is down and entropy holds, and ends with either', () => {
    expect(look(0.7, 1).kinds).toEqual(['mi_falling', 'mi_overshoot']);
    // Above three quarters of its start MI falls no more; below its start the overshoot is not made good.
    expect(look(0.9, 1).kinds).toEqual(['mi_overshoot']);
    for (const ended of [look(1.1, 1), look(0.7, 0.5)]) {
      expect(ended.kinds).toEqual([]);
      expect(ended.state).toEqual([{ since: null }, { peak: null, since: null }]);
    }
  });
});

describe('exp and ln of fixed bits', () => {
  it('are those of the language to a unit or two in the last place', () => {
    fc.assert(
      fc.property(fc.double({ min: -745, max: 709.7, noNaN: true }), (x) => {
        const expected = Math.exp(x);
        expect(Math.abs(fixedExp(x) - expected)).toBeLessThanOrEqual(4e-16 * expected + Number.MIN_VALUE);
      }),
    );
    fc.assert(
      fc.property(fc.double({ min: 0, noNaN: true, noDefaultInfinity: true }), (x) => {
        if (x === 0) return;
        const expected = Math.log(x);
        expect(Math.abs(fixedLog(x) - expected)).toBeLessThanOrEqual(5e-16 * Math.abs(expected) + 1e-16);
      }),
    );
    expect([fixedExp(0), fixedExp(-Infinity), fixedExp(Infinity), fixedExp(1e3)]).toEqual([1, 0, Infinity, Infinity]);
    expect([fixedHypot(3, -4), fixedHypot(0, 0), fixedHypot(1e300, 1e300), fixedHypot(Infinity, 1)]).toEqual([
      5,
      0,
      Math.SQRT2 * 1e300,
      Infinity,
    ]);
    expect(fixedHypot(Number.NaN, 1)).toBeNaN();
    expect([fixedLog(1), fixedLog(0), fixedLog(Infinity)]).toEqual([0, -Infinity, Infinity]);
    expect([fixedExp(Number.NaN), fixedLog(Number.NaN), fixedLog(-1)]).toEqual([Number.NaN, Number.NaN, Number.NaN]);
  });

  it('and tails made of them do not ask the engine', () => {
    const expected = [studentTail(2.1, 5.5), normalTail(3), studentTail(-0.3, 40)];
    const asked = ['exp', 'log', 'pow', 'log1p', 'expm1'] as const;
    const spies = asked.map((name) => vi.spyOn(Math, name).mockReturnValue(Number.NaN));
    try {
      expect([studentTail(2.1, 5.5), normalTail(3), studentTail(-0.3, 40)]).toEqual(expected);
    } finally {
      for (const spy of spies) spy.mockRestore();
    }
    // The very bits, computed once.
    expect(expected).toEqual([0.04234596256487167, 0.001349898073255604, 0.6171346416145744]);
  });
});

describe('tails', () => {
  it('of Student’s t are its closed forms of one to four degrees of freedom, and the normal of many', () => {
    const closed: ((t: number) => number)[] = [
      (t) => Math.atan(t) / Math.PI,
      (t) => t / (2 * Math.sqrt(2 + t * t)),
      (t) => (t / Math.sqrt(3) / (1 + (t * t) / 3) + Math.atan(t / Math.sqrt(3))) / Math.PI,
      (t) => (3 / 8) * (t / Math.sqrt(1 + (t * t) / 4)) * (1 - (t * t) / (12 * (1 + (t * t) / 4))),
    ];
    for (const t of [0, 0.1, 0.5, 1, 1.7, 2, 3, 5, 12]) {
      for (const [at, above] of closed.entries()) {
        expect(studentTail(t, at + 1), `${t} of ${at + 1}`).toBeCloseTo(0.5 - above(t), 9);
        expect(studentTail(-t, at + 1), `${-t} of ${at + 1}`).toBeCloseTo(0.5 + above(t), 9);
      }
      expect(studentTail(t, Number.POSITIVE_INFINITY)).toBe(normalTail(t));
      // The next term of the expansion in 1 / freedom.
      const density = Math.exp((-t * t) / 2) / Math.sqrt(2 * Math.PI);
      expect(studentTail(t, 1000)).toBeCloseTo(normalTail(t) + (density * (t ** 3 + t)) / 4000, 6);
    }
    expect(studentTail(Number.NaN, 3)).toBeNaN();
  });

  it('of the normal distribution are right to 1.2e-7 of themselves', () => {
    for (const [z, tail] of [
      [0, 0.5],
      [1, 0.158655253931457],
      [1.959963984540054, 0.025],
      [3, 0.00134989803163009],
      [6, 9.86587645037698e-10],
    ] as const) {
      expect(Math.abs(normalTail(z) / tail - 1)).toBeLessThan(1.2e-7);
      expect(normalTail(-z)).toBeCloseTo(1 - tail, 6);
    }
  });
});

describe('a trend of ranks', () => {
  /** Every order of 0 … n − 1. */
  const ordersOf = (n: number): number[][] =>
    n === 0
      ? [[]]
      : ordersOf(n - 1).flatMap((order) =>
          Array.from({ length: n }, (_, at) => [...order.slice(0, at), n - 1, ...order.slice(at)]),
        );

  it('has the share of all orders whose score is as far out', () => {
    for (let n = 2; n <= 6; n++) {
      const orders = ordersOf(n);
      const scores = orders.map((order) => rankTrend(order).score);
      for (const [at, order] of orders.entries()) {
        const { score, pUp, pDown } = rankTrend(order);
        expect(score).toBe(scores[at]);
        expect(pUp).toBeCloseTo(scores.filter((other) => other >= score).length / orders.length, 12);
        expect(pDown).toBeCloseTo(scores.filter((other) => other <= score).length / orders.length, 12);
      }
    }
  });

  it('is the normal approximation with its correction for continuity beyond 24 values, and near the exact share up to them', () => {
    const zigzag = (n: number) => Array.from({ length: n }, (_, at) => at + (at % 3 === 0 ? 9 : 0));
    for (const n of [24, 25, 60]) {
      const { score, pUp, pDown } = rankTrend(zigzag(n));
      const error = Math.sqrt((n * (n - 1) * (2 * n + 5)) / 18);
      const digits = n > 24 ? 12 : 3;
      expect(pUp).toBeCloseTo(normalTail((score - 1) / error), digits);
      expect(pDown).toBeCloseTo(normalTail((-score - 1) / error), digits);
    }
  });
});

describe('the levels of a step', () => {
  it('are missing for the reason that MI is, whichever figure is not there', () => {
    const metrics = (values: Record<string, number>) =>
      ({ profile: 'strict', values, certainty: {}, absent: { mi_seq_estimate: 'because' } }) as unknown as StepMetrics;
    expect(stepLevels(metrics({ conditional_entropy_est: 1 }))).toBe('because');
    expect(stepLevels(metrics({ mi_seq_estimate: 1 }))).toBe('because');
    expect(stepLevels(metrics({ mi_seq_estimate: Number.NaN, conditional_entropy_est: 1 }))).toMatch(/not finite/);
    expect(stepLevels(metrics({ mi_seq_estimate: 1, conditional_entropy_est: 1 }))).toBe('MI has no interval');
  });

  const certain = (value: number) => ({ batch: { low: value - 0.1, high: value + 0.1, error: 0.05 } });
  const of = (total: number, distinct: number, values: Record<string, number>) => {
    const certainty = Object.fromEntries(Object.entries(values).map(([key, value]) => [key, certain(value)]));
    const all = { ...values, conditional_entropy_est: 1 };
    return {
      profile: 'strict',
      values: all,
      certainty,
      absent: {},
      columns: { total, distinct },
    } as unknown as StepMetrics;
  };
  const promptsOf = (metrics: StepMetrics) => {
    const found = stepLevels(metrics);
    return typeof found === 'string' ? found : found.mi.map(({ prompts, value }) => [prompts, value]);
  };

  it('are of 2, 4, 8 … prompts and of all, and no evidence below four', () => {
    const at = { mi_seq_at_2: 0.6, mi_seq_at_4: 1.1, mi_seq_at_8: 1.5 };
    expect(promptsOf(of(8, 8, { ...at, mi_seq_estimate: 1.5 }))).toEqual([
      [2, 0.6],
      [4, 1.1],
      [8, 1.5],
    ]);
    expect(promptsOf(of(12, 12, { ...at, mi_seq_estimate: 1.7 })).at(-1)).toEqual([12, 1.7]);
    // Repeated columns weigh in mi_seq_estimate as often as they are there.
    expect(promptsOf(of(12, 11, { ...at, mi_seq_estimate: 1.7 })).at(-1)).toEqual([8, 1.5]);
    expect(promptsOf(of(16, 8, { ...at, mi_seq_estimate: 2.1 })).at(-1)).toEqual([8, 1.5]);
    // Estimates from sampled pairs are of all prompts alone.
    expect(promptsOf(of(12, 12, { mi_seq_estimate: 1.7 }))).toEqual([[12, 1.7]]);
    expect(promptsOf(of(12, 11, { mi_seq_estimate: 1.7 }))).toEqual([[11, 1.7]]);
    expect(promptsOf(of(16, 3, { mi_seq_at_2: 0.6, mi_seq_estimate: 1 }))).toMatch(/3 different prompts; fewer than 4/);
  });
});

describe('oscillation of actions', () => {
  it('is measured within windows of eight, and against the same actions in any order', () => {
    const alternating = [1, 2, 1, 2];
    // Windows of ten: eight of one action, seven and another, six and two others.
    const late = [5, 5, 5, 5, 5, 5, 5, 5, 6, 7];
    const found = countNow(actionOscillation([alternating, late, [1, 2, 1]], 20_000, 1));
    const entropy = (...counts: number[]) => counts.reduce((sum, n) => sum - (n / 8) * Math.log(n / 8), 0);
    expect(found).toMatchObject({ episodes: 2, periodicShare: 0.5, repetition: (0.5 + 0.7) / 2 });
    const windows = (entropy(8) + entropy(7, 1) + entropy(6, 1, 1)) / 3;
    expect(found?.windowedEntropy).toBeCloseTo((Math.LN2 + windows) / 2, 12);
    // Two of six orders alternate; five standard deviations of a binomial share.
    expect(Math.abs((found?.pValue as number) - 1 / 3)).toBeLessThan(5 * Math.sqrt(2 / 9 / 20_000));
    expect(countNow(actionOscillation([[1, 2, 1]], 10, 1))).toBeNull();
  });
});
