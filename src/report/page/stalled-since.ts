/** So few say nothing about how long a step takes. */
const FEWEST = 4;

/**
 * Since when a run has no new step for three times as long as its steps take.
 * @param arrivals of steps, in milliseconds, rising
 * @returns undefined while steps come, or if too few are known
 */
export function stalledSince(arrivals: readonly number[], now: number): number | undefined {
  const last = arrivals.at(-1);
  if (last === undefined || arrivals.length < FEWEST) return undefined;
  const lengths = arrivals.slice(1).map((at, place) => at - (arrivals[place] as number));
  const median = lengths.sort((a, b) => a - b)[Math.floor(lengths.length / 2)] as number;
  return now - last > 3 * median ? last : undefined;
}
