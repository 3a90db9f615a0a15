// A step's labels and outcomes -> its groups of rollouts: which of them the filter keeps, what each got, and the reward
// buckets that are made of them.
import { ArgumentError } from '../checks/errors.js';
import { episodeRewards, type FilterResult } from '../filter/index.js';
import type { RunOptions } from './monitor-options.js';
import { type GroupRewards, groupRewards, KEEP_ALL } from './outcomes/group-rewards.js';
import { bucketsByRewardStd, type RewardBucket } from './outcomes/reward-buckets.js';
import { filterStep, STEP_WORDS } from './outcomes/step-filter.js';
import type { OpenLabels } from './outcomes/step-labels.js';
import type { CheckedOutcomes, EpisodeOutcomes } from './outcomes/step-outcomes.js';

/** The filter's choice, and what each group got. Without rewards there is neither. */
export function filteredGroups(
  { groups, episodes, turns }: OpenLabels,
  outcomes: CheckedOutcomes,
  { filter: options, turnRewards }: RunOptions,
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
  const input = {
    rewards: { values: rewards, groups, episodes, turns: episodes && turns },
    outcomes: outcomes.outcomes,
    entropies: outcomes.entropies,
    lengths: outcomes.responseLengths,
  };
  const result = filterStep(input, { ...(options ?? KEEP_ALL), turnRewards });
  const measured = groupRewards(result, groups);
  return { filter: options === null ? undefined : result, groups: measured };
}

/**
 * The outcomes with each turn's reward being its episode's: what buckets and verdicts look at. After filteredGroups(),
 * which names what is wrong with them.
 */
export function withEpisodeRewards(
  { groups, episodes, turns }: OpenLabels,
  outcomes: CheckedOutcomes,
  { turnRewards }: RunOptions,
): EpisodeOutcomes {
  const { rewards, outcomes: unshaped } = outcomes;
  const known = rewards && Float64Array.from(rewards as ArrayLike<number>, (reward) => reward ?? Number.NaN);
  const given = { groups, episodes, turns: episodes && turns, rewards: known, outcomes: unshaped };
  return { ...outcomes, ...episodeRewards(given, turnRewards, STEP_WORDS) };
}

/** @returns undefined where the monitor has none, or the step has no rewards */
export function bucketedGroups(
  outcomes: EpisodeOutcomes,
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
  return bucketedGroups(withEpisodeRewards(labels, outcomes, options), options, groups, filter) as RewardBucket[];
}
