// Early stop: step after step the filter keeps nothing, so that no update happens (docs/guide/monitor.md).
import { count, fields, nullable, type Shaped } from '../../checks/saved.js';
import type { Stop } from './stop.js';

/** When steps without a kept group stop a run. */
export interface EmptyFilterStopOptions {
  /** Consecutive steps without a kept group before it stops. Default 10. */
  readonly steps: number;
}

export const EMPTY_FILTER_DEFAULTS: EmptyFilterStopOptions = { steps: 10 };

export const emptyFilterStopShape = fields({ empty: count, since: nullable(count) });
export type EmptyFilterStopJson = Shaped<typeof emptyFilterStopShape>;

export class EmptyFilterStop {
  readonly #options: EmptyFilterStopOptions;
  readonly #seen: EmptyFilterStopJson;

  constructor(options: EmptyFilterStopOptions, seen: EmptyFilterStopJson = { empty: 0, since: null }) {
    this.#options = options;
    this.#seen = seen;
  }

  /** The rule after one more filtered step. */
  after(step: number, empty: boolean): EmptyFilterStop {
    const { empty: count, since } = this.#seen;
    const seen = empty ? { empty: count + 1, since: since ?? step } : { empty: 0, since: null };
    return new EmptyFilterStop(this.#options, seen);
  }

  /** Steps without a kept group up to now. */
  get consecutive(): number {
    return this.#seen.empty;
  }

  get stop(): Stop | undefined {
    const { empty, since } = this.#seen;
    if (empty < this.#options.steps || since === null) return undefined;
    const sentence =
      `The filter has kept no group for ${empty} steps, since step ${since}: no update happens; loosen the filter, or look ` +
      `at why all rollouts of a prompt are rewarded alike.`;
    return { reason: 'empty_filtered_steps', since, sentence };
  }

  toJSON(): EmptyFilterStopJson {
    return this.#seen;
  }
}
