// A share and its variance -> Wilson's score interval, which stays within 0 and 1.
import type { Interval } from '../step-metrics.js';
import { studentT } from './student-t.js';
import type { Variance } from './variances.js';

/** A share whose spread is no more is certain, and so are hits that vary no more, a row: the rest is rounding. */
export const LEAST_SPREAD = 2 ** -30;

/** For as many draws as the variance amounts to, and never fewer than `least`. */
export function wilsonInterval(share: number, variance: Variance, least: number, confidence: number): Interval {
  const spread = share * (1 - share);
  const count = spread > LEAST_SPREAD && variance.value > 0 ? Math.max(least, spread / variance.value) : least;
  const z = studentT(variance.degrees, confidence);
  const centre = (share + z ** 2 / (2 * count)) / (1 + z ** 2 / count);
  const half = (z / (1 + z ** 2 / count)) * Math.sqrt(spread / count + z ** 2 / (4 * count ** 2));
  return {
    low: Math.max(0, Math.min(centre - half, share)),
    high: Math.min(1, Math.max(centre + half, share)),
    error: Math.sqrt(variance.value),
  };
}
