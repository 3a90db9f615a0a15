// Compares a figure's present level with a floor, and says what each look may spend: warnings look at every step.

import type { RunLevel } from '../levels/run-level.js';
import { fixedHypot, fixedLog } from './fixed-math.js';
import { studentTail } from './tail-probabilities.js';

/**
 * A run is healthy as long as the level of I(X;Z) is at least this share of its start: smaller losses raise no alarm.
 */
export const HEALTHY_SHARE = 0.75;

/** Number of latest steps in the mean: a single step may differ by chance. */
export const PRESENT_STEPS = 4;

/** The present level is the mean of the latest 1, 2, 3 or 4 computed steps, whichever says most. */
const LEVEL_STEPS = [1, 2, 3, 4];

/** P(the present level is as low or lower), were the run's level exactly `floor`; the least of several spans. */
export function levelBelow(level: RunLevel, floor: number): number {
  const share = floor / level.start;
  return Math.min(
    ...LEVEL_STEPS.map((steps) => {
      const spread = fixedHypot(level.errorOfMean(steps), share * level.startError);
      const gap = floor - level.recentMean(steps);
      // Scores that never vary: any gap counts, none does not.
      if (spread === 0) return gap > 0 ? 0 : 1;
      return studentTail(gap / spread, level.freedom);
    }),
  );
}

/** As many looks are thought to lie before the first: else it would spend a large part of the budget by itself. */
const LOOKS_BEFORE = 24;

/** Share of the budget for look n: sums to less than 1 over any number of looks, falls hardly faster than 1/n. */
export function lookShare(look: number): number {
  const n = look + LOOKS_BEFORE;
  const doublings = fixedLog(n) / Math.LN2;
  return 1 / (n * (doublings + 1) * (doublings + 2));
}

/** Whether H(Z|X) has kept its level: where it falls, I(X;Z) may have to. */
export function holds(entropy: RunLevel): boolean {
  return entropy.recentMean(PRESENT_STEPS) >= HEALTHY_SHARE * entropy.start;
}
