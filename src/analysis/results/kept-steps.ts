// Chooses the steps of a run that keep their matrix and texts: enough to see the run, and those about its verdicts.
import type { RunVerdict } from '../../verdicts/verdict-log.js';

const FIRST_STEPS = 5;
/** Steps kept on each side of the one that a verdict holds from, and of the one at which it was raised. */
const BESIDE_VERDICT = 2;
const MOST_SPREAD = 200;

/**
 * The first five steps, the last one, every k-th with the least k that gives no more than 200, and two each side of
 * the steps of every verdict, these too.
 * @param steps that have one, in the order in which they came
 * @returns indices into `steps`
 */
export function keptSteps(
  steps: readonly number[],
  verdicts: readonly Pick<RunVerdict, 'since' | 'raised'>[],
): Set<number> {
  const kept = new Set<number>();
  const keep = (from: number, to: number, by = 1): void => {
    for (let at = Math.max(0, from); at < Math.min(to, steps.length); at += by) kept.add(at);
  };
  keep(0, FIRST_STEPS);
  keep(0, steps.length, Math.ceil(steps.length / MOST_SPREAD));
  keep(steps.length - 1, steps.length);
  for (const step of verdicts.flatMap(({ since, raised }) => [since, raised])) {
    const found = steps.findIndex((one) => one >= step);
    const at = found < 0 ? steps.length : found;
    keep(at - BESIDE_VERDICT, at + BESIDE_VERDICT + Number(steps[at] === step));
  }
  return kept;
}
