// Thins a series to the points that a screen can show: the least and the largest value of each stretch of pixels, so
// that no spike is lost. A gap stays a gap.

/** [step, value]; NaN is a gap. */
export type Point = readonly [step: number, value: number];

export interface Span {
  readonly from: number;
  /** The first place that is no longer in it. */
  readonly to: number;
}

/** Places of the steps in [first, last], and one more on either side, so that lines run to the edge. */
export function spanOf(steps: ArrayLike<number>, [first, last]: readonly [number, number]): Span {
  const from = Math.max(0, firstAtLeast(steps, first) - 1);
  return { from, to: Math.min(steps.length, firstAtLeast(steps, last) + 1) };
}

/** The first place whose step is at least this one; the length if there is none. Steps rise. */
export function firstAtLeast(steps: ArrayLike<number>, step: number): number {
  let [low, high] = [0, steps.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((steps[middle] as number) < step) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The place of the nearest step. */
export function nearestPlace(steps: ArrayLike<number>, step: number): number {
  const after = firstAtLeast(steps, step);
  if (after === 0) return 0;
  if (after === steps.length) return after - 1;
  return step - (steps[after - 1] as number) <= (steps[after] as number) - step ? after - 1 : after;
}

/**
 * @param pixels about how wide they are drawn; at most twice as many points come back, and one for every gap
 * @returns in the order of the steps
 */
export function visiblePoints(
  steps: ArrayLike<number>,
  values: ArrayLike<number>,
  { from, to }: Span,
  pixels: number,
): Point[] {
  const point = (at: number): Point => [steps[at] as number, values[at] as number];
  const count = to - from;
  if (count <= 2 * pixels) return Array.from({ length: Math.max(0, count) }, (_, at) => point(from + at));
  const points: Point[] = [];
  for (let pixel = 0; pixel < pixels; pixel++) {
    const [begin, end] = bucket(from, count, pixel, pixels);
    let [low, high, gap] = [-1, -1, -1];
    for (let at = begin; at < end; at++) {
      const value = values[at] as number;
      if (Number.isNaN(value)) gap = at;
      else {
        if (low < 0 || value < (values[low] as number)) low = at;
        if (high < 0 || value > (values[high] as number)) high = at;
      }
    }
    // A gap among values that are drawn on one pixel cannot be seen.
    const chosen = low < 0 ? [gap] : low === high ? [low] : [Math.min(low, high), Math.max(low, high)];
    for (const at of chosen) points.push(point(at));
  }
  return points;
}

/** A band as it is seen: of each stretch of pixels the least lower and the largest upper bound. */
export function visibleBand(
  steps: ArrayLike<number>,
  low: ArrayLike<number>,
  high: ArrayLike<number>,
  { from, to }: Span,
  pixels: number,
): (readonly [step: number, low: number, high: number])[] {
  const count = Math.max(0, to - from);
  const buckets = Math.min(count, 2 * pixels);
  return Array.from({ length: buckets }, (_, at) => {
    const [begin, end] = bucket(from, count, at, buckets);
    let [least, most] = [Number.NaN, Number.NaN];
    for (let place = begin; place < end; place++) {
      if (!(least <= (low[place] as number))) least = low[place] as number;
      if (!(most >= (high[place] as number))) most = high[place] as number;
    }
    return [steps[begin] as number, least, most];
  });
}

function bucket(from: number, count: number, at: number, buckets: number): [begin: number, end: number] {
  return [from + Math.floor((at * count) / buckets), from + Math.floor(((at + 1) * count) / buckets)];
}

/** Parts of a band or a line without gaps. */
export function unbroken<P extends readonly number[]>(points: readonly P[]): P[][] {
  const parts: P[][] = [[]];
  for (const point of points) {
    if (point.some(Number.isNaN)) parts.push([]);
    else (parts.at(-1) as P[]).push(point);
  }
  return parts.filter(({ length }) => length > 0);
}
