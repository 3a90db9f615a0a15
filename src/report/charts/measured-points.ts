// Drops from a figure the steps at which it was not requested: a monitor scores every few steps, and the steps in
// between are not gaps.
import type { RunData } from '../report.js';

/** Known of every step, scored or not. */
const OF_EVERY_STEP = /^(reward|reward_std|kept|gate|valid|length|template|repetition)(_least|_most)?$/;

interface Figure {
  readonly steps: ArrayLike<number>;
  readonly values: ArrayLike<number>;
}

type Columns = Pick<RunData, 'steps' | 'figures' | 'regimes'>;

/** NaN is then a gap: a step that was measured, and has no such figure. `regime`: the place in REGIME_CODES. */
export function measuredPoints({ steps, figures, regimes }: Columns, name: string): Figure {
  const values = name === 'regime' ? regimes : (figures[name] ?? new Float32Array(steps.length).fill(Number.NaN));
  const { measured } = figures;
  if (measured === undefined || OF_EVERY_STEP.test(name)) return { steps, values };
  const isMeasured = (_: number, at: number): boolean => measured[at] !== 0;
  return { steps: steps.filter(isMeasured), values: values.filter(isMeasured) };
}

/** Place of the last step whose scores or texts were asked for; −1 of a run without steps. */
export function lastMeasured({ steps, figures: { measured } }: Pick<RunData, 'steps' | 'figures'>): number {
  const at = measured?.findLastIndex((value) => value !== 0) ?? -1;
  return at < 0 ? steps.length - 1 : at;
}
