// Entropy that is bought, not earned: H(Z|X) has doubled while neither I(X;Z) nor success rises. An entropy curve calls
// it health.

import { figure, percent } from '../../checks/numbers.js';
import type { RunLevel } from '../levels/run-level.js';
import { levelBelow, PRESENT_STEPS } from '../statistics/present-level.js';
import { rankTrend } from '../statistics/rank-trend.js';
import type { Finding } from '../verdict.js';

/** H(Z|X) from this multiple of its start on, at two computed steps in succession. */
const DOUBLED = 2;

/** A rise of I(X;Z) or success as unlikely as this by chance counts as one (Mann–Kendall over the latest steps). */
const RISE_LEVEL = 0.05;

/** I(X;Z) as far below its start as this by chance makes an information a warning. */
const LOSS_LEVEL = 0.01;

export function entropyGaming(mi: RunLevel, entropy: RunLevel, success: RunLevel): Finding | undefined {
  const threshold = DOUBLED * entropy.start;
  const high = entropy.recent.slice(-2);
  if (!entropy.comparable || entropy.start <= 0 || high.some(({ value }) => value < threshold)) return undefined;
  const rises = (level: RunLevel): boolean => rankTrend(level.recent.map(({ value }) => value)).pUp <= RISE_LEVEL;
  if (rises(mi) || rises(success)) return undefined;
  const first = high[0] as { step: number };
  const latest = entropy.recent.at(-1)?.value as number;
  const lost = levelBelow(mi, mi.start);
  const miRecent = mi.recentMean(PRESENT_STEPS);
  const severe = lost <= LOSS_LEVEL;
  return {
    kind: 'entropy_gaming',
    severity: severe ? 'warning' : 'info',
    since: first.step,
    evidence: {
      entropy: latest,
      entropyStart: entropy.start,
      miRecent,
      miStart: mi.start,
      miBelowStartP: lost,
      successRecent: success.seen > 0 ? success.recentMean(PRESENT_STEPS) : null,
    },
    advice:
      'Lower the entropy bonus (or drop it): the added variety is noise that training pays for. Watch I(X;Z), not entropy.',
    now: `H(Z|X) is ${figure(latest)} nats a token, ${percent(latest / entropy.start)} of its start`,
    sentence:
      `H(Z|X) is ${figure(latest)} nats a token, ${percent(latest / entropy.start)} of its start, but ` +
      `${success.seen > 0 ? 'neither I(X;Z) nor success rises' : 'I(X;Z) does not rise'} with it` +
      `${severe ? `: over the last ${PRESENT_STEPS} computed steps I(X;Z) is at ${percent(miRecent / mi.start)} of its start` : ''}.`,
  };
}
