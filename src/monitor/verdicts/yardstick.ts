// A run's scatter, step by step -> the errors that a fall below half of its start is measured with.
import type { RunLevel } from './run-level.js';
import { fields, number, type Shaped } from './saved-shape.js';
import type { Place } from './standing.js';

export const yardstickShape = fields({
  /** Standard deviation of one step's value. */
  sigma: number,
  /** Standard error of the start. */
  startError: number,
});
export type Yardstick = Shaped<typeof yardstickShape>;

/**
 * The run's scatter holds a fall itself from the next step on, so that until a value stands again its yardstick may become
 * shorter but not longer. (Without that, a fall of the entropy to 40% was said after 70 steps.)
 * @param before of the last value that stood, made shorter by those after it; null: there was none
 */
export function yardstickAt(before: Yardstick | null, { sigma, startError }: RunLevel): Yardstick {
  if (before === null) return { sigma, startError };
  return { sigma: Math.min(before.sigma, sigma), startError: Math.min(before.startError, startError) };
}

/** @returns what the next value's is made of */
export function carryYardstick(now: Yardstick, { sigma, startError }: RunLevel, found: Place): Yardstick {
  return found.state === 'stands' ? { sigma, startError } : now;
}
