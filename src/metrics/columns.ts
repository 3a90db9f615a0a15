// Group ids and prompt tokens in; the canonical column order, each row's own column and the signatures out
// (docs/reference/metrics.md).
import { types } from 'node:util';
import { checkArray } from '../checks/argument-checks.js';
import { ArgumentError } from '../checks/errors.js';
import { IdNumbers } from '../checks/ids.js';
import { counted, shown } from '../checks/words.js';
import type { Integers } from '../engine/tensor/tensor.js';
import { EqualPrompts, narrowed } from './figures/equal-prompts.js';

export interface Columns {
  /** Input column at each canonical position: ascending group id. */
  readonly order: Int32Array;
  /** Canonical position of each input column. */
  readonly position: Int32Array;
  /** Canonical column of each row. */
  readonly own: Int32Array;
  /**
   * Signature of each canonical column: columns with the same prompt tokens share one. Numbered from 0 as they appear.
   */
  readonly signatures: Int32Array;
}

type Id = number | bigint;

/** 64-bit ids that a number holds exactly become numbers, so that files may mix I32 and I64. */
function toIds(values: Integers, argument: string): Int32Array | readonly Id[] {
  checkArray(values, argument);
  if (types.isInt32Array(values)) return values;
  // Of a million rows each way around is noticed, and 64 bits are what numpy and torch write.
  const words = narrowed(values);
  if (words !== undefined) return words;
  return Array.from(values as ArrayLike<Id>, (id, at) => {
    if (typeof id === 'bigint') return Number.isSafeInteger(Number(id)) ? Number(id) : id;
    if (Number.isInteger(id)) return id;
    throw new ArgumentError(argument, `entry ${at} is ${shown(id)}, expected an integer`);
  });
}

const ascending = (a: Id, b: Id): number => (a < b ? -1 : a > b ? 1 : 0);

/** The ids that occur, each once, ascending. */
function distinct(ids: Int32Array | readonly Id[]): Id[] {
  return [...new Set(ids)].sort(ascending);
}

/**
 * @param columnCount how many columns the scores have, where there are scores. Default: as many as there are ids
 * @throws {ArgumentError} if a group id has no column, a column id occurs twice, or the counts do not fit.
 */
export function arrangeColumns(
  groups: Integers,
  columnGroups: Integers | undefined,
  promptTokens: readonly Integers[] | undefined,
  columnCount?: number,
): Columns {
  const rowIds = toIds(groups, 'groups');
  const columnIds = columnGroups === undefined ? distinct(rowIds) : toIds(columnGroups, 'columnGroups');
  const count = columnIds.length;
  if (columnCount !== undefined && count !== columnCount) {
    throw columnGroups === undefined
      ? new ArgumentError(
          'groups',
          `${count} distinct group ids for ${counted(columnCount, 'columns')}; give columnGroups, the group id of each column`,
        )
      : new ArgumentError('columnGroups', `${counted(count, 'ids')} for ${counted(columnCount, 'columns')}`);
  }
  if (promptTokens !== undefined) checkArray(promptTokens, 'promptTokens');
  if (promptTokens !== undefined && promptTokens.length !== count) {
    throw new ArgumentError(
      'promptTokens',
      `${counted(promptTokens.length, 'prompts')} for ${counted(count, 'columns')}`,
    );
  }

  const order = Int32Array.from(columnIds.keys()).sort((a, b) => ascending(columnIds[a] as Id, columnIds[b] as Id));
  const position = new Int32Array(count);
  const positionOf = new Map<Id, number>();
  order.forEach((column, at) => {
    const id = columnIds[column] as Id;
    if (positionOf.has(id)) throw new ArgumentError('columnGroups', `group id ${id} names two columns`);
    positionOf.set(id, at);
    position[column] = at;
  });

  return { order, position, own: ownColumns(rowIds, positionOf), signatures: signaturesOf(order, promptTokens) };
}

function ownColumns(rowIds: ArrayLike<Id>, positionOf: ReadonlyMap<Id, number>): Int32Array {
  const own = new Int32Array(rowIds.length);
  let last: Id | undefined;
  let lastAt = 0;
  for (let row = 0; row < own.length; row++) {
    const id = rowIds[row] as Id;
    // Rows of one group are mostly adjacent.
    if (id !== last) {
      const at = positionOf.get(id);
      if (at === undefined) {
        throw new ArgumentError('groups', `row ${row} is of group ${id}, which has no column: name it in columnGroups`);
      }
      last = id;
      lastAt = at;
    }
    own[row] = lastAt;
  }
  return own;
}

function signaturesOf(order: Int32Array, promptTokens: readonly Integers[] | undefined): Int32Array {
  if (promptTokens === undefined) return Int32Array.from(order.keys());
  const prompts = new EqualPrompts();
  return order.map((column) => {
    const tokens = promptTokens[column] as Integers;
    const argument = `promptTokens[${column}]`;
    checkArray(tokens, argument);
    return prompts.numberOf(tokens, () => toIds(tokens, argument));
  });
}

/** Renumbers signatures from 0 in order of appearance, as needed after columns were picked. */
export function renumber(signatures: Int32Array): Int32Array {
  const numbers = new IdNumbers<number>();
  return signatures.map((signature) => numbers.numberOf(signature));
}

/** How many columns share each signature. */
export function countSignatures(signatures: Int32Array): Int32Array {
  const counts = new Int32Array(signatures.length);
  for (const signature of signatures) counts[signature] = (counts[signature] as number) + 1;
  return counts;
}

/** True if canonical order is the input's own. */
export function isIdentity(indices: Int32Array, length: number): boolean {
  if (indices.length !== length) return false;
  for (let at = 0; at < length; at++) if (indices[at] !== at) return false;
  return true;
}
