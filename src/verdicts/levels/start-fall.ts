// Whether the first values of a figure fall themselves. Their mean must not be the start then: later steps would be
// compared with a value that is already half of the way down.
import { rankTrend } from '../statistics/rank-trend.js';
import { studentTail } from '../statistics/tail-probabilities.js';
import { mean, type RunLevel, START_STEPS } from './run-level.js';

/**
 * A fall of the start to more than this share is too small to tell: the highest of a few first values is itself high by
 * chance.
 */
const LOSS_SHARE = 0.6;

/**
 * Chance of as clear a trend at one look in values that only scatter (exact Mann–Kendall). There are four looks, at 5
 * to 8 values.
 */
const TREND_LEVEL = 0.01;

/** Chance of as large a fall along the line through the values, were it to LOSS_SHARE only. */
const LINE_LEVEL = 0.03;

/** The same of a sudden fall, which shows no trend on either side. */
const STEP_LEVEL = 0.002;

/** Fewest values before and after a sudden fall. */
const [BEFORE, AFTER] = [3, 2];

/**
 * Whether the level's first values fall credibly, to credibly less than LOSS_SHARE of what they were.
 * @param tests that share a level
 */
export function fallsFromStart({ first, noise }: RunLevel, tests = 1): boolean {
  if (first.length < START_STEPS) return false;
  if (rankTrend(first).pDown <= TREND_LEVEL / tests && lineLossP(first, noise) <= LINE_LEVEL) return true;
  for (let at = BEFORE; at <= first.length - AFTER; at++) {
    if (stepLossP(first, at, noise) <= STEP_LEVEL / tests) return true;
  }
  return false;
}

/** One-sided p of the last point of the least-squares line, were it at LOSS_SHARE of the first. */
function lineLossP(values: readonly number[], noise: number): number {
  const n = values.length;
  const middle = (n - 1) / 2;
  const squares = (n * (n * n - 1)) / 12;
  const level = mean(values);
  const slope = values.reduce((sum, value, at) => sum + (at - middle) * value, 0) / squares;
  const rest = values.reduce((sum, value, at) => sum + (value - level - slope * (at - middle)) ** 2, 0);
  const spread = Math.max(noise, Math.sqrt(rest / (n - 2)));
  const [ofLevel, ofSlope] = [LOSS_SHARE - 1, -middle * (LOSS_SHARE + 1)];
  const gap = ofLevel * level + ofSlope * slope;
  const error = spread * Math.sqrt(ofLevel ** 2 / n + ofSlope ** 2 / squares);
  return tail(gap, error, n - 2);
}

/** One-sided p of the mean from `at` on, were it LOSS_SHARE of the mean before. */
function stepLossP(values: readonly number[], at: number, noise: number): number {
  const parts = [values.slice(0, at), values.slice(at)];
  const [before, after] = parts.map(mean) as [number, number];
  const rest = parts.reduce((sum, part) => {
    const level = mean(part);
    return sum + part.reduce((squares, value) => squares + (value - level) ** 2, 0);
  }, 0);
  const freedom = values.length - 2;
  const spread = Math.max(noise, Math.sqrt(rest / freedom));
  const error = spread * Math.sqrt(LOSS_SHARE ** 2 / at + 1 / (values.length - at));
  return tail(LOSS_SHARE * before - after, error, freedom);
}

/** Values that do not scatter: any gap counts, none does not. */
function tail(gap: number, error: number, freedom: number): number {
  if (error === 0) return gap > 0 ? 0 : 1;
  return studentTail(gap / error, freedom);
}
