// Early stop: validation after validation next to no task is solved (docs/guide/monitor.md).

import { exactPercent } from '../../checks/numbers.js';
import { count, fields, nullable, record, type Shaped } from '../../checks/saved.js';
import { counted } from '../../checks/words.js';
import type { Stop } from './stop.js';

/** When low success in validations stops a run. */
export interface SuccessStopOptions {
  /** Success rate below which a validation counts; in (0, 1]. Default 0.01. */
  readonly below: number;
  /** Consecutive validations below before it stops. Default 5. */
  readonly validations: number;
}

export const SUCCESS_DEFAULTS: SuccessStopOptions = { below: 0.01, validations: 5 };

const lowSuccessShape = fields({
  /** Validations below the threshold without one above since, and the step of the first of them. */
  low: count,
  since: nullable(count),
});
type LowSuccess = Shaped<typeof lowSuccessShape>;

/** By task, as the validation names it. */
export const successStopShape = record(lowSuccessShape);
export type SuccessStopJson = Shaped<typeof successStopShape>;

export class SuccessStop {
  readonly #options: SuccessStopOptions;
  readonly #seen: ReadonlyMap<string, LowSuccess>;

  constructor(options: SuccessStopOptions, seen: Iterable<readonly [string, LowSuccess]> = []) {
    this.#options = options;
    this.#seen = new Map(seen);
  }

  /** The rule after one more validation. Every task has a count of its own, as in the reference. */
  after(step: number, rates: Readonly<Record<string, number>>): SuccessStop {
    const seen = new Map(this.#seen);
    for (const [task, rate] of Object.entries(rates)) {
      const { low, since } = seen.get(task) ?? { low: 0, since: null };
      seen.set(task, rate < this.#options.below ? { low: low + 1, since: since ?? step } : { low: 0, since: null });
    }
    return new SuccessStop(this.#options, seen);
  }

  get stop(): Stop | undefined {
    // The longest stretch speaks; a saved object may name its tasks in another order.
    const found = [...this.#seen]
      .filter(([, { low }]) => low >= this.#options.validations)
      .sort(([a, { low: lowA }], [b, { low: lowB }]) => lowB - lowA || (a < b ? -1 : 1));
    for (const [task, { low, since }] of found) {
      if (since === null) continue;
      const where = task === '' ? '' : ` on ${task}`;
      const sentence =
        `Validation success${where} has been below ${exactPercent(this.#options.below)} for ` +
        `${counted(low, 'validations')}, since step ${since}: the policy does not learn this task; make it easier or start ` +
        'from a stronger model.';
      return { reason: 'low_validation_success', since, sentence };
    }
    return undefined;
  }

  toJSON(): SuccessStopJson {
    return Object.fromEntries(this.#seen);
  }
}
