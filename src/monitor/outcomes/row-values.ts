// Copies and checks a trainer's values, one per row: the trainer may reuse its arrays at once.
import { types } from 'node:util';
import { checkMemory } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { counted, shown } from '../../checks/words.js';
import { isFloat16Array } from '../../engine/tensor/float16-array.js';
import type { Integers } from '../../engine/tensor/tensor.js';
import type { RewardValues } from '../../filter/input/filter-input.js';

/** One number a row. */
export type RowNumbers = Float64Array | Float32Array | Int32Array | Uint32Array | Uint8Array | readonly number[];
/** One reward a row: null if there is none. */
export type RowRewards = RowNumbers | readonly (number | null | undefined)[];
/** One yes or no a row. */
export type RowFlags = Uint8Array | readonly (boolean | number)[];

function expectLength(values: { readonly length: number }, argument: string, rows: number): void {
  if (values.length !== rows) {
    throw new ArgumentError(
      argument,
      `${counted(values.length, 'values')} for ${counted(rows, 'rows')}: give one a row, in the order of groups`,
    );
  }
}

/** A copy. @throws {ArgumentError} naming the first entry that is not an integer */
export function copyIntegers(values: Integers, argument: string, rows?: number): Integers {
  checkMemory(values, argument);
  const typed = types.isInt32Array(values) || types.isBigInt64Array(values);
  if (!typed && !Array.isArray(values)) {
    throw new ArgumentError(
      argument,
      `got ${shown(values)}, expected an Int32Array, a BigInt64Array or an array of integers`,
    );
  }
  if (rows !== undefined) expectLength(values, argument, rows);
  if (typed) return values.slice();
  const stranger = values.findIndex((value) => !Number.isSafeInteger(value));
  if (stranger >= 0)
    throw new ArgumentError(argument, `row ${stranger} is ${shown(values[stranger])}, expected an integer`);
  return [...values];
}

/**
 * A copy in float64.
 * @param accepts decides which values can be right, `expected` says so in words
 * @throws {ArgumentError} naming the first row whose value cannot be right
 */
export function copyNumbers(
  values: RowNumbers,
  argument: string,
  rows: number,
  expected = 'a finite number',
  accepts: (value: number) => boolean = Number.isFinite,
): Float64Array {
  if (!isNumberArray(values)) {
    throw new ArgumentError(argument, `got ${shown(values)}, expected an array or typed array of numbers`);
  }
  expectLength(values, argument, rows);
  const stranger = (values as readonly unknown[]).findIndex((value) => typeof value !== 'number' || !accepts(value));
  if (stranger >= 0) {
    throw new ArgumentError(argument, `row ${stranger} is ${shown(values[stranger])}, expected ${expected}`);
  }
  return Float64Array.from(values);
}

/**
 * Copies rewards so that missing ones, and the rounding of float32, can still be recognised. @throws {ArgumentError} as
 * copyNumbers
 */
export function copyRewards(values: RowRewards, argument: string, rows: number): RewardValues {
  if (types.isFloat32Array(values) || isFloat16Array(values)) {
    expectLength(values, argument, rows);
    return Float32Array.from(values as ArrayLike<number>);
  }
  const isMissing = (value: unknown): boolean => value === null || value === undefined;
  if (!Array.isArray(values) || !values.some(isMissing)) {
    return copyNumbers(values as RowNumbers, argument, rows, 'a number', () => true);
  }
  copyNumbers(
    values.map((value) => value ?? Number.NaN),
    argument,
    rows,
    'a number',
    () => true,
  );
  return [...values];
}

function isNumberArray(values: unknown): boolean {
  if (Array.isArray(values)) return true;
  return types.isTypedArray(values) && !types.isBigInt64Array(values) && !types.isBigUint64Array(values);
}

/** @throws {ArgumentError} naming the first row that is neither 0 nor 1, false nor true */
export function copyFlags(values: RowFlags, argument: string, rows: number): Uint8Array {
  if (!types.isUint8Array(values) && !Array.isArray(values)) {
    throw new ArgumentError(argument, `got ${shown(values)}, expected a Uint8Array or an array of booleans`);
  }
  expectLength(values, argument, rows);
  const stranger = (values as readonly unknown[]).findIndex(
    (value) => typeof value !== 'boolean' && value !== 0 && value !== 1,
  );
  if (stranger >= 0) {
    throw new ArgumentError(argument, `row ${stranger} is ${shown(values[stranger])}, expected true or false, 1 or 0`);
  }
  return Uint8Array.from(values, Number);
}
