// The dialect `ragen` against answers of the reference code: 400 reward matrices, and the vectors of its own tests.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { filterGroups } from '../../src/filter/filter-groups.js';
import type { FilterOptions } from '../../src/filter/input/filter-options.js';

interface Case {
  rewards: number[][];
  config: {
    strategy: NonNullable<FilterOptions['strategy']>;
    filter_type: NonNullable<FilterOptions['direction']>;
    metric: NonNullable<FilterOptions['metric']>;
    include_zero: boolean;
    top_p_prob_mode: 'linear' | 'softmax';
    selection_eps: number;
    value: number;
  };
  scores: number[];
  kept: number[];
  tie_at_cut: boolean;
  metrics: Record<string, number>;
}

const cases = JSON.parse(readFileSync(new URL('../golden/filter_cases.json', import.meta.url), 'utf8')) as Case[];

const isClose = (found: number, wanted: number, relative: number): boolean =>
  Math.abs(found - wanted) <= relative * Math.abs(wanted);

/** Groups whose score (as a float32 std of two rollouts, or a mean) is what is given. */
const groupsWithMean = (scores: number[]): number[][] => scores.map((score) => [score, score]);

describe('the reference code', () => {
  it('there are 400 cases', () => expect(cases).toHaveLength(400));

  it.each(cases.map((c, at) => [at, c] as const))('golden case %i', (_, { config, rewards, ...wanted }) => {
    const result = filterGroups(
      { rewards },
      {
        dialect: 'ragen',
        strategy: config.strategy,
        value: config.value,
        metric: config.metric,
        direction: config.filter_type,
        includeZero: config.include_zero,
        topPMode: config.top_p_prob_mode,
        eps: config.selection_eps,
      },
    );
    expect(result.scores).toHaveLength(wanted.scores.length);
    for (const [group, score] of wanted.scores.entries()) {
      if (!isClose(result.scores[group] as number, score, 1e-6)) expect(result.scores[group]).toBe(score);
    }
    const scoresOf = (kept: number[]) => kept.map((group) => result.scores[group] as number).sort((a, b) => a - b);
    if (wanted.tie_at_cut) expect(scoresOf(result.kept)).toEqual(scoresOf(wanted.kept));
    else expect(result.kept).toEqual(wanted.kept);
    expect(Object.keys(result.metrics).sort()).toEqual(Object.keys(wanted.metrics).sort());
    const sameGroups = result.kept.join() === wanted.kept.join();
    for (const [key, value] of Object.entries(wanted.metrics)) {
      // Among equal scores the reference's sort picks by accident, and the means over what it picked go with that.
      if (!sameGroups && key.includes('chosen')) continue;
      if (!isClose(result.metrics[key] as number, value, 1e-5)) expect(result.metrics[key], key).toBe(value);
    }
  });
});

describe("the reference's own tests", () => {
  const kept = (scores: number[], options: FilterOptions) =>
    filterGroups({ rewards: groupsWithMean(scores) }, { dialect: 'ragen', metric: 'reward', ...options }).kept;

  it.each([
    ['softmax over ties keeps enough to reach the value', [1, 1, 1], { value: 0.6, topPMode: 'softmax' }, [0, 1]],
    ['linear: 4 + 3 reach .6 · 10 − .01', [4, 3, 2, 1], { value: 0.6 }, [0, 1]],
    ['linear over zeros keeps nothing', [0, 0, 0], { value: 0.9 }, []],
    ['value 1 with zeros is no filter', [4, 2, 0, 0], { value: 1, includeZero: true }, [0, 1, 2, 3]],
    ['value 1 over zeros alone is no filter', [0, 0, 0], { value: 1, includeZero: true }, [0, 1, 2]],
    ['value 1 is no filter in any order', [1, 3, 2], { value: 1, includeZero: true }, [0, 1, 2]],
    ['softmax without zeros', [10, 1, 0, 0], { value: 0.9, topPMode: 'softmax', includeZero: false }, [0]],
    ['softmax without zeros', [4, 2, 0, 0], { value: 0.9, topPMode: 'softmax', includeZero: false }, [0, 1]],
    ['softmax without zeros', [1, 1, 1, 0], { value: 0.6, topPMode: 'softmax', includeZero: false }, [0, 1]],
    ['linear without zeros', [10, 1, 0, 0], { value: 0.9, includeZero: false }, [0]],
    ['linear without zeros', [4, 2, 0, 0], { value: 0.9, includeZero: false }, [0, 1]],
    ['linear without zeros', [3, 1, 1, 0], { value: 0.9, includeZero: false }, [0, 1, 2]],
  ] as [string, number[], FilterOptions, number[]][])('pass here: %s: %j', (_, scores, options, wanted) => {
    expect(kept(scores, options)).toEqual(wanted);
  });

  it('the metric reward prefers the higher mean, reward_variance the wider spread', () => {
    const rewards = [
      [10, 11],
      [0, 5],
    ];
    const options = { dialect: 'ragen', strategy: 'top_k', value: 0.5 } as const;
    expect(filterGroups({ rewards }, { ...options, metric: 'reward' }).kept).toEqual([0]);
    expect(filterGroups({ rewards }, options).kept).toEqual([1]);
  });

  it('the metric reward_sum keeps the top half', () => {
    const rewards = [
      [5, 5],
      [3, 3],
      [4, 3],
      [1, 0],
    ];
    const { kept, metrics } = filterGroups(
      { rewards },
      { dialect: 'ragen', strategy: 'top_k', value: 0.5, metric: 'reward_sum' },
    );
    expect(kept).toEqual([0, 2]);
    expect(metrics['rollout/in_group_reward_sum']).toBe(6);
    expect(metrics['rollout/chosen_in_group_reward_sum']).toBe(8.5);
  });
});

describe('float32', () => {
  it('a batch of one group has the std of its rounded mean, as torch has it', () => {
    const alike = Array<number>(16).fill(1.1 - 0.3);
    const options = { dialect: 'ragen', strategy: 'top_k_abs', value: 1 } as const;
    expect(filterGroups({ rewards: [alike] }, options).scores[0]).toBeCloseTo(6.1559e-8, 12);
    expect([...filterGroups({ rewards: [alike, alike] }, options).scores]).toEqual([0, 0]);
  });

  it('the threshold is float32, and compared as such', () => {
    const rewards = Array.from({ length: 8 }, () => [0.1, 0.1]);
    // In float64 four of eight equal masses are half of them; the float32 sum of eight .1f is a bit more than eight
    // times .1f.
    expect(filterGroups({ rewards }, { dialect: 'ragen', metric: 'reward', eps: 0, value: 0.5 }).kept).toHaveLength(5);
  });

  it('a reward that float32 cannot hold is refused by name', () => {
    expect(() => filterGroups({ rewards: [[1e39, 0]] }, { dialect: 'ragen' })).toThrow(/1e\+39 is beyond float32/);
  });
});

describe('entropy and length', () => {
  const rewards = [
    [0, 1],
    [0, 0],
    [1, 1],
  ];

  it('metrics go by the column, as the reference logs them', () => {
    const { scores, kept, metrics } = filterGroups(
      { rewards, entropies: [0.5, 1.5, 2, 4, 1, 1] },
      { dialect: 'ragen', metric: 'entropy', strategy: 'top_k_abs', value: 1 },
    );
    expect([...scores]).toEqual([1, 3, 1]);
    expect(kept).toEqual([1]);
    expect(metrics['rollout/in_group_entropy_max']).toBeCloseTo((1.5 + 4 + 1) / 3, 6);
    expect(metrics['rollout/chosen_in_group_mean']).toBe(3);
    expect(Object.keys(metrics).filter((key) => key.includes('reward'))).toEqual([]);
  });

  it('entropy_variance is a std, length a mean', () => {
    const options = { dialect: 'ragen', strategy: 'top_k_abs', value: 1 } as const;
    const entropies = [0, 2, 1, 1, 0, 1];
    const spread = filterGroups({ rewards, entropies }, { ...options, metric: 'entropy_variance' });
    expect(spread.scores[0]).toBe(Math.fround(Math.SQRT2));
    const lengths = [1, 3, 9, 1, 2, 2];
    const longest = filterGroups({ rewards, lengths }, { ...options, metric: 'length' });
    expect([...longest.scores]).toEqual([2, 5, 2]);
    expect(longest.metrics['rollout/in_group_length_mean']).toBe(3);
  });
});
