// Explains each metric of the filter for `collapsar explain`. docs/reference/filter.md has the keys of each dialect; a
// test compares them.
import type { MetricExplanation } from '../metrics/reporting/explanations.js';

export const FILTER_EXPLANATIONS: readonly MetricExplanation[] = [
  {
    keys: [
      'rollout/in_group_std',
      'rollout/in_group_max',
      'rollout/in_group_mean',
      'rollout/chosen_in_group_std',
      'rollout/chosen_in_group_max',
      'rollout/chosen_in_group_mean',
    ],
    definition:
      "Spread, maximum and mean within a group of the filter's column, over all groups and over the kept (chosen) ones.",
    formula: 'mean over groups of std, max, mean within the group',
    advice: 'Std near 0 over all groups: rewards hardly vary, and there is little to learn from.',
  },
  {
    keys: [
      'rollout/in_group_reward_std',
      'rollout/in_group_reward_max',
      'rollout/in_group_reward_mean',
      'rollout/in_group_reward_sum',
      'rollout/chosen_in_group_reward_std',
      'rollout/chosen_in_group_reward_max',
      'rollout/chosen_in_group_reward_mean',
      'rollout/chosen_in_group_reward_sum',
    ],
    definition: 'The same of the rewards.',
    formula: 'mean over groups of std, max, mean, sum within the group',
    advice: 'Compare chosen with all: the filter shall keep groups that vary, not groups that are easy.',
  },
  {
    keys: ['rollout/filter_kept_count', 'rollout/filter_kept_ratio'],
    definition: 'How many groups the filter would keep, and which share.',
    formula: 'kept groups; kept / groups',
    advice: 'Falling towards 0: nearly all rewards are alike within their group. Change the prompts or the reward.',
  },
  {
    keys: ['rollout/empty_after_filter', 'rollout/consecutive_empty_after_filter_steps'],
    definition: 'Whether the filter keeps no group at all, and for how many steps in a row up to this one.',
    formula: '1 where no group is kept, else 0; the count of such steps since the last that kept one',
    advice: 'Above 0: the step has nothing to learn from. Change the prompts or the reward, or filter less strictly.',
  },
  {
    keys: ['rollout/filter_zero_count'],
    definition: 'Groups without spread.',
    formula: 'groups with |score| ≤ 1e-10, those without one (singletons) not counted',
    advice: 'They bring no gradient but that of KL and entropy: leave them out.',
  },
  {
    keys: ['rollout/filter_constant_count'],
    definition: 'Groups whose rewards are all the same.',
    formula: 'constant groups by the relative test, including those of one rollout or none',
    advice: 'They bring no gradient but that of KL and entropy: leave them out.',
  },
  {
    keys: ['rollout/filter_gate'],
    definition: 'Whether filtering is advised at all.',
    formula: 'Std(RV)/Mean(RV) over groups of two rollouts or more',
    advice: 'Low: all groups vary alike, and a filter only throws data away.',
  },
  {
    keys: ['rollout/filter_shaping_only_count'],
    definition: 'Groups that vary by shaping alone.',
    formula: 'kept groups whose outcomes are all the same',
    advice: 'A filter keeps such groups: filter by outcome (dialect dapo), or look at the shaping.',
  },
  {
    keys: [
      'reward_variance_filtering/num_groups',
      'reward_variance_filtering/num_kept_groups',
      'reward_variance_filtering/kept_group_ratio',
    ],
    definition: 'Groups, kept ones, and their share, under the names proposed to verl.',
    formula: 'groups; kept groups; kept / groups',
    advice: 'As rollout/filter_kept_ratio.',
  },
  {
    keys: ['reward_variance_filtering/total_variance', 'reward_variance_filtering/selected_variance_ratio'],
    definition: 'Variance of the rewards over all groups, and the part of it that the kept ones have.',
    formula: 'Σ RV; Σ RV of kept / Σ RV',
    advice: 'top_p keeps the fewest groups with this part of the variance.',
  },
  {
    keys: ['reward_variance_filtering/num_zero_variance_groups'],
    definition: 'Groups without variance.',
    formula: 'groups of variance exactly 0',
    advice: 'They bring no gradient but that of KL and entropy: leave them out.',
  },
];
