// Finds prompts that must be the same when their tokens are not given: those with equal scores in every row.
import { renumber } from '../columns.js';
import type { Interruptible } from '../slices.js';

/** Scores compared without looking up. */
const COMPARED_AT_ONCE = 2 ** 16;

/** Columns that are equal in every row, by the first of them: [first, others…]. */
export type EqualColumns = readonly (readonly number[])[];

/**
 * Scores that differ part at the first row where they do, so that mostly one row is looked at. Rows whose scores are
 * all alike show nothing and must be left out before.
 * @param scores dense [rows, columns], no NaN
 */
export function* equalColumns(scores: Float64Array, columns: number): Interruptible<EqualColumns> {
  const rows = scores.length / columns;
  // One row shows as many ties as its precision has.
  if (rows < 2) return [];
  /** The lowest column that was equal in all rows so far. */
  const first = new Int32Array(columns);
  let open = Array.from({ length: columns - 1 }, (_, at) => at + 1);
  let compared = 0;
  for (let row = 0; row < rows && open.length > 0; row++) {
    const start = row * columns;
    const leaving = new Map<number, Map<number, number>>();
    open = open.filter((column) => {
      const score = scores[start + column] as number;
      const equal = first[column] as number;
      if (score === scores[start + equal]) return true;
      const left = leaving.get(equal) ?? new Map<number, number>();
      leaving.set(equal, left);
      const other = left.get(score);
      if (other === undefined) left.set(score, column);
      first[column] = other ?? column;
      return other !== undefined;
    });
    compared += open.length;
    if (compared < COMPARED_AT_ONCE) continue;
    compared = 0;
    yield;
  }
  const sets = new Map<number, number[]>();
  for (const column of open) {
    const equal = first[column] as number;
    sets.set(equal, [...(sets.get(equal) ?? [equal]), column]);
  }
  // Prompts under which every row is impossible may be any.
  return [...sets.values()].filter(([column = 0]) => {
    for (let at = column; at < scores.length; at += columns) if (Number.isFinite(scores[at])) return true;
    return false;
  });
}

/** The signatures with those of equal columns made one, as the first has it. */
export function mergedSignatures(signatures: Int32Array, equal: EqualColumns): Int32Array {
  const merged = signatures.slice();
  for (const [first = 0, ...others] of equal) for (const column of others) merged[column] = merged[first] as number;
  return renumber(merged);
}
