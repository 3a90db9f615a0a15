// Groups sorted into buckets by the std of their rewards, and what is in each bucket: RAGEN-2's view of where the task
// gradient comes from (docs/guide/monitor.md; `split_into_buckets` of the reference).
import { checkOptions, is, type OptionTable, optionsObject } from '../../checks/options.js';
import type { GroupRewards } from './group-rewards.js';

/** How groups are sorted into buckets by the std of their rewards. */
export interface BucketOptions {
  /**
   * `quantile` (default): as many groups in each, the rest in the last. `fixed_rv`: in-group std in [0,1), [1,2) …
   * [4,5), [5,∞).
   */
  readonly mode?: 'quantile' | 'fixed_rv' | undefined;
  /** Buckets of `quantile`, at most 65,536. Default 6. */
  readonly count?: number | undefined;
  /** Which groups: `all` (default), or those that the filter `kept`. */
  readonly groups?: 'all' | 'kept' | undefined;
}

export interface ResolvedBuckets {
  readonly mode: 'quantile' | 'fixed_rv';
  readonly count: number;
  readonly groups: 'all' | 'kept';
}

const FIXED_RV_LOWER_EDGES = [0, 1, 2, 3, 4, 5];

/** More than any batch has groups: those that stay empty are made, too. */
const MOST_BUCKETS = 2 ** 16;

const OPTIONS: OptionTable<BucketOptions> = {
  mode: is.oneOf(['quantile', 'fixed_rv']),
  count: is.integer(1, MOST_BUCKETS),
  groups: is.oneOf(['all', 'kept']),
};

/** @throws {ArgumentError} naming the option that is out of range or not known */
export function resolveBuckets(options: BucketOptions | false | undefined): ResolvedBuckets | false {
  if (options === undefined || options === false) return false;
  const argument = 'options.buckets';
  checkOptions(optionsObject(options, argument), OPTIONS, argument);
  const { mode = 'quantile', count = 6, groups = 'all' } = options;
  return { mode, count, groups };
}

/** What the buckets' statistics are taken of; one value a row, [R], where it is there. */
export interface BucketValues {
  readonly rewards: ArrayLike<number>;
  readonly outcomes?: ArrayLike<number> | undefined;
  readonly entropies?: ArrayLike<number> | undefined;
  readonly responseLengths?: ArrayLike<number> | undefined;
}

/** Groups of similar reward std, and what is in them. */
export interface RewardBucket {
  /** `all`, or `bucket_1` (lowest std) on. */
  readonly name: string;
  /** Ids of its groups, in order of first appearance in the step; bigints beyond 2^53. */
  readonly groups: readonly (number | bigint)[];
  /** Rows of these groups, and their share of the rows that are in any bucket. */
  readonly rows: readonly number[];
  readonly share: number;
  /** In-group std (ddof 1) of the reward, over the bucket's groups. */
  readonly rewardStd: { readonly mean: number; readonly min: number; readonly max: number };
  /** Means over the bucket's rows, of what was given; rewards that are not finite are left out. */
  readonly rewardMean: number;
  readonly outcomeMean?: number;
  /** nats a token */
  readonly entropyMean?: number;
  readonly responseLengthMean?: number;
  /** Tokens of all its responses, where response lengths are given. */
  readonly tokens?: number;
}

/**
 * `all` first, then the buckets by rising std; empty ones are left out. A group of one rollout has no std and is in
 * none.
 * @param chosen indices of the groups to sort; default all
 */
export function bucketsByRewardStd(
  groups: readonly GroupRewards[],
  values: BucketValues,
  options: ResolvedBuckets,
  chosen?: readonly number[],
): RewardBucket[] {
  const stdOf = (group: number): number => (groups[group] as GroupRewards).std;
  const usable = (chosen ?? [...groups.keys()]).filter((group) => Number.isFinite(stdOf(group)));
  const split = options.mode === 'quantile' ? byQuantile(usable, stdOf, options.count) : byFixedEdges(usable, stdOf);
  const named = split.map((members, index): [string, number[]] => [`bucket_${index + 1}`, members]);
  const total = rowsOf(usable, groups).length;
  return [['all', usable] as [string, number[]], ...named]
    .filter(([, members]) => members.length > 0)
    .map(([name, members]) => bucketOf(name, members, groups, values, total));
}

/** Equal counts by rising std, ties in the order of the groups; the rest goes to the last bucket. */
function byQuantile(groups: readonly number[], stdOf: (group: number) => number, count: number): number[][] {
  const sorted = [...groups].sort((a, b) => stdOf(a) - stdOf(b) || a - b);
  const size = Math.floor(sorted.length / count);
  return Array.from({ length: count }, (_, at) =>
    sorted.slice(at * size, at === count - 1 ? undefined : (at + 1) * size),
  );
}

function byFixedEdges(groups: readonly number[], stdOf: (group: number) => number): number[][] {
  return FIXED_RV_LOWER_EDGES.map((low, at) => {
    const high = FIXED_RV_LOWER_EDGES[at + 1] ?? Number.POSITIVE_INFINITY;
    return groups.filter((group) => stdOf(group) >= low && stdOf(group) < high);
  });
}

function rowsOf(members: readonly number[], groups: readonly GroupRewards[]): number[] {
  return members.flatMap((group) => [...(groups[group] as GroupRewards).rows]).sort((a, b) => a - b);
}

/** @param total rows of all buckets together */
function bucketOf(
  name: string,
  members: readonly number[],
  groups: readonly GroupRewards[],
  values: BucketValues,
  total: number,
): RewardBucket {
  const ordered = [...members].sort((a, b) => a - b).map((group) => groups[group] as GroupRewards);
  const stds = ordered.map(({ std }) => std);
  const rows = rowsOf(members, groups);
  const meanOf = (column: ArrayLike<number>): number => sumOf(column, rows) / rows.length;
  const { rewards, outcomes, entropies, responseLengths } = values;
  const rewarded = rows.filter((row) => Number.isFinite(rewards[row]));
  return {
    name,
    groups: ordered.map(({ id }) => id),
    rows,
    share: rows.length / total,
    rewardStd: {
      mean: stds.reduce((sum, std) => sum + std, 0) / stds.length,
      min: stds.reduce((least, std) => Math.min(least, std)),
      max: stds.reduce((most, std) => Math.max(most, std)),
    },
    rewardMean: sumOf(rewards, rewarded) / rewarded.length,
    ...(outcomes && { outcomeMean: meanOf(outcomes) }),
    ...(entropies && { entropyMean: meanOf(entropies) }),
    ...(responseLengths && { responseLengthMean: meanOf(responseLengths), tokens: sumOf(responseLengths, rows) }),
  };
}

function sumOf(column: ArrayLike<number>, rows: readonly number[]): number {
  return rows.reduce((total, row) => total + (column[row] as number), 0);
}

/** The buckets' statistics under the reference's keys (`gradient_reporter.py`), and ours beside them. */
export function bucketMetrics(buckets: readonly RewardBucket[], prefix: string): Record<string, number> {
  const metrics: Record<string, number> = {};
  for (const bucket of buckets) {
    const key = (name: string): string => `${prefix}/${bucket.name}/${name}`;
    metrics[key('sample_count')] = bucket.rows.length;
    metrics[key('sample_pct')] = bucket.share;
    metrics[key('group_rv_count')] = bucket.groups.length;
    metrics[key('reward_std_mean')] = bucket.rewardStd.mean;
    metrics[key('reward_std_min')] = bucket.rewardStd.min;
    metrics[key('reward_std_max')] = bucket.rewardStd.max;
    metrics[key('reward_mean')] = bucket.rewardMean;
    if (bucket.outcomeMean !== undefined) metrics[key('outcome_mean')] = bucket.outcomeMean;
    if (bucket.entropyMean !== undefined) metrics[key('entropy_mean')] = bucket.entropyMean;
    if (bucket.responseLengthMean !== undefined) metrics[key('response_length_mean')] = bucket.responseLengthMean;
  }
  return metrics;
}
