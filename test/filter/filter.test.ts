// Dialects by hand-made batches, the stated policies, and what is refused.
import { describe, expect, it } from 'vitest';
import { ArgumentError } from '../../src/checks/errors.js';
import { filterGate } from '../../src/filter/filter-gate.js';
import { filterGroups } from '../../src/filter/filter-groups.js';
import type { FilterInput } from '../../src/filter/input/filter-input.js';
import type { FilterOptions } from '../../src/filter/input/filter-options.js';
import { numbersFrom } from './filter-arbitraries.js';

/** Variances 2, .5, 0, .125 (std 1.41, .71, 0, .35). */
const batch = [
  [1, -1],
  [1, 0],
  [1, 1],
  [0.5, 0],
];

function refusal(input: FilterInput, options?: FilterOptions): ArgumentError {
  try {
    filterGroups(input, options);
  } catch (error) {
    if (error instanceof ArgumentError) return error;
    throw error;
  }
  throw new Error('it was not refused');
}

describe('strict', () => {
  it('cumulates variance, where ragen cumulates std', () => {
    expect(filterGroups({ rewards: batch }).scores).toEqual(Float64Array.of(2, 0.5, 0, 0.125));
    // 2 of 2.625 are .76 of the variance; 1.41 of 2.47 are .57 of the std.
    expect(filterGroups({ rewards: batch }, { value: 0.75 }).kept).toEqual([0]);
    expect(filterGroups({ rewards: batch }, { dialect: 'ragen', value: 0.75 }).kept).toEqual([0, 1]);
  });

  it('does not come back empty because rewards are small', () => {
    const small = batch.map((group) => group.map((reward) => reward / 1000));
    expect(filterGroups({ rewards: small }, { dialect: 'ragen' }).empty).toBe(true);
    expect(filterGroups({ rewards: small }, { dialect: 'upstream' }).empty).toBe(true);
    expect(filterGroups({ rewards: small }).kept).toEqual([0, 1]);
  });

  it('gives every reason', () => {
    const { kept, dropped } = filterGroups({ rewards: [...batch, [7]] }, { value: 0.75 });
    expect(kept).toEqual([0]);
    expect(dropped).toEqual([
      { group: 1, reason: 'below_cut' },
      { group: 2, reason: 'zero_score' },
      { group: 3, reason: 'below_cut' },
      { group: 4, reason: 'singleton' },
    ]);
    const nothing = filterGroups(
      {
        rewards: [
          [1, 1],
          [0, 0],
        ],
      },
      { includeZero: true },
    );
    expect(nothing.dropped.map(({ reason }) => reason)).toEqual(['nothing_selected', 'nothing_selected']);
  });

  it('ties go to the first seen, also those that only rounding tells apart', () => {
    // One success of three and two of three have the same variance; 1 − 1/3 and 2 − 4/3 round apart.
    const rewards = [
      [0, 1, 1],
      [0, 0, 1],
      [1, 0, 0],
      [1, 1, 0],
    ].map((group) => group.map((reward) => reward * 0.1 + 0.7));
    for (const direction of ['largest', 'smallest'] as const) {
      for (const count of [1, 2, 3]) {
        const { kept } = filterGroups({ rewards }, { strategy: 'top_k_abs', value: count, direction });
        expect(kept).toEqual([0, 1, 2].slice(0, count));
      }
    }
    expect(filterGroups({ rewards }, { value: 0.5 }).kept).toEqual([0, 1]);
  });

  it('a constant group is one whose rewards differ by rounding alone', () => {
    const noisy = [0.1 + 0.2, 0.3, 0.3];
    const float32 = Float32Array.of(0.8, 0.8, 0.8 + 2 ** -24);
    for (const group of [noisy, float32]) {
      const result = filterGroups({ rewards: [group, group] }, { strategy: 'top_k', value: 1 });
      expect(new Set(group).size).toBe(2);
      expect(result.dropped.map(({ reason }) => reason)).toEqual(['zero_score', 'zero_score']);
      expect([...result.scores]).toEqual([0, 0]);
      expect(result.metrics['rollout/filter_constant_count']).toBe(2);
    }
    // The same size of difference beside larger rewards is no rounding where the rewards have more digits than that.
    expect(filterGroups({ rewards: [[1e-9, 3.3e-9]] }).kept).toEqual([0]);
  });

  it('keeps precision where the first rollout lies far off', () => {
    const group = [1e6, ...Array.from({ length: 5000 }, (_, at) => at % 2)];
    const mean = group.reduce((sum, reward) => sum + reward, 0) / group.length;
    const variance = group.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / (group.length - 1);
    expect((filterGroups({ rewards: [group] }).scores[0] as number) / variance).toBeCloseTo(1, 12);
  });

  it('reward and reward_sum rank positions: negative means are as good as any', () => {
    const rewards = [
      [-5, -5],
      [-1, -1],
      [-3, -3],
      [-2, -2],
    ];
    // Distances from the worst: 0, 4, 2, 3.
    const options = { metric: 'reward', value: 0.7 } as const;
    expect(filterGroups({ rewards }, options).kept).toEqual([1, 3]);
    expect(filterGroups({ rewards }, { ...options, dialect: 'ragen' }).empty).toBe(true);
    expect(filterGroups({ rewards }, { ...options, direction: 'smallest' }).kept).toEqual([0, 2]);
    expect(filterGroups({ rewards }, { metric: 'reward', strategy: 'min_p', value: 0.75 }).kept).toEqual([1, 3]);
  });

  it('levels that are all alike share the mass', () => {
    const options = { metric: 'length', value: 0.5 } as const;
    expect(filterGroups({ rewards: batch, lengths: Array(8).fill(4) }, options).kept).toEqual([0, 1]);
    expect(filterGroups({ rewards: batch, lengths: Array(8).fill(0) }, options).kept).toEqual([0, 1]);
  });

  it('figures that rounding alone tells apart are alike: they share the mass', () => {
    // Means of −1/3 that differ in the last place, since each group starts with another reward.
    const rewards = Array.from({ length: 6 }, (_, group) => (group % 3 === 1 ? [1, -1, -1] : [-1, 1, -1]));
    for (const metric of ['reward', 'reward_sum', 'reward_variance'] as const) {
      for (const topPMode of ['linear', 'softmax'] as const) {
        expect(filterGroups({ rewards }, { metric, topPMode, value: 0.5 }).kept).toEqual([0, 1, 2]);
      }
      expect(filterGroups({ rewards }, { metric, strategy: 'min_p', value: 0.5 }).kept).toHaveLength(6);
    }
  });

  it('top_k takes its share of all groups without rounding one away', () => {
    const rewards = Array.from({ length: 100 }, (_, group) => [0, group + 1]);
    expect(filterGroups({ rewards }, { strategy: 'top_k', value: 0.29 }).kept).toHaveLength(29);
    expect(filterGroups({ rewards }, { strategy: 'top_k', value: 0.29, dialect: 'ragen' }).kept).toHaveLength(28);
  });

  it('softmax says when it keeps groups without variance', () => {
    const options = { topPMode: 'softmax', value: 0.95, includeZero: true } as const;
    const { kept, warnings } = filterGroups({ rewards: batch }, options);
    expect(kept).toContain(2);
    expect(warnings.join()).toMatch(/no variance: softmax/);
    expect(filterGroups({ rewards: batch }, { ...options, includeZero: false }).warnings).toEqual([]);
  });
});

describe('paper', () => {
  it('keeps the smallest set with the share ρ of the variance, and scales the loss with ρ', () => {
    const result = filterGroups({ rewards: batch }, { dialect: 'paper', value: 0.8 });
    expect(result.kept).toEqual([0, 1]);
    expect(result.lossScale).toBe(0.8);
  });
});

describe('upstream', () => {
  // The vectors of the tests of reward_variance_filtering.
  const rows = (values: number[], groups: number[]) => ({ rewards: { values, groups } });
  const signal = rows([-3, 3, -2, 2, -1, 1], [5, 5, 3, 3, 9, 9]);
  const flat = rows([1, 1, 2, 2], [0, 0, 1, 1]);

  it('top_p keeps the smallest prefix of the variance mass', () => {
    const { kept, metrics, rowMask } = filterGroups(signal, { dialect: 'upstream', value: 0.8, eps: 0 });
    expect(kept).toEqual([5, 3]);
    expect([...rowMask]).toEqual([1, 1, 1, 1, 0, 0]);
    expect(metrics).toEqual({
      'reward_variance_filtering/num_groups': 3,
      'reward_variance_filtering/num_kept_groups': 2,
      'reward_variance_filtering/kept_group_ratio': 2 / 3,
      'reward_variance_filtering/total_variance': 28,
      'reward_variance_filtering/selected_variance_ratio': 26 / 28,
      'reward_variance_filtering/num_zero_variance_groups': 0,
    });
  });

  it('top_k is a number of groups', () => {
    expect(filterGroups(signal, { dialect: 'upstream', strategy: 'top_k', value: 2 }).kept).toEqual([5, 3]);
    expect(filterGroups(signal, { dialect: 'upstream', strategy: 'top_k' }).kept).toEqual([5]); // its top_k = 1
    const mixed = rows([-1, 1, 0, 0, 1, 1], [0, 0, 1, 1, 2, 2]);
    const options = { dialect: 'upstream', strategy: 'top_k', value: 2 } as const;
    expect(filterGroups(mixed, options).kept).toEqual([0]);
    expect(filterGroups(mixed, { ...options, includeZero: true }).kept).toEqual([0, 1]);
    expect(filterGroups(mixed, options).dropped).toEqual([
      { group: 1, reason: 'zero_score' },
      { group: 2, reason: 'zero_score' },
    ]);
  });

  it('ties go to the first seen; a batch without variance goes but for include_zero; eps drops a faint one', () => {
    const ties = rows([-1, 1, -1, 1], [1, 1, 0, 0]);
    expect(filterGroups(ties, { dialect: 'upstream', value: 0.5, eps: 0 }).kept).toEqual([1]);
    expect(filterGroups(flat, { dialect: 'upstream' }).kept).toEqual([]);
    expect(filterGroups(flat, { dialect: 'upstream', includeZero: true }).kept).toEqual([0, 1]);
    expect(filterGroups({ rewards: [[0, 0.1]] }, { dialect: 'upstream' }).kept).toEqual([]);
  });

  it('a singleton has variance 0, with ddof 0 too', () => {
    const rewards = [[4], [0, 2]];
    expect([...filterGroups({ rewards }, { dialect: 'upstream' }).scores]).toEqual([0, 2]);
    expect([...filterGroups({ rewards }, { dialect: 'upstream', ddof: 0 }).scores]).toEqual([0, 1]);
    expect(filterGroups({ rewards }, { dialect: 'upstream', includeZero: true, value: 1 }).kept).toEqual([0, 1]);
  });
});

describe('dapo', () => {
  it('drops groups whose accuracy is 0 or 1', () => {
    const { kept, dropped } = filterGroups(
      {
        rewards: [
          [1, 1],
          [0, 1],
          [0, 0],
          [1, 0],
        ],
      },
      { dialect: 'dapo' },
    );
    expect(kept).toEqual([1, 3]);
    expect(dropped).toEqual([
      { group: 0, reason: 'all_succeed' },
      { group: 2, reason: 'all_fail' },
    ]);
  });

  it('takes −1 and 1 as well, and does not rank', () => {
    const rewards = [
      [1, 1, 1],
      [-1, -1, 1],
      [-1, -1, -1],
      [1, 1, -1],
    ];
    const options = { dialect: 'dapo', strategy: 'top_k', value: 0.1 } as const;
    expect(filterGroups({ rewards }, options).kept).toEqual([1, 3]);
    expect(
      filterGroups(
        {
          rewards: [
            [1, 1],
            [1, 1],
          ],
        },
        options,
      ).dropped[0]?.reason,
    ).toBe('all_succeed');
    expect(
      filterGroups(
        {
          rewards: [
            [0, 0],
            [0, 0],
          ],
        },
        options,
      ).dropped[0]?.reason,
    ).toBe('all_fail');
  });

  it('goes by the outcome where there is one, and asks for it where rewards are shaped', () => {
    const rewards = [
      [0.1, 0.2],
      [1.1, 0.2],
      [0.4, 0.4],
    ];
    const outcomes = [
      [0, 0],
      [1, 0],
      [0, 1],
    ];
    expect(filterGroups({ rewards, outcomes }, { dialect: 'dapo' }).kept).toEqual([1, 2]);
    const without = filterGroups({ rewards }, { dialect: 'dapo' });
    expect(without.kept).toEqual([0, 1]);
    expect(without.warnings.join()).toMatch(/give outcomes/);
  });
});

describe('outcomes beside shaped rewards', () => {
  const rewards = [
    [0, -0.3, -0.1],
    [1, 0.7, 0],
    [1, 1, 1],
  ];
  const outcomes = [
    [0, 0, 0],
    [1, 1, 0],
    [1, 1, 1],
  ];

  it('warns of variance that comes from shaping alone', () => {
    const { kept, warnings, metrics } = filterGroups({ rewards, outcomes }, { value: 1 });
    expect(kept).toEqual([0, 1]);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(/1 of 2 kept groups has reward variance from shaping alone.*group 0/);
    expect(metrics['rollout/filter_shaping_only_count']).toBe(1);
  });

  it('does not when such groups are not kept, or nothing is known of outcomes', () => {
    expect(filterGroups({ rewards, outcomes }, { value: 0.5 }).warnings).toEqual([]);
    expect(filterGroups({ rewards }, { value: 1 }).warnings).toEqual([]);
  });

  it('warns of normalised advantages in place of rewards', () => {
    const normalised = Array.from({ length: 10 }, (_, group) => {
      const raw = [group, 2 * group + 1, 0, group * group];
      const mean = raw.reduce((sum, value) => sum + value, 0) / 4;
      const std = Math.sqrt(raw.reduce((sum, value) => sum + (value - mean) ** 2, 0) / 4);
      return raw.map((value) => (value - mean) / std);
    });
    expect(filterGroups({ rewards: normalised }).warnings.join()).toMatch(/normalised advantages/);
    expect(filterGroups({ rewards: normalised.map((group) => group.map((value) => 2 * value)) }).warnings).toEqual([]);
  });
});

describe('singletons', () => {
  const rewards = [[1], [0, 1], [2]];

  it('are dropped, kept or refused, and never NaN', () => {
    for (const dialect of ['strict', 'ragen', 'paper', 'dapo'] as const) {
      const dropped = filterGroups({ rewards }, { dialect });
      expect(dropped.kept).toEqual([1]);
      expect(dropped.warnings.join()).toMatch(/2 groups have a single rollout/);
      expect(filterGroups({ rewards }, { dialect, singletons: 'keep' }).kept).toEqual([0, 1, 2]);
      expect(refusal({ rewards }, { dialect, singletons: 'error' }).message).toMatch(/group 0 has one rollout/);
      const figures = [...dropped.scores, ...Object.values(dropped.metrics)];
      expect(figures.filter((value) => !Number.isFinite(value))).toEqual([]);
    }
    expect(filterGroups({ rewards: [[1], [2]] }, { dialect: 'ragen' }).metrics['rollout/in_group_std']).toBe(0);
  });

  it('are groups like any other where the metric is no spread', () => {
    const options = { metric: 'reward', strategy: 'top_k_abs', value: 1 } as const;
    expect(filterGroups({ rewards }, options).kept).toEqual([2]);
    expect(filterGroups({ rewards }, options).warnings).toEqual([]);
  });
});

describe('turn rows', () => {
  const rewards = {
    values: [0, 1, 5, 5, 2],
    groups: [0, 0, 0, 1, 1],
    episodes: [7, 7, 8, 7, 8],
    turns: [1, 0, 0, 0, 0],
  };

  it('must agree on the reward of their episode, or a rule says whose it is', () => {
    expect(refusal({ rewards }).message).toMatch(
      /row 0 has 0, but another turn of its episode \(row 1\) has 1.*turnRewards/,
    );
    const scores = (turnRewards: NonNullable<FilterOptions['turnRewards']>) => [
      ...filterGroups({ rewards }, { metric: 'reward', strategy: 'top_k', value: 1, turnRewards }).scores,
    ];
    expect(scores('first')).toEqual([3, 3.5]);
    expect(scores('last')).toEqual([2.5, 3.5]);
    expect(scores('sum')).toEqual([3, 3.5]);
  });

  it('add up their lengths and average their entropies, as the reference does', () => {
    const input = {
      rewards: { ...rewards, values: [1, 1, 5, 5, 2] },
      lengths: [2, 3, 1, 4, 4],
      entropies: [1, 2, 3, 4, 4],
    };
    const options = { strategy: 'top_k', value: 1 } as const;
    expect([...filterGroups(input, { ...options, metric: 'length' }).scores]).toEqual([3, 4]);
    expect([...filterGroups(input, { ...options, metric: 'entropy' }).scores]).toEqual([2.25, 4]);
  });

  it('are numbered once', () => {
    const twice = { ...rewards, values: [1, 1, 5, 5, 2], turns: [0, 0, 0, 0, 0] };
    expect(refusal({ rewards: twice }).message).toMatch(
      /rewards.turns: row 1 is turn 0 of its episode, which is there already/,
    );
  });
});

describe('loss scale', () => {
  it.each([
    ['none', 1],
    ['linear', 0.25],
    ['sqrt', 0.5],
    ['rho', 0.75],
  ] as const)('is as stated: %s', (lossScale, wanted) => {
    expect(filterGroups({ rewards: batch }, { value: 0.75, lossScale }).lossScale).toBe(wanted);
  });

  it('of nothing kept is 0, but for none; rho of a strategy without a share is the kept ratio', () => {
    const rewards = [[1, 1]];
    expect(filterGroups({ rewards }, { lossScale: 'sqrt' }).lossScale).toBe(0);
    expect(filterGroups({ rewards }, { lossScale: 'rho' }).lossScale).toBe(0);
    expect(filterGroups({ rewards }).lossScale).toBe(1);
    expect(filterGroups({ rewards: batch }, { strategy: 'top_k_abs', value: 1, lossScale: 'rho' }).lossScale).toBe(
      0.25,
    );
  });
});

describe('metrics', () => {
  it('strict gives both known sets and its own', () => {
    const { metrics } = filterGroups({
      rewards: batch,
      lengths: [1, 2, 3, 4, 5, 6, 7, 8],
      entropies: Array(8).fill(1),
    });
    expect(metrics).toMatchObject({
      'rollout/in_group_reward_mean': (0 + 0.5 + 1 + 0.25) / 4,
      'rollout/in_group_reward_sum': (0 + 1 + 2 + 0.5) / 4,
      'rollout/in_group_max': 0.875,
      'rollout/chosen_in_group_mean': 0.25,
      'rollout/in_group_length_mean': 4.5,
      'rollout/in_group_entropy_std': 0,
      'rollout/filter_kept_count': 2,
      'rollout/filter_kept_ratio': 0.5,
      'rollout/filter_zero_count': 1,
      'rollout/filter_constant_count': 1,
      'reward_variance_filtering/num_zero_variance_groups': 1,
      'reward_variance_filtering/total_variance': 2.625,
      'reward_variance_filtering/selected_variance_ratio': 2.5 / 2.625,
    });
    expect(metrics['rollout/filter_gate']).toBeCloseTo(filterGate([2, 0.5, 0, 0.125]).ratio as number, 12);
  });

  it('every figure is the mean over all groups and over the kept ones, of each column', () => {
    const rewards = [[3, -1, 0.5], [1, 0], [2, 2, 2], [0.5, 0.25], [4]];
    const lengths = [[9, 4, 2], [7, 3], [1, 1, 5], [6, 8], [2]];
    const entropies = [[0.5, 1, 2], [0.25, 3], [1, 1.5, 1], [2, 0.75], [1]];
    const { kept, metrics } = filterGroups({ rewards, lengths, entropies }, { value: 0.97 });
    expect(kept).toEqual([0, 1]);
    const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
    const mean = (values: readonly number[]): number => sum(values) / values.length;
    const std = (values: readonly number[]): number =>
      Math.sqrt(sum(values.map((value) => (value - mean(values)) ** 2)) / (values.length - 1));
    for (const [column, groups] of Object.entries({ reward: rewards, length: lengths, entropy: entropies })) {
      for (const [prefix, chosen] of [
        ['in_group', groups],
        ['chosen_in_group', kept.map((group) => groups[group] as number[])],
      ] as const) {
        const figures = {
          // A single rollout has no std.
          std: mean(chosen.filter((group) => group.length > 1).map(std)),
          max: mean(chosen.map((group) => Math.max(...group))),
          mean: mean(chosen.map(mean)),
          ...(column === 'reward' && { sum: mean(chosen.map(sum)) }),
        };
        for (const [figure, value] of Object.entries(figures)) {
          expect(metrics[`rollout/${prefix}_${column}_${figure}`], `${prefix} ${column} ${figure}`).toBeCloseTo(
            value,
            12,
          );
        }
      }
    }
    // Sums are the reward's alone.
    expect(Object.keys(metrics).filter((key) => key.endsWith('_sum'))).toEqual([
      'rollout/in_group_reward_sum',
      'rollout/chosen_in_group_reward_sum',
    ]);
  });

  it('the gate is over groups that have a variance: a singleton, or a group without rollouts, is no prompt that is always alike', () => {
    const gateOf = (rewards: number[][], options: FilterOptions = {}) =>
      filterGroups({ rewards }, options).metrics['rollout/filter_gate'];
    const alike = [
      [1, 0],
      [0, 1],
    ];
    for (const dialect of ['strict', 'paper', 'dapo'] as const) {
      expect(gateOf(alike, { dialect })).toBe(0);
      expect(gateOf([...alike, [1], [0]], { dialect })).toBe(0);
      expect(gateOf([...alike, [1], [0]], { dialect, singletons: 'keep' })).toBe(0);
      expect(gateOf([...alike, [Number.NaN, Number.NaN], [1, Number.NaN]], { dialect, nonFinite: 'exclude' })).toBe(0);
      expect(gateOf([[1, 0], [1]], { dialect })).toBeUndefined();
    }
  });

  it('the gate knows what the paper measured', () => {
    expect(filterGate([0, 0, 0, 1]).verdict).toBe('filter');
    expect(filterGate([1, 1.1, 0.9]).verdict).toBe('keep_all');
    expect(filterGate([0, 1]).verdict).toBe('unclear');
    expect(filterGate([0, 0]).verdict).toBe('unknown');
    expect(filterGate([3]).ratio).toBe(null);
  });
});

describe('nothing', () => {
  it.each(['strict', 'ragen', 'paper', 'upstream', 'dapo'] as const)('%s of no groups is empty', (dialect) => {
    const forms: FilterInput['rewards'][] = [[], { values: [], groupSize: 4 }, { values: [], groups: [] }];
    for (const rewards of forms) {
      const result = filterGroups({ rewards }, { dialect });
      expect(result).toMatchObject({ kept: [], dropped: [], empty: true, warnings: [] });
      expect(result.rowMask).toHaveLength(0);
      expect(Object.values(result.metrics).filter((value) => value !== 0)).toEqual([]);
    }
  });
});

describe('bad input', () => {
  it.each([
    [{ rewards: [[0, Number.NaN]] }, /^rewards: row 1 \(group 0, rollout 1\) is NaN, expected a finite number/],
    [{ rewards: [[0], [1, Number.NEGATIVE_INFINITY]] }, /row 2 \(group 1, rollout 1\) is -Infinity/],
    [{ rewards: { values: [1, Number.POSITIVE_INFINITY], groups: [3, 4] } }, /^rewards: row 1 is Infinity/],
    [{ rewards: [[0, 1], []] }, /group 1 has no rollouts/],
    [{ rewards: [1, 2] }, /group 0 is 1.*give \{ values, groups \}/],
    [{ rewards: [['1', 0]] }, /group 0, rollout 0 is "1", expected a number/],
    [{ rewards: { values: [1, 2, 3], groupSize: 2 } }, /3 values cannot be split into groups of 2/],
    [{ rewards: { values: [1, 2, 3], groups: [1, 2] } }, /rewards.groups: 2 ids, but there are 3 rewards/],
    [{ rewards: { values: [1, 2], groups: [1, 0.5] } }, /rewards.groups: row 1 is 0.5, expected a whole number/],
    [{ rewards: { values: [1, 2], groups: [1, 1], turns: [0, 1] } }, /given without rewards.episodes/],
    [{ rewards: { values: [1], groups: [2n ** 64n] } }, /id 18446744073709551616 does not fit in 64 bits/],
    [{ rewards: { values: [1, 2] } }, /rewards.groupSize: undefined/],
    [{ rewards: [[0, 1]], outcomes: [[0]] }, /outcomes: group 0 has 1 rollout, but 2 rewards/],
    [{ rewards: [[0, 1]], lengths: [1, 2, 3] }, /lengths: 3 values, but there are 2 rewards/],
    [{ rewards: [[0, 1]], entropies: [0, Number.NaN] }, /entropies: row 1 \(group 0, rollout 1\) is NaN/],
    [{ rewards: [[0, 1e200]] }, /expected at most 1e\+100/],
    [{}, /expected an object with rewards/],
  ] as [FilterInput, RegExp][])('is refused by name, case %#', (input, wanted) => {
    expect(refusal(input).message).toMatch(wanted);
  });

  it.each([
    [{ dialect: 'verl' }, /options.dialect: got "verl", expected "strict", "ragen", "paper", "upstream" or "dapo"/],
    [{ strategy: 'top' }, /options.strategy: got "top", expected "top_p", "top_k", "top_k_abs" or "min_p"/],
    [{ metric: 'variance' }, /options.metric/],
    [{ direction: 'up' }, /options.direction/],
    [{ value: 1.5 }, /options.value: 1.5: top_p needs a share/],
    [{ value: 0 }, /options.value/],
    [{ value: Number.NaN }, /options.value: NaN/],
    [{ strategy: 'top_k', value: 3 }, /for a number of groups use top_k_abs/],
    [{ strategy: 'top_k_abs', value: 0.5 }, /whole number of groups/],
    [{ strategy: 'min_p', value: -0.1 }, /from 0 to 1/],
    [{ strategy: 'top_k' }, /options.value: missing/],
    [{ dialect: 'ragen', value: -1 }, /from 0 on/],
    [{ dialect: 'upstream', strategy: 'min_p', value: 0.5 }, /does not have/],
    [{ dialect: 'upstream', strategy: 'top_k', value: 0.5 }, /whole number of groups/],
    [{ dialect: 'upstream', metric: 'reward' }, /does not have/],
    [{ eps: -1 }, /options.eps/],
    [{ ddof: 0 }, /only the dialect "upstream"/],
    [{ includeZero: 1 }, /options.includeZero/],
    [{ singletons: 'zero' }, /options.singletons/],
    [{ metric: 'entropy' }, /entropies: missing/],
    [{ metric: 'length' }, /lengths: missing/],
  ] as unknown as [FilterOptions, RegExp][])('options %j', (options, wanted) => {
    expect(refusal({ rewards: batch }, options).message).toMatch(wanted);
  });

  it('rollouts with a bad reward are left out when asked to, and named', () => {
    const rewards = [[0, Number.NaN, 1], [Number.NaN], [0, 0.1]];
    const { kept, dropped, warnings, rollouts, rowMask } = filterGroups({ rewards }, { nonFinite: 'exclude' });
    expect(kept).toEqual([0]);
    expect([...rollouts]).toEqual([2, 0, 2]);
    expect(dropped).toEqual([
      { group: 1, reason: 'no_rollouts' },
      { group: 2, reason: 'below_cut' },
    ]);
    expect([...rowMask]).toEqual([1, 0, 1, 0, 0, 0]);
    expect(warnings[0]).toMatch(/2 rollouts were left out.*row 1 \(group 0, rollout 1\); row 3 \(group 1, rollout 0\)/);
  });

  it.each(['same', 'first', 'sum'] as const)('a bad reward of any turn counts under %s', (turnRewards) => {
    const values = [1, Number.NaN, 1, 0, 5, 4];
    const rewards = { values, groups: [1, 1, 1, 1, 2, 2], episodes: [1, 1, 1, 2, 1, 2], turns: [0, 1, 2, 0, 0, 0] };
    expect(refusal({ rewards }, { turnRewards }).message).toMatch(/^rewards: row 1 is NaN, expected a finite number/);
    const { kept, rowMask, warnings } = filterGroups({ rewards }, { turnRewards, nonFinite: 'exclude' });
    expect(kept).toEqual([2]);
    expect([...rowMask]).toEqual([0, 0, 0, 0, 1, 1]);
    expect(warnings[0]).toBe('1 rollout was left out because the reward is NaN or infinite: row 1');
  });

  it('turns before the last need no reward where the last one has it', () => {
    const rewards = {
      values: [Number.NaN, 1, Number.NaN, 0, 5, 4],
      groups: [1, 1, 1, 1, 2, 2],
      episodes: [1, 1, 2, 2, 3, 4],
    };
    for (const nonFinite of ['error', 'exclude'] as const) {
      const { scores, warnings } = filterGroups({ rewards }, { turnRewards: 'last', nonFinite });
      expect([...scores]).toEqual([0.5, 0.5]);
      expect(warnings).toEqual([]);
    }
    const without = { ...rewards, values: [Number.NaN, 1, 3, Number.NaN, 5, 4] };
    const { scores, rollouts, warnings } = filterGroups(
      { rewards: without },
      { turnRewards: 'last', nonFinite: 'exclude' },
    );
    expect([...scores]).toEqual([0, 0.5]);
    expect([...rollouts]).toEqual([1, 2]);
    expect(warnings[0]).toBe('1 rollout was left out because the reward is NaN or infinite: row 3');
  });

  it('rewards of up to 1e100 are taken, however far they lie apart', () => {
    const { kept, scores } = filterGroups(
      {
        rewards: [
          [1e100, -1e100],
          [1e99, 0],
        ],
      },
      { strategy: 'top_k_abs', value: 1 },
    );
    expect(kept).toEqual([0]);
    expect(scores[0] as number).toBeCloseTo(2e200, -187);
    expect(refusal({ rewards: [[1.5e100, 0]] }).message).toMatch(/^rewards: values up to 1.5e\+100 in size/);
  });

  it('rewards too small for their squares are ranked, and scored in their own unit', () => {
    const rewards = [
      [0, 2 ** -500],
      [0, 2 ** -501],
      [2 ** -500, 2 ** -500],
    ];
    const { kept, scores, dropped } = filterGroups({ rewards }, { strategy: 'top_k_abs', value: 1 });
    expect(kept).toEqual([0]);
    expect([...scores]).toEqual([2 ** -1001, 2 ** -1003, 0]);
    expect(dropped.map(({ reason }) => reason)).toEqual(['below_cut', 'zero_score']);
  });

  it('ragen refuses rewards whose figures are beyond float32', () => {
    for (const rewards of [
      [
        [3e38, -3e38],
        [1, 0],
      ],
      [
        [3e38, 3e38],
        [1, 0],
      ],
    ]) {
      expect(refusal({ rewards }, { dialect: 'ragen' }).message).toMatch(/^rewards: values whose sum or std is beyond/);
    }
  });

  it('nothing that was given is changed', () => {
    const values = Float64Array.of(3, 1, 2, 2, 5, 0);
    const groups = Int32Array.of(1, 0, 1, 0, 2, 2);
    filterGroups({ rewards: { values, groups } });
    expect([...values]).toEqual([3, 1, 2, 2, 5, 0]);
    expect([...groups]).toEqual([1, 0, 1, 0, 2, 2]);
  });
});

describe('many groups', () => {
  it.each([
    ['reward_variance', 'largest'],
    ['reward_variance', 'smallest'],
    ['reward', 'largest'],
    ['reward', 'smallest'],
  ] as const)('%s, %s: taking buckets whole gives what sorting all gives', (metric, direction) => {
    // More groups than are sorted at once, of widely different scales and signs, with many ties.
    const next = numbersFrom(7);
    const rewards = Array.from({ length: 9000 }, () => {
      const scale = 2 ** ((next() % 24) - 14) * (next() % 2 === 0 ? 1 : -1);
      return [0, (next() % 5) * scale, (next() % 3) * scale];
    });
    const figures = rewards.map((group) => {
      const mean = group.reduce((sum, reward) => sum + reward, 0) / 3;
      return metric === 'reward' ? mean : group.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / 2;
    });
    const sign = direction === 'largest' ? -1 : 1;
    const areTied = (a: number, b: number) => Math.abs(a - b) <= 1e-12 * Math.max(Math.abs(a), Math.abs(b));
    const order = figures
      .map((_, at) => at)
      .sort((a, b) => {
        const [left, right] = [figures[a] as number, figures[b] as number];
        return areTied(left, right) ? a - b : sign * (left - right);
      });
    for (const count of [1, 17, 4000, 8999, 9000]) {
      const options = { metric, direction, includeZero: true, strategy: 'top_k_abs', value: count } as const;
      const found = filterGroups({ rewards }, options).kept;
      expect(found).toEqual(order.slice(0, count).sort((a, b) => a - b));
    }
    const worst = figures[order.at(-1) as number] as number;
    const masses = figures.map((figure) => (metric === 'reward' ? Math.abs(figure - worst) : figure));
    const total = masses.reduce((sum, mass) => sum + mass, 0);
    for (const value of [0.001, 0.5, 0.9, 0.999]) {
      let [reached, count] = [0, 0];
      while (reached < (value - 1e-9) * total) reached += masses[order[count++] as number] as number;
      const found = filterGroups({ rewards }, { metric, direction, includeZero: true, value }).kept;
      expect(found).toEqual(order.slice(0, count).sort((a, b) => a - b));
    }
  });

  it('a sort of packed keys gives what a sort with a comparator gives', () => {
    // Keys that agree in their leading bits, ties, negative ones and −0.
    const means = Array.from({ length: 3000 }, (_, at) => {
      const base = [1, 1 + 2 ** -40, 1 + 2 ** -22, -1 - 2 ** -40, -1, 0, -0, -7.25, 300][(at * 7) % 9] as number;
      return at % 5 === 0 ? base + at * 2 ** -45 : base;
    });
    for (const direction of ['largest', 'smallest'] as const) {
      const order = means
        .map((_, at) => at)
        .sort((a, b) => {
          const [left, right] = [Math.fround(means[a] as number), Math.fround(means[b] as number)];
          return (direction === 'largest' ? right - left : left - right) || a - b;
        });
      for (const count of [1, 500, 1234, 2999]) {
        const { kept } = filterGroups(
          { rewards: means.map((mean) => [mean, mean]) },
          { dialect: 'ragen', metric: 'reward', strategy: 'top_k_abs', value: count, direction },
        );
        expect(kept).toEqual(order.slice(0, count).sort((a, b) => a - b));
      }
    }
  });
});

describe('turns of 64 bits', () => {
  it('are exact or refused, and never rounded to one another', () => {
    const rows = (turns: BigInt64Array): FilterInput => {
      const groups = [0, 0, 1, 1];
      return { rewards: { values: [0, 1, 0, 1], groups, episodes: [0, 1, 2, 3], turns } };
    };
    expect(filterGroups(rows(BigInt64Array.of(0n, 1n, 2n, 3n))).kept).toEqual([0, 1]);
    const { message } = refusal(rows(BigInt64Array.of(0n, 1n, 2n ** 53n, 2n ** 53n + 1n)));
    expect(message).toContain('row 2 is 9007199254740992, beyond 2^53');
  });
});
