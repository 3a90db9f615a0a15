// Statistics of groups -> the score of each by the metric asked for, what strict ranks by in its place, and which
// scores are zero.

import { columnOf } from './filter-metrics.js';
import type { Float32Statistics, GroupStatistics, SpreadStatistics } from './group-statistics.js';
import type { FilterColumns } from './input/filter-columns.js';
import type { FilterSettings } from './input/filter-options.js';

export function scoresOf(
  { rewards, entropies, lengths }: FilterColumns['ranked'],
  metric: FilterSettings['metric'],
): Float64Array {
  // What the reference calls a variance is the std.
  const spread = (of: GroupStatistics | Float32Statistics) => ('std' in of ? of.std : of.variance);
  switch (metric) {
    case 'reward_variance':
      return spread(rewards);
    case 'reward':
      return rewards.mean;
    case 'reward_sum':
      return rewards.sum;
    case 'entropy':
      return (entropies as GroupStatistics).mean;
    case 'entropy_variance':
      return spread(entropies as GroupStatistics);
    case 'length':
      return (lengths as GroupStatistics).mean;
  }
}

/** A figure is off by a few units in the last place of the values it is made of. */
const VALUE_ERROR = 2 ** -48;

/**
 * What strict ranks by: the scores, but for what overflow or uneven groups would do to them; and how far off they may
 * be.
 */
export function strictFigures(
  columns: FilterColumns,
  scores: Float64Array,
  metric: FilterSettings['metric'],
): { figures: Float64Array; error: number } {
  const spread = ({ rankedVariance, largest, unit }: SpreadStatistics) => ({
    figures: rankedVariance,
    error: (VALUE_ERROR * largest) / unit,
  });
  const { counts, mean, largest } = columns.rewards;
  if (metric === 'reward_variance') return spread(columns.rewards);
  if (metric === 'entropy_variance') return spread(columns.ranked.entropies as SpreadStatistics);
  if (metric === 'reward') return { figures: scores, error: VALUE_ERROR * largest };
  if (metric !== 'reward_sum') return { figures: scores, error: 0 };
  // A constant added to rewards adds more to larger groups: sums are compared as what a group earns beyond the batch's
  // average.
  let total = 0;
  let rollouts = 0;
  let most = 0;
  const lowest = mean.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY);
  for (let group = 0; group < counts.length; group++) {
    const count = counts[group] as number;
    total += ((mean[group] as number) - lowest) * count;
    rollouts += count;
    most = Math.max(most, count);
  }
  const average = rollouts === 0 ? 0 : total / rollouts;
  const figures = mean.map((value, group) => (value - lowest - average) * (counts[group] as number));
  return { figures, error: VALUE_ERROR * largest * most };
}

/** Which groups includeZero: false leaves out under strict. */
export function strictZero(
  columns: FilterColumns,
  scores: Float64Array,
  metric: FilterSettings['metric'],
): (group: number) => boolean {
  if (metric === 'entropy_variance') {
    const { constant } = columns.ranked.entropies as SpreadStatistics;
    return (group) => constant[group] === 1;
  }
  if (columnOf(metric) !== 'reward') return (group) => scores[group] === 0;
  // A mean reward of 0 means nothing (another offset, another zero): what teaches nothing is a group without
  // spread.
  return (group) => columns.rewards.constant[group] === 1;
}

export function withDdof({ counts, variance }: GroupStatistics, ddof: number): Float64Array {
  if (ddof === 1) return variance;
  return variance.map((value, group) => {
    const count = counts[group] as number;
    return count > ddof ? (value * (count - 1)) / (count - ddof) : 0;
  });
}
