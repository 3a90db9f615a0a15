// Rows -> what the drawing of negatives leaves uncertain in each figure: how much its estimate scatters, and how far too high it
// may be.
import { compensatedSum } from './compensated-sum.js';
import type { EachFigure } from './figures.js';
import type { RowMarginal } from './row.js';
import type { RowLabels } from './row-labels.js';
import { eachRow, type Interruptible } from './slices.js';

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

export function* drawErrorOf(rows: readonly RowLabels[]): Interruptible<DrawError> {
  const meanOf = function* (of: (row: RowLabels) => number): Interruptible<number> {
    return compensatedSum(yield* eachRow(rows, of)) / rows.length;
  };
  const above = ({ total }: RowMarginal): number => total.upper - total.value;
  const excessOf = function* (of: (row: RowLabels) => number): Interruptible<number> {
    return Math.max(0, yield* meanOf(of));
  };
  const lastSeq = yield* meanOf(({ seq }) => seq.total.lastCorrection);
  const lastToken = yield* meanOf(({ token }) => token.total.lastCorrection);
  const seqExcess = yield* excessOf(({ seq }) => above(seq));
  const tokenExcess = yield* excessOf(({ token }) => above(token));
  const seqVariance = (yield* meanOf(({ seq }) => seq.total.variance)) / rows.length;
  const tokenVariance = (yield* meanOf(({ token }) => token.total.variance)) / rows.length;
  return {
    lastCorrection: {
      miSeq: lastSeq,
      miSeqLoo: yield* meanOf(({ loo }) => loo.total.lastCorrection),
      miPerToken: yield* meanOf(({ seq, planned }) => seq.total.lastCorrection / planned.length),
      miToken: lastToken,
      entropySeq: lastSeq,
      entropyToken: lastToken,
    },
    excess: {
      miSeq: seqExcess,
      miSeqLoo: Math.abs(yield* meanOf(({ loo }) => loo.total.value - loo.total.plain)),
      miPerToken: yield* excessOf(({ seq, planned }) => above(seq) / planned.length),
      miToken: tokenExcess,
      entropySeq: seqExcess,
      entropyToken: tokenExcess,
    },
    drawVariance: {
      miSeq: seqVariance,
      miSeqLoo: (yield* meanOf(({ loo }) => loo.total.variance)) / rows.length,
      miPerToken: (yield* meanOf(({ seq, planned }) => seq.total.variance / planned.length ** 2)) / rows.length,
      miToken: tokenVariance,
      entropySeq: seqVariance,
      entropyToken: tokenVariance,
    },
  };
}
