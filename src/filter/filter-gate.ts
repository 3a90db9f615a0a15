// Decides whether to filter a batch at all: if all prompts vary alike, a filter drops data and gains nothing.

import { checkArray } from '../checks/argument-checks.js';
import { ArgumentError } from '../checks/errors.js';
import { figure } from '../checks/numbers.js';
import { shown } from '../checks/words.js';

/** Whether filtering pays in this batch. */
export interface FilterGate {
  /** Std(RV) / Mean(RV) over groups; null if no group has variance, or there are fewer than two groups. */
  readonly ratio: number | null;
  /** `unclear`: between the ratios that the paper has results for. `unknown`: there is no ratio. */
  readonly verdict: 'filter' | 'unclear' | 'keep_all' | 'unknown';
  readonly sentence: string;
}

/**
 * From the paper's table 8: at 1.16 and 1.29 the filter gains 3.2 and 4.6 points, at 0.33 it loses 5.0. Nothing in
 * between.
 */
const GAINS_FROM = 1.16;
const LOSES_UP_TO = 0.33;

/**
 * The gate Std(RV)/Mean(RV) (docs/reference/filter.md): how unequally reward variance is spread over the prompts. Free
 * of scale.
 * @param rewardVariances [groups] variance of rewards within each group, such as FilterResult.rewardVariances; groups
 *   of one rollout have none: leave them out with `rewardVariances.filter((_, group) => rollouts[group] > 1)`
 * @throws ArgumentError naming the entry that is not a finite number from 0 on
 */
export function filterGate(rewardVariances: ArrayLike<number>): FilterGate {
  checkArray(rewardVariances, 'rewardVariances');
  const groups = rewardVariances.length;
  for (let at = 0; at < groups; at++) {
    const variance = rewardVariances[at] as number;
    if (!(Number.isFinite(variance) && variance >= 0)) {
      throw new ArgumentError('rewardVariances', `group ${at} has ${shown(variance)}, expected a variance: 0 or more`);
    }
  }
  const ratio = varianceRatio(rewardVariances);
  if (ratio === null) {
    const sentence =
      groups < 2
        ? 'Fewer than two groups: there is nothing to choose from.'
        : 'No group has reward variance: there is nothing to learn from this batch, filtered or not.';
    return { ratio, verdict: 'unknown', sentence };
  }
  const what = `Reward variance differs between prompts by ${figure(ratio)} of its mean`;
  if (ratio >= GAINS_FROM) {
    return {
      ratio,
      verdict: 'filter',
      sentence: `${what}: filtering gained in the paper's runs from ${GAINS_FROM} on.`,
    };
  }
  if (ratio <= LOSES_UP_TO) {
    const sentence = `${what}: prompts are alike, and filtering lost in the paper's run at ${LOSES_UP_TO}; keep all.`;
    return { ratio, verdict: 'keep_all', sentence };
  }
  const sentence = `${what}: between ${LOSES_UP_TO}, where filtering lost in the paper's runs, and ${GAINS_FROM}, where it gained.`;
  return { ratio, verdict: 'unclear', sentence };
}

/** Std / mean of variances that are finite and not negative; null for fewer than two, and if all are 0. */
export function varianceRatio(variances: ArrayLike<number>): number | null {
  const groups = variances.length;
  let largest = 0;
  for (let at = 0; at < groups; at++) largest = Math.max(largest, variances[at] as number);
  // Below 2^-1022 a number has no finite reciprocal.
  if (groups < 2 || !(largest >= 2 ** -1022)) return null;
  // In units of the largest, so that no square overflows or vanishes.
  const unit = 1 / largest;
  let sum = 0;
  for (let at = 0; at < groups; at++) sum += (variances[at] as number) * unit;
  const mean = sum / groups;
  let squares = 0;
  for (let at = 0; at < groups; at++) {
    const deviation = (variances[at] as number) * unit - mean;
    squares += deviation * deviation;
  }
  return Math.sqrt(squares / groups) / mean;
}
