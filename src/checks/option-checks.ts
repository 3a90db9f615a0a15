// Checks that the monitor's options share: an option that is unknown or out of range is named, with what was expected.
import { checkAwaited } from './argument-checks.js';
import { ArgumentError } from './errors.js';
import { shown } from './words.js';

/** @throws {ArgumentError} if it is no plain object, or the promise of one */
export function optionsObject(value: unknown, argument: string): Record<string, unknown> {
  checkAwaited(value, argument);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ArgumentError(argument, `got ${shown(value)}, expected an object`);
  }
  return value as Record<string, unknown>;
}

/** @throws {ArgumentError} unless it is an integer of at least `least` */
export function checkInteger(value: unknown, argument: string, least: number): void {
  if (!Number.isSafeInteger(value) || (value as number) < least) {
    throw new ArgumentError(argument, `got ${shown(value)}, expected an integer from ${least} on`);
  }
}

/** @throws {ArgumentError} unless it is a share, and not none */
export function checkFraction(value: unknown, argument: string): void {
  if (typeof value !== 'number' || !(value > 0 && value <= 1)) {
    throw new ArgumentError(argument, `got ${shown(value)}, expected a number above 0 and at most 1`);
  }
}

/** @throws {ArgumentError} unless it is one of `choices` */
export function checkChoice(value: unknown, argument: string, choices: readonly string[]): void {
  if (typeof value !== 'string' || !choices.includes(value)) {
    const expected = choices.map((choice) => `"${choice}"`).join(' or ');
    throw new ArgumentError(argument, `got ${shown(value)}, expected ${expected}`);
  }
}
