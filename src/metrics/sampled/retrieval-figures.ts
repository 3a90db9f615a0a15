// What a plan's pairs say about retrieval -> figures under the keys of `strict`, with what is certain of those that
// cannot be given.
import { figure } from '../../checks/numbers.js';
import type { NumericInterval, PairInference } from '../../engine/operations/infer-pairs.js';
import { chanceLevel, exactChanceLevel } from '../figures/chance.js';
import type { Certainty, Interval } from '../step-metrics.js';
import type { ScorePlan } from './plan.js';

/** Why there are no p-values. */
export const NO_PERMUTATIONS = 'label permutations need every pair: score all and use crossScoreMetrics';

/** What `strict` calls the retrieval figures among the best k. */
function retrievalKeys(k: number): { readonly accuracy: string; readonly chance: string; readonly above: string } {
  return k === 1
    ? { accuracy: 'retrieval_accuracy', chance: 'retrieval_chance_level', above: 'retrieval_above_chance' }
    : {
        accuracy: `retrieval_accuracy@${k}`,
        chance: `retrieval_chance_exact@${k}`,
        above: `retrieval_above_chance_exact@${k}`,
      };
}

/** Figures by key of `strict`, and why some are absent. */
export interface Figures {
  readonly values: Record<string, number>;
  readonly absent: Record<string, string>;
  readonly certainty: Record<string, Certainty>;
}

type Bounds = Record<string, { readonly low: number; readonly high: number }>;

/** @param otherwise why there is none */
export function intervalOf({ low, high, error }: NumericInterval, otherwise: string): Interval {
  return Number.isFinite(low) && Number.isFinite(high) ? { low, high, error } : { absent: otherwise };
}

/**
 * Puts what can be said of retrieval among the figures.
 * @param alike rows by how many columns count as their own: chance rests on that alone, of which nothing is drawn
 * @returns bounds that are certain, of accuracies that cannot be estimated
 */
export function addRetrieval(plan: ScorePlan, inference: PairInference, alike: Int32Array, into: Figures): Bounds {
  addAccuraciesOfCandidates(plan, inference, into);
  return addAccuracies(plan, inference, alike, into);
}

/** Among the best k of all prompts. */
function addAccuracies(
  { layout, negatives }: ScorePlan,
  { best }: PairInference,
  alike: Int32Array,
  { values, absent }: Figures,
): Bounds {
  const columns = layout.signatures.length;
  const bounds: Bounds = {};
  for (const { k, atLeast: low, atMost: high } of best) {
    const { accuracy, chance, above } = retrievalKeys(k);
    if (k > 1 && k >= columns) {
      const reason = `the top ${k} of ${columns} columns hold every column: a hit is certain`;
      for (const key of [accuracy, chance, above]) absent[key] = reason;
      continue;
    }
    const level = k === 1 ? chanceLevel(alike) : exactChanceLevel(alike, k);
    values[chance] = level;
    if (low === high) {
      values[accuracy] = low;
      values[above] = low - level;
    } else {
      bounds[accuracy] = { low, high };
      absent[accuracy] =
        `whether the own prompt is among the best ${k} of all cannot be estimated from ${negatives} negatives ` +
        `without bias: see bounds (for these rows it is certain to be from ${figure(low)} to ${figure(high)}) and ` +
        'retrieval_accuracy_of_<c>';
      absent[above] = `${accuracy} cannot be given: see there`;
    }
  }
  return bounds;
}

/** Best of c prompts, the own one and others drawn at random. */
function addAccuraciesOfCandidates(
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
