// Early warning: I(X;Z) goes down while H(Z|X) does not, told before it is gone.

import { count, fields, nullable, type Shaped } from '../../checks/saved-shape.js';
import { type RunLevel, START_STEPS, TREND_STEPS } from '../levels/run-level.js';
import { figure, percent, percentOf } from '../sentence-numbers.js';
import { HEALTHY_SHARE, holds, levelBelow, lookShare, PRESENT_STEPS } from '../statistics/present-level.js';
import { rankTrend } from '../statistics/rank-trend.js';
import type { Finding } from '../verdict.js';

/** The trend over TREND_STEPS must be as unlikely as this by chance, at every look (exact Mann–Kendall). */
const TREND_LEVEL = 0.05;

/**
 * What the warning may spend over an endless run, before the looks' dependence on each other and the trend's level take
 * most of it back. bench/false-alarms.mjs measures what is left: docs/reference/verdicts.md states it.
 */
const BUDGET = 7;

export const miFallingShape = nullable(fields({ since: count }));
export type MiFallingJson = Shaped<typeof miFallingShape>;

export class MiFalling {
  #state: MiFallingJson;

  constructor(saved: MiFallingJson = null) {
    this.#state = saved;
  }

  toJSON(): MiFallingJson {
    return this.#state && { ...this.#state };
  }

  /** After the step's values were added, and the start is complete. */
  look(mi: RunLevel, entropy: RunLevel): Finding | undefined {
    const look = mi.seen - START_STEPS;
    const floor = HEALTHY_SHARE * mi.start;
    const trend = rankTrend(mi.recent.map(({ value }) => value));
    const levelP = levelBelow(mi, floor);
    if (this.#state === null) {
      // The trend must lie after the start: the step from one to the other is none.
      if (look < TREND_STEPS || !holds(entropy)) return undefined;
      if (trend.pDown > TREND_LEVEL || levelP > BUDGET * lookShare(look)) return undefined;
      const highest = mi.recent.reduce((top, entry) => (entry.value >= top.value ? entry : top));
      this.#state = { since: highest.step };
    } else if (mi.recentMean(PRESENT_STEPS) >= floor || !holds(entropy)) {
      this.#state = null;
      return undefined;
    }
    const { since } = this.#state;
    const last = mi.recent.at(-1)?.value as number;
    const entropyRecent = entropy.recentMean(PRESENT_STEPS);
    return {
      kind: 'mi_falling',
      severity: 'warning',
      since,
      evidence: {
        mi: last,
        miStart: mi.start,
        miRecent: mi.recentMean(PRESENT_STEPS),
        trendTau: trend.tau,
        trendP: trend.pDown,
        levelP,
        entropyRecent,
        entropyStart: entropy.start,
      },
      advice:
        'Look at the reward variance of the batch now: turn the filter on or make it stricter, lower the entropy bonus, ' +
        'and keep a checkpoint from before this step.',
      sentence:
        `I(X;Z) has been falling since step ${since}: it is ${figure(last)}, ${percent(last / mi.start)} of its start ` +
        `(${figure(mi.start)}), while H(Z|X) holds (${percentOf(entropyRecent, entropy.start)} of its start); ` +
        `trend p = ${figure(trend.pDown)}, level p = ${figure(levelP)}.`,
    };
  }

  /** A collapse says more: what was pending when it came is no news when it is over. */
  forget(): void {
    this.#state = null;
  }
}
