// The sums of a plan's rows -> whether the rows can have been sampled from what the scores describe, on which intervals rest.
import { roundingOf } from './rounding.js';
import type { PlannedSums } from './sums.js';

/** Standard deviations beyond which they cannot. */
const CALIBRATION_DEVIATIONS = 3;

/** Asked of the scored prompts alone (calibration.ts), or, where all are scored, of all. */
export function scoresDescribeSampling(sums: PlannedSums, complete: boolean): boolean {
  if (complete) return expectationHolds(sums, complete);
  const { surprise, squared, variance } = sums.amongScored;
  const most = CALIBRATION_DEVIATIONS * Math.sqrt(Math.max(variance, squared));
  return Math.abs(surprise) <= most + roundingOf(sums, 'miSeq') * sums.rows;
}

/** Are values where their expectations over all prompts are? With few negatives they are not, however the rows were sampled. */
export function expectationHolds(sums: PlannedSums, complete: boolean): boolean {
  let total = 0;
  for (const value of sums.values.miSeq) total += value;
  // A posterior over few scored labels is itself noisy: then the spread of what is compared tells more.
  const variance = complete ? sums.labelVariance.miSeq : Math.max(sums.labelVariance.miSeq, sums.squaredSurprise);
  const surprise = Math.abs(total - sums.expected.miSeq);
  return surprise <= CALIBRATION_DEVIATIONS * Math.sqrt(variance) + roundingOf(sums, 'miSeq') * sums.rows;
}
