// Figures of all groups and of the kept ones -> flat metrics under the names that each dialect logs
// (docs/reference/filter.md).

import { REFERENCE_ZERO } from './dialects/select-reference.js';
import { filterGate } from './filter-gate.js';
import { type Float32Statistics, float32MeanFigures, type GroupStatistics, meanFigures } from './group-statistics.js';
import type { FilterMetric } from './input/filter-options.js';

export interface MeasuredGroups {
  readonly metric: FilterMetric;
  readonly scores: Float64Array;
  readonly rewards: GroupStatistics | Float32Statistics;
  readonly entropies: GroupStatistics | Float32Statistics | null;
  readonly lengths: GroupStatistics | Float32Statistics | null;
  /** Kept groups, in the order in which the reference adds up their figures. */
  readonly kept: Uint32Array;
  /** [groups] */
  readonly isKept: Uint8Array;
  /** The reference's roundings. */
  readonly float32: boolean;
}

type Column = 'reward' | 'entropy' | 'length';

/** The column that a metric reads. */
export function columnOf(metric: FilterMetric): Column {
  if (metric === 'length') return 'length';
  return metric.startsWith('entropy') ? 'entropy' : 'reward';
}

/** Exactly what the reference logs: the figures of the metric's own column, under two names. */
export function referenceMetrics(measured: MeasuredGroups): Record<string, number> {
  const columns = columnMetrics(measured, columnOf(measured.metric));
  return { ...ownColumnMetrics(measured.metric, columns), ...columns, ...countMetrics(measured) };
}

/** What reward_variance_filtering logs. `variances` as the dialect has them. */
export function upstreamMetrics(variances: Float64Array, kept: Uint32Array): Record<string, number> {
  const groups = variances.length;
  let total = 0;
  let zero = 0;
  for (let group = 0; group < groups; group++) {
    const variance = variances[group] as number;
    total += variance;
    if (variance === 0) zero++;
  }
  let selected = 0;
  for (let at = 0; at < kept.length; at++) selected += variances[kept[at] as number] as number;
  // Added in another order, the same numbers may come to more than their total by a rounding.
  const ratio = total > 0 ? Math.min(1, selected / total) : 0;
  return {
    'reward_variance_filtering/num_groups': groups,
    'reward_variance_filtering/num_kept_groups': kept.length,
    'reward_variance_filtering/kept_group_ratio': groups === 0 ? 0 : kept.length / groups,
    'reward_variance_filtering/total_variance': total,
    'reward_variance_filtering/selected_variance_ratio': ratio,
    'reward_variance_filtering/num_zero_variance_groups': zero,
  };
}

/** Both sets, every column that is given, and what neither has. */
export function fullMetrics(
  measured: MeasuredGroups,
  constant: Uint8Array,
  shapingOnly: number | null,
): Record<string, number> {
  const { metric, rewards, entropies, lengths, kept } = measured;
  const columns = columnMetrics(measured, 'reward');
  if (entropies !== null) take(columns, columnMetrics(measured, 'entropy'));
  if (lengths !== null) take(columns, columnMetrics(measured, 'length'));
  const { ratio } = filterGate(measuredVariances(rewards));
  let constantGroups = 0;
  for (let group = 0; group < constant.length; group++) constantGroups += constant[group] as number;
  const metrics = ownColumnMetrics(metric, columns);
  take(metrics, columns);
  take(metrics, countMetrics(measured));
  metrics['rollout/filter_constant_count'] = constantGroups;
  if (ratio !== null) metrics['rollout/filter_gate'] = ratio;
  if (shapingOnly !== null) metrics['rollout/filter_shaping_only_count'] = shapingOnly;
  take(metrics, upstreamMetrics(rewards.variance, kept));
  return metrics;
}

/**
 * Of groups that have one: the 0 that stands for a singleton's would pass for a prompt that is always alike, and open
 * the gate.
 */
function measuredVariances({ counts, variance }: GroupStatistics): Float64Array {
  let singletons = 0;
  for (let group = 0; group < counts.length; group++) if ((counts[group] as number) < 2) singletons++;
  return singletons === 0 ? variance : variance.filter((_, group) => (counts[group] as number) > 1);
}

/** Spreading several objects into one takes ten times as long, of a small step half of its filter. */
function take(metrics: Record<string, number>, more: Readonly<Record<string, number>>): void {
  for (const key of Object.keys(more)) metrics[key] = more[key] as number;
}

const FIGURES = ['std', 'max', 'mean', 'sum'] as const;

/** Names are made once, not for every step. */
const COLUMN_KEYS = {
  reward: columnKeys('reward', FIGURES),
  entropy: columnKeys('entropy', FIGURES.slice(0, 3)),
  length: columnKeys('length', FIGURES.slice(0, 3)),
};

function columnKeys(column: Column, figures: readonly (typeof FIGURES)[number][]) {
  return figures.map((figure) => ({
    figure,
    all: `rollout/in_group_${column}_${figure}`,
    kept: `rollout/chosen_in_group_${column}_${figure}`,
  }));
}

/** in_group_<column>_… and chosen_in_group_<column>_… */
function columnMetrics(measured: MeasuredGroups, column: Column): Record<string, number> {
  const statistics = statisticsOf(measured, column);
  const means =
    'std' in statistics ? float32MeanFigures(statistics, measured.kept) : meanFigures(statistics, measured.isKept);
  const metrics: Record<string, number> = {};
  for (const { figure, all, kept } of COLUMN_KEYS[column]) {
    metrics[all] = means.all[figure];
    metrics[kept] = means.kept[figure];
  }
  return metrics;
}

/** The figures of the metric's own column have names without a column too. */
function ownColumnMetrics(metric: FilterMetric, columns: Readonly<Record<string, number>>): Record<string, number> {
  const metrics: Record<string, number> = {};
  for (const which of ['all', 'kept'] as const) {
    for (const keys of COLUMN_KEYS[columnOf(metric)].slice(0, 3)) {
      metrics[OWN_KEYS[which][keys.figure]] = columns[keys[which]] as number;
    }
  }
  return metrics;
}

const OWN_KEYS = { all: ownKeys('in_group'), kept: ownKeys('chosen_in_group') };

function ownKeys(prefix: string): Readonly<Record<(typeof FIGURES)[number], string>> {
  const name = (figure: string): string => `rollout/${prefix}_${figure}`;
  return { std: name('std'), max: name('max'), mean: name('mean'), sum: name('sum') };
}

function statisticsOf(
  { rewards, entropies, lengths }: MeasuredGroups,
  column: Column,
): GroupStatistics | Float32Statistics {
  if (column === 'reward') return rewards;
  return (column === 'entropy' ? entropies : lengths) as GroupStatistics | Float32Statistics;
}

function countMetrics({ scores, kept, rewards, metric, float32 }: MeasuredGroups): Record<string, number> {
  const round = float32 ? Math.fround : (value: number) => value;
  const least = metric.endsWith('variance') ? 2 : 1;
  let zero = 0;
  for (let group = 0; group < scores.length; group++) {
    if ((rewards.counts[group] as number) < least) continue;
    if (Math.abs(scores[group] as number) <= round(REFERENCE_ZERO)) zero++;
  }
  return {
    'rollout/filter_kept_count': kept.length,
    'rollout/filter_kept_ratio': scores.length === 0 ? 0 : round(kept.length / scores.length),
    'rollout/filter_zero_count': zero,
  };
}
