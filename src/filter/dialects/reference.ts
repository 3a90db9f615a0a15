// The reference's choice of groups (docs/reference/filter.md), written once for two number formats: float32 as its code
// computes (`ragen`), and float64 as its paper writes it (`paper`).
import { float32Sum } from '../float32-sums.js';
import type { FilterSettings } from '../input/filter-options.js';
import { type MeasuredColumns, REFERENCE_ZERO } from '../measure-columns.js';
import { type RankedGroups, sortedGroups } from './ranked-groups.js';

/** In which every figure, threshold and comparison is held. */
interface Arithmetic {
  round(value: number): number;
  sum(values: Float64Array): number;
  /** Whether top_p keeps nothing if the mass that is left by scores above 0 does not reach the threshold. */
  readonly emptyUnlessReached: boolean;
}

const FLOAT32: Arithmetic = {
  round: Math.fround,
  sum: (values) => float32Sum(Float32Array.from(values), 0, values.length),
  emptyUnlessReached: true,
};

const FLOAT64: Arithmetic = {
  round: (value) => value,
  sum: (values) => values.reduce((total, value) => total + value, 0),
  emptyUnlessReached: false,
};

/**
 * @param candidates groups that may be kept, ascending
 * @returns kept groups, in the order in which the reference chooses them
 */
export function selectByReference(
  { scores }: MeasuredColumns,
  candidates: Uint32Array,
  { dialect, strategy, value, direction, topPMode, eps }: FilterSettings,
): Uint32Array {
  if (candidates.length === 0) return candidates;
  const arithmetic = dialect === 'ragen' ? FLOAT32 : FLOAT64;
  const ranked = { figures: scores, candidates, direction };
  const first = (count: number): Uint32Array => sortedGroups(ranked).subarray(0, Math.max(1, Math.trunc(count)));
  if (strategy === 'top_k') return first(value * scores.length);
  if (strategy === 'top_k_abs') return first(value);
  if (strategy === 'min_p') return nearBest(ranked, value, arithmetic);
  if (value >= 1) return candidates;
  return topPMode === 'softmax'
    ? softmaxPrefix(ranked, value, arithmetic)
    : linearPrefix(ranked, value, eps, arithmetic);
}

function scoresOf({ figures, candidates }: RankedGroups): Float64Array {
  return Float64Array.from(candidates, (group) => figures[group] as number);
}

function linearPrefix(ranked: RankedGroups, value: number, eps: number, arithmetic: Arithmetic): Uint32Array {
  const { round, sum, emptyUnlessReached } = arithmetic;
  const order = sortedGroups(ranked);
  const threshold = round(round(round(value) * sum(scoresOf(ranked))) - round(eps));
  // The running sum is a Python float: it is rounded only when it is compared.
  let reached = 0;
  let count = 0;
  while (count < order.length && round(reached) < threshold) {
    const score = ranked.figures[order[count] as number] as number;
    if (score <= 0) break;
    reached += score;
    count++;
  }
  return order.subarray(0, round(reached) < threshold && emptyUnlessReached ? 0 : count);
}

function softmaxPrefix(ranked: RankedGroups, value: number, { round, sum }: Arithmetic): Uint32Array {
  const sign = ranked.direction === 'largest' ? 1 : -1;
  const logits = scoresOf(ranked).map((score) => sign * score);
  const top = logits.reduce((highest, logit) => Math.max(highest, logit), Number.NEGATIVE_INFINITY);
  const weights = logits.map((logit) => round(Math.exp(round(logit - top))));
  const scale = round(1 / sum(weights));
  const figures = weights.map((weight) => round(weight * scale));
  const order = sortedGroups({
    figures,
    candidates: new Uint32Array(figures.length).map((_, at) => at),
    direction: 'largest',
  });
  // torch's cumsum runs in float64 and rounds each entry; searchsorted takes the first that is not below the value.
  let reached = 0;
  let count = 0;
  do {
    reached += figures[order[count] as number] as number;
    count++;
  } while (count < order.length && round(reached) < round(value));
  return order.subarray(0, count).map((at) => ranked.candidates[at] as number);
}

function nearBest(ranked: RankedGroups, value: number, { round }: Arithmetic): Uint32Array {
  const { figures, candidates, direction } = ranked;
  const slack = round(REFERENCE_ZERO);
  const better = direction === 'largest' ? Math.max : Math.min;
  const best = scoresOf(ranked).reduce((found, score) => better(found, score));
  if (direction === 'largest') {
    const threshold = round(round(best * round(value)) - slack);
    return candidates.filter((group) => (figures[group] as number) >= threshold);
  }
  const threshold = round(round(best / round(value + REFERENCE_ZERO)) + slack);
  return candidates.filter((group) => (figures[group] as number) <= threshold);
}
