// Where exactly the cut of each strategy falls: small batches whose figures meet a threshold to the bit, and the
// formulas of docs/reference/filter.md written out plainly in float64.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { filterGroups } from '../../src/filter/filter-groups.js';
import type { FilterOptions } from '../../src/filter/input/filter-options.js';

/** Pairs of rewards whose variances (ddof 1) are `variances`. */
const pairs = (...variances: number[]) => variances.map((variance) => [0, Math.sqrt(2 * variance)]);

/** Groups whose mean rewards are `values`. */
const means = (...values: number[]) => values.map((value) => [value, value]);

describe('strict', () => {
  const rewards = Array.from({ length: 8 }, (_, group) => [0, group]);
  /** Mean lengths of eight groups of two. */
  const batch = fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 8, maxLength: 8 });

  function keeps(
    levels: readonly number[],
    masses: readonly number[],
    value: number,
    options: FilterOptions,
    wantsLargest: boolean,
  ) {
    const total = masses.reduce((sum, mass) => sum + mass, 0);
    const order = [...levels.keys()].sort((a, b) => {
      const [x, y] = [levels[a] as number, levels[b] as number];
      return (wantsLargest ? y - x : x - y) || a - b;
    });
    const expected: number[] = [];
    for (let sum = 0; expected.length === 0 || sum < (value - 1e-9) * total; ) {
      const next = order[expected.length] as number;
      sum += masses[next] as number;
      expected.push(next);
      // Where a sum meets the threshold, rounding decides.
      fc.pre(Math.abs(sum - value * total) > 1e-6 * total);
    }
    const lengths = levels.flatMap((level) => [level, level]);
    const { kept } = filterGroups({ rewards, lengths }, { metric: 'length', value, ...options });
    expect(kept).toEqual(expected.sort((a, b) => a - b));
  }

  const share = fc.double({ min: 0.02, max: 0.98, noNaN: true });
  const direction = fc.constantFrom('largest' as const, 'smallest' as const);

  it('top_p of a level cumulates the level itself', () => {
    fc.assert(
      fc.property(batch, share, direction, (levels, value, wanted) => {
        fc.pre(new Set(levels).size > 1);
        keeps(levels, levels, value, { direction: wanted }, wanted === 'largest');
      }),
    );
  });

  it('softmax gives every group exp((s − mean)/std), mean and std over the groups', () => {
    fc.assert(
      fc.property(batch, share, direction, (levels, value, wanted) => {
        fc.pre(new Set(levels).size > 1);
        const mean = levels.reduce((sum, level) => sum + level, 0) / levels.length;
        const std = Math.sqrt(levels.reduce((sum, level) => sum + (level - mean) ** 2, 0) / levels.length);
        const sign = wanted === 'largest' ? 1 : -1;
        const masses = levels.map((level) => Math.exp((sign * (level - mean)) / std));
        keeps(levels, masses, value, { direction: wanted, topPMode: 'softmax' }, wanted === 'largest');
      }),
    );
  });
});

describe('ragen', () => {
  const options = { dialect: 'ragen', metric: 'reward', eps: 0 } as const;

  it('top_p: a running sum that meets the threshold has reached it', () => {
    // Of 8 half are 4, which the first two reach.
    expect(filterGroups({ rewards: means(2, 2, 2, 2) }, { ...options, value: 0.5 }).kept).toEqual([0, 1]);
    // Slack of all of the threshold: nothing is asked for, nothing is kept.
    expect(filterGroups({ rewards: means(2, 2) }, { ...options, value: 0.5, eps: 2 }).kept).toEqual([]);
  });

  it('top_p: what float32 adds up to and the running sum does not reach keeps nothing', () => {
    // In float32 these come to 2^24 + 6, one rounding after the other; the running sum is rounded once, to 2^24 + 4.
    const rewards = means(2 ** 24 + 2, 1, 1.1);
    expect(filterGroups({ rewards }, { ...options, value: 1 - 2 ** -30 }).kept).toEqual([]);
    expect(filterGroups({ rewards }, { ...options, value: 0.99 }).kept).toEqual([0]);
  });

  it('softmax: a prefix whose mass meets the value has reached it', () => {
    const softmax = { ...options, topPMode: 'softmax', value: 0.5 } as const;
    expect(filterGroups({ rewards: means(1, 1, 1, 1) }, softmax).kept).toEqual([0, 1]);
  });

  it('min_p: the best score itself is within any share, in either direction', () => {
    const least = { ...options, strategy: 'min_p', value: 1 } as const;
    for (const dialect of ['ragen', 'paper'] as const) {
      // Small enough that float32 tells 1e-10 from nothing.
      expect(filterGroups({ rewards: means(2e-5, 1e-5) }, { ...least, dialect }).kept).toEqual([0]);
      const smallest = { ...least, dialect, direction: 'smallest' } as const;
      expect(filterGroups({ rewards: means(2e-5, 1e-5) }, smallest).kept).toEqual([1]);
    }
  });
});

describe('upstream', () => {
  const options = { dialect: 'upstream', eps: 0 } as const;

  it('a target is a share of the variances alone, met where it is met to the bit', () => {
    const rewards = pairs(0.5, 0.5, 0.5, 0.5);
    expect(filterGroups({ rewards }, { ...options, value: 0.5 }).kept).toEqual([0, 1]);
    expect(filterGroups({ rewards }, { ...options, value: 0.75 }).kept).toEqual([0, 1, 2]);
    expect(filterGroups({ rewards: pairs(8, 0.5, 0.5) }, { ...options, value: 0.9 }).kept).toEqual([0, 1]);
    // A target of 0 asks for nothing.
    expect(filterGroups({ rewards: pairs(0.5) }, { ...options, value: 1, eps: 0.5 }).kept).toEqual([]);
  });

  it('the faintest variance is some', () => {
    const counted = { ...options, strategy: 'top_k', value: 3 } as const;
    expect(filterGroups({ rewards: pairs(0.5, 0, 2 ** -41) }, counted).kept).toEqual([0, 2]);
  });
});

describe('dapo', () => {
  it('the first rollout counts: it alone may be the worst or the best of the batch', () => {
    const rest = [
      [1, 1],
      [0, 0],
    ];
    const best = filterGroups({ rewards: [[2, 0], ...rest] }, { dialect: 'dapo' });
    expect(best.dropped.map(({ reason }) => reason)).toEqual(['same_outcome', 'all_fail']);
    expect(best.warnings.join()).toMatch(/more than two values/);
    const worst = filterGroups({ rewards: [[-1, 1], ...rest] }, { dialect: 'dapo' });
    expect(worst.dropped.map(({ reason }) => reason)).toEqual(['all_succeed', 'same_outcome']);
  });
});

describe('softmax', () => {
  it('counts the kept groups without variance in its warning, in every dialect that has it', () => {
    const softmax = { topPMode: 'softmax', includeZero: true, value: 0.999 } as const;
    for (const dialect of ['strict', 'ragen', 'paper'] as const) {
      const warnings = (rewards: number[][]) => filterGroups({ rewards }, { ...softmax, dialect }).warnings.join();
      expect(warnings(pairs(0.5, 0, 0.125))).toMatch(/^1 kept group has no variance/);
      expect(warnings(pairs(0.5, 0, 0))).toMatch(/^2 kept groups have no variance/);
      expect(warnings(pairs(0.5, 0.125))).toBe('');
      // Nothing but the softmax of a spread gives mass to what has no variance.
      for (const other of [
        { topPMode: 'linear' },
        { strategy: 'top_k', value: 0.9 },
        { strategy: 'min_p', value: 0 },
        { metric: 'reward' },
      ] as const) {
        expect(filterGroups({ rewards: pairs(0.5, 0) }, { ...softmax, dialect, ...other }).warnings).toEqual([]);
      }
      // The whole of the mass was asked for: every group is kept, whatever softmax makes of it.
      expect(filterGroups({ rewards: pairs(0.5, 0) }, { ...softmax, dialect, value: 1 }).warnings).toEqual([]);
    }
  });
});

describe('normalised advantages', () => {
  const warnings = (groups: number, group: number[]) =>
    filterGroups({ rewards: Array.from({ length: groups }, () => group) }, { value: 1 }).warnings.join();

  it('are told by eight groups of three rollouts, and not by fewer of either', () => {
    const triple = [-Math.sqrt(1.5), 0, Math.sqrt(1.5)];
    expect(warnings(8, triple)).toMatch(/normalised advantages/);
    expect(warnings(7, triple)).toBe('');
    // Any two rewards that differ are ±1 once they are centred and scaled.
    expect(warnings(8, [-1, 1])).toBe('');
  });
});
