// A level that several tests share: each is judged at a part of it, so that the stated rates hold for all together.
import { normalTail } from './tail-probabilities.js';

const known = new Map<string, number>();

/**
 * Times as wide as the interval of one test is that of each of several, which share its level.
 * @param width half-width of the one, in standard errors
 */
export function sharedWidth(width: number, tests: number): number {
  if (tests === 1) return width;
  const key = `${width} ${tests}`;
  let found = known.get(key);
  if (found === undefined) {
    const tail = normalTail(width) / tests;
    let [low, high] = [width, width + 20];
    for (let halving = 0; halving < 60; halving++) {
      const middle = (low + high) / 2;
      if (normalTail(middle) > tail) low = middle;
      else high = middle;
    }
    found = (low + high) / 2;
    known.set(key, found);
  }
  return found;
}
