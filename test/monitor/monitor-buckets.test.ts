// Buckets of reward std and the gradient decomposition, against the reference's definitions written down plainly.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ArgumentError } from '../../src/checks/errors.js';
import {
  type BucketGradients,
  checkGradients,
  decomposeGradients,
  gradientMetrics,
} from '../../src/step/outcomes/gradient-decomposition.js';
import type { GroupRewards } from '../../src/step/outcomes/group-rewards.js';
import {
  type BucketOptions,
  bucketMetrics,
  bucketsByRewardStd,
  type RewardBucket,
  resolveBuckets,
} from '../../src/step/outcomes/reward-buckets.js';

/** Groups of two rows each, with the given stds; ids from 100 on. */
const groupsOf = (stds: readonly number[]): GroupRewards[] =>
  stds.map((std, index) => ({ id: 100 + index, rows: [2 * index, 2 * index + 1], std }));

function bucketsOf(stds: readonly number[], options: BucketOptions = {}, chosen?: number[]) {
  const rows = Array.from({ length: 2 * stds.length }, (_, row) => row);
  const resolved = resolveBuckets(options);
  if (resolved === false) throw new Error('no buckets');
  return bucketsByRewardStd(groupsOf(stds), { rewards: rows, responseLengths: rows.map(() => 10) }, resolved, chosen);
}

const named = (stds: readonly number[], options?: BucketOptions) =>
  Object.fromEntries(bucketsOf(stds, options).map(({ name, groups }) => [name, groups]));

describe('buckets', () => {
  it('quantile: as many in each, the rest in the last, ties as they come', () => {
    expect(named([3, 1, 2, 1, 5, 4, 0], { count: 3 })).toEqual({
      all: [100, 101, 102, 103, 104, 105, 106],
      bucket_1: [101, 106],
      bucket_2: [102, 103],
      bucket_3: [100, 104, 105],
    });
  });

  it('quantile: with fewer groups than buckets all are in the last, and empty ones are left out', () => {
    expect(named([1, 2])).toEqual({ all: [100, 101], bucket_6: [100, 101] });
  });

  it('fixed_rv: by the edges 0, 1, … 5, the lower one included', () => {
    expect(named([0, 0.99, 1, 4.5, 5, 70], { mode: 'fixed_rv' })).toEqual({
      all: [100, 101, 102, 103, 104, 105],
      bucket_1: [100, 101],
      bucket_2: [102],
      bucket_5: [103],
      bucket_6: [104, 105],
    });
  });

  it('leaves out groups without a std, and can be of chosen groups alone', () => {
    expect(named([1, Number.NaN, 2], { count: 2 })).toEqual({ all: [100, 102], bucket_1: [100], bucket_2: [102] });
    expect(bucketsOf([1, 2, 3], { count: 1 }, [0, 2]).map(({ groups }) => groups)).toEqual([
      [100, 102],
      [100, 102],
    ]);
    expect(bucketsOf([Number.NaN])).toEqual([]);
    expect(bucketsOf([])).toEqual([]);
  });

  it('splits every group into one bucket, by rising std, whatever the stds are', () => {
    const stds = fc.array(fc.oneof(fc.constantFrom(0, 0.5, 1), fc.double({ min: 0, max: 9, noNaN: true })), {
      minLength: 1,
      maxLength: 50,
    });
    fc.assert(
      fc.property(
        stds,
        fc.integer({ min: 1, max: 8 }),
        fc.constantFrom('quantile', 'fixed_rv'),
        (values, count, mode) => {
          const [all, ...split] = bucketsOf(values, { count, mode });
          expect(split.flatMap(({ groups }) => groups).sort()).toEqual(all?.groups.toSorted());
          expect(split.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1, 12);
          split.slice(1).forEach(({ rewardStd }, at) => {
            expect(rewardStd.min).toBeGreaterThanOrEqual(split[at]?.rewardStd.max as number);
          });
          if (mode === 'quantile') {
            const size = Math.floor(values.length / count);
            for (const { name, groups } of split.slice(0, -1)) expect(groups.length, name).toBe(size);
          }
          for (const { groups, rewardStd } of split) {
            const own = groups.map((id) => values[Number(id) - 100] as number);
            expect([Math.min(...own), Math.max(...own)]).toEqual([rewardStd.min, rewardStd.max]);
          }
        },
      ),
    );
  });

  it('logs statistics under the reference’s keys', () => {
    const metrics = bucketMetrics(bucketsOf([0, 1, 3, 5], { count: 2 }), 'grad_norm');
    expect(metrics).toMatchObject({
      'grad_norm/all/sample_count': 8,
      'grad_norm/all/sample_pct': 1,
      'grad_norm/bucket_1/sample_count': 4,
      'grad_norm/bucket_1/sample_pct': 0.5,
      'grad_norm/bucket_1/group_rv_count': 2,
      'grad_norm/bucket_1/reward_std_mean': 0.5,
      'grad_norm/bucket_2/reward_std_min': 3,
      'grad_norm/bucket_2/reward_std_max': 5,
      'grad_norm/bucket_2/reward_mean': 5.5,
      'grad_norm/bucket_2/response_length_mean': 10,
    });
    const [all] = bucketsByRewardStd(
      groupsOf([1]),
      { rewards: [0, 2], outcomes: [0, 1], entropies: [0.5, 1], responseLengths: [3, 4] },
      { mode: 'quantile', count: 1, groups: 'all' },
    );
    expect(bucketMetrics([all as RewardBucket], 'b')).toMatchObject({
      'b/all/reward_mean': 1,
      'b/all/outcome_mean': 0.5,
      'b/all/entropy_mean': 0.75,
      'b/all/response_length_mean': 3.5,
    });
    // Of columns that were not given there is no key at all: a logger would write its undefined down.
    const rows = bucketsByRewardStd(
      groupsOf([0, 1]),
      { rewards: [0, 1, 2, 3] },
      { mode: 'quantile', count: 1, groups: 'all' },
    );
    const figures = [
      'sample_count',
      'sample_pct',
      'group_rv_count',
      'reward_std_mean',
      'reward_std_min',
      'reward_std_max',
    ];
    expect(Object.keys(bucketMetrics(rows, 'b'))).toEqual(
      ['all', 'bucket_1'].flatMap((name) => [...figures, 'reward_mean'].map((figure) => `b/${name}/${figure}`)),
    );
  });

  it.each([
    [{ mode: 'quantiles' }, 'options.buckets.mode'],
    [{ count: 0 }, 'options.buckets.count'],
    [{ groups: 'some' }, 'options.buckets.groups'],
    [{ edges: [] }, 'options.buckets.edges'],
    [6, 'options.buckets'],
  ])('refuses %j', (options, argument) => {
    expect(() => resolveBuckets(options as BucketOptions)).toThrow(expect.objectContaining({ argument }));
  });
});

describe('gradient decomposition', () => {
  const buckets = bucketsOf([0.1, 1, 2], { count: 3 });
  const gradients: BucketGradients = {
    all: { task: 3, kl: 0.5, entropy: 0.5 },
    bucket_1: { task: 0.25, kl: 0.5, entropy: 0.25 },
    bucket_2: { task: 1, kl: 1 },
    bucket_3: { task: 5, entropy: 0.75 },
  };

  it('sets the task against regularisation, bucket by bucket', () => {
    const found = decomposeGradients(buckets, gradients);
    expect(found.buckets.map(({ bucket, regularization, taskShare }) => [bucket, regularization, taskShare])).toEqual([
      ['bucket_1', 0.75, 0.25],
      ['bucket_2', 1, 0.5],
      ['bucket_3', 0.75, 5 / 5.75],
    ]);
    expect(found.all?.taskShare).toBe(0.75);
    expect(found.regularizationDominated).toEqual(['bucket_1', 'bucket_2']);
    expect(found.sentence).toContain('2 of 3 buckets of reward std (bucket_1, bucket_2)');
  });

  it('logs norms as the reference does: whole, a row, a token', () => {
    const metrics = gradientMetrics(buckets, gradients, decomposeGradients(buckets, gradients), 'grad_norm');
    expect(metrics).toMatchObject({
      'grad_norm/bucket_1/task': 0.25,
      'grad_norm/bucket_1/per_sample/task': 0.125,
      'grad_norm/bucket_1/per_token/task': 0.25 / 20,
      'grad_norm/bucket_1/regularization': 0.75,
      'grad_norm/bucket_1/task_share': 0.25,
      'grad_norm/all/per_sample/kl': 0.5 / 6,
    });
    expect(metrics).not.toHaveProperty(['grad_norm/bucket_2/entropy']);
    // Buckets may be left out, and norms but the task's.
    const some: BucketGradients = { bucket_2: { task: 1 } };
    expect(() => checkGradients(some, buckets, 'norms')).not.toThrow();
    expect(gradientMetrics(buckets, some, decomposeGradients(buckets, some), 'g')).toEqual({
      'g/bucket_2/task': 1,
      'g/bucket_2/per_sample/task': 0.5,
      'g/bucket_2/per_token/task': 1 / 20,
      'g/bucket_2/regularization': 0,
      'g/bucket_2/task_share': 1,
    });
  });

  it('gives no share where nothing moves', () => {
    const still = { bucket_1: { task: 0 } };
    expect(decomposeGradients(buckets, still).buckets[0]?.taskShare).toBeNull();
    expect(decomposeGradients(buckets, still).regularizationDominated).toEqual([]);
  });

  it('says that the task leads only of buckets where it does', () => {
    const sentenceOf = (norms: BucketGradients) => decomposeGradients(buckets, norms).sentence;
    const [task, none] = [{ task: 1 }, { task: 0 }];
    expect(sentenceOf({ bucket_1: task, bucket_2: task })).toContain('the larger one in all of 2 buckets');
    expect(sentenceOf({ bucket_1: none, bucket_2: task })).toContain('the larger one in the 1 of 2 buckets');
    expect(sentenceOf({ bucket_1: none, bucket_2: none })).toContain('All gradients are 0');
    expect(sentenceOf({ all: task })).toContain('No norms of single buckets');
  });

  it.each([
    [{ bucket_9: { task: 1 } }, 'norms.bucket_9', 'it has all, bucket_1, bucket_2, bucket_3'],
    [{ all: { kl: 1 } }, 'norms.all.task', 'undefined'],
    [{ all: { task: -1 } }, 'norms.all.task', '-1'],
    [{ all: { task: 1, kl: Number.NaN } }, 'norms.all.kl', 'NaN'],
    [{ all: { task: 1, ppo: 1 } }, 'norms.all.ppo', 'task, kl, entropy'],
    [[1], 'norms', 'an array of 1'],
  ])('refuses %j', (norms, argument, words) => {
    const attempt = () => checkGradients(norms as BucketGradients, buckets, 'norms');
    expect(attempt).toThrow(ArgumentError);
    expect(attempt).toThrow(expect.objectContaining({ argument }));
    expect(attempt).toThrow(words);
  });
});
