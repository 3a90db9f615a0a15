// A step's labels and outcomes -> its groups of rollouts: which of them the filter keeps, what each got, and the reward
// buckets that are made of them.
import { ArgumentError } from '../checks/errors.js';
import { filterRows } from '../filter/filter-groups.js';
import { episodeRewards, type FilterResult, resolveFilterOptions } from '../filter/index.js';
import { rowsOf } from '../filter/input/filter-input.js';
import { type FilterWords, LIBRARY_WORDS, type RowColumn } from '../filter/input/filter-words.js';
import type { RunOptions } from './monitor-options.js';
import {
  checkGradients,
  decomposeGradients,
  type GradientDecomposition,
  gradientMetrics,
} from './outcomes/gradient-decomposition.js';
import { type GroupRewards, groupRewards, KEEP_ALL } from './outcomes/group-rewards.js';
import { bucketMetrics, bucketsByRewardStd, type RewardBucket } from './outcomes/reward-buckets.js';
import type { OpenLabels } from './outcomes/step-labels.js';
import type { CheckedOutcomes, EpisodeOutcomes } from './outcomes/step-outcomes.js';

/** Where a monitor's caller gave what the filter looks at. */
const ARGUMENTS: Readonly<Record<RowColumn, string>> = {
  rewards: 'outcomes.rewards',
  groups: 'groups',
  episodes: 'episodes',
  turns: 'turns',
  outcomes: 'outcomes.outcomes',
  entropies: 'outcomes.entropies',
  // `lengths` of a step are those of its reasoning.
  lengths: 'outcomes.responseLengths',
};

const STEP_WORDS: FilterWords = {
  ...LIBRARY_WORDS,
  argument: (column) => ARGUMENTS[column],
  options: {
    excludeNonFinite: 'the option filter: { nonFinite: "exclude" }',
    singletons: 'filter.singletons',
    turnRewards: 'turnRewards',
    leaveOutZero: 'set filter.includeZero to false',
  },
};

/** The filter's choice, and what each group got. Without rewards there is neither. */
export function filteredGroups(
  { groups, episodes, turns }: OpenLabels,
  { rewards, outcomes, entropies, responseLengths }: CheckedOutcomes,
  { filter: options, turnRewards }: RunOptions,
): { filter: FilterResult | undefined; groups: GroupRewards[] | undefined } {
  if (rewards === undefined) {
    if (options !== null) {
      throw new ArgumentError(
        'outcomes.rewards',
        'missing: this monitor filters every step; give the reward of each row',
      );
    }
    return { filter: undefined, groups: undefined };
  }
  const columns = {
    rewards,
    groups,
    episodes,
    turns: episodes && turns,
    outcomes,
    entropies,
    lengths: responseLengths,
  };
  const settings = resolveFilterOptions({ ...(options ?? KEEP_ALL), turnRewards });
  const result = filterRows(rowsOf(columns, STEP_WORDS), settings, STEP_WORDS);
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

/** What a step's buckets of reward std say, and the gradient norms that were taken of them. */
export interface StepBuckets {
  readonly buckets: readonly RewardBucket[] | undefined;
  readonly gradients: GradientDecomposition | undefined;
  /** Under their logged keys. */
  readonly figures: Readonly<Record<string, number>>;
}

/**
 * @param groups undefined where the step has no rewards
 * @throws {ArgumentError} for gradient norms of other buckets
 */
export function stepBuckets(
  outcomes: EpisodeOutcomes,
  options: RunOptions,
  groups: readonly GroupRewards[] | undefined,
  filter: FilterResult | undefined,
): StepBuckets {
  const { gradientNorms } = outcomes;
  const buckets = groups && bucketedGroups(outcomes, options, groups, filter);
  if (gradientNorms !== undefined) {
    const argument = 'outcomes.gradientNorms';
    if (options.buckets === false) {
      throw new ArgumentError(argument, 'this monitor has no buckets: construct it with the option `buckets`');
    }
    checkGradients(gradientNorms, buckets ?? [], argument);
  }
  if (buckets === undefined) return { buckets, gradients: undefined, figures: {} };
  const prefix = bucketPrefix(options);
  const gradients = gradientNorms && decomposeGradients(buckets, gradientNorms);
  const ofGradients = gradients && gradientMetrics(buckets, gradientNorms, gradients, prefix);
  return { buckets, gradients, figures: { ...bucketMetrics(buckets, prefix), ...ofGradients } };
}

/** The reference names the buckets of all groups and those of kept groups apart. */
function bucketPrefix({ buckets, filter }: RunOptions): string {
  return filter !== null && buckets !== false && buckets.groups === 'all' ? 'grad_norm_prefilter' : 'grad_norm';
}

/** @returns undefined where the monitor has none, or the step has no rewards */
function bucketedGroups(
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
