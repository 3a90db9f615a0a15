// Rows -> what the drawing of negatives leaves uncertain in each figure: how much its estimate scatters, and how far too high it
// may be.
import { compensatedSum } from './compensated-sum.js';
import type { EachFigure } from './figures.js';
import type { RowMarginal } from './row.js';
import type { RowLabels } from './row-labels.js';

/** 0 where all negatives are scored. */
export interface DrawError {
  /** Mean over rows: by how much the last order of bias correction moved the figure. */
  readonly lastCorrection: EachFigure<number>;
  /**
   * How far too high the figure may be: the mean over rows of by how much `upper` of a LogTotal is above its value; of the
   * leave-one-out figure, by how much the correction moved it.
   */
  readonly excess: EachFigure<number>;
  /** Variance of the mean. */
  readonly drawVariance: EachFigure<number>;
}

export function drawErrorOf(rows: readonly RowLabels[]): DrawError {
  const meanOf = (of: (row: RowLabels) => number): number => compensatedSum(rows.map(of)) / rows.length;
  const above = ({ total }: RowMarginal): number => total.upper - total.value;
  const excessOf = (of: (row: RowLabels) => number): number => Math.max(0, meanOf(of));
  const seqExcess = excessOf(({ seq }) => above(seq));
  const tokenExcess = excessOf(({ token }) => above(token));
  const seqVariance = meanOf(({ seq }) => seq.total.variance) / rows.length;
  const tokenVariance = meanOf(({ token }) => token.total.variance) / rows.length;
  return {
    lastCorrection: {
      miSeq: meanOf(({ seq }) => seq.total.lastCorrection),
      miSeqLoo: meanOf(({ loo }) => loo.total.lastCorrection),
      miPerToken: meanOf(({ seq, planned }) => seq.total.lastCorrection / planned.length),
      miToken: meanOf(({ token }) => token.total.lastCorrection),
      entropySeq: meanOf(({ seq }) => seq.total.lastCorrection),
      entropyToken: meanOf(({ token }) => token.total.lastCorrection),
    },
    excess: {
      miSeq: seqExcess,
      miSeqLoo: Math.abs(meanOf(({ loo }) => loo.total.value - loo.total.plain)),
      miPerToken: excessOf(({ seq, planned }) => above(seq) / planned.length),
      miToken: tokenExcess,
      entropySeq: seqExcess,
      entropyToken: tokenExcess,
    },
    drawVariance: {
      miSeq: seqVariance,
      miSeqLoo: meanOf(({ loo }) => loo.total.variance) / rows.length,
      miPerToken: meanOf(({ seq, planned }) => seq.total.variance / planned.length ** 2) / rows.length,
      miToken: tokenVariance,
      entropySeq: seqVariance,
      entropyToken: tokenVariance,
    },
  };
}
