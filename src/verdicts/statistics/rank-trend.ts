// Tests values in order for a trend with Mann–Kendall: pairs that rise against pairs that fall (Mann 1945, Kendall
// 1975).
import { normalTail } from './tail-probabilities.js';

export interface RankTrend {
  /** Pairs that rise minus pairs that fall. */
  readonly score: number;
  /** Kendall's tau-a: score / number of pairs, in [-1, 1]. */
  readonly tau: number;
  /** P(a score as low or lower), were the order of the values mere chance. Exact up to 24 values. */
  readonly pDown: number;
  /** P(a score as high or higher). */
  readonly pUp: number;
}

const EXACT_UP_TO = 24;

/** Ties count as neither: the test errs on the side of "no trend". */
export function rankTrend(values: readonly number[]): RankTrend {
  const n = values.length;
  let score = 0;
  for (let later = 1; later < n; later++) {
    for (let earlier = 0; earlier < later; earlier++) {
      score += Math.sign((values[later] as number) - (values[earlier] as number));
    }
  }
  const pairs = (n * (n - 1)) / 2;
  return { score, tau: pairs > 0 ? score / pairs : 0, pDown: atLeast(-score, n), pUp: atLeast(score, n) };
}

/** P(score >= wanted) over all orders of n different values. */
function atLeast(wanted: number, n: number): number {
  if (n > EXACT_UP_TO) return normalTail((wanted - 1) / Math.sqrt((n * (n - 1) * (2 * n + 5)) / 18));
  const pairs = (n * (n - 1)) / 2;
  // With k falling pairs ("inversions") the score is pairs − 2k.
  const most = Math.floor((pairs - wanted) / 2);
  const shares = inversionShares(n);
  let total = 0;
  for (let k = 0; k <= Math.min(most, pairs); k++) total += shares[k] as number;
  return Math.min(1, total);
}

const known = new Map<number, readonly number[]>();

/**
 * Share of the n! orders that have k inversions, by k: value by value, each adds 0 to (its place − 1), equally likely.
 */
function inversionShares(n: number): readonly number[] {
  const found = known.get(n);
  if (found !== undefined) return found;
  let shares = [1];
  for (let placed = 2; placed <= n; placed++) {
    const next = new Array<number>(shares.length + placed - 1).fill(0);
    for (const [k, share] of shares.entries()) {
      for (let added = 0; added < placed; added++) next[k + added] = (next[k + added] as number) + share / placed;
    }
    shares = next;
  }
  known.set(n, shares);
  return shares;
}
