// A scored row -> the values that its figures have under each of its scored labels, and how likely each label is (the posterior,
// in which a scored negative stands for the N/n of its kind).
import type { EachFigure } from './figures.js';
import type { PlanLayout, PlannedRow } from './plan.js';
import {
  labelMarginals,
  leaveOneOutMarginal,
  type RowMarginal,
  rowMarginal,
  rowTerms,
  type ScoredPrompt,
  type ScoredRow,
} from './row.js';

export interface RowLabels {
  readonly planned: PlannedRow;
  /** The own prompt first. */
  readonly scored: readonly ScoredPrompt[];
  /** By place in `scored`, as are the values. */
  readonly posterior: Float64Array;
  readonly values: EachFigure<readonly number[]>;
  /** The row's marginals: of sums, of per-token means, and of sums over the other prompts. */
  readonly seq: RowMarginal;
  readonly token: RowMarginal;
  readonly loo: RowMarginal;
}

/** @param rowsOfSignature how many rows have each prompt as their own */
export function labelsOf(row: ScoredRow, layout: PlanLayout, rowsOfSignature: Int32Array): RowLabels {
  const { planned } = row;
  const { length } = planned;
  const scored = [row.own, ...row.negatives];
  const columns = layout.signatures.length;
  const terms = rowTerms(row, layout, 1);
  const tokenTerms = length === 1 ? terms : rowTerms(row, layout, length);
  const seq = rowMarginal(terms, columns);
  const token = length === 1 ? seq : rowMarginal(tokenTerms, columns);
  const loo = leaveOneOutMarginal(terms, columns);
  const bySeq = labelMarginals(terms, columns, seq, loo);
  const byToken = length === 1 ? bySeq : labelMarginals(tokenTerms, columns, token, loo);
  const excess = scored.map(({ score }, i) => score - (bySeq.all[i] as number));
  return {
    planned,
    scored,
    posterior: posteriorOf(scored, rowsOfSignature),
    values: {
      miSeq: excess,
      miSeqLoo: scored.map(({ score }, i) =>
        score === Number.NEGATIVE_INFINITY ? score : score - (bySeq.leaveOneOut[i] as number),
      ),
      miPerToken: excess.map((value) => value / length),
      miToken: scored.map(({ score }, i) => score / length - (byToken.all[i] as number)),
      entropySeq: scored.map(() => -seq.marginal),
      entropyToken: scored.map(() => -token.marginal),
    },
    seq,
    token,
    loo,
  };
}

function posteriorOf(scored: readonly ScoredPrompt[], rowsOfSignature: Int32Array): Float64Array {
  const rowsOf = ({ signature }: ScoredPrompt): number => rowsOfSignature[signature] as number;
  const top = scored.reduce(
    (most, prompt) => (rowsOf(prompt) > 0 ? Math.max(most, prompt.score) : most),
    Number.NEGATIVE_INFINITY,
  );
  const shares = scored.map((prompt) =>
    rowsOf(prompt) > 0 ? rowsOf(prompt) * prompt.expansion * Math.exp(prompt.score - top) : 0,
  );
  const total = shares.reduce((sum, share) => sum + share, 0);
  return Float64Array.from(shares, (share) => share / total);
}
