// Decides whether the start of a run supports a lasting fall: small batches scatter by half of their start and more, so
// a few low values are not a collapse.
import { count, fields, flag, kept } from '../../checks/saved.js';
import { normalTail } from '../statistics/tail-probabilities.js';
import { type RunLevel, START_STEPS } from './run-level.js';

/** Chance, on one side, that is beyond doubt: what all looks of a run spend. */
const BEYOND_DOUBT = 0.002;

export const carriedFallShape = fields({
  /** Computed steps at which a fall was looked at that was not carried before. */
  looks: count,
  /** Whether the present one has been carried: what is said is not taken back for its scatter. */
  isCarried: flag,
});

export class CarriedFall extends kept(carriedFallShape) {
  /** There is no fall any more. */
  forget(): void {
    this.state.isCarried = false;
  }

  /**
   * @param since first step of the fall @param level in which the step's value is
   * @param tests that share what looks spend
   * @returns whether, at this look or one before, the values since then are lower than those at the start beyond doubt,
   *   as batches scatter about them
   */
  look(since: number, level: RunLevel, tests = 1): boolean {
    if (this.state.isCarried) return true;
    const looks = this.state.looks + 1;
    const many = level.recent.filter(({ step }) => step >= since).length;
    const error = level.batchSigma * Math.sqrt(1 / many + 1 / START_STEPS);
    const gap = level.start - level.recentMean(many);
    const isBeyond = error > 0 ? normalTail(gap / error) <= BEYOND_DOUBT / (tests * looks * (looks + 1)) : gap > 0;
    Object.assign(this.state, { looks, isCarried: level.comparable && many > 0 && isBeyond });
    return this.state.isCarried;
  }
}
