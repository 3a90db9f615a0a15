// One object of a saved state, read field by field: what is missing or of the wrong kind is named, never guessed.

import { StateError } from './errors.js';
import { shown } from './words.js';

const advice = 'restore from the object that save() gave, or start a new Monitor';

/** @throws {StateError} from every method, naming the field */
export class SavedFields {
  readonly #path: string;
  readonly #object: Readonly<Record<string, unknown>>;

  constructor(value: unknown, path: string) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw new StateError(`the saved monitor is damaged: ${path} is ${shown(value)}, expected an object; ${advice}`);
    }
    this.#path = path;
    this.#object = value as Record<string, unknown>;
  }

  names(): string[] {
    return Object.keys(this.#object);
  }

  value(name: string): unknown {
    return Object.hasOwn(this.#object, name) ? this.#object[name] : undefined;
  }

  fields(name: string): SavedFields {
    return new SavedFields(this.value(name), `${this.#path}.${name}`);
  }

  /** A finite number that is not negative. */
  number(name: string): number {
    const value = this.value(name);
    if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value;
    return this.#reject(name, 'a number from 0 on');
  }

  /** An integer from 0 to `most`. */
  count(name: string, most = Number.MAX_SAFE_INTEGER): number {
    const value = this.value(name);
    if (Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= most) return value as number;
    return this.#reject(name, `a whole number from 0 to ${most}`);
  }

  #reject(name: string, expected: string): never {
    const got = shown(this.value(name));
    throw new StateError(
      `the saved monitor is damaged: ${this.#path}.${name} is ${got}, expected ${expected}; ${advice}`,
    );
  }
}

/** The step under `name`; null where there is none yet. */
export function optionalStep(saved: SavedFields, name: string): number | null {
  return saved.value(name) === null ? null : saved.count(name);
}
