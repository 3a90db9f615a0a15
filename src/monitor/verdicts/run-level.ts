// One figure step by step -> where it started, where it stands, and how much it scatters from step to step. Constant memory.
import { count, fields, list, number, type Shaped } from './saved-shape.js';

/** Computed steps that make the run's start. */
export const START_STEPS = 5;

/** Computed steps that a trend is sought in. */
export const TREND_STEPS = 8;

/** The scatter is an average over so many differences. */
const SCATTER_STEPS = 32;

/** Steps so far apart are as good as independent; successive ones of a training run are not. */
const FAR = 4;

/** What is larger is no figure of a run: differences of such have no finite square, and JSON has no number for what is not finite. */
const LARGEST = 1e150;

/** Whether a level can be made of it. */
export function isMeasurable(value: number): boolean {
  return Math.abs(value) <= LARGEST;
}

const entryShape = fields({ step: count, value: number });

/** All that is kept of a figure's past. */
export const runLevelShape = fields({
  /** The first values, START_STEPS of them when the start is complete. */
  start: list(number, START_STEPS),
  /** The latest values, oldest first. */
  recent: list(entryShape, TREND_STEPS),
  /** Values so far. */
  seen: count,
  /** Mean of squared differences between values FAR steps apart / 2: their variance where there is no trend … */
  scatter: number,
  /** … and between successive values: smaller where a value resembles the one before. */
  nearScatter: number,
  /** Mean square of the values' own standard errors: the scatter cannot be less. */
  noise: number,
});

export type RunLevelJson = Shaped<typeof runLevelShape>;

export class RunLevel {
  readonly #state: RunLevelJson;

  constructor(state: RunLevelJson = { start: [], recent: [], seen: 0, scatter: 0, nearScatter: 0, noise: 0 }) {
    this.#state = state;
  }

  /**
   * @param value isMeasurable(), as `error`
   * @param error standard error of `value`, 0 where it is not known
   */
  add(step: number, value: number, error = 0): void {
    const state = this.#state;
    if (state.start.length < START_STEPS) state.start.push(value);
    // The scatter is that of the steps before: a sudden fall must not lengthen the yardstick that it is measured with.
    const before = state.recent.map((entry) => entry.value);
    const halfSquare = (distance: number): number =>
      ((before.at(-1) as number) - (before.at(-1 - distance) as number)) ** 2 / 2;
    const average = (old: number, now: number, many: number): number =>
      old + (now - old) / Math.min(many, SCATTER_STEPS);
    if (state.seen >= 2) state.nearScatter = average(state.nearScatter, halfSquare(1), state.seen - 1);
    if (state.seen > FAR) state.scatter = average(state.scatter, halfSquare(FAR), state.seen - FAR);
    state.seen++;
    state.noise = average(state.noise, error ** 2, state.seen);
    state.recent.push({ step, value });
    if (state.recent.length > TREND_STEPS) state.recent.shift();
  }

  /** Whether there is a start to compare with, and a step after it. */
  get comparable(): boolean {
    return this.#state.seen > START_STEPS;
  }

  get seen(): number {
    return this.#state.seen;
  }

  /** Mean of the start. */
  get start(): number {
    return mean(this.#state.start);
  }

  /** Standard error of `start`. */
  get startError(): number {
    return this.errorOfMean(this.#state.start.length);
  }

  /** Standard deviation of one step's value about the run's level. */
  get sigma(): number {
    const { scatter, nearScatter, noise } = this.#state;
    return Math.sqrt(Math.max(scatter, nearScatter, noise));
  }

  /** Standard error of the mean of `steps` successive values, which are taken to resemble each other as neighbours do. */
  errorOfMean(steps: number): number {
    const { scatter, nearScatter } = this.#state;
    const alike = scatter > 0 ? Math.min(0.9, Math.max(0, 1 - nearScatter / scatter)) : 0;
    return this.sigma * Math.sqrt((1 + (steps - 1) * alike) / steps);
  }

  /** Degrees of freedom of `sigma`: differences share their values, so that two are worth about one. */
  get freedom(): number {
    return Math.min(this.#state.seen - 2, SCATTER_STEPS) / 2;
  }

  /** Mean of the latest `steps` values, or of as many as there are. */
  recentMean(steps: number): number {
    return mean(this.#state.recent.slice(-steps).map(({ value }) => value));
  }

  /** The latest values, at most TREND_STEPS, oldest first. */
  get recent(): RunLevelJson['recent'] {
    return this.#state.recent;
  }

  toJSON(): RunLevelJson {
    const { start, recent, ...rest } = this.#state;
    return { start: [...start], recent: recent.map((entry) => ({ ...entry })), ...rest };
  }
}

function mean(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0) / values.length;
}
