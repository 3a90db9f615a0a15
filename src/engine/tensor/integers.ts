// Converts a caller's integers to a typed array that native code copies and checks, entry by entry.

import { types } from 'node:util';
import { checkMemory } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { shown } from '../../checks/words.js';
import type { IntegerArray } from '../native.js';
import type { Integers } from './tensor.js';

/** @throws ArgumentError unless it is an Int32Array, a BigInt64Array or an array of numbers, whose memory is there */
export function integerArray(values: Integers, argument: string): IntegerArray {
  checkMemory(values, argument);
  if (types.isInt32Array(values) || types.isBigInt64Array(values)) return values;
  if (Array.isArray(values)) {
    const stranger = values.findIndex((value) => typeof value !== 'number');
    if (stranger >= 0) {
      throw new ArgumentError(argument, `entry ${stranger} is ${shown(values[stranger])}, expected a number`);
    }
    // Not Int32Array: that would wrap what is out of range, where native code names it.
    return Float64Array.from(values as readonly number[]);
  }
  throw new ArgumentError(
    argument,
    `got ${shown(values)}, expected an Int32Array, a BigInt64Array or an array of numbers`,
  );
}

/** @throws ArgumentError as integerArray() */
export function optionalIntegers(values: Integers | undefined, argument: string): IntegerArray | undefined {
  return values === undefined ? undefined : integerArray(values, argument);
}

/**
 * A copy for an operation that reads it after its first job: what the caller writes to the array meanwhile changes
 * nothing.
 * @throws ArgumentError as integerArray()
 */
export function copiedIntegers(values: Integers, argument: string): Integers {
  integerArray(values, argument);
  return values.slice();
}
