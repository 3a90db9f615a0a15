// A figure that is held against half of its own start: its level, and the errors that a fall is measured with.

import { fields, kept, nullable, number, type Shaped } from '../../checks/saved.js';
import { type Comparison, compare, FALLEN, WIDTH_95 } from '../statistics/threshold-state.js';
import { RunLevel, runLevelShape } from './run-level.js';

export const followedLevelShape = fields({
  level: runLevelShape,
  /** Errors as of the last value that had not fallen, made smaller by those after it; null: there was none. */
  errors: nullable(
    fields({
      /** Standard deviation of one step's value. */
      sigma: number,
      /** Standard error of the start. */
      start: number,
    }),
  ),
});
export type FollowedLevelJson = Shaped<typeof followedLevelShape>;

/** 95% half-widths of a step's value, above and below it, before the run's own scatter. */
export interface HalfWidths {
  readonly above: number;
  readonly below: number;
}

export class FollowedLevel extends kept(followedLevelShape) {
  readonly level = new RunLevel(this.state.level);

  /**
   * The run's scatter holds a fall itself from the next step on, so until a value is up again the errors may
   * become smaller but not larger. (Without that, a fall of the entropy to 40% was reported after 70 steps.)
   */
  get errors(): NonNullable<FollowedLevelJson['errors']> {
    const { sigma, startError } = this.level;
    if (this.state.errors === null) return { sigma, start: startError };
    return { sigma: Math.min(this.state.errors.sigma, sigma), start: Math.min(this.state.errors.start, startError) };
  }

  /** Whether the start can be distinguished from zero: otherwise there is nothing to fall from. */
  get hasStart(): boolean {
    return this.level.start > WIDTH_95 * this.errors.start;
  }

  /** Compares the step's value, added before, with half of the start, whose own error counts. */
  compare(value: number, { above, below }: HalfWidths, tests = 1): Comparison {
    const { level, errors } = this;
    const against = (half: number): Comparison =>
      compare(value, half, below, FALLEN * level.start, FALLEN * errors.start, tests);
    // A single step leaves no doubt if its error, which few prompts may give too small, is that of the run's steps.
    const { beyondDoubt } = against(Math.max(above, WIDTH_95 * level.noise));
    const found = { ...against(above), beyondDoubt };
    this.state.errors = found.state === 'stands' ? { sigma: level.sigma, start: level.startError } : errors;
    return found;
  }
}
