// Decides whether a share has credibly risen above a multiple of its own start.
import { fields, kept, nullable, number, type Shaped } from '../../checks/saved.js';
import { advance, compare, isSurelyFallen, thresholdStateShape, WIDTH_95 } from '../statistics/threshold-state.js';
import { RunLevel, runLevelShape } from './run-level.js';

export const risenLevelShape = fields({
  level: runLevelShape,
  /** `fallen` is risen here: what is followed is the value below zero. */
  threshold: nullable(thresholdStateShape),
  /**
   * Errors as of the last value that had not risen, made smaller by those after it: a rise must not lengthen its own
   * noise scale.
   */
  errors: nullable(fields({ sigma: number, start: number })),
});
export type RisenLevelJson = Shaped<typeof risenLevelShape>;

export class RisenLevel extends kept(risenLevelShape) {
  readonly level = new RunLevel(this.state.level);
  readonly #times: number;
  readonly #least: number;

  /** @param times of the start, and never less than `least`, from where on a value has risen */
  constructor(times: number, least: number, state?: RisenLevelJson) {
    super(state);
    this.#times = times;
    this.#least = least;
  }

  /**
   * Takes in a step's share.
   * @param prompts that it is a mean over: at least that number of independent draws make its error
   */
  add(step: number, share: number, prompts: number): void {
    const { level } = this;
    level.add(step, share, Math.sqrt(Math.max(0, share * (1 - share)) / Math.max(1, prompts)));
    if (!level.comparable) return;
    const known = this.state.errors ?? { sigma: level.sigma, start: level.startError };
    const errors = { sigma: Math.min(known.sigma, level.sigma), start: Math.min(known.start, level.startError) };
    const half = WIDTH_95 * errors.sigma;
    const threshold = Math.max(this.#least, this.#times * level.start);
    const found = compare(
      -share,
      half,
      half,
      -threshold,
      this.#times * level.start < this.#least ? 0 : this.#times * errors.start,
    );
    this.state.errors = found.state === 'stands' ? { sigma: level.sigma, start: level.startError } : errors;
    this.state.threshold = advance(this.state.threshold, found, step);
  }

  /** Since when two steps agree, or one leaves no doubt; undefined if they do not. */
  get risenSince(): number | undefined {
    return isSurelyFallen(this.state.threshold) ? this.state.threshold.since : undefined;
  }
}
