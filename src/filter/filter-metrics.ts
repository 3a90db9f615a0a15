// Flat metrics of all groups and of the kept ones, under the names that each dialect logs (docs/reference/filter.md).
import { varianceRatio } from './filter-gate.js';
import { float32Mean } from './float32-sums.js';
import type { GroupStatistics } from './group-statistics.js';
import {
  columnOf,
  type FilterDialect,
  type FilterMetric,
  isSpread,
  type MetricColumn,
} from './input/filter-options.js';
import { type RankedColumns, REFERENCE_ZERO } from './measure-columns.js';

export interface MeasuredGroups {
  readonly metric: FilterMetric;
  readonly scores: Float64Array;
  /** As the dialect computes them. */
  readonly ranked: RankedColumns;
  /** Kept groups, in the order in which their figures are added up. */
  readonly kept: Uint32Array;
}

type Metrics = Record<string, number>;

/**
 * What the dialect logs.
 * @param constant [groups] 1 if all rewards are alike
 * @param shapingOnly groups whose rewards vary only by shaping; null if nothing is known of outcomes
 */
export function filterMetrics(
  dialect: FilterDialect,
  measured: MeasuredGroups,
  constant: Uint8Array,
  shapingOnly: number | null,
): Metrics {
  if (dialect === 'ragen') return referenceMetrics(measured);
  if (dialect === 'upstream') return upstreamMetrics(measured.scores, measured.kept);
  return fullMetrics(measured, constant, shapingOnly);
}

/** Exactly what the reference logs: the figures of the metric's own column, under two names. */
function referenceMetrics(measured: MeasuredGroups): Metrics {
  return Object.assign(columnMetrics(measured, [columnOf(measured.metric)]), countMetrics(measured, Math.fround));
}

/** What reward_variance_filtering logs. `variances` as the dialect has them. */
function upstreamMetrics(variances: Float64Array, kept: Uint32Array): Metrics {
  const groups = variances.length;
  let total = 0;
  let zero = 0;
  for (let group = 0; group < groups; group++) {
    const variance = variances[group] as number;
    total += variance;
    if (variance === 0) zero++;
  }
  const selected = kept.reduce((sum, group) => sum + (variances[group] as number), 0);
  return {
    'reward_variance_filtering/num_groups': groups,
    'reward_variance_filtering/num_kept_groups': kept.length,
    'reward_variance_filtering/kept_group_ratio': groups === 0 ? 0 : kept.length / groups,
    'reward_variance_filtering/total_variance': total,
    // Added in another order, the same numbers may come to more than their total by a rounding.
    'reward_variance_filtering/selected_variance_ratio': total > 0 ? Math.min(1, selected / total) : 0,
    'reward_variance_filtering/num_zero_variance_groups': zero,
  };
}

/** Both sets, every column that is given, and what neither has. */
function fullMetrics(measured: MeasuredGroups, constant: Uint8Array, shapingOnly: number | null): Metrics {
  const { ranked, kept } = measured;
  const given = (['rewards', 'entropies', 'lengths'] as const).filter((column) => ranked[column] !== null);
  const metrics = Object.assign(
    columnMetrics(measured, given),
    countMetrics(measured, (value) => value),
  );
  metrics['rollout/filter_constant_count'] = constant.reduce((count, flag) => count + flag, 0);
  const { counts, variance } = ranked.rewards;
  // A singleton's 0 would pass for a prompt that is always alike, and open the gate.
  const ratio = varianceRatio(
    counts.every((count) => count > 1) ? variance : variance.filter((_, group) => (counts[group] as number) > 1),
  );
  if (ratio !== null) metrics['rollout/filter_gate'] = ratio;
  if (shapingOnly !== null) metrics['rollout/filter_shaping_only_count'] = shapingOnly;
  return Object.assign(metrics, upstreamMetrics(variance, kept));
}

/** Names of the metrics that are logged under another name, too, where all are given. */
const TWICE = /^reward_variance_filtering\/|^rollout\/(chosen_)?in_group_(std|max|mean)$/;

/** Each of the filter's metrics once: under the reference's names, by column, where they have those of other dialects, too. */
export function metricsOnce(metrics: Readonly<Record<string, number>>): Readonly<Record<string, number>> {
  const isFull = 'rollout/filter_kept_count' in metrics && 'reward_variance_filtering/num_groups' in metrics;
  return isFull ? Object.fromEntries(Object.entries(metrics).filter(([key]) => !TWICE.test(key))) : metrics;
}

const NAMES = { rewards: 'reward', entropies: 'entropy', lengths: 'length' } as const;

const FIGURES = ['std', 'max', 'mean'] as const;

/** in_group_<column>_… and chosen_in_group_<column>_…; of the metric's own column under names without a column, too. */
function columnMetrics({ metric, ranked, kept }: MeasuredGroups, columns: readonly MetricColumn[]): Metrics {
  const metrics: Metrics = {};
  const means = new Map(
    columns.map((column) => {
      const statistics = ranked[column] as GroupStatistics;
      return [column, { all: meanFigures(statistics), chosen: meanFigures(statistics, kept) }];
    }),
  );
  const own = means.get(columnOf(metric));
  for (const figure of FIGURES) metrics[`rollout/in_group_${figure}`] = own?.all[figure] as number;
  for (const figure of FIGURES) metrics[`rollout/chosen_in_group_${figure}`] = own?.chosen[figure] as number;
  for (const [column, { all, chosen }] of means) {
    for (const figure of column === 'rewards' ? ([...FIGURES, 'sum'] as const) : FIGURES) {
      metrics[`rollout/in_group_${NAMES[column]}_${figure}`] = all[figure];
      metrics[`rollout/chosen_in_group_${NAMES[column]}_${figure}`] = chosen[figure];
    }
  }
  return metrics;
}

function countMetrics({ scores, kept, ranked, metric }: MeasuredGroups, round: (value: number) => number): Metrics {
  const { counts } = ranked.rewards;
  const least = isSpread(metric) ? 2 : 1;
  let zero = 0;
  for (let group = 0; group < scores.length; group++) {
    if ((counts[group] as number) >= least && Math.abs(scores[group] as number) <= round(REFERENCE_ZERO)) zero++;
  }
  return {
    'rollout/filter_kept_count': kept.length,
    'rollout/filter_kept_ratio': scores.length === 0 ? 0 : round(kept.length / scores.length),
    'rollout/filter_zero_count': zero,
  };
}

/** Means over groups of each group's figures. */
type MeanFigures = Readonly<Record<'std' | 'max' | 'mean' | 'sum', number>>;

/**
 * Means over the chosen groups, in their order; 0 without any. A single rollout has no std, a group without rollouts
 * nothing. The reference's figures are added with its float32 roundings, which depend on that order.
 * @param chosen default all groups
 */
function meanFigures({ counts, variance, std, max, mean, sum }: GroupStatistics, chosen?: Uint32Array): MeanFigures {
  const over = (figureOf: (group: number) => number, least: number): number => {
    const groups = chosen?.length ?? counts.length;
    const terms = std === undefined ? undefined : new Float32Array(groups);
    let total = 0;
    let taken = 0;
    for (let at = 0; at < groups; at++) {
      const group = chosen === undefined ? at : (chosen[at] as number);
      if ((counts[group] as number) < least) continue;
      if (terms === undefined) total += figureOf(group);
      else terms[taken] = figureOf(group);
      taken++;
    }
    if (taken === 0) return 0;
    return terms === undefined ? total / taken : float32Mean(terms, 0, taken);
  };
  return {
    std: over((group) => (std === undefined ? Math.sqrt(variance[group] as number) : (std[group] as number)), 2),
    max: over((group) => max[group] as number, 1),
    mean: over((group) => mean[group] as number, 1),
    sum: over((group) => sum[group] as number, 1),
  };
}
