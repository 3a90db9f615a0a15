// What a plan's pairs say about retrieval -> figures under the keys of `strict`, with what is certain of those that cannot be given.
import { chanceLevel, exactChanceLevel, rowsByEquivalents } from '../figures/chance.js';
import { RETRIEVAL_AT } from '../measured-step.js';
import type { Certainty } from '../step-metrics.js';
import { compensatedSum } from './compensated-sum.js';
import type { ScorePlan } from './plan.js';
import { bestOfCandidates, retrievalBounds } from './retrieval.js';
import type { ScoredRow } from './row.js';
import type { Interruptible } from './slices.js';
import type { PlannedSums } from './sums.js';
import { hitVariance } from './variances.js';
import { wilsonInterval } from './wilson-interval.js';

/** Candidates of which `retrieval_accuracy_of_<c>` is given. */
const CANDIDATES = [2, 4, 8, 16] as const;

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
interface Figures {
  readonly values: Record<string, number>;
  readonly absent: Record<string, string>;
  readonly certainty: Record<string, Certainty>;
}

type Bounds = Record<string, { readonly low: number; readonly high: number }>;

/**
 * Puts what can be said of retrieval among the figures.
 * @returns bounds that are certain, of accuracies that cannot be estimated
 */
export function* addRetrieval(
  plan: ScorePlan,
  scored: readonly ScoredRow[],
  sums: PlannedSums,
  confidence: number,
  into: Figures,
): Interruptible<Bounds> {
  const bounds = yield* addAccuracies(plan, scored, sums, into);
  yield* addAccuraciesOfCandidates(plan, scored, sums, confidence, into);
  return bounds;
}

/** Among the best k of all prompts. */
function* addAccuracies(
  { layout, negatives }: ScorePlan,
  scored: readonly ScoredRow[],
  sums: PlannedSums,
  { values, absent }: Figures,
): Interruptible<Bounds> {
  const columns = layout.signatures.length;
  const bounds: Bounds = {};
  // Chance rests on which prompts are equal, of which nothing is drawn: it is known exactly.
  const alike = rowsByEquivalents(sums.own, layout.signatures, layout.counts);
  const ks = [1, ...RETRIEVAL_AT.map(({ k }) => k)];
  for (const { k, low, high } of yield* retrievalBounds(scored, layout, ks)) {
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
        `without bias: see bounds (for these rows it is certain to be from ${low.toFixed(3)} to ${high.toFixed(3)}) and ` +
        'retrieval_accuracy_of_<c>';
      absent[above] = `${accuracy} cannot be given: see there`;
    }
  }
  return bounds;
}

/** Best of c prompts, the own one and others drawn at random. */
function* addAccuraciesOfCandidates(
  { layout }: ScorePlan,
  scored: readonly ScoredRow[],
  sums: PlannedSums,
  confidence: number,
  { values, absent, certainty }: Figures,
): Interruptible<void> {
  for (const candidates of CANDIDATES) {
    const key = `retrieval_accuracy_of_${candidates}`;
    if (candidates > layout.distinct) {
      absent[key] = `this step has ${layout.distinct} different prompts`;
      continue;
    }
    const hits = yield* bestOfCandidates(scored, layout, candidates);
    if (hits === undefined) {
      absent[key] = `needs at least ${candidates - 1} negatives a row, of every kind there may be among the candidates`;
      continue;
    }
    const share = compensatedSum(hits) / hits.length;
    values[key] = share;
    const variance = hitVariance(sums, hits);
    certainty[key] = {
      // A row's value is in [0, 1], so that its variance is at most that of a hit: never fewer draws than rows.
      batch:
        hits.length < 2
          ? { absent: 'too few rows: at least two are needed' }
          : wilsonInterval(share, variance, hits.length, confidence),
      population: { absent: 'given for MI figures only' },
      pValue: { absent: NO_PERMUTATIONS },
    };
  }
}
