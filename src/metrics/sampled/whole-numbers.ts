// Converts a caller's counts or labels to plain numbers, and checks each.
import { checkArray } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { shown } from '../../checks/words.js';
import type { Integers } from '../../engine/tensor/tensor.js';

/** @throws {ArgumentError} naming the first entry that is not a whole number from 0 on */
export function wholeNumbers(name: string, values: Integers): number[] {
  checkArray(values, name);
  return Array.from(values as ArrayLike<number | bigint>, (value, at) => {
    // Of what is neither, Number() makes a count, too: 0 of null, and a row of length 0 is left out.
    const number = typeof value === 'number' || typeof value === 'bigint' ? Number(value) : Number.NaN;
    if (!Number.isSafeInteger(number) || number < 0) {
      throw new ArgumentError(name, `entry ${at}: expected a whole number from 0 on, got ${shown(value)}`);
    }
    return number;
  });
}
