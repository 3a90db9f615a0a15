// The options of an operation as a table of names and kinds, checked at the door: an option that is unknown or of
// another kind is named, with what was expected. Defaults are where the options are destructured.
import { checkAwaited, checkEngine, checkKnown, checkObject } from './argument-checks.js';
import { ArgumentError } from './errors.js';
import type { OperationOptions } from './operation-options.js';
import { shown } from './words.js';

/** Refuses a value that an option may not have. */
export interface Kind {
  /** @throws {ArgumentError} naming the argument */
  (value: unknown, argument: string): void;
  /** Whether the option may not be left out. */
  readonly isNeeded?: boolean;
}

/** The kind of each option: the compiler ensures that none is missing or added. */
export type OptionTable<Options extends object> = { readonly [Name in keyof Options]-?: Kind };

function kind(expected: string, fits: (value: unknown) => boolean): Kind {
  return (value, argument) => {
    if (!fits(value)) throw new ArgumentError(argument, `got ${shown(value)}, expected ${expected}`);
  };
}

/** What an option may be. */
export const is = {
  integer: (least: number, most = Number.POSITIVE_INFINITY): Kind =>
    kind(
      `an integer from ${least} ${most === Number.POSITIVE_INFINITY ? 'on' : `to ${most}`}`,
      (value) => Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most,
    ),
  /** A number within bounds, which `expected` says. */
  number: (expected: string, fits: (value: number) => boolean): Kind =>
    kind(expected, (value) => typeof value === 'number' && fits(value)),
  /** A share, and not none. */
  fraction: kind('a number above 0 and at most 1', (value) => typeof value === 'number' && value > 0 && value <= 1),
  oneOf: (choices: readonly string[]): Kind => {
    const quoted = choices.map((choice) => `"${choice}"`);
    const [others, last] = [quoted.slice(0, -1).join(', '), quoted.at(-1) as string];
    return kind(others === '' ? last : `${others} or ${last}`, (value) => choices.includes(value as string));
  },
  flag: kind('true or false', (value) => typeof value === 'boolean'),
  text: (what: string, form = /^/): Kind => kind(what, (value) => typeof value === 'string' && form.test(value)),
  path: kind('a path', (value) => typeof value === 'string'),
  /** A function that is called later: anything else would fail only then. */
  callback: kind('a function', (value) => typeof value === 'function'),
  signal: kind('an AbortSignal', (value) => value instanceof AbortSignal),
  engine: checkEngine as Kind,
  /** Checked where it is used. */
  any: (() => {}) as Kind,
  needed: (kind: Kind): Kind =>
    Object.assign((value: unknown, argument: string) => kind(value, argument), { isNeeded: true }),
};

/** The options that every operation has. */
export const OPERATION: OptionTable<OperationOptions> = { signal: is.signal, onProgress: is.callback };

/** @throws {ArgumentError} unless the options are an object of these names, each that is given of its kind */
export function checkOptions(
  options: object,
  table: Readonly<Record<string, Kind>> = OPERATION,
  argument = 'options',
): void {
  checkObject(options, argument);
  checkKnown(options, argument, Object.keys(table));
  for (const [name, kind] of Object.entries(table)) {
    const value = (options as Record<string, unknown>)[name];
    if (value !== undefined || kind.isNeeded) kind(value, `${argument}.${name}`);
  }
}

/** @throws {ArgumentError} unless it is an object; a promise of one, or an array, is not */
export function optionsObject(value: unknown, argument: string): Record<string, unknown> {
  checkAwaited(value, argument);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ArgumentError(argument, `got ${shown(value)}, expected an object`);
  }
  return value as Record<string, unknown>;
}
