// A level that several tests share: each is judged at a part of it, so that the stated rates hold for all together.
import { normalTail, studentTail } from './tail-probabilities.js';

const known = new Map<string, number>();

/**
 * Times as wide as the interval of one test is that of each of several, which share its level.
 * @param width half-width of the one, in standard errors
 */
export function sharedWidth(width: number, tests: number): number {
  if (tests === 1) return width;
  return remembered(`${width} ${tests}`, () => widthAt(normalTail(width) / tests, normalTail));
}

/** Half-width of a 95% interval in standard errors that have `freedom` degrees of freedom. */
export function studentWidth(freedom: number): number {
  return remembered(`t ${freedom}`, () => widthAt(0.025, (t) => studentTail(t, freedom)));
}

function remembered(key: string, find: () => number): number {
  let found = known.get(key);
  if (found === undefined) {
    found = find();
    known.set(key, found);
  }
  return found;
}

/** Where the upper tail is as small. */
function widthAt(tail: number, tailAt: (at: number) => number): number {
  let [low, high] = [0, 1];
  while (tailAt(high) > tail) high *= 2;
  for (let halving = 0; halving < 60; halving++) {
    const middle = (low + high) / 2;
    if (tailAt(middle) > tail) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}
