// The reference's choice of groups (docs/reference/filter.md), written once for two number formats: float32 as its code
// computes (`ragen`), and float64 as its paper writes it (`paper`).

import { float32Sum } from '../float32-sums.js';
import type { FilterSettings } from '../input/filter-options.js';
import { sortedGroups } from './best-groups.js';

/** |score| up to this is zero. */
export const REFERENCE_ZERO = 1e-10;

/** In which every figure, threshold and comparison is held. */
export interface Arithmetic {
  round(value: number): number;
  sum(values: Float64Array): number;
  /** Whether top_p keeps nothing where the mass that is left by scores above 0 does not reach the threshold. */
  readonly emptyUnlessReached: boolean;
}

export const FLOAT32: Arithmetic = {
  round: Math.fround,
  sum: (values) => float32Sum(Float32Array.from(values), 0, values.length),
  emptyUnlessReached: true,
};

export const FLOAT64: Arithmetic = {
  round: (value) => value,
  sum: (values) => values.reduce((total, value) => total + value, 0),
  emptyUnlessReached: false,
};

/**
 * @param scores [groups] in the arithmetic's format
 * @param candidates groups that may be kept, ascending
 * @param groups number of all groups, candidates or not: what top_k takes its share of
 * @returns kept groups, in the order in which the reference chooses them
 */
export function selectByReference(
  scores: Float64Array,
  candidates: Uint32Array,
  groups: number,
  settings: Pick<FilterSettings, 'strategy' | 'value' | 'direction' | 'topPMode' | 'eps'>,
  arithmetic: Arithmetic,
): Uint32Array {
  if (candidates.length === 0) return candidates;
  const { strategy, value } = settings;
  const atLeastOne = (count: number): number => Math.max(1, Math.min(Math.trunc(count), candidates.length));
  switch (strategy) {
    case 'top_p':
      if (value >= 1) return candidates;
      return settings.topPMode === 'softmax'
        ? softmaxPrefix(scores, candidates, settings, arithmetic)
        : linearPrefix(scores, candidates, settings, arithmetic);
    case 'top_k':
      return sortedGroups({ figures: scores, candidates, direction: settings.direction }).subarray(
        0,
        atLeastOne(value * groups),
      );
    case 'top_k_abs':
      return sortedGroups({ figures: scores, candidates, direction: settings.direction }).subarray(
        0,
        atLeastOne(value),
      );
    case 'min_p':
      return nearBest(scores, candidates, settings, arithmetic);
  }
}

/** values[indices[0]], values[indices[1]], … */
function gather(values: Float64Array, indices: Uint32Array): Float64Array {
  return Float64Array.from(indices, (index) => values[index] as number);
}

function linearPrefix(
  scores: Float64Array,
  candidates: Uint32Array,
  settings: Pick<FilterSettings, 'value' | 'direction' | 'eps'>,
  arithmetic: Arithmetic,
): Uint32Array {
  const { round, sum, emptyUnlessReached } = arithmetic;
  const order = sortedGroups({ figures: scores, candidates, direction: settings.direction });
  const mass = sum(gather(scores, candidates));
  const threshold = round(round(round(settings.value) * mass) - round(settings.eps));
  // The running sum is a Python float: it is rounded only where it is compared.
  let reached = 0;
  let count = 0;
  while (count < order.length && round(reached) < threshold) {
    const score = scores[order[count] as number] as number;
    if (score <= 0) break;
    reached += score;
    count++;
  }
  if (round(reached) < threshold && emptyUnlessReached) return order.subarray(0, 0);
  return order.subarray(0, count);
}

function softmaxPrefix(
  scores: Float64Array,
  candidates: Uint32Array,
  { value, direction }: Pick<FilterSettings, 'value' | 'direction'>,
  { round, sum }: Arithmetic,
): Uint32Array {
  const sign = direction === 'largest' ? 1 : -1;
  const logits = gather(scores, candidates).map((score) => sign * score);
  const top = logits.reduce((highest, logit) => Math.max(highest, logit), Number.NEGATIVE_INFINITY);
  const weights = logits.map((logit) => round(Math.exp(round(logit - top))));
  const scale = round(1 / sum(weights));
  const masses = weights.map((weight) => round(weight * scale));
  const places = Uint32Array.from(masses, (_, at) => at);
  const order = sortedGroups({ figures: masses, candidates: places, direction: 'largest' });
  // torch's cumsum runs in float64 and rounds each entry; searchsorted takes the first that is not below the value.
  let reached = 0;
  let count = 0;
  do {
    reached += masses[order[count] as number] as number;
    count++;
  } while (count < order.length && round(reached) < round(value));
  return order.subarray(0, count).map((at) => candidates[at] as number);
}

function nearBest(
  scores: Float64Array,
  candidates: Uint32Array,
  { value, direction }: Pick<FilterSettings, 'value' | 'direction'>,
  { round }: Arithmetic,
): Uint32Array {
  let best = scores[candidates[0] as number] as number;
  for (const group of candidates) {
    const score = scores[group] as number;
    if (direction === 'largest' ? score > best : score < best) best = score;
  }
  const slack = round(REFERENCE_ZERO);
  if (direction === 'largest') {
    const threshold = round(round(best * round(value)) - slack);
    return candidates.filter((group) => (scores[group] as number) >= threshold);
  }
  const threshold = round(round(best / round(value + REFERENCE_ZERO)) + slack);
  return candidates.filter((group) => (scores[group] as number) <= threshold);
}
