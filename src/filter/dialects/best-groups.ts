// The best of many groups, without a sort of all of them: figures are dealt into buckets by their leading bits, whole
// buckets are taken while they last, and only the one that the cut falls into is sorted.
import { endianness } from 'node:os';
import type { FilterDirection } from '../input/filter-options.js';
import { stableOrder } from './stable-order.js';

export interface RankedGroups {
  /** [groups] what groups are ranked by; no NaN. */
  readonly figures: Float64Array;
  /** Groups to choose from, ascending. */
  readonly candidates: Uint32Array;
  readonly direction: FilterDirection;
  /** By how much two figures of this size may differ and still be ties. */
  rounding(figure: number): number;
}

/** Sign, exponent and four more bits of a float64. */
const BUCKETS = 2 ** 16;
/** Fewer groups than this are sorted at once. */
const FEW = 4096;

/**
 * The fewest best groups whose masses come to `wanted`, at least one of them.
 * @param masses [groups]; null: each has 1
 * @returns ascending; where the cut falls among ties, the first seen of them
 */
export function bestGroups(ranked: RankedGroups, masses: Float64Array | null, wanted: number): Uint32Array {
  const { candidates } = ranked;
  if (candidates.length === 0) return candidates;
  const { count, figure } = findCut(ranked, masses, wanted);
  return count >= candidates.length ? candidates : takeBest(ranked, count, figure);
}

interface Cut {
  /** Groups to take. */
  readonly count: number;
  /** The figure of the last of them. */
  readonly figure: number;
}

function findCut(ranked: RankedGroups, masses: Float64Array | null, wanted: number): Cut {
  const { figures, candidates, direction } = ranked;
  let reached = 0;
  let count = 0;
  let members = candidates;
  if (candidates.length > FEW) {
    const buckets = bucketsOf(figures, candidates);
    const [sizes, sums] = measureBuckets(buckets, masses, candidates);
    const step = direction === 'largest' ? -1 : 1;
    let bucket = direction === 'largest' ? BUCKETS - 1 : 0;
    for (let left = candidates.length - (sizes[bucket] as number); left > 0; left -= sizes[bucket] as number) {
      if ((sizes[bucket] as number) > 0 && reached + (sums[bucket] as number) >= wanted) break;
      reached += sums[bucket] as number;
      count += sizes[bucket] as number;
      bucket += step;
    }
    members = inBucket(buckets, bucket, candidates, sizes[bucket] as number);
  }
  const keys = new Float64Array(members.length);
  for (let at = 0; at < keys.length; at++) keys[at] = figures[members[at] as number] as number;
  const order = stableOrder(keys, direction === 'largest' ? 'descending' : 'ascending');
  let taken = 0;
  do {
    const group = members[order[taken] as number] as number;
    reached += masses === null ? 1 : (masses[group] as number);
    taken++;
  } while (taken < order.length && reached < wanted);
  return { count: count + taken, figure: keys[order[taken - 1] as number] as number };
}

/** [candidates] buckets that order as the figures do. */
function bucketsOf(figures: Float64Array, candidates: Uint32Array): Uint16Array {
  const buckets = new Uint16Array(candidates.length);
  const number = new Float64Array(1);
  const words = new Uint16Array(number.buffer);
  const top = endianness() === 'LE' ? 3 : 0;
  for (let at = 0; at < buckets.length; at++) {
    // Adding 0 makes 0 of −0.
    number[0] = (figures[candidates[at] as number] as number) + 0;
    const head = words[top] as number;
    buckets[at] = head >= 0x8000 ? ~head : head + 0x8000;
  }
  return buckets;
}

function measureBuckets(
  buckets: Uint16Array,
  masses: Float64Array | null,
  candidates: Uint32Array,
): [sizes: Uint32Array, sums: Float64Array] {
  const sizes = new Uint32Array(BUCKETS);
  const sums = new Float64Array(BUCKETS);
  for (let at = 0; at < buckets.length; at++) {
    const bucket = buckets[at] as number;
    sizes[bucket] = (sizes[bucket] as number) + 1;
    const mass = masses === null ? 1 : (masses[candidates[at] as number] as number);
    sums[bucket] = (sums[bucket] as number) + mass;
  }
  return [sizes, sums];
}

function inBucket(buckets: Uint16Array, bucket: number, candidates: Uint32Array, size: number): Uint32Array {
  const members = new Uint32Array(size);
  let count = 0;
  for (let at = 0; at < buckets.length; at++) {
    if (buckets[at] === bucket) members[count++] = candidates[at] as number;
  }
  return members;
}

/** All that are better than the cut's figure, and of those that tie with it the first seen, `count` in all. */
function takeBest({ figures, candidates, direction, rounding }: RankedGroups, count: number, cut: number): Uint32Array {
  const tolerance = rounding(Math.abs(cut));
  const [low, high] = [cut - tolerance, cut + tolerance];
  let better = 0;
  for (let at = 0; at < candidates.length; at++) {
    const figure = figures[candidates[at] as number] as number;
    if (direction === 'largest' ? figure > high : figure < low) better++;
  }
  const taken = new Uint32Array(count);
  let ties = count - better;
  let found = 0;
  for (let at = 0; at < candidates.length; at++) {
    const group = candidates[at] as number;
    const figure = figures[group] as number;
    if (figure >= low && figure <= high) {
      if (ties === 0) continue;
      ties--;
    } else if (direction === 'largest' ? figure < low : figure > high) continue;
    taken[found++] = group;
  }
  return taken;
}
