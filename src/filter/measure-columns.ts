// Measures what a dialect ranks groups by: statistics of each column, the scores made of them, and which are zero.
import { float32Statistics, type GroupStatistics, groupStatistics, type SpreadStatistics } from './group-statistics.js';
import type { ColumnName, Columns } from './input/filter-input.js';
import { columnOf, type FilterSettings, isSpread, type MetricColumn } from './input/filter-options.js';

/** As the dialect computes them. */
export type RankedColumns = Readonly<Record<MetricColumn, GroupStatistics | null>> & {
  readonly rewards: GroupStatistics;
};

export interface MeasuredColumns {
  /** float64, with the relative zero test, under every dialect. */
  readonly rewards: SpreadStatistics;
  readonly outcomes: SpreadStatistics | null;
  readonly ranked: RankedColumns;
  /** [groups] */
  readonly scores: Float64Array;
  /** Whether a group has the score that includeZero: false leaves out. */
  isZero(group: number): boolean;
}

/** |score| up to this is zero to the reference. */
export const REFERENCE_ZERO = 1e-10;

/** @throws RowsProblem for values that are too large */
export function measureColumns(
  columns: Columns,
  offsets: Int32Array,
  float32: ReadonlySet<ColumnName>,
  settings: FilterSettings,
): MeasuredColumns {
  const { dialect, metric, ddof } = settings;
  const own = columnOf(metric);
  const spreadOf = (name: ColumnName): SpreadStatistics | null => {
    const values = columns[name];
    return values && groupStatistics(name, values, offsets, float32.has(name));
  };
  const rewards = spreadOf('rewards') as SpreadStatistics;
  const outcomes = spreadOf('outcomes');
  const rankedOf = (name: MetricColumn): GroupStatistics | null => {
    const values = columns[name];
    if (dialect === 'ragen') {
      return values && (name === 'rewards' || name === own) ? float32Statistics(name, values, offsets) : null;
    }
    const statistics = name === 'rewards' ? rewards : spreadOf(name);
    // Only strict and dapo know rounding when they see it; paper and upstream test for zero itself.
    if (statistics === null || dialect === 'strict' || dialect === 'dapo') return statistics;
    return { ...statistics, variance: statistics.exactVariance };
  };
  const ranked = {
    rewards: rankedOf('rewards') as GroupStatistics,
    entropies: rankedOf('entropies'),
    lengths: rankedOf('lengths'),
  };
  const scores = scoresOf();
  return { rewards, outcomes, ranked, scores, isZero };

  function scoresOf(): Float64Array {
    if (dialect === 'dapo') return (outcomes ?? rewards).mean;
    const { counts, mean, sum, variance, std } = ranked[own] as GroupStatistics;
    if (dialect === 'upstream' && ddof !== 1) {
      return variance.map((value, group) => {
        const count = counts[group] as number;
        return count > ddof ? (value * (count - 1)) / (count - ddof) : 0;
      });
    }
    // What the reference calls a variance is the std.
    if (isSpread(metric)) return std ?? variance;
    return metric === 'reward_sum' ? sum : mean;
  }

  function isZero(group: number): boolean {
    const score = scores[group] as number;
    if (dialect === 'upstream') return score === 0;
    if (dialect === 'paper') return Math.abs(score) <= REFERENCE_ZERO;
    if (dialect === 'ragen') return Math.abs(score) <= Math.fround(REFERENCE_ZERO);
    if (metric === 'entropy_variance') return (ranked.entropies as SpreadStatistics).constant[group] === 1;
    if (own !== 'rewards') return score === 0;
    // A mean reward of 0 means nothing (another offset, another zero): what teaches nothing is a group without
    // spread.
    return rewards.constant[group] === 1;
  }
}
