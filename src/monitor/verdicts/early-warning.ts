// I(X;Z) that falls while H(Z|X) does not, told before it is gone: a downward trend, and an overshoot that turns.
// Both look again at every step; the levels below spend a fixed chance of a false alarm over all looks of a run.
import type { Finding } from './finding.js';
import { rankTrend } from './rank-trend.js';
import { type RunLevel, START_STEPS, TREND_STEPS } from './run-level.js';
import { count, fields, nullable, number, type Shaped } from './saved-shape.js';
import { figure, percent, percentOf } from './sentence-numbers.js';
import { studentTail } from './tail-probabilities.js';

/** A run is healthy as long as the level of I(X;Z) is at least this share of its start: smaller losses are no alarm. */
const HEALTHY_SHARE = 0.75;

/** The trend over TREND_STEPS must be as unlikely as this by chance, at every look (exact Mann–Kendall). */
const TREND_LEVEL = 0.05;

/** The present level is the mean of the latest 1, 2, 3 or 4 computed steps, whichever says most. */
const LEVEL_STEPS = [1, 2, 3, 4];

/** Mean of so many steps is a peak. */
const PEAK_STEPS = 4;

/**
 * What each early warning may spend over an endless run, before the looks' dependence on each other and the trend's
 * level take most of it back. bench/false-alarms.mjs measures what is left: docs/verdicts.md states it.
 */
const FALLING_BUDGET = 10;
const OVERSHOOT_BUDGET = 5;

/** Share of the budget for look n: sums to less than 1 over any number of looks, falls hardly faster than 1/n. */
function lookShare(look: number): number {
  const doublings = Math.log2(look);
  return 1 / (look * (doublings + 1) * (doublings + 2));
}

export const earlyWarningShape = fields({
  falling: nullable(fields({ since: count })),
  /** The highest mean of PEAK_STEPS that was credibly above the start. */
  peak: nullable(fields({ step: count, value: number })),
  overshoot: nullable(fields({ since: count, peakStep: count, peakValue: number })),
});

export type EarlyWarningJson = Shaped<typeof earlyWarningShape>;

export class EarlyWarning {
  #state: EarlyWarningJson;

  constructor(saved: EarlyWarningJson = { falling: null, peak: null, overshoot: null }) {
    this.#state = saved;
  }

  toJSON(): EarlyWarningJson {
    const { falling, peak, overshoot } = this.#state;
    return { falling: falling && { ...falling }, peak: peak && { ...peak }, overshoot: overshoot && { ...overshoot } };
  }

  /** After the step's values were added to `mi` and `entropy`, and the start is complete. */
  look(step: number, mi: RunLevel, entropy: RunLevel): Finding[] {
    const entropyHolds = entropy.recentMean(PEAK_STEPS) >= HEALTHY_SHARE * entropy.start;
    const look = mi.seen - START_STEPS;
    return [
      ...this.#falling(look, mi, entropy, entropyHolds),
      ...this.#overshoot(step, look, mi, entropy, entropyHolds),
    ];
  }

  #falling(look: number, mi: RunLevel, entropy: RunLevel, entropyHolds: boolean): Finding[] {
    const floor = HEALTHY_SHARE * mi.start;
    const now = mi.recentMean(PEAK_STEPS);
    const trend = rankTrend(mi.recent.map(({ value }) => value));
    const pLevel = levelBelow(mi, floor);
    if (this.#state.falling === null) {
      // The trend must lie after the start: the step from one to the other is none.
      if (look < TREND_STEPS || !entropyHolds || trend.pDown > TREND_LEVEL || pLevel > FALLING_BUDGET * lookShare(look))
        return [];
      const highest = mi.recent.reduce((top, entry) => (entry.value >= top.value ? entry : top));
      this.#state = { ...this.#state, falling: { since: highest.step } };
    } else if (now >= floor || !entropyHolds) {
      this.#state = { ...this.#state, falling: null };
      return [];
    }
    const { since } = this.#state.falling as { since: number };
    const last = mi.recent.at(-1)?.value as number;
    return [
      {
        kind: 'mi_falling',
        severity: 'warning',
        since,
        evidence: {
          mi: last,
          miStart: mi.start,
          miRecent: now,
          trendTau: trend.tau,
          trendP: trend.pDown,
          levelP: pLevel,
          entropyRecent: entropy.recentMean(PEAK_STEPS),
          entropyStart: entropy.start,
        },
        advice:
          'Look at the reward variance of the batch now: turn the filter on or make it stricter, lower the entropy bonus, ' +
          'and keep a checkpoint from before this step.',
        sentence:
          `I(X;Z) has been falling since step ${since}: it is ${figure(last)}, ${percent(last / mi.start)} of its start ` +
          `(${figure(mi.start)}), while H(Z|X) holds (${percentOf(entropy.recentMean(PEAK_STEPS), entropy.start)} of its ` +
          `start); trend p = ${figure(trend.pDown)}, level p = ${figure(pLevel)}.`,
      },
    ];
  }

  #overshoot(step: number, look: number, mi: RunLevel, entropy: RunLevel, entropyHolds: boolean): Finding[] {
    const now = mi.recentMean(PEAK_STEPS);
    const level = OVERSHOOT_BUDGET * lookShare(look);
    const error = mi.errorOfMean(PEAK_STEPS);
    if (look >= TREND_STEPS && now > (this.#state.peak?.value ?? mi.start)) {
      const rise = (now - mi.start) / Math.hypot(error, mi.startError);
      if (studentTail(rise, mi.freedom) <= level) this.#state = { ...this.#state, peak: { step, value: now } };
    }
    const { peak } = this.#state;
    if (this.#state.overshoot === null) {
      if (peak === null || !entropyHolds || now > mi.start) return [];
      const fall = (peak.value - now) / (error * Math.SQRT2);
      if (studentTail(fall, mi.freedom) > level) return [];
      this.#state = { ...this.#state, overshoot: { since: peak.step, peakStep: peak.step, peakValue: peak.value } };
    } else if (now > mi.start || !entropyHolds) {
      this.#state = { ...this.#state, overshoot: null, peak: null };
      return [];
    }
    const found = this.#state.overshoot as NonNullable<EarlyWarningJson['overshoot']>;
    return [
      {
        kind: 'mi_overshoot',
        severity: 'info',
        since: found.since,
        evidence: {
          miPeak: found.peakValue,
          peakStep: found.peakStep,
          miRecent: now,
          miStart: mi.start,
          entropyRecent: entropy.recentMean(PEAK_STEPS),
          entropyStart: entropy.start,
        },
        advice:
          'A rise of I(X;Z) that is undone with entropy held often comes before a fall: keep the checkpoint of the peak, ' +
          'and compute the metrics more often from here on.',
        sentence:
          `I(X;Z) overshot: it rose from ${figure(mi.start)} to ${figure(found.peakValue)} (step ${found.peakStep}) and is ` +
          `back at ${figure(now)}, below its start, while H(Z|X) holds.`,
      },
    ];
  }
}

/** P(the present level is as low or lower), were the run's level exactly `floor`; the least of several spans. */
export function levelBelow(mi: RunLevel, floor: number): number {
  const share = floor / mi.start;
  return Math.min(
    ...LEVEL_STEPS.map((steps) => {
      const spread = Math.hypot(mi.errorOfMean(steps), share * mi.startError);
      const gap = floor - mi.recentMean(steps);
      // Scores that never vary: any gap counts, none does not.
      if (spread === 0) return gap > 0 ? 0 : 1;
      return studentTail(gap / spread, mi.freedom);
    }),
  );
}
