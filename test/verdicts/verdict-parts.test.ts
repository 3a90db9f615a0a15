// The small steps that verdicts are made of, each at its borders: what is kept of figures, whose rollout a row is, why
// the rewards of a prompt do not vary, the error of a difference, when an early warning begins, and how ranks go
// together.
import { describe, expect, it } from 'vitest';
import { idOf } from '../../src/checks/ids.js';
import { startOf } from '../../src/checks/saved.js';
import { outcomesAlone, rolloutGroups, rowsByGroup } from '../../src/verdicts/evidence/group-outcomes.js';
import { RunLevel } from '../../src/verdicts/levels/run-level.js';
import {
  type PromptTriage,
  promptRewards,
  rewardRange,
  triageFindings,
  triagePrompts,
  unionRange,
} from '../../src/verdicts/prompt-triage.js';
import { correlate } from '../../src/verdicts/statistics/correlation.js';
import { FigureHistory } from '../../src/verdicts/statistics/figure-history.js';
import { levelBelow } from '../../src/verdicts/statistics/present-level.js';
import { studentTail } from '../../src/verdicts/statistics/tail-probabilities.js';
import { MiFalling } from '../../src/verdicts/warnings/mi-falling.js';
import { MiOvershoot } from '../../src/verdicts/warnings/mi-overshoot.js';
import {
  countSpecificity,
  decayed,
  specificityFinding,
  specificityShape,
} from '../../src/verdicts/warnings/specificity.js';
import { uniformNumbers } from '../support/random-numbers.js';

describe('the history of figures', () => {
  it('keeps every step up to 256, then every second, fourth … from the first on', () => {
    const history = new FigureHistory();
    for (let step = 0; step < 1100; step++) {
      history.add(step, { square: step * step });
      let stride = 1;
      while (Math.ceil((step + 1) / stride) > 256) stride *= 2;
      const kept = Array.from({ length: Math.floor(step / stride) + 1 }, (_, at) => at * stride);
      const { steps, seen } = history.toJSON();
      expect(steps).toEqual(kept);
      expect(seen).toBe(step + 1);
      expect(history.values('square')).toEqual(kept.map((each) => each * each));
    }
  });

  it('has null where a figure was not there or is no number, and none of a name that never came', () => {
    const history = new FigureHistory();
    history.add(1, { a: 1 });
    history.add(2, { a: Number.NaN, late: 2 });
    history.add(3, { late: Number.POSITIVE_INFINITY, a: 3 });
    history.add(4, {});
    expect(history.values('a')).toEqual([1, null, 3, null]);
    expect(history.values('late')).toEqual([null, 2, null, null]);
    expect(history.values('never')).toEqual([]);
    expect(history.names).toEqual(['a', 'late']);
  });

  it('takes the first 512 figures and no more', () => {
    const figuresOf = (from: number, count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`f${from + at}`, at]));
    const history = new FigureHistory();
    history.add(1, figuresOf(0, 500));
    history.add(2, figuresOf(0, 520));
    history.add(3, figuresOf(600, 5));
    expect(history.names).toEqual(Object.keys(figuresOf(0, 512)));
    expect(history.values('f511')).toEqual([null, 511, null]);
  });

  it('saves a copy that later steps do not change', () => {
    const history = new FigureHistory();
    history.add(1, { a: 1 });
    const saved = history.toJSON();
    const before = JSON.stringify(saved);
    history.add(2, { a: 2, b: 2 });
    expect(JSON.stringify(saved)).toBe(before);
  });
});

describe('rollouts by group', () => {
  it('takes the rows of a group wherever they stand, groups in the order that they come in', () => {
    const groups = [7, 3, 7, 3, 3, 7];
    expect([...rowsByGroup(groups)]).toEqual([
      [7, [0, 2, 5]],
      [3, [1, 3, 4]],
    ]);
    const found = rolloutGroups({
      step: 1,
      rows: { groups, rewards: [0, 1, 2, 3, 4, 5], actions: [9, 8, 7, 6, 5, 4] },
    });
    expect(found).toEqual([
      { group: 7, rewards: Float64Array.of(0, 2, 5), outcomes: undefined, behaviours: ['9', '7', '4'] },
      { group: 3, rewards: Float64Array.of(1, 3, 4), outcomes: undefined, behaviours: ['8', '6', '5'] },
    ]);
  });

  it('tells 64-bit ids apart that a number does not', () => {
    const ids = BigInt64Array.of(5n, 2n ** 60n, 2n ** 60n + 1n);
    expect([0, 1, 2].map((row) => idOf(ids, row))).toEqual([5, 2n ** 60n, 2n ** 60n + 1n]);
    expect(rowsByGroup(ids).size).toBe(3);
  });

  it('makes one rollout of an episode: its last turn’s reward and outcome, its actions in the order of turns', () => {
    // Episodes are numbered within a group, and `1/11` is another than `11/1`; rows and turns come in any order.
    const rows = {
      groups: [1, 1, 11, 11, 1, 1],
      episodes: [11, 11, 1, 1, 1, 1],
      turns: [1, 0, 0, 1, 0, 1],
      rewards: [10, 11, 12, 13, 14, 15],
      outcomes: [0, 1, 1, 0, 1, 0.25],
      actions: [1, 23, 2, 31, 12, 3],
    };
    const expected = [
      { group: 1, rewards: Float64Array.of(10, 15), outcomes: [0, 0.25], behaviours: ['23 1', '12 3'] },
      { group: 11, rewards: Float64Array.of(13), outcomes: [0], behaviours: ['2 31'] },
    ];
    expect(rolloutGroups({ step: 1, rows })).toEqual(expected);
    expect(outcomesAlone(rows)).toEqual([0, 0, 0.25]);
    // Without turn numbers rows stand in their order.
    const { turns: _, ...inOrder } = rows;
    const [first] = rolloutGroups({ step: 1, rows: inOrder });
    expect(first).toMatchObject({ rewards: Float64Array.of(11, 15), behaviours: ['1 23', '12 3'] });
    // 2 then 31 is not 23 then 1.
    const behaviours = expected.flatMap((group) => group.behaviours);
    expect(new Set(behaviours).size).toBe(3);
  });
});

describe('why the rewards of a prompt do not vary', () => {
  const groupOf = (rewards: number[], outcomes?: number[], behaviours?: string[]) => ({
    group: 1,
    rewards: Float64Array.from(rewards),
    outcomes,
    behaviours,
  });

  it('the standard deviation is of n − 1, and a tenth of the mean of all is still low', () => {
    const stdOf = (high: number) => Math.SQRT1_2 * high;
    // A tenth of the mean of both is the lower one itself, or less.
    for (const [high, low] of [
      [19, true],
      [18, false],
    ] as const) {
      const [one, other] = promptRewards([groupOf([0, 1]), groupOf([0, high])]);
      expect(one?.rewardStd).toBeCloseTo(stdOf(1), 12);
      expect(other?.rewardStd).toBeCloseTo(stdOf(high), 12);
      expect(one?.low).toBe(low);
      expect(other?.low).toBe(false);
    }
  });

  it('rounding is measured by the largest reward, of either sign', () => {
    for (const sign of [1, -1]) {
      expect(promptRewards([groupOf([sign * 1e6, sign * (1e6 - 0.5)])])[0]).toMatchObject({ low: true, size: 1e6 });
      expect(promptRewards([groupOf([sign * 1e6, sign * (1e6 - 5)])])[0]?.low).toBe(false);
    }
  });

  it('an outcome is a success from a half on, and one that is no number tells nothing', () => {
    const successes = (...outcomes: number[]) => promptRewards([groupOf([1, 1], outcomes)])[0]?.successes;
    expect(successes(0.5, 1)).toBe('all');
    expect(successes(0.49, 0)).toBe('none');
    expect(successes(0.49, 0.5)).toBe('some');
    expect(successes(Number.NaN, 1)).toBeNull();
    expect(promptRewards([groupOf([1, 1])])[0]?.successes).toBeNull();
  });

  it('a mean is the best or the worst of the run up to rounding', () => {
    const causeOf = (rewards: number[], behaviours: string[], lowest: number | null, highest: number | null) =>
      triagePrompts(promptRewards([groupOf(rewards, undefined, behaviours)]), { lowest, highest })[0]?.cause;
    const sum = 0.1 + 0.2;
    expect(sum).not.toBe(0.3);
    expect(causeOf([sum, sum], ['a', 'b'], 0, 0.3)).toBe('too_easy');
    expect(causeOf([sum, sum], ['a', 'b'], 0.3, 1)).toBe('too_hard');
    expect(causeOf([sum, sum], ['a', 'b'], 0, 0.3001)).toBe('reward_blind');
    expect(causeOf([sum, sum], ['a', 'a'], 0, 1)).toBe('alike');
    expect(causeOf([sum, sum], ['a', 'b'], null, null)).toBe('reward_blind');
  });

  it('the range is of finite rewards, and widens with each step', () => {
    const none = { lowest: null, highest: null };
    expect(rewardRange([groupOf([1, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN, 2])])).toEqual({
      lowest: 1,
      highest: 2,
    });
    expect(rewardRange([groupOf([3])])).toEqual({ lowest: 3, highest: 3 });
    expect(rewardRange([groupOf([Number.NaN])])).toEqual(none);
    for (const [a, b] of [
      [none, { lowest: 3, highest: 4 }],
      [{ lowest: 3, highest: 4 }, none],
    ] as const)
      expect(unionRange(a, b)).toEqual({ lowest: 3, highest: 4 });
    expect(unionRange({ lowest: 0, highest: 2 }, { lowest: 1, highest: 3 })).toEqual({ lowest: 0, highest: 3 });
  });

  it('half of the prompts make a verdict, no prompts none', () => {
    const triage = (cause: PromptTriage['cause']): PromptTriage => ({
      group: 1,
      cause,
      rewardMean: 0,
      rewardStd: 0,
      behaviours: null,
    });
    expect(triageFindings(1, [])).toEqual([]);
    expect(triageFindings(1, [triage('too_easy'), triage('varied')]).map(({ kind }) => kind)).toEqual([
      'prompts_too_easy',
    ]);
    expect(triageFindings(1, [triage('too_easy'), triage('varied'), triage('varied')])).toEqual([]);
  });
});

describe('whether specific rows are right', () => {
  /** Rows as [retrieved, right, prompt]. */
  const countsOf = (rows: readonly (readonly [number, boolean, number])[]) =>
    countSpecificity(
      rows.map(([retrieved]) => retrieved),
      (at) => rows[at]?.[1] as boolean,
      (at) => rows[at]?.[2] as number,
    );
  const apart = (specificRight: number, specificWrong: number, genericRight: number, genericWrong: number) => {
    const kinds: [number, boolean, number][] = [
      [1, true, specificRight],
      [1, false, specificWrong],
      [0, true, genericRight],
      [0, false, genericWrong],
    ];
    let prompt = 0;
    return countsOf(
      kinds.flatMap(([retrieved, right, count]) =>
        Array.from({ length: count }, () => [retrieved, right, prompt++] as const),
      ),
    );
  };

  it('needs five rows of each, and a difference beyond chance after one success and one failure were added to each', () => {
    expect(specificityFinding(1, apart(0, 5, 5, 0))?.kind).toBe('specific_but_wrong');
    expect(specificityFinding(1, apart(0, 4, 50, 0))).toBeUndefined();
    expect(specificityFinding(1, apart(0, 50, 4, 0))).toBeUndefined();
    // 0 of 5 against 4 of 5: 3.7 standard errors as they are, 2.6 with what is added.
    expect(specificityFinding(1, apart(0, 5, 4, 1))).toBeUndefined();
  });

  it('has the error of rows that stand alone, or of prompts whose rows go together, whichever is larger', () => {
    const uniform = uniformNumbers(4);
    let larger = 0;
    for (let run = 0; run < 40; run++) {
      const prompts = run % 2 === 0 ? 400 : 6;
      // Rows of one prompt are alike.
      const bias = Array.from({ length: prompts }, uniform);
      const rows = Array.from({ length: 400 }, (_, at): [number, boolean, number] => {
        const prompt = at % prompts;
        const retrieved = uniform() < 0.5 ? 1 : 0;
        return [retrieved, uniform() < (retrieved ? 0.25 : 0.5 + 0.5 * (bias[prompt] as number)), prompt];
      });
      const counts = countsOf(rows);
      const [sr, sw, gr, gw] = [counts.specificRight, counts.specificWrong, counts.genericRight, counts.genericWrong];
      const [rate, other] = [sr / (sr + sw), gr / (gr + gw)];
      const variance = ([right, wrong]: [number, number]) => {
        const p = (right + 1) / (right + wrong + 2);
        return (p * (1 - p)) / (right + wrong + 2);
      };
      const ofRows = Math.sqrt(variance([sr, sw]) + variance([gr, gw]));
      // Of each prompt, how far its rows pull the difference of the two rates.
      const pulls = new Array<number>(prompts).fill(0);
      for (const [retrieved, right, prompt] of rows) {
        const pull = retrieved ? (Number(right) - rate) / (sr + sw) : -(Number(right) - other) / (gr + gw);
        pulls[prompt] = (pulls[prompt] as number) + pull;
      }
      const byPrompts = Math.hypot(...pulls);
      if (byPrompts > ofRows) larger++;
      const finding = specificityFinding(1, counts);
      if (finding === undefined) continue;
      expect(finding.evidence.error).toBeCloseTo(Math.max(ofRows, byPrompts), 12);
      expect(finding.evidence.difference).toBeCloseTo(rate - other, 12);
    }
    expect(larger).toBeGreaterThan(0);
    expect(larger).toBeLessThan(40);
  });

  it('halves what is older than five steps, and products of counts as squares', () => {
    const once = apart(1, 2, 3, 4);
    const none = apart(0, 0, 0, 0);
    let counts = decayed(startOf(specificityShape), once);
    expect(counts).toEqual(once);
    for (let step = 0; step < 5; step++) counts = decayed(counts, none);
    expect(counts.specificRight).toBeCloseTo(0.5, 12);
    expect(counts.genericWrong).toBeCloseTo(2, 12);
    for (const [at, product] of counts.products.entries())
      expect(product).toBeCloseTo((once.products[at] as number) / 4, 12);
  });
});

describe('an early warning begins', () => {
  const SCATTER = 0.01;
  /** A level of a start at 1 and the given latest values, which scatter by 0.01 as if they were independent. */
  const levelAt = (recent: readonly number[], seen = 13) =>
    new RunLevel({
      ...new RunLevel().toJSON(),
      first: [1, 1, 1, 1, 1],
      recent: recent.map((value, at) => ({ step: seen - recent.length + 1 + at, value })),
      seen,
      // Without what so few differences are corrected by.
      farSquare: SCATTER ** 2 * (1 - 4 / Math.min(seen - 5, 32) ** 2),
      nearScatter: SCATTER ** 2,
    });
  const flat = (value: number) => Array<number>(8).fill(value);
  interface State {
    falling: MiFalling['state'];
    overshoot: MiOvershoot['state'];
  }
  const none: State = { falling: { since: null }, overshoot: { peak: null, since: null } };
  const look = (
    mi: readonly number[],
    { entropy = 1, seen = 13, state = none }: { entropy?: number; seen?: number; state?: State } = {},
  ) => {
    const [falling, overshoot] = [
      new MiFalling({ ...state.falling }),
      new MiOvershoot(structuredClone(state.overshoot)),
    ];
    const [level, ofEntropy] = [levelAt(mi, seen), levelAt(flat(entropy), seen)];
    const found = [falling.look(level, ofEntropy), overshoot.look(seen, level, 16, ofEntropy)].filter(
      (finding) => finding !== undefined,
    );
    return {
      kinds: found.map(({ kind }) => kind),
      since: found.map(({ since }) => since),
      state: { falling: falling.toJSON(), overshoot: overshoot.toJSON() },
    };
  };
  const falling = [0.95, 1, 1, 0.9, 0.85, 0.8, 0.7, 0.6];

  it('to tell of a fall since the last of the highest steps, once all steps of the trend are after the start', () => {
    expect(look(falling)).toMatchObject({ kinds: ['mi_falling'], since: [8] });
    expect(look(falling, { seen: 12 }).kinds).toEqual([]);
    // Low as these are, they do not go down.
    expect(look([0.6, 0.7, 0.6, 0.7, 0.6, 0.7, 0.6, 0.7]).kinds).toEqual([]);
    // These go down, and are not low.
    expect(look([0.99, 0.98, 0.97, 0.96, 0.95, 0.94, 0.93, 0.92]).kinds).toEqual([]);
  });

  it('as long as entropy has three quarters of its start, and ends where MI has them again', () => {
    expect(look(falling, { entropy: 0.75 }).kinds).toEqual(['mi_falling']);
    expect(look(falling, { entropy: 0.74 }).kinds).toEqual([]);
    const state: State = { ...none, falling: { since: 5 } };
    expect(look(flat(0.74), { state }).kinds).toEqual(['mi_falling']);
    expect(look(flat(0.75), { state })).toMatchObject({ kinds: [], state: { falling: { since: null } } });
    expect(look(flat(0.74), { state, entropy: 0.74 })).toMatchObject({
      kinds: [],
      state: { falling: { since: null } },
    });
  });

  it('to know a peak that is above the start beyond both their errors, and above the last peak', () => {
    expect(look(flat(1.5)).state.overshoot.peak).toEqual({ step: 13, value: 1.5, prompts: 16 });
    expect(look(flat(1.5), { seen: 12 }).state.overshoot.peak).toBeNull();
    // Two standard errors of the difference, which would be 2.7 of the mean of four steps alone.
    expect(look(flat(1.0134)).state.overshoot.peak).toBeNull();
    expect(look(flat(1.03)).state.overshoot.peak).not.toBeNull();
    const peak = { step: 9, value: 2, prompts: 16 };
    const state: State = { ...none, overshoot: { peak, since: null } };
    expect(look(flat(1.5), { state }).state.overshoot.peak).toEqual(peak);
  });

  it('to tell of an overshoot that is back at the start, beyond the error of both means', () => {
    const back = (value: number, mi: number, entropy = 1) =>
      look(flat(mi), {
        entropy,
        state: { ...none, overshoot: { peak: { step: 9, value, prompts: 16 }, since: null } },
      });
    expect(back(1.2, 1)).toMatchObject({
      kinds: ['mi_overshoot'],
      since: [9],
      state: { overshoot: { since: 9, peak: { step: 9, value: 1.2 } } },
    });
    expect(back(1.2, 1.01).kinds).toEqual([]);
    expect(back(1.2, 1, 0.74).kinds).toEqual([]);
    // 1.8 standard errors of the difference of two means of four, 2.6 of one of them.
    expect(back(1.013, 1).kinds).toEqual([]);
    expect(look(flat(0.9)).kinds).toEqual([]);
  });

  it('and once told, an overshoot ends above the start, with its peak', () => {
    const state: State = { ...none, overshoot: { peak: { step: 9, value: 1.2, prompts: 16 }, since: 9 } };
    expect(look(flat(1), { state }).kinds).toEqual(['mi_overshoot']);
    expect(look(flat(1.01), { state })).toMatchObject({ kinds: [], state: { overshoot: none.overshoot } });
    expect(look(flat(1), { state, entropy: 0.74 })).toMatchObject({
      kinds: [],
      state: { overshoot: none.overshoot },
    });
  });

  it('by the least of four spans, with the error of the floor, which is that of the start', () => {
    const floor = 0.75;
    const error = Math.hypot(SCATTER / 2, (floor * SCATTER) / Math.sqrt(5));
    expect(levelBelow(levelAt(flat(0.74)), floor)).toBeCloseTo(studentTail(0.01 / error, 5.5), 12);
    const last = Math.hypot(SCATTER, (floor * SCATTER) / Math.sqrt(5));
    expect(levelBelow(levelAt([1, 1, 1, 1, 1, 1, 1, 0.7]), floor)).toBeCloseTo(studentTail(0.05 / last, 5.5), 12);
  });

  it('begins with any gap where values never vary', () => {
    const constant = new RunLevel({
      ...new RunLevel().toJSON(),
      first: [1, 1, 1, 1, 1],
      recent: flat(0.5).map((value, at) => ({ step: 6 + at, value })),
      seen: 13,
    });
    expect([0.5001, 0.5, 0.4].map((floor) => levelBelow(constant, floor))).toEqual([0, 1, 1]);
  });
});

describe('two figures over steps', () => {
  const pairOf = (x: (number | null)[], y: (number | null)[]) => {
    const found = correlate(x, y);
    if (typeof found === 'string') throw new Error(found);
    return found;
  };

  it('need five steps where both are there, and change both', () => {
    expect(correlate([1, 2, 3, 4, null, 6], [1, 2, 3, 4, 5, null])).toMatch(/^4 steps have both figures/);
    expect(correlate([1, 2, 3, 4, 5], [1, 2, 3, 4])).toMatch(/^4 steps/);
    expect(pairOf([1, 3, 2, 5, 4, null], [2, 1, 4, 3, 5, 6]).steps).toBe(5);
    expect(correlate([1, 2, 3, 4, 5], [7, 7, 7, 7, 7])).toBe('one of the figures never changes');
    expect(correlate([7, 7, 7, 7, 7], [1, 2, 3, 4, 5])).toBe('one of the figures never changes');
  });

  it('count as fewer steps where both resemble their neighbours, as no more than there are, and as four at least', () => {
    const rising = [1, 2, 3, 4, 5, 6, 7, 8];
    const zigzag = [1, 9, 2, 8, 3, 7, 4, 6];
    expect(pairOf(rising, rising).effectiveSteps).toBe(4);
    // One rises, the other goes up and down: they do not agree by chance more easily.
    expect(pairOf(rising, zigzag).effectiveSteps).toBe(8);
    const wave = Array.from({ length: 40 }, (_, at) => Math.sin(at / 2));
    const lagged = (values: number[]) => pairOf(values.slice(0, -1), values.slice(1)).pearson.estimate;
    const likeness = lagged(wave) * lagged(wave.map((value) => value ** 3));
    expect(
      pairOf(
        wave,
        wave.map((value) => value ** 3),
      ).effectiveSteps,
    ).toBeCloseTo((40 * (1 - likeness)) / (1 + likeness), 9);
  });

  it('that agree fully have no interval of values, and of ranks one as wide as the next lower correlation’s, at both ends', () => {
    const x = [1, 9, 2, 8, 3, 7, 4, 6];
    const next = 1 - 12 / (8 * 63);
    const { effectiveSteps } = pairOf(x, x);
    const low = Math.tanh(Math.atanh(next) - 1.959963984540054 * Math.sqrt((1 + next ** 2 / 2) / (effectiveSteps - 3)));
    const same = pairOf(x, x);
    expect(same.pearson).toEqual({ estimate: 1, low: 1, high: 1 });
    expect(same.spearman).toEqual({ estimate: 1, low: expect.closeTo(low, 12), high: 1 });
    const opposite = pairOf(
      x,
      x.map((value) => -value),
    );
    expect(opposite.pearson).toEqual({ estimate: -1, low: -1, high: -1 });
    expect(opposite.spearman).toEqual({ estimate: -1, low: -1, high: expect.closeTo(-low, 12) });
  });

  it('share the mean of their ranks where values are equal', () => {
    const tied = [1, 1, 2, 3, 3, 3, 4, 0];
    const ranks = [2.5, 2.5, 4, 6, 6, 6, 8, 1];
    const y = [5, 1, 7, 2, 8, 3, 6, 4];
    expect(pairOf(tied, y).spearman.estimate).toBeCloseTo(pairOf(ranks, y).pearson.estimate, 12);
  });
});
