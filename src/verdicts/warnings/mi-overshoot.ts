// Early warning: I(X;Z) rose above its start and falls back, while H(Z|X) holds.

import { figure } from '../../checks/numbers.js';
import { count, fields, kept, nullable, number } from '../../checks/saved.js';
import { type RunLevel, START_STEPS, TREND_STEPS } from '../levels/run-level.js';
import { holds, lookShare, PRESENT_STEPS } from '../statistics/present-level.js';
import { studentTail } from '../statistics/tail-probabilities.js';
import type { Finding } from '../verdict.js';

/** As that of mi_falling: what is left of it is measured. */
const BUDGET = 8;

export const miOvershootShape = fields({
  /** The highest mean of PRESENT_STEPS that was credibly above the start, and of how many prompts I(X;Z) was there. */
  peak: nullable(fields({ step: count, value: number, prompts: count })),
  /** Whether it has fallen back. */
  since: nullable(count),
});

export class MiOvershoot extends kept(miOvershootShape) {
  /** A collapse says more. */
  forget(): void {
    Object.assign(this.state, { peak: null, since: null });
  }

  /** Whether I(X;Z) at that number of prompts can be compared with the peak. */
  canTell(prompts: number): boolean {
    return (this.state.peak?.prompts ?? prompts) === prompts;
  }

  /** After the step's values were added, and the start is complete. @param prompts that `mi` is of; canTell() them */
  look(step: number, mi: RunLevel, prompts: number, entropy: RunLevel, tests = 1): Finding | undefined {
    const look = mi.seen - START_STEPS;
    const now = mi.recentMean(PRESENT_STEPS);
    const chance = (BUDGET / tests) * lookShare(look);
    const error = mi.errorOfMean(PRESENT_STEPS);
    if (look >= TREND_STEPS && now > (this.state.peak?.value ?? mi.start)) {
      const rise = (now - mi.start) / Math.hypot(error, mi.startError);
      if (studentTail(rise, mi.freedom) <= chance) this.state.peak = { step, value: now, prompts };
    }
    const { peak, since } = this.state;
    if (peak === null) return undefined;
    if (since === null) {
      if (!holds(entropy) || now > mi.start) return undefined;
      const fall = (peak.value - now) / (error * Math.SQRT2);
      if (studentTail(fall, mi.freedom) > chance) return undefined;
      this.state.since = peak.step;
    } else if (now > mi.start || !holds(entropy)) {
      this.forget();
      return undefined;
    }
    return {
      kind: 'mi_overshoot',
      severity: 'info',
      since: this.state.since as number,
      evidence: {
        miPeak: peak.value,
        peakStep: peak.step,
        miRecent: now,
        miStart: mi.start,
        entropyRecent: entropy.recentMean(PRESENT_STEPS),
        entropyStart: entropy.start,
      },
      advice:
        'A rise of I(X;Z) that is undone with entropy held often comes before a fall: keep the checkpoint of the peak, ' +
        'and compute the metrics more often from here on.',
      now: `I(X;Z) is ${figure(now)}`,
      sentence:
        `I(X;Z) overshot: it rose from ${figure(mi.start)} to ${figure(peak.value)} (step ${peak.step}) and is ` +
        `back at ${figure(now)}, below its start, while H(Z|X) holds.`,
    };
  }
}
