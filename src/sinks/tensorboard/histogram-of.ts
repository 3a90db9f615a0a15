// Builds a histogram of equal buckets between the smallest and the largest number.
import type { Histogram } from './events.js';

const BUCKETS = 30;

/** @returns undefined if there is no finite number */
export function histogramOf(values: readonly number[]): Histogram | undefined {
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return undefined;
  const min = finite.reduce((a, b) => Math.min(a, b));
  const max = finite.reduce((a, b) => Math.max(a, b));
  // Readers take the first bucket from -infinity to its edge: the smallest value gets one that is all its own.
  const buckets = max > min ? BUCKETS : 1;
  const width = (max - min) / buckets;
  const edges = Array.from({ length: buckets }, (_, at) => (at === buckets - 1 ? max : min + width * (at + 1)));
  const counts = new Array<number>(buckets).fill(0);
  for (const value of finite) {
    const at = width > 0 ? Math.min(buckets - 1, Math.floor((value - min) / width)) : 0;
    counts[at] = (counts[at] as number) + 1;
  }
  const sum = finite.reduce((a, b) => a + b, 0);
  const squares = finite.reduce((a, b) => a + b * b, 0);
  return { min, max, count: finite.length, sum, squares, edges: [min, ...edges], counts: [0, ...counts] };
}
