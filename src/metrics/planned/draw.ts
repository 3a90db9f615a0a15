// Which negatives a row gets: without replacement, each of a stratum with the same probability, by seed, row and stratum alone.
import { Random } from '../random.js';

/** A seed for every (row, stratum): 53 bits of two rounds of murmur3's finaliser, so that neighbours have nothing in common. */
function seedOf(seed: number, row: number, stratum: number): number {
  const mix = (word: number): number => {
    let mixed = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return (mixed ^ (mixed >>> 16)) >>> 0;
  };
  const low = seed >>> 0;
  const high = Math.floor(seed / 2 ** 32);
  const a = mix((mix(low ^ Math.imul(row + 1, 0x9e3779b9)) + high + stratum) | 0);
  const b = mix((a ^ Math.imul(row + 1, 0x27d4eb2f)) + low + 0x165667b1 * (stratum + 1));
  return (a & 0x1fffff) * 2 ** 32 + b;
}

/**
 * The first `count` of a random order of `items` (partial Fisher–Yates). A larger count continues the same order: what was
 * drawn before stays drawn, which is what scoring in rounds rests on.
 */
export function drawNegatives(
  items: Int32Array,
  count: number,
  seed: number,
  row: number,
  stratum: number,
): Int32Array {
  if (count >= items.length) return items;
  const random = new Random(seedOf(seed, row, stratum));
  const pool = Int32Array.from(items);
  for (let i = 0; i < count; i++) {
    const j = i + random.below(pool.length - i);
    const picked = pool[j] as number;
    pool[j] = pool[i] as number;
    pool[i] = picked;
  }
  return pool.slice(0, count);
}
