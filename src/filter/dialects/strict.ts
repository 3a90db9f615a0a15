// The choice of groups under `strict`: no result depends on the scale of rewards, on a constant added to them, or on
// rounding.
import type { SpreadStatistics } from '../group-statistics.js';
import { type FilterMetric, type FilterSettings, isSpread } from '../input/filter-options.js';
import type { MeasuredColumns } from '../measure-columns.js';
import { bestGroups, type RankedGroups } from './ranked-groups.js';

/**
 * What a ranked figure means.
 * - `spread`: a variance. Zero carries no signal, and mass is variance.
 * - `level`: an entropy or a length. Zero is zero, and mass is the figure.
 * - `position`: a reward. Its zero is arbitrary, so mass is the distance from the least wanted group.
 */
type FigureKind = 'spread' | 'level' | 'position';

/** A threshold that is missed by less than this share of it is met: it is rounding. */
const SLACK = 1e-9;

/** Figures that differ by less than this share of themselves are equal. */
const ROUNDING = 2 ** -46;

/** A figure is off by a few units in the last place of the values it is made of. */
const VALUE_ERROR = 2 ** -48;

interface StrictGroups extends RankedGroups {
  readonly kind: FigureKind;
  /** By how much two figures of this size may differ and still be ties. */
  rounding(figure: number): number;
}

/**
 * @param candidates groups that may be kept, ascending
 * @returns kept groups, ascending
 */
export function selectStrict(
  columns: MeasuredColumns,
  candidates: Uint32Array,
  { metric, strategy, value, direction, topPMode, eps }: FilterSettings,
): Uint32Array {
  if (candidates.length === 0) return candidates;
  const ranked = { ...strictFigures(columns, metric), candidates, direction };
  if (strategy === 'min_p') return nearBest(ranked, value);
  if (strategy !== 'top_p') {
    // 0.29 · 100 is 28.999999999999996.
    const wanted = strategy === 'top_k' ? Math.floor(value * columns.scores.length + SLACK) : value;
    return bestGroups(ranked, null, wanted, ranked.rounding);
  }
  if (value >= 1) return candidates;
  const masses = topPMode === 'softmax' ? softmaxMasses(ranked) : linearMasses(ranked);
  let total = 0;
  for (let at = 0; at < candidates.length; at++) total += masses[candidates[at] as number] as number;
  if (total > 0) return bestGroups(ranked, masses, (value - eps) * total, ranked.rounding);
  // Without any variance there is nothing to keep; levels and positions that are all alike share the mass.
  if (ranked.kind === 'spread') return candidates.subarray(0, 0);
  return bestGroups(ranked, null, (value - eps) * candidates.length, ranked.rounding);
}

/** The scores, but for what overflow or uneven groups would do to them, and how far rounding may have put them off. */
function strictFigures(
  { rewards, ranked, scores }: MeasuredColumns,
  metric: FilterMetric,
): Pick<StrictGroups, 'figures' | 'kind' | 'rounding'> {
  if (isSpread(metric)) {
    const { rankedVariance, largest, unit } =
      metric === 'reward_variance' ? rewards : (ranked.entropies as SpreadStatistics);
    const error = (VALUE_ERROR * largest) / unit;
    const rounding = (figure: number): number => ROUNDING * figure + error * Math.sqrt(figure);
    return { kind: 'spread', figures: rankedVariance, rounding };
  }
  if (metric !== 'reward' && metric !== 'reward_sum') {
    return { kind: 'level', figures: scores, rounding: (figure) => ROUNDING * figure };
  }
  const { counts, mean, largest } = rewards;
  const within = (error: number) => (figure: number) => ROUNDING * figure + error;
  if (metric === 'reward') return { kind: 'position', figures: scores, rounding: within(VALUE_ERROR * largest) };
  // A constant added to rewards adds more to larger groups: sums are compared as what a group earns beyond the batch's
  // average.
  let total = 0;
  let rollouts = 0;
  const lowest = mean.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY);
  for (let group = 0; group < counts.length; group++) {
    const count = counts[group] as number;
    total += ((mean[group] as number) - lowest) * count;
    rollouts += count;
  }
  const average = rollouts === 0 ? 0 : total / rollouts;
  const figures = mean.map((value, group) => (value - lowest - average) * (counts[group] as number));
  const most = counts.reduce((count, other) => Math.max(count, other), 0);
  return { kind: 'position', figures, rounding: within(VALUE_ERROR * largest * most) };
}

/** The figures of the best and the worst candidate, and how far they are apart: 0 if only rounding separates them. */
function ends({ figures, candidates, direction, rounding }: StrictGroups): {
  best: number;
  worst: number;
  range: number;
} {
  let low = figures[candidates[0] as number] as number;
  let high = low;
  for (let at = 1; at < candidates.length; at++) {
    const figure = figures[candidates[at] as number] as number;
    if (figure < low) low = figure;
    if (figure > high) high = figure;
  }
  const range = high - low <= rounding(Math.max(Math.abs(high), Math.abs(low))) ? 0 : high - low;
  return direction === 'largest' ? { best: high, worst: low, range } : { best: low, worst: high, range };
}

/** [groups] */
function linearMasses(ranked: StrictGroups): Float64Array {
  const { kind } = ranked;
  if (kind === 'spread') return ranked.figures;
  const { worst, range } = ends(ranked);
  if (kind === 'level') return ranked.figures.map((figure) => Math.max(0, figure));
  return ranked.figures.map((figure) => (range === 0 ? 0 : Math.abs(figure - worst)));
}

/**
 * Softmax of the figures brought to mean 0 and std 1 over the groups: at a fixed temperature it would depend on their
 * scale.
 */
function softmaxMasses(ranked: StrictGroups): Float64Array {
  const { figures, candidates } = ranked;
  const { worst, range } = ends(ranked);
  if (range === 0) return new Float64Array(figures.length).fill(1);
  const count = candidates.length;
  // From 0 for the worst to 1 for the best, whichever direction is wanted.
  const place = (group: number): number => Math.abs((figures[group] as number) - worst) / range;
  let mean = 0;
  for (let at = 0; at < count; at++) mean += place(candidates[at] as number) / count;
  let squares = 0;
  for (let at = 0; at < count; at++) squares += (place(candidates[at] as number) - mean) ** 2 / count;
  const std = Math.sqrt(squares);
  return figures.map((_, group) => Math.exp((place(group) - 1) / std));
}

/** min_p: groups whose figure is at least a share of the best one. */
function nearBest(ranked: StrictGroups, value: number): Uint32Array {
  const { figures, kind, candidates, direction } = ranked;
  const { best, worst, range } = ends(ranked);
  const most = best === 0 ? 0 : (best / value) * (1 + SLACK);
  const keeps = (figure: number): boolean => {
    if (kind === 'position') return Math.abs(figure - worst) >= (value - SLACK) * range;
    if (direction === 'largest') return figure >= (value - SLACK) * best;
    return figure <= most;
  };
  return candidates.filter((group) => keeps(figures[group] as number));
}
