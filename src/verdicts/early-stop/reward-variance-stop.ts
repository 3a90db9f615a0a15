// Early stop: the rewards within groups have become alike, so that there is next to nothing to learn from
// (docs/guide/monitor.md).

import { exactPercent, figure } from '../../checks/numbers.js';
import { count, countTo, fields, notNegative, nullable, type Shape } from '../../checks/saved.js';
import type { Stop } from './stop.js';

/** When rewards that have become alike within groups stop a run. */
export interface RewardVarianceStopOptions {
  /** Share of the start's mean in-group std below which a step counts; in (0, 1). Default 0.1. */
  readonly below: number;
  /** Kept steps whose mean is the start. Default 10. */
  readonly startSteps: number;
  /** Consecutive kept steps below before it stops. Default 10, as the reference's code has it; its paper says 5. */
  readonly consecutive: number;
}

export const REWARD_VARIANCE_DEFAULTS: RewardVarianceStopOptions = { below: 0.1, startSteps: 10, consecutive: 10 };

export const rewardVarianceStopShape = ({ startSteps }: RewardVarianceStopOptions): Shape<RewardVarianceStopJson> =>
  fields({
    startSum: notNegative,
    startSteps: countTo(startSteps),
    low: count,
    since: nullable(count),
    last: notNegative,
  });

/** What the rule knows of the run. */
export interface RewardVarianceStopJson {
  /** Sum of the mean in-group stds of the first kept steps, and how many of these there were. */
  readonly startSum: number;
  readonly startSteps: number;
  /** Kept steps below the threshold without one above since, and the first of them. */
  readonly low: number;
  readonly since: number | null;
  /** The last mean in-group std. */
  readonly last: number;
}

export class RewardVarianceStop {
  readonly #options: RewardVarianceStopOptions;
  readonly #seen: RewardVarianceStopJson;

  constructor(
    options: RewardVarianceStopOptions,
    seen: RewardVarianceStopJson = { startSum: 0, startSteps: 0, low: 0, since: null, last: 0 },
  ) {
    this.#options = options;
    this.#seen = seen;
  }

  /**
   * The rule after one more kept step, which is a step that the filter left a group of. Steps without groups of two or
   * more rollouts have no in-group std and must not be given.
   */
  after(step: number, meanStd: number): RewardVarianceStop {
    const { below, startSteps } = this.#options;
    const seen = this.#seen;
    if (seen.startSteps < startSteps) {
      const startSum = seen.startSum + meanStd;
      return this.#with({ ...seen, startSum, startSteps: seen.startSteps + 1, last: meanStd });
    }
    const low = meanStd < below * this.#start;
    return this.#with({
      ...seen,
      low: low ? seen.low + 1 : 0,
      since: low ? (seen.since ?? step) : null,
      last: meanStd,
    });
  }

  get stop(): Stop | undefined {
    const { low, since, last } = this.#seen;
    if (low < this.#options.consecutive || since === null) return undefined;
    const sentence =
      `The mean in-group std of the reward has been below ${exactPercent(this.#options.below)} of its start for ${low} kept ` +
      `steps, since step ${since} (now ${figure(last)}, at the start ${figure(this.#start)}): rollouts of one prompt ` +
      `are rewarded alike and give no gradient; look at the prompts' difficulty and at the reward.`;
    return { reason: 'reward_variance_collapse', since, sentence };
  }

  get #start(): number {
    return this.#seen.startSum / this.#seen.startSteps;
  }

  #with(seen: RewardVarianceStopJson): RewardVarianceStop {
    return new RewardVarianceStop(this.#options, seen);
  }

  toJSON(): RewardVarianceStopJson {
    return this.#seen;
  }
}
