// Ids of any kind -> small numbers, which native code can count by.
import { idOf } from './group-outcomes.js';

export interface NumberedLabels {
  /** Of each id its number: from 0 on, in the order in which ids appear first. */
  readonly labels: Int32Array;
  /** Different ids. */
  readonly count: number;
}

export function numbered(ids: ArrayLike<number | bigint>): NumberedLabels {
  const numbers = new Map<number | bigint, number>();
  const labels = Int32Array.from({ length: ids.length }, (_, row) => {
    const id = idOf(ids, row);
    const known = numbers.get(id) ?? numbers.size;
    numbers.set(id, known);
    return known;
  });
  return { labels, count: numbers.size };
}
