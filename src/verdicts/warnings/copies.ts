// The same text for different prompts, word for word.

import { percent } from '../../checks/numbers.js';
import { count, fields, nullable, type Shaped } from '../../checks/saved.js';
import type { TextMetrics } from '../../metrics/text-metrics.js';
import type { Finding } from '../verdict.js';

/** More than this share of the rows, … */
const LEAST = 0.5;

/** … in this number of successive steps; as many without it end it. */
const STEPS = 2;

export const copiesShape = fields({
  /** Successive steps with that share of copies, the first of them, and the successive steps without it since. */
  steps: count,
  since: nullable(count),
  without: count,
});
export type CopiesStreak = Shaped<typeof copiesShape>;

export const NO_COPIES: CopiesStreak = { steps: 0, since: null, without: 0 };

/** A step without texts changes nothing. */
export function copiesStreak(before: CopiesStreak, step: number, { values }: TextMetrics): CopiesStreak {
  const share = values.duplicate_across_share;
  if (share === undefined) return before;
  if (share > LEAST) return { steps: before.steps + 1, since: before.since ?? step, without: 0 };
  const without = before.without + 1;
  return before.steps < STEPS || without >= STEPS ? NO_COPIES : { ...before, without };
}

export function copiesFinding({ steps, since }: CopiesStreak, { values }: TextMetrics): Finding | undefined {
  const share = values.duplicate_across_share;
  if (steps < STEPS || since === null || share === undefined) return undefined;
  return {
    kind: 'copies',
    severity: 'warning',
    since,
    evidence: { duplicateAcrossShare: share, duplicateShare: values.duplicate_share ?? null },
    advice:
      'Read the text that is said most often: a reward that one answer earns everywhere teaches it. If texts are meant to be ' +
      'this short, measure a longer part of the output (--reasoning; in Python tags).',
    now: `it is ${percent(share)} of the rows`,
    sentence: `${percent(share)} of the rows have a text that another prompt has, word for word; so since step ${since}.`,
  };
}
