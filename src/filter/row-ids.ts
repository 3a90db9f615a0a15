// Ids of groups and episodes -> dense indices in the order of first appearance.
import { counted } from '../engine/counted.js';
import { shown } from '../engine/shown.js';
import { ArgumentError } from '../errors.js';

/** Whole numbers, one a row. */
export type Ids =
  | readonly number[]
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | Float64Array
  | Uint16Array
  | Uint8Array;

export interface IndexedIds {
  /** [rows] index of each row's id. */
  readonly index: Int32Array;
  /** By index: the id itself. */
  readonly distinct: readonly (number | bigint)[];
}

/**
 * @throws ArgumentError for another number of rows, or what is no whole number
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
  // Ids that count up from 0, as most do, are their own index and need no table.
  let table: Map<number | bigint, number> | undefined;
  // No id, so that the first one is looked at whatever it is.
  let last: number | bigint = Number.NaN;
  let lastIndex = -1;
  for (let row = 0; row < rows; row++) {
    const id = ids[row] as number | bigint;
    // Rows of one group mostly stand together.
    if (id !== last) {
      if (typeof id !== 'bigint' && !Number.isSafeInteger(id)) {
        throw new ArgumentError(argument, `row ${row} is ${shown(id)}, expected a whole number`);
      }
      last = id;
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

/** Ids of groups as plain numbers. @throws ArgumentError for one that a number cannot hold */
export function numericIds({ distinct }: IndexedIds): Float64Array {
  const ids = new Float64Array(distinct.length);
  for (let at = 0; at < ids.length; at++) {
    const id = distinct[at] as number | bigint;
    const value = Number(id);
    if (!Number.isSafeInteger(value)) {
      const problem = `id ${id} is beyond 2^53: number the groups, for example by first appearance`;
      throw new ArgumentError('rewards.groups', problem);
    }
    ids[at] = value;
  }
  return ids;
}
