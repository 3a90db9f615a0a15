// The best of the groups, by a sort.
import type { FilterDirection } from '../input/filter-options.js';

export interface RankedGroups {
  /** [groups] what groups are ranked by; no NaN. */
  readonly figures: Float64Array;
  /** Groups to choose from, ascending. */
  readonly candidates: Uint32Array;
  readonly direction: FilterDirection;
}

/** The candidates from the best figure on; of equal ones the first seen come first. */
export function sortedGroups({ figures, candidates, direction }: RankedGroups): Uint32Array {
  const sign = direction === 'largest' ? -1 : 1;
  return candidates.slice().sort((a, b) => sign * ((figures[a] as number) - (figures[b] as number)));
}

/**
 * The fewest best groups whose masses come to `wanted`, at least one of them.
 * @param masses [groups]; null: each has 1
 * @param rounding by how much two figures of this size may differ and still be ties
 * @returns ascending; where the cut falls among ties, the first seen of them
 */
export function bestGroups(
  ranked: RankedGroups,
  masses: Float64Array | null,
  wanted: number,
  rounding: (figure: number) => number = () => 0,
): Uint32Array {
  const { figures, candidates, direction } = ranked;
  if (candidates.length === 0) return candidates;
  const order = sortedGroups(ranked);
  let count = 0;
  let reached = 0;
  do {
    reached += masses === null ? 1 : (masses[order[count] as number] as number);
    count++;
  } while (count < order.length && reached < wanted);
  if (count === order.length) return candidates;
  const cut = figures[order[count - 1] as number] as number;
  const tolerance = rounding(Math.abs(cut));
  const [low, high] = [cut - tolerance, cut + tolerance];
  const isBetter = (figure: number): boolean => (direction === 'largest' ? figure > high : figure < low);
  let ties = count - candidates.filter((group) => isBetter(figures[group] as number)).length;
  return candidates.filter((group) => {
    const figure = figures[group] as number;
    return isBetter(figure) || (figure >= low && figure <= high && ties-- > 0);
  });
}
