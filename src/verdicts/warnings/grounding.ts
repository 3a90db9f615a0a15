// Does the reasoning rest on the state or image? log p(z|x) − log p(z|x without it), step by step against the run's own
// start (docs/reference/verdicts.md).

import { figure, percent } from '../../checks/numbers.js';
import { fields, kept, nullable } from '../../checks/saved.js';
import type { Integers } from '../../engine/tensor/tensor.js';
import { rowsByGroup } from '../evidence/group-outcomes.js';
import { FollowedLevel, followedLevelShape } from '../levels/followed-level.js';
import { isMeasurable } from '../levels/run-level.js';
import { advance, isSurelyFallen, thresholdStateShape, WIDTH_95 } from '../statistics/threshold-state.js';
import type { Finding } from '../verdict.js';

/** What ablated prompts say of how much a response rests on its prompt. */
export interface Grounding {
  /** Mean over rows of log p(z|x) − log p(z|x without state or image), nats a response. */
  readonly gain: number;
  /** Its standard error: prompts are drawn, rows of one prompt go together. */
  readonly error: number;
  readonly rows: number;
}

/**
 * @returns null if no row has both log-probs finite, all rows are of one prompt, or log-probs are so large as
 *   only those of masks are
 */
export function grounding(groups: Integers, matched: ArrayLike<number>, ablated: ArrayLike<number>): Grounding | null {
  const sums: { total: number; rows: number }[] = [];
  for (const members of rowsByGroup(groups).values()) {
    const gains = members.map((row) => (matched[row] as number) - (ablated[row] as number)).filter(Number.isFinite);
    if (gains.length > 0) sums.push({ total: gains.reduce((a, b) => a + b, 0), rows: gains.length });
  }
  if (sums.length < 2) return null;
  const rows = sums.reduce((total, group) => total + group.rows, 0);
  const gain = sums.reduce((total, group) => total + group.total, 0) / rows;
  const squares = sums.reduce((total, group) => total + (group.total - gain * group.rows) ** 2, 0);
  const error = Math.sqrt((squares * sums.length) / (sums.length - 1)) / rows;
  return isMeasurable(gain) && isMeasurable(error) ? { gain, error, rows } : null;
}

export const groundednessShape = fields({ followed: followedLevelShape, threshold: nullable(thresholdStateShape) });

/** The run's gains, and whether they hold. */
export class Groundedness extends kept(groundednessShape) {
  readonly #followed = new FollowedLevel(this.state.followed);

  /**
   * Takes in a step's gain. @returns the verdict while it has fallen at two steps, and nothing since has shown
   * that it recovered
   */
  read(step: number, now: Grounding): Finding | undefined {
    const followed = this.#followed;
    followed.level.add(step, now.gain, now.error);
    if (!followed.level.comparable || (this.state.threshold === null && !followed.hasStart)) return undefined;
    const half = WIDTH_95 * now.error;
    const found = followed.compare(now.gain, { above: half, below: half });
    // One step is never enough here: rows of few prompts give the error.
    this.state.threshold = advance(this.state.threshold, { ...found, beyondDoubt: false }, step);
    return isSurelyFallen(this.state.threshold)
      ? ungrounded(this.state.threshold.since, now, followed.level.start)
      : undefined;
  }
}

function ungrounded(since: number, now: Grounding, start: number): Finding {
  return {
    kind: 'ungrounded',
    severity: 'warning',
    since,
    evidence: { gain: now.gain, error: now.error, gainStart: start, share: now.gain / start },
    advice:
      'The reasoning no longer needs the state or image: check that it still reaches the model, and filter for prompts ' +
      'whose reward depends on it.',
    now: `the difference is ${figure(now.gain)}, ${percent(now.gain / start)} of its start`,
    sentence:
      `Without the state or image the reasoning is almost as likely: the difference is ${figure(now.gain)} nats a response, ` +
      `${percent(now.gain / start)} of its start (${figure(start)}).`,
  };
}
