// A step's labels and outcomes -> its groups of rollouts: which of them the filter keeps, what each got, and the reward buckets
// that are made of them.
import type { Integers } from '../engine/tensor.js';
import { ArgumentError } from '../errors.js';
import type { FilterResult } from '../filter/index.js';
import { type GroupRewards, groupRewards, KEEP_ALL } from './group-rewards.js';
import type { RunOptions } from './monitor-options.js';
import { bucketsByRewardStd, type RewardBucket } from './reward-buckets.js';
import { filterStep } from './step-filter.js';
import type { OpenLabels } from './step-labels.js';
import type { CheckedOutcomes } from './step-outcomes.js';
import { numbered } from './verdicts/numbered-labels.js';

/** First row of a group whose id no plain number holds; -1 where there is none. */
function firstBeyondNumbers(groups: Integers): number {
  return (groups as readonly (number | bigint)[]).findIndex((id) => !Number.isSafeInteger(Number(id)));
}

/**
 * Filter and buckets name groups by plain numbers: told before anything is scored.
 * @throws {ArgumentError} naming the first id that is none
 */
export function expectGroupNames({ groups }: OpenLabels, { filter, buckets }: RunOptions): void {
  if (filter === null && buckets === false) return;
  const row = firstBeyondNumbers(groups);
  if (row < 0) return;
  const problem = `row ${row} is ${groups[row]}, beyond 2^53, which filter and buckets could not name`;
  throw new ArgumentError('groups', `${problem}: number the groups, for example by first appearance`);
}

/** The filter's choice, and what each group got. Without rewards there is neither. */
export function filteredGroups(
  { groups, episodes, turns }: OpenLabels,
  outcomes: CheckedOutcomes,
  { filter: options }: RunOptions,
): { filter: FilterResult | undefined; groups: GroupRewards[] | undefined } {
  const { rewards } = outcomes;
  if (rewards === undefined) {
    if (options !== null) {
      throw new ArgumentError(
        'outcomes.rewards',
        'missing: this monitor filters every step; give the reward of each row',
      );
    }
    return { filter: undefined, groups: undefined };
  }
  const ids = firstBeyondNumbers(groups) < 0 ? groups : numbered(groups).labels;
  const input = {
    rewards: { values: rewards, groups: ids, episodes, turns: episodes && turns },
    outcomes: outcomes.outcomes,
    entropies: outcomes.entropies,
    lengths: outcomes.responseLengths,
  };
  const rules = options ?? KEEP_ALL;
  const result = filterStep(input, rules);
  const measured = groupRewards(result, ids);
  return { filter: options === null ? undefined : result, groups: measured };
}

/** @returns undefined where the monitor has none, or the step has no rewards */
export function bucketedGroups(
  outcomes: CheckedOutcomes,
  { buckets }: RunOptions,
  groups: readonly GroupRewards[],
  filter: FilterResult | undefined,
): RewardBucket[] | undefined {
  if (buckets === false || outcomes.rewards === undefined) return undefined;
  const values = { ...outcomes, rewards: outcomes.rewards };
  if (filter === undefined || buckets.groups === 'all') return bucketsByRewardStd(groups, values, buckets);
  const kept = new Set(filter.kept);
  const indices = Array.from(groups.keys()).filter((index) => kept.has((groups[index] as GroupRewards).id));
  return bucketsByRewardStd(groups, values, buckets, indices);
}

/** The buckets of a step without finishing it: what a trainer takes gradient norms of. */
export function previewBuckets(labels: OpenLabels, outcomes: CheckedOutcomes, options: RunOptions): RewardBucket[] {
  if (options.buckets === false) {
    throw new ArgumentError('options.buckets', 'this monitor has no buckets: construct it with the option `buckets`');
  }
  const { filter, groups } = filteredGroups(labels, outcomes, options);
  if (groups === undefined)
    throw new ArgumentError('outcomes.rewards', 'missing: buckets are made by the rewards of each group');
  return bucketedGroups(outcomes, options, groups, filter) as RewardBucket[];
}
