// One sum a pair, in the plan's order -> the plan's rows with their scores.
import type { ScorePlan } from './plan.js';
import type { ScoredPrompt, ScoredRow } from './row.js';
import type { Interruptible } from './slices.js';

/**
 * Rows with a score that no marginal can be made of are left out, as `strict` does; and placeholders, where all scores are 0: under
 * a few prompts of many, any other score may be the same by chance.
 */
export function* scoredRows(
  plan: ScorePlan,
  sums: Float64Array,
): Interruptible<{ scored: ScoredRow[]; nonFinite: number[]; placeholders: number[] }> {
  const { rows, signatures, scored: scoredPrompt } = plan.layout;
  const signatureOf = new Map<number, number>();
  scoredPrompt.forEach((prompt, signature) => {
    if (prompt >= 0) signatureOf.set(prompt, signature);
  });
  const byRow = new Map<number, Map<number, number>>();
  for (const [at, sum] of sums.entries()) {
    const row = plan.rows[at] as number;
    const scores = byRow.get(row) ?? new Map<number, number>();
    byRow.set(row, scores.set(signatureOf.get(plan.prompts[at] as number) as number, sum));
    yield;
  }
  const scored: ScoredRow[] = [];
  const nonFinite: number[] = [];
  const placeholders: number[] = [];
  for (const planned of rows) {
    const scores = byRow.get(planned.row) as Map<number, number>;
    const of = (signature: number, stratum: number, expansion: number): ScoredPrompt => {
      return { signature, stratum, expansion, score: scores.get(signature) as number };
    };
    const own = of(signatures[planned.ownColumn] as number, -1, 1);
    // By rising signature: what is drawn in which order must not reach the bits.
    const negatives = planned.drawn.flatMap((drawn, h) => {
      const size = planned.strata[h]?.size ?? 0;
      return Array.from(drawn.toSorted(), (signature) => of(signature, h, size / drawn.length));
    });
    const usable = ({ score }: ScoredPrompt): boolean => score < Number.POSITIVE_INFINITY;
    if (!(Number.isFinite(own.score) && negatives.every(usable))) nonFinite.push(planned.row);
    else if ([own, ...negatives].every(({ score }) => score === 0)) placeholders.push(planned.row);
    else scored.push({ planned, own, negatives });
    yield;
  }
  return { scored, nonFinite, placeholders };
}
