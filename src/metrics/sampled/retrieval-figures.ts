// Computes retrieval figures from a plan's pairs under the keys of `strict`, with certain bounds for those that cannot
// be estimated.
import { figure } from '../../checks/numbers.js';
import type { NumericInterval, PairInference } from '../../engine/operations/infer-pairs.js';
import type { ValueOrReason } from '../figures/figure.js';
import { certainHit } from '../figures/score-figures.js';
import type { Certainty, Interval } from '../step-metrics.js';
import type { ScorePlan } from './plan.js';

/** Why there are no p-values. */
export const NO_PERMUTATIONS = 'label permutations need every pair: score all and use crossScoreMetrics';

/** Figures by key of `strict`, and why some are absent. */
interface Figures {
  readonly values: Record<string, number>;
  readonly absent: Record<string, string>;
  readonly certainty: Record<string, Certainty>;
}

/** @param otherwise why there is none */
export function intervalOf({ low, high, error }: NumericInterval, otherwise: string): Interval {
  return Number.isFinite(low) && Number.isFinite(high) ? { low, high, error } : { absent: otherwise };
}

/** Whether the own prompt is among the best k of all: a value, or why there is none, with bounds that are certain. */
export function accuracyAmongBest(
  k: number,
  { layout, negatives }: ScorePlan,
  { best }: PairInference,
): { readonly value: ValueOrReason; readonly bounds?: { readonly low: number; readonly high: number } } {
  const hit = certainHit(k, layout.signatures.length);
  if (hit !== undefined) return { value: hit };
  const { atLeast: low, atMost: high } = best.find((among) => among.k === k) as PairInference['best'][number];
  if (low === high) return { value: low };
  const reason =
    `whether the own prompt is among the best ${k} of all cannot be estimated from ${negatives} negatives ` +
    `without bias: see bounds (for these rows it is certain to be from ${figure(low)} to ${figure(high)}) and ` +
    'retrieval_accuracy_of_<c>';
  return { value: reason, bounds: { low, high } };
}

/** Best of c prompts, the own one and others drawn at random. */
export function addAccuraciesOfCandidates(
  { layout }: ScorePlan,
  { bestOf }: PairInference,
  { values, absent, certainty }: Figures,
): void {
  for (const { candidates, share, batch } of bestOf) {
    const key = `retrieval_accuracy_of_${candidates}`;
    if (candidates > layout.distinct) {
      absent[key] = `this step has ${layout.distinct} different prompts`;
    } else if (Number.isNaN(share)) {
      absent[key] = `needs at least ${candidates - 1} negatives a row, of every kind there may be among the candidates`;
    } else {
      values[key] = share;
      certainty[key] = {
        batch: intervalOf(batch, 'too few rows: at least two are needed'),
        population: { absent: 'given for MI figures only' },
        pValue: { absent: NO_PERMUTATIONS },
      };
    }
  }
}
