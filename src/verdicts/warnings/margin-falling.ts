// Warns early while I(X;Z) is at its ceiling: the contrastive margin has no ceiling, and falls before I(X;Z)
// moves.

import { figure, percent } from '../../checks/numbers.js';
import { fields, kept, nullable } from '../../checks/saved.js';
import { FollowedLevel, followedLevelShape } from '../levels/followed-level.js';
import type { Instrument } from '../levels/instrument.js';
import { RunLevel, runLevelShape } from '../levels/run-level.js';
import type { StepLevels } from '../levels/step-levels.js';
import { HEALTHY_SHARE } from '../statistics/present-level.js';
import { advance, isSurelyFallen, thresholdStateShape, WIDTH_95 } from '../statistics/threshold-state.js';
import type { Finding } from '../verdict.js';

export const marginFallingShape = fields({
  followed: followedLevelShape,
  tokens: runLevelShape,
  threshold: nullable(thresholdStateShape),
});

export class MarginFalling extends kept(marginFallingShape) {
  readonly #followed = new FollowedLevel(this.state.followed);
  readonly #tokens = new RunLevel(this.state.tokens);

  get level(): RunLevel {
    return this.#followed.level;
  }

  /** Takes in a step. */
  add(step: number, { margin, tokens, prompts, tests }: StepLevels): void {
    if (tokens !== null) this.#tokens.add(step, tokens);
    if (margin === null) return;
    const followed = this.#followed;
    const { level } = followed;
    level.add(step, margin.value, margin.error, Math.max(1, prompts));
    if (!level.comparable || (this.state.threshold === null && !followed.hasStart)) return;
    // A margin scatters with the prompts of its batch far more than the sampling of responses shows.
    const { sigma } = followed.errors;
    const half = WIDTH_95 * Math.hypot(Math.max(margin.error, sigma), level.excessSigma(Math.max(1, prompts)));
    this.state.threshold = advance(
      this.state.threshold,
      followed.compare(margin.value, { above: half, below: half }, tests),
      step,
    );
  }

  /** @returns the warning while the margin has fallen, and not only because responses have become shorter */
  look(levels: StepLevels, miIsBelowStart: boolean): Finding | undefined {
    const { margin, tokens } = levels;
    if (margin === null || !isSurelyFallen(this.state.threshold)) return undefined;
    const { start } = this.level;
    const share = margin.value / start;
    const lengthShare = tokens === null || this.#tokens.start <= 0 ? 1 : Math.min(1, tokens / this.#tokens.start);
    // The margin a token has not fallen: the responses have become shorter.
    if (share >= HEALTHY_SHARE * lengthShare && !miIsBelowStart) return undefined;
    return marginFalling(this.state.threshold.since, margin, start, lengthShare, levels.instrument);
  }

  /** A collapse says more: when it is over, only new evidence may warn again. */
  forget(): void {
    const { threshold } = this.state;
    if (threshold?.state === 'fallen') threshold.sure = 0;
  }
}

function marginFalling(
  since: number,
  { value, low, high }: NonNullable<StepLevels['margin']>,
  start: number,
  lengthShare: number,
  { source, margin, marginUnit, remark }: Instrument,
): Finding {
  const isScored = source === 'scores';
  return {
    kind: 'margin_falling',
    severity: 'warning',
    since,
    evidence: isScored
      ? { margin: value, marginLow: low, marginHigh: high, marginStart: start, lengthShare }
      : { specificity: value, specificityStart: start },
    advice:
      'Responses tell their prompt less and less, which I(X;Z) shows late where it stands near its ceiling: look at the ' +
      'reward variance of the batch now, turn the filter on or make it stricter, and keep a checkpoint from before this step.',
    now: `it is ${figure(value)} ${marginUnit}, ${percent(value / start)} of its start`,
    sentence:
      `${margin} is ${figure(value)}${isScored ? ` [${figure(low)}, ${figure(high)}]` : ''} ${marginUnit}, ` +
      `${percent(value / start)} of its start (${figure(start)}); so since step ${since}.${remark}`,
  };
}
