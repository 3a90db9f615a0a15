// Draws the negatives of a row: without replacement, each of a stratum with the same probability; seed, row and stratum
// alone decide the draw.
import { Random } from '../sampling/random.js';
import { type Stratum, signatureAt, signaturesIn } from './strata.js';

/**
 * A seed for every (row, stratum): 53 bits of two rounds of murmur3's finaliser, so that neighbours have nothing in
 * common.
 */
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

/** 0, 1, 2, … between two draws. */
let places = new Int32Array(0);

/**
 * The first `count` of a random order of a stratum (partial Fisher–Yates). A larger count continues the same order:
 * what was drawn before stays drawn, which is what scoring in rounds rests on. Takes time by what is drawn, not by what
 * there is.
 * @param number of the stratum among its row's
 */
export function drawNegatives(stratum: Stratum, count: number, seed: number, row: number, number: number): Int32Array {
  const { size } = stratum;
  if (count >= size) return signaturesIn(stratum);
  if (places.length < size) places = Int32Array.from({ length: size }, (_, place) => place);
  const random = new Random(seedOf(seed, row, number));
  const swapped = new Int32Array(count);
  const drawn = new Int32Array(count);
  for (let i = 0; i < count; i++) {
    const j = i + random.below(size - i);
    const picked = places[j] as number;
    places[j] = places[i] as number;
    places[i] = picked;
    swapped[i] = j;
    drawn[i] = signatureAt(stratum, picked);
  }
  // Back in their order, last first.
  for (let i = count - 1; i >= 0; i--) {
    const j = swapped[i] as number;
    const kept = places[i] as number;
    places[i] = places[j] as number;
    places[j] = kept;
  }
  return drawn;
}
