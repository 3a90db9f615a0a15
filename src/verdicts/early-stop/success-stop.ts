// Early stop: validation after validation next to no task is solved (docs/guide/monitor.md).

import { exactPercent } from '../../checks/numbers.js';
import { optionalStep, type SavedFields } from '../../checks/saved-fields.js';
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

interface LowSuccess {
  /** Validations below the threshold without one above since, and the step of the first of them. */
  readonly low: number;
  readonly since: number | null;
}

/** By task, as the validation names it. */
export type SuccessStopJson = Readonly<Record<string, LowSuccess>>;

export class SuccessStop {
  readonly #options: SuccessStopOptions;
  readonly #seen: ReadonlyMap<string, LowSuccess>;

  constructor(options: SuccessStopOptions, seen: ReadonlyMap<string, LowSuccess> = new Map()) {
    this.#options = options;
    this.#seen = seen;
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

  /** @throws {StateError} if a field is not what toJSON() gave */
  static from(saved: SavedFields, options: SuccessStopOptions): SuccessStop {
    const tasks = saved.names().map((task) => {
      const fields = saved.fields(task);
      return [task, { low: fields.count('low'), since: optionalStep(fields, 'since') }] as const;
    });
    return new SuccessStop(options, new Map(tasks));
  }
}
