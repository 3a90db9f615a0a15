// Warns early: I(X;Z) goes down while H(Z|X) does not, before the dependence is gone.

import { figure, percent, percentOf } from '../../checks/numbers.js';
import { count, fields, kept, nullable } from '../../checks/saved.js';
import { capital } from '../../checks/words.js';
import type { FollowedLevel } from '../levels/followed-level.js';
import { CROSS_SCORES, type Instrument } from '../levels/instrument.js';
import { type RunLevel, START_STEPS, TREND_STEPS } from '../levels/run-level.js';
import type { MiAt } from '../levels/step-levels.js';
import { HEALTHY_SHARE, holds, levelBelow, lookShare, PRESENT_STEPS } from '../statistics/present-level.js';
import { rankTrend } from '../statistics/rank-trend.js';
import { studentTail } from '../statistics/tail-probabilities.js';
import type { Finding } from '../verdict.js';

/** The trend over TREND_STEPS must be as unlikely as this by chance, at every look (exact Mann–Kendall). */
const TREND_LEVEL = 0.05;

/**
 * What the warning may spend over an endless run, before the looks' dependence on each other and the trend's level take
 * most of it back. bench/false-alarms.mjs measures what is left: docs/reference/verdicts.md states it.
 */
const BUDGET = 7;

/** What tells a fall from texts that begins within the run's start. */
export interface TextFall {
  /** The step's bound, and its errors as of the last value that had not fallen. */
  readonly at: MiAt;
  readonly errors: FollowedLevel['errors'];
  /** Specificity, which has no ceiling. */
  readonly specificity: RunLevel;
}

/** Steps after which a fall of the bound can be seen … */
const EARLY_LOOKS = 3;

/** … where specificity is as unlikely by chance below the same floor. */
const CONFIRMED_LEVEL = 0.05;

/**
 * P(the bound of this step is as low or lower), were the run's level `floor`; 1 if specificity does not confirm it.
 * Texts start at their ceiling or near it, where nothing scatters: what the run scatters by is then known from the fall
 * itself.
 */
function textFallP({ at, errors, specificity }: TextFall, floor: number, look: number): number {
  if (look < EARLY_LOOKS || !specificity.comparable || specificity.start <= 0) return 1;
  if (levelBelow(specificity, HEALTHY_SHARE * specificity.start) > CONFIRMED_LEVEL) return 1;
  const spread = Math.hypot(at.error, errors.sigma, HEALTHY_SHARE * errors.start);
  return studentTail((floor - at.value) / spread, at.prompts - 1);
}

/** Since when it is said; null while it is not. */
export const miFallingShape = fields({ since: nullable(count) });

export class MiFalling extends kept(miFallingShape) {
  /** After the step's values were added, and the start is complete. @param tests that share the budget */
  look(
    mi: RunLevel,
    entropy: RunLevel,
    instrument: Instrument = CROSS_SCORES,
    texts: TextFall | undefined = undefined,
    tests = 1,
  ): Finding | undefined {
    const look = mi.seen - START_STEPS;
    const floor = HEALTHY_SHARE * mi.start;
    const trend = rankTrend(mi.recent.map(({ value }) => value));
    const ofStep = texts === undefined ? 1 : textFallP(texts, floor, look);
    const levelP = Math.min(levelBelow(mi, floor), ofStep);
    if (this.state.since === null) {
      // The trend must lie after the start, as the step from one to the other is none; or the step by itself be clear.
      if ((look < TREND_STEPS && ofStep === 1) || !holds(entropy)) return undefined;
      if (trend.pDown > TREND_LEVEL || levelP > (BUDGET / tests) * lookShare(look)) return undefined;
      const highest = mi.recent.reduce((top, entry) => (entry.value >= top.value ? entry : top));
      this.state.since = highest.step;
    } else if (mi.recentMean(PRESENT_STEPS) >= floor || !holds(entropy)) {
      this.state.since = null;
      return undefined;
    }
    const since = this.state.since as number;
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
      now: `${instrument.mi} is ${figure(last)}, ${percent(last / mi.start)} of its start`,
      advice:
        'Look at the reward variance of the batch now: turn the filter on or make it stricter, lower the entropy bonus, ' +
        'and keep a checkpoint from before this step.',
      sentence:
        `${capital(instrument.mi)} has been falling since step ${since}: it is ${figure(last)}, ${percent(last / mi.start)} of its start ` +
        `(${figure(mi.start)}), while ${instrument.entropy} holds (${percentOf(entropyRecent, entropy.start)} of its start); ` +
        `trend p = ${figure(trend.pDown)}, level p = ${figure(levelP)}.${instrument.remark}`,
    };
  }

  /** Drops what was pending: a collapse says more, and when it is over the old warning is not news. */
  forget(): void {
    this.state.since = null;
  }
}
