// Were a step's rows sampled from what the scores describe? Asked of the scored prompts alone. A plan draws a row's negatives
// with equal chances from all others, so that the same prompts could have come with any of them as the own one: given the
// response and the prompts scored, the row's label is distributed over them as exp S, whatever was left out. The own value less
// its expectation under that has mean 0 with three negatives as with all. (The posterior over all prompts, in which a negative
// stands for N/n, is a ratio of estimates: with few negatives the own value lies above its expectation, row after row.)
import type { ScoredPrompt, ScoredRow } from './row.js';

/** Of one row, or summed over rows. */
export interface Surprise {
  /** Own value less its expectation. */
  readonly surprise: number;
  /** Its variance over the labels. */
  readonly variance: number;
}

/**
 * Which of a row's scored prompts could have been its own with the same chance of this draw. Where negatives of the same turn are
 * drawn more often, another turn's prompt would have come with others: left are the own prompt and those of its turn, the first
 * stratum of two.
 */
export function exchangeableOf(rows: readonly ScoredRow[]): (row: ScoredRow, prompt: ScoredPrompt) => boolean {
  const byTurn = rows.some(({ planned }) => planned.strata.length > 1);
  return ({ planned }, { stratum }) => !byTurn || stratum < 0 || (planned.strata.length > 1 && stratum === 0);
}

/**
 * @param weights how likely each label is before the row is seen; 0 for one that could not have come
 * @param values the row's figure under each label, the own one first
 */
export function surpriseOf(
  scored: readonly ScoredPrompt[],
  weights: readonly number[],
  values: readonly number[],
): Surprise {
  const top = scored.reduce(
    (most, { score }, i) => ((weights[i] as number) > 0 ? Math.max(most, score) : most),
    Number.NEGATIVE_INFINITY,
  );
  let [total, first, second] = [0, 0, 0];
  scored.forEach(({ score }, i) => {
    const weight = weights[i] as number;
    const share = weight > 0 ? weight * Math.exp(score - top) : 0;
    if (share === 0) return; // its value may be infinite
    const value = (values[i] as number) - (values[0] as number);
    total += share;
    first += share * value;
    second += share * value * value;
  });
  const mean = first / total;
  return { surprise: -mean, variance: Math.max(0, second / total - mean * mean) };
}
