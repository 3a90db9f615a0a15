// Sorts a step's groups and outcomes into buckets of reward std, with the gradient norms measured for them.
import { ArgumentError } from '../../checks/errors.js';
import type { FilterResult } from '../../filter/filter-result.js';
import type { StepRows } from '../step-input.js';
import {
  checkGradients,
  decomposeGradients,
  type GradientDecomposition,
  gradientMetrics,
} from './gradient-decomposition.js';
import { type GroupRewards, groupRewards } from './group-rewards.js';
import { bucketMetrics, bucketsByRewardStd, type ResolvedBuckets, type RewardBucket } from './reward-buckets.js';

/** With the reward of its episode at each turn. */
export type SettledRows = Omit<StepRows, 'rewards' | 'outcomes'> & {
  readonly rewards?: ArrayLike<number> | undefined;
  readonly outcomes?: ArrayLike<number> | undefined;
};

export interface BucketRules {
  readonly buckets: ResolvedBuckets | false;
  /** Whether the filter's choice is used. */
  readonly isFiltered: boolean;
}

/** What a step's buckets of reward std say, and the gradient norms that were taken of them. */
export interface StepBuckets {
  readonly buckets?: readonly RewardBucket[] | undefined;
  readonly gradients?: GradientDecomposition | undefined;
  /** Under their logged keys. */
  readonly bucketMetrics: Readonly<Record<string, number>>;
}

/**
 * @param filter undefined if the step has no rewards
 * @throws {ArgumentError} for gradient norms of other buckets
 */
export function stepBuckets(rows: SettledRows, filter: FilterResult | undefined, rules: BucketRules): StepBuckets {
  const { gradientNorms } = rows;
  const buckets = bucketsOf(rows, filter, rules);
  if (gradientNorms !== undefined) {
    const argument = 'outcomes.gradientNorms';
    checkBuckets(rules.buckets, argument);
    checkGradients(gradientNorms, buckets ?? [], argument);
  }
  if (buckets === undefined) return { bucketMetrics: {} };
  const prefix = bucketPrefix(rules);
  const gradients = gradientNorms && decomposeGradients(buckets, gradientNorms);
  const ofGradients = gradients && gradientMetrics(buckets, gradientNorms, gradients, prefix);
  return { buckets, gradients, bucketMetrics: { ...bucketMetrics(buckets, prefix), ...ofGradients } };
}

/** @throws {ArgumentError} naming what cannot be done without buckets */
export function checkBuckets(buckets: ResolvedBuckets | false, argument: string): void {
  if (buckets !== false) return;
  throw new ArgumentError(argument, 'this monitor has no buckets: construct it with the option `buckets`');
}

/** @returns undefined if there are to be none, or the step has no rewards */
export function bucketsOf(
  { rewards, ...values }: SettledRows,
  filter: FilterResult | undefined,
  { buckets, isFiltered }: BucketRules,
): RewardBucket[] | undefined {
  if (buckets === false || rewards === undefined || filter === undefined) return undefined;
  const groups = groupRewards(filter, values.groups);
  const given = { ...values, rewards };
  if (!isFiltered || buckets.groups === 'all') return bucketsByRewardStd(groups, given, buckets);
  const kept = new Set(filter.kept);
  const indices = Array.from(groups.keys()).filter((index) => kept.has((groups[index] as GroupRewards).id));
  return bucketsByRewardStd(groups, given, buckets, indices);
}

/** The reference names the buckets of all groups and those of kept groups apart. */
function bucketPrefix({ buckets, isFiltered }: BucketRules): string {
  return isFiltered && buckets !== false && buckets.groups === 'all' ? 'grad_norm_prefilter' : 'grad_norm';
}
