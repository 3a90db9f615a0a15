// Rollouts -> the statistics of each group that a dialect ranks by, and those that are the same under all of them.
import { ArgumentError } from '../../checks/errors.js';
import { columnOf } from '../filter-metrics.js';
import {
  type Float32Statistics,
  float32Statistics,
  type GroupStatistics,
  groupStatistics,
  type SpreadStatistics,
} from '../group-statistics.js';
import type { ColumnName } from './filter-input.js';
import type { FilterSettings } from './filter-options.js';
import type { FilterWords } from './filter-words.js';
import type { GroupedRollouts } from './grouped-rollouts.js';

export interface FilterColumns {
  /** float64, with the relative zero test, under every dialect. */
  readonly rewards: SpreadStatistics;
  readonly outcomes: SpreadStatistics | null;
  /** As the dialect computes them. */
  readonly ranked: {
    readonly rewards: GroupStatistics | Float32Statistics;
    readonly entropies: GroupStatistics | Float32Statistics | null;
    readonly lengths: GroupStatistics | Float32Statistics | null;
  };
}

export function measureColumns(
  rollouts: GroupedRollouts,
  { dialect, metric }: FilterSettings,
  { argument }: FilterWords,
  refuse: () => void,
): FilterColumns {
  const { offsets, outcomes, entropies, lengths, float32 } = rollouts;
  const column = columnOf(metric);
  if (column === 'entropy' && entropies === null) {
    throw new ArgumentError(
      argument('entropies'),
      `missing: the metric ${metric} needs the mean token entropy of each row`,
    );
  }
  if (column === 'length' && lengths === null) {
    throw new ArgumentError(argument('lengths'), 'missing: the metric length needs the response tokens of each row');
  }
  const statisticsOf = (name: ColumnName, values: Float64Array | null) =>
    values === null ? null : groupStatistics(argument(name), values, offsets, float32.has(name));
  const rewards = groupStatistics(argument('rewards'), rollouts.rewards, offsets, float32.has('rewards'), refuse);
  const measured = { rewards, outcomes: statisticsOf('outcomes', outcomes) };
  if (dialect === 'ragen') {
    const of = (name: ColumnName, values: Float64Array | null) =>
      values === null ? null : float32Statistics(argument(name), values, offsets);
    const ranked = {
      rewards: float32Statistics(argument('rewards'), rollouts.rewards, offsets),
      entropies: column === 'entropy' ? of('entropies', entropies) : null,
      lengths: column === 'length' ? of('lengths', lengths) : null,
    };
    return { ...measured, ranked };
  }
  const ranked = {
    rewards,
    entropies: statisticsOf('entropies', entropies),
    lengths: statisticsOf('lengths', lengths),
  };
  // Only strict and dapo know rounding when they see it; paper and upstream test for zero itself.
  if (dialect === 'strict' || dialect === 'dapo') return { ...measured, ranked };
  const withRounding = <T extends SpreadStatistics | null>(statistics: T): T =>
    statistics === null ? statistics : { ...statistics, variance: statistics.exactVariance };
  return {
    ...measured,
    ranked: {
      rewards: withRounding(ranked.rewards),
      entropies: withRounding(ranked.entropies),
      lengths: withRounding(ranked.lengths),
    },
  };
}
