// The choice of groups under `strict`: no result depends on the scale of rewards, on a constant added to them, or on
// rounding.

import type { FilterSettings } from '../input/filter-options.js';
import { bestGroups, type RankedGroups } from './best-groups.js';

/**
 * What a ranked figure means.
 * - `spread`: a variance. Zero carries no signal, and mass is variance.
 * - `level`: an entropy or a length. Zero is zero, and mass is the figure.
 * - `position`: a reward. Its zero is arbitrary, so mass is the distance from the least wanted group.
 */
export type FigureKind = 'spread' | 'level' | 'position';

/** A threshold that is missed by less than this share of it is met: it is rounding. */
const SLACK = 1e-9;

/** Figures that differ by less than this share of themselves are equal. */
const ROUNDING = 2 ** -46;

/**
 * @param figures [groups] what groups are ranked by
 * @param candidates groups that may be kept, ascending
 * @param groups number of all groups, candidates or not: what top_k takes its share of
 * @param error how far off rounding may have put a figure; for spreads: the root of it
 * @returns kept groups, ascending
 */
export function selectStrict(
  figures: Float64Array,
  kind: FigureKind,
  candidates: Uint32Array,
  groups: number,
  error: number,
  settings: Pick<FilterSettings, 'strategy' | 'value' | 'direction' | 'topPMode' | 'eps'>,
): Uint32Array {
  if (candidates.length === 0) return candidates;
  const { strategy, value, direction } = settings;
  const rounding = (figure: number): number =>
    ROUNDING * figure + (kind === 'spread' ? error * Math.sqrt(figure) : error);
  const ranked = { figures, candidates, direction, rounding };
  switch (strategy) {
    case 'top_p':
      return topP(ranked, kind, settings);
    case 'top_k':
      // 0.29 · 100 is 28.999999999999996.
      return bestGroups(ranked, null, Math.floor(value * groups + SLACK));
    case 'top_k_abs':
      return bestGroups(ranked, null, value);
    case 'min_p':
      return nearBest(ranked, kind, value);
  }
}

function topP(
  ranked: RankedGroups,
  kind: FigureKind,
  { value, topPMode, eps }: Pick<FilterSettings, 'value' | 'topPMode' | 'eps'>,
): Uint32Array {
  const { candidates } = ranked;
  if (value >= 1) return candidates;
  const masses = topPMode === 'softmax' ? softmaxMasses(ranked) : linearMasses(ranked, kind);
  let total = 0;
  for (let at = 0; at < candidates.length; at++) total += masses[candidates[at] as number] as number;
  if (total > 0) return bestGroups(ranked, masses, (value - eps) * total);
  // Without any variance there is nothing to keep; levels and positions that are all alike share the mass.
  if (kind === 'spread') return candidates.subarray(0, 0);
  return bestGroups(ranked, null, (value - eps) * candidates.length);
}

/** The figures of the best and the worst candidate, and how far they are apart: 0 where rounding alone parts them. */
function ends({ figures, candidates, direction, rounding }: RankedGroups): {
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
function linearMasses(ranked: RankedGroups, kind: FigureKind): Float64Array {
  if (kind === 'spread') return ranked.figures;
  const { worst, range } = ends(ranked);
  if (kind === 'level') return ranked.figures.map((figure) => Math.max(0, figure));
  return ranked.figures.map((figure) => (range === 0 ? 0 : Math.abs(figure - worst)));
}

/**
 * Softmax of the figures brought to mean 0 and std 1 over the groups: at a fixed temperature it would depend on their
 * scale.
 */
function softmaxMasses(ranked: RankedGroups): Float64Array {
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
function nearBest(ranked: RankedGroups, kind: FigureKind, value: number): Uint32Array {
  const { figures, candidates, direction } = ranked;
  const { best, worst, range } = ends(ranked);
  const most = best === 0 ? 0 : (best / value) * (1 + SLACK);
  const keeps = (figure: number): boolean => {
    if (kind === 'position') return Math.abs(figure - worst) >= (value - SLACK) * range;
    if (direction === 'largest') return figure >= (value - SLACK) * best;
    return figure <= most;
  };
  return candidates.filter((group) => keeps(figures[group] as number));
}
