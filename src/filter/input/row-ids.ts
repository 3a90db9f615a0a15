// Ids of groups and episodes -> dense indices in the order of first appearance.

import { ArgumentError } from '../../checks/errors.js';
import { counted, shown } from '../../checks/words.js';
import type { FilterWords } from './filter-words.js';

/** Whole numbers, one a row. */
export type NumberIds = readonly number[] | Int32Array | Uint32Array | Float64Array | Uint16Array | Uint8Array;

/** The same, of 64 bits where they are bigints. */
export type Ids = NumberIds | readonly (number | bigint)[] | BigInt64Array;

export interface IndexedIds {
  /** [rows] index of each row's id. */
  readonly index: Int32Array;
  /** By index: the id itself. */
  readonly distinct: readonly (number | bigint)[];
}

/**
 * @throws ArgumentError for another number of rows, or an id that is not a whole number
 */
export function indexIds(argument: string, ids: Ids, rows: number): IndexedIds {
  if (!Array.isArray(ids) && !(ArrayBuffer.isView(ids) && !(ids instanceof DataView))) {
    throw new ArgumentError(argument, 'expected an array or typed array with one id a row');
  }
  if (ids.length !== rows) {
    throw new ArgumentError(
      argument,
      `${counted(ids.length, 'ids')}, but there are ${counted(rows, 'rewards')}: give one a row`,
    );
  }
  const index = new Int32Array(rows);
  const distinct: (number | bigint)[] = [];
  // Ids that count up from 0, as most do, are their own index and need no table, which V8 ends at 16.8 million.
  let table: Map<number | bigint, number> | undefined;
  // Not an id, so that the first one is always looked at.
  let last: number | bigint = Number.NaN;
  let lastIndex = -1;
  for (let row = 0; row < rows; row++) {
    let id = ids[row] as number | bigint;
    // Rows of one group mostly stand together.
    if (id !== last) {
      if (typeof id !== 'bigint' && !Number.isSafeInteger(id)) {
        throw new ArgumentError(argument, `row ${row} is ${shown(id)}, expected a whole number`);
      }
      last = id;
      // 5n names what 5 names.
      if (typeof id === 'bigint' && Number.isSafeInteger(Number(id))) id = Number(id);
      if (table === undefined && (typeof id === 'bigint' || id < 0 || id > distinct.length)) {
        table = new Map(distinct.map((known, at) => [known, at]));
      }
      lastIndex = table === undefined ? (id as number) : (table.get(id) ?? distinct.length);
      if (lastIndex === distinct.length) {
        distinct.push(id);
        table?.set(id, lastIndex);
      }
    }
    index[row] = lastIndex;
  }
  return { index, distinct };
}

/** Ids of groups: plain numbers, and bigints where one of them is beyond 2^53. */
export type GroupIds = Float64Array | BigInt64Array;

/** @throws ArgumentError for one beyond 64 bits */
export function groupIds({ distinct }: IndexedIds, words: FilterWords): GroupIds {
  const ids = new Float64Array(distinct.length);
  for (let at = 0; at < ids.length; at++) {
    const value = Number(distinct[at]);
    if (!Number.isSafeInteger(value)) return wideIds(distinct, words);
    ids[at] = value;
  }
  return ids;
}

function wideIds(distinct: IndexedIds['distinct'], { argument }: FilterWords): BigInt64Array {
  return BigInt64Array.from(distinct, (given) => {
    const id = BigInt(given);
    if (BigInt.asIntN(64, id) === id) return id;
    throw new ArgumentError(argument('groups'), `id ${id} does not fit in 64 bits: number the groups`);
  });
}

/** Integers of 64 bits in float64. @throws ArgumentError for one that float64 does not hold */
export function exactNumbers(values: ArrayLike<number | bigint>, argument: string): Float64Array {
  return Float64Array.from(values, (value, row) => {
    const number = Number(value);
    if (typeof value !== 'bigint' || Number.isSafeInteger(number)) return number;
    throw new ArgumentError(argument, `row ${row} is ${value}, beyond 2^53: number them from 0`);
  });
}
