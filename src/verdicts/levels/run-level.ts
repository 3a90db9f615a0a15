// Follows one figure step by step: where it started, where it is, and how much it scatters between steps. Constant
// memory.
import { count, fields, flag, kept, list, number, type Shaped } from '../../checks/saved.js';

/** Computed steps that make the run's start. */
export const START_STEPS = 5;

/** First computed steps among which a fall of the start itself is looked for. */
export const START_WINDOW = 8;

/** Successive steps whose highest mean is the start of a run that falls from its first steps on. */
const PEAK_STEPS = 3;

/** Computed steps that a trend is sought in. */
export const TREND_STEPS = 8;

/** Number of differences that the scatter is an average over. */
const SCATTER_STEPS = 32;

/** The largest of a few, or a few dozen, squared normal differences, in mean squares (simulated). */
const LARGEST_CHANGES = 6;

/** Steps so far apart are as good as independent; successive ones of a training run are not. */
const FAR = 4;

/**
 * A figure of a run is not larger: differences would have no finite square, and JSON has no infinities.
 */
const LARGEST = 1e150;

/** Whether a level can be made of it. */
export function isMeasurable(value: number): boolean {
  return Math.abs(value) <= LARGEST;
}

const entryShape = fields({ step: count, value: number });

/** All that is kept of a figure's past. */
export const runLevelShape = fields({
  /** The first values, START_WINDOW of them when the start can no longer change. */
  first: list(number, START_WINDOW),
  /** Whether the first values fall themselves: then the start is the highest mean among them, not the mean of all. */
  fallsFromStart: flag,
  /** The latest values, oldest first. */
  recent: list(entryShape, TREND_STEPS),
  /** Values so far. */
  seen: count,
  /** Mean of squared differences between values FAR steps apart / 2, and of the differences themselves … */
  farSquare: number,
  drift: number,
  /** … and of squared differences between successive values / 2: smaller where a value resembles the one before. */
  nearScatter: number,
  /** The part that the largest of these squared differences has in `nearScatter`. */
  largestNear: number,
  /** Mean square of the values' own standard errors: the scatter cannot be less. */
  noise: number,
  /** Mean of 1 / prompts of the values' steps. */
  inversePrompts: number,
});

export type RunLevelJson = Shaped<typeof runLevelShape>;

export class RunLevel extends kept(runLevelShape) {
  /**
   * @param value isMeasurable(), as `error`
   * @param error standard error of `value`, 0 if it is not known
   * @param prompts different prompts that `value` is of; 1 if that says nothing of its scatter
   */
  add(step: number, value: number, error = 0, prompts = 1): void {
    const state = this.state;
    if (state.first.length < START_WINDOW) state.first.push(value);
    // The scatter is that of the steps before: a sudden fall must not raise the noise scale that it is measured with.
    const before = state.recent.map((entry) => entry.value);
    const change = (distance: number): number => (before.at(-1) as number) - (before.at(-1 - distance) as number);
    const average = (old: number, now: number, many: number): number =>
      old + (now - old) / Math.min(many, SCATTER_STEPS);
    if (state.seen >= 2) {
      const square = change(1) ** 2 / 2;
      const many = Math.min(state.seen - 1, SCATTER_STEPS);
      state.nearScatter = average(state.nearScatter, square, many);
      state.largestNear = Math.max(state.largestNear * (1 - 1 / many), square / many);
    }
    if (state.seen > FAR) {
      state.farSquare = average(state.farSquare, change(FAR) ** 2 / 2, state.seen - FAR);
      state.drift = average(state.drift, change(FAR), state.seen - FAR);
    }
    state.seen++;
    state.noise = average(state.noise, error ** 2, state.seen);
    state.inversePrompts = average(state.inversePrompts, 1 / prompts, state.seen);
    state.recent.push({ step, value });
    if (state.recent.length > TREND_STEPS) state.recent.shift();
  }

  /** Whether there is a start to compare with, and a step after it. */
  get comparable(): boolean {
    return this.state.seen > START_STEPS;
  }

  get seen(): number {
    return this.state.seen;
  }

  /** The first values, at most START_WINDOW. */
  get first(): readonly number[] {
    return this.state.first;
  }

  get fallsFromStart(): boolean {
    return this.state.fallsFromStart;
  }

  /** Standard deviation that every value has at least: its own error. */
  get noise(): number {
    return Math.sqrt(this.state.noise);
  }

  /** The first values fall: from now on the start is the highest level among them. */
  noteFallFromStart(): void {
    this.state.fallsFromStart = true;
  }

  /**
   * Level at the run's start: the mean of the first values, or where these fall the highest mean of three in
   * succession.
   */
  get start(): number {
    const { first, fallsFromStart } = this.state;
    return fallsFromStart ? highestMean(first) : mean(first.slice(0, START_STEPS));
  }

  /** Standard error of `start`. */
  get startError(): number {
    const { first, fallsFromStart } = this.state;
    return this.errorOfMean(fallsFromStart ? PEAK_STEPS : Math.min(first.length, START_STEPS));
  }

  /** Variance of values that are far apart about the run's trend: a slow fall must not raise its own noise scale. */
  get #scatter(): number {
    const { farSquare, drift, nearScatter, seen } = this.state;
    const changes = Math.min(seen - 1 - FAR, SCATTER_STEPS);
    if (changes < FAR) return nearScatter;
    // The mean of these changes, which overlap, has itself 8 / changes² of a value's variance.
    return Math.max(0, farSquare - drift ** 2 / 2) / (1 - 4 / changes ** 2);
  }

  /** Standard deviation of one step's value about the run's trend. */
  get sigma(): number {
    const { nearScatter, noise } = this.state;
    return Math.sqrt(Math.max(this.#scatter, nearScatter, noise));
  }

  /**
   * Standard deviation of one step's value about those next to it, but for the largest change: one fall, in the start or
   * after it, does not count as scatter.
   */
  get batchSigma(): number {
    const { nearScatter, largestNear, seen, noise } = this.state;
    const changes = Math.max(1, Math.min(seen - 2, SCATTER_STEPS));
    return Math.sqrt(Math.max(((nearScatter - largestNear) * (changes + LARGEST_CHANGES)) / changes, noise));
  }

  /**
   * Standard error of the mean of `steps` successive values, which are taken to resemble each other as neighbours do.
   */
  errorOfMean(steps: number): number {
    const { nearScatter } = this.state;
    const scatter = this.#scatter;
    const alike = scatter > 0 ? Math.min(0.9, Math.max(0, 1 - nearScatter / scatter)) : 0;
    return this.sigma * Math.sqrt((1 + (steps - 1) * alike) / steps);
  }

  /**
   * Standard deviation that a value of `prompts` prompts has beyond `sigma`: the values before were of more, and what
   * prompts differ by averages out over fewer.
   */
  excessSigma(prompts: number): number {
    const { inversePrompts } = this.state;
    const times = inversePrompts > 0 ? 1 / (prompts * inversePrompts) : 1;
    return this.sigma * Math.sqrt(Math.max(0, times - 1));
  }

  /** Degrees of freedom of `sigma`: differences share their values, so that two are worth about one. */
  get freedom(): number {
    return Math.min(this.state.seen - 2, SCATTER_STEPS) / 2;
  }

  /** Mean of the latest `steps` values, or of as many as there are. */
  recentMean(steps: number): number {
    return mean(this.state.recent.slice(-steps).map(({ value }) => value));
  }

  /** The latest values, at most TREND_STEPS, oldest first. */
  get recent(): RunLevelJson['recent'] {
    return this.state.recent;
  }
}

/** The highest mean of PEAK_STEPS successive values. */
export function highestMean(values: readonly number[]): number {
  let most = Number.NEGATIVE_INFINITY;
  for (let end = PEAK_STEPS; end <= values.length; end++) {
    most = Math.max(most, mean(values.slice(end - PEAK_STEPS, end)));
  }
  return most;
}

export function mean(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0) / values.length;
}
