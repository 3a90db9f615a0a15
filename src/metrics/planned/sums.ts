// The scored rows of a plan -> the sums that intervals are made of: as native/engine/inference/row_sums.cpp takes them from whole rows.
import { exchangeableOf, surpriseOf } from './calibration.js';
import { ColumnSums, type RowCounts } from './column-sums.js';
import { compensatedSum } from './compensated-sum.js';
import { type DrawError, drawErrorOf } from './draw-error.js';
import { type EachFigure, eachFigure, PLANNED_FIGURES } from './figures.js';
import type { PlanLayout } from './plan.js';
import { PosteriorSums } from './posterior-sums.js';
import type { ScoredRow } from './row.js';
import { labelsOf, type RowLabels } from './row-labels.js';
import { eachRow, type Interruptible } from './slices.js';

export interface PlannedSums extends DrawError, Omit<PosteriorSums, 'add'> {
  readonly rows: number;
  readonly columns: number;
  /** Rows of each canonical column. */
  readonly rowsOf: Int32Array;
  /** Canonical column of each row. */
  readonly own: Int32Array;
  /** [rows] under the own label. */
  readonly values: EachFigure<Float64Array>;
  readonly mean: EachFigure<number>;
  /** Sum over rows: squared surprise of miSeq over the posterior. */
  readonly squaredSurprise: number;
  /** Sums over rows: surprise of miSeq among the scored prompts alone, its square, and its variance (calibration.ts). */
  readonly amongScored: { readonly surprise: number; readonly squared: number; readonly variance: number };
  /** [columns] sums over the rows of the other columns with column j left out: of the values, and of their expectations. */
  readonly without: EachFigure<Float64Array>;
  readonly expectedWithout: EachFigure<Float64Array>;
  /** Sums over rows: largest of ln P and any finite |S|, the same per token. */
  readonly scoreScale: number;
  readonly scoreScaleToken: number;
  /** [columns]: over the rows of each, 1 / length. */
  readonly perLengthOf: Float64Array;
  readonly matchedSeqMean: number;
  readonly matchedTokenMean: number;
}

/** A row takes some .05 ms with six negatives and .5 ms with thirty. */
export function* sumPlannedRows(rows: readonly ScoredRow[], layout: PlanLayout): Interruptible<PlannedSums> {
  const columns = layout.signatures.length;
  const own = Int32Array.from(rows, ({ planned }) => planned.ownColumn);
  const counts = countRows(own, layout.signatures);
  const labels: RowLabels[] = [];
  for (const row of rows) {
    labels.push(labelsOf(row, layout, counts.ofSignature));
    yield;
  }
  const values = eachFigure((): Float64Array => new Float64Array(0));
  for (const figure of PLANNED_FIGURES)
    values[figure] = yield* eachRow(labels, (row) => row.values[figure][0] as number);

  const posterior = new PosteriorSums(columns);
  const columnSums = new ColumnSums(layout, counts);
  let squaredSurprise = 0;
  for (const row of labels) {
    const expectation = posterior.add(row);
    columnSums.add(row, expectation);
    squaredSurprise += ((row.values.miSeq[0] as number) - expectation.miSeq) ** 2;
    yield;
  }

  const drawError = yield* drawErrorOf(labels);
  const amongScored = yield* surpriseAmongScored(rows, labels, counts.ofSignature);
  const matched = yield* eachRow(rows, ({ own: { score } }) => score);
  const matchedToken = yield* eachRow(rows, ({ own: { score }, planned }) => score / planned.length);
  return {
    rows: rows.length,
    columns,
    rowsOf: counts.ofColumn,
    own,
    values,
    mean: eachFigure((figure) => compensatedSum(values[figure]) / rows.length),
    ...drawError,
    ...posterior,
    squaredSurprise,
    amongScored,
    ...(yield* columnSums.finish()),
    ...(yield* scalesOf(labels, columns)),
    perLengthOf: perLength(rows, columns),
    matchedSeqMean: compensatedSum(matched) / rows.length,
    matchedTokenMean: compensatedSum(matchedToken) / rows.length,
  };
}

function countRows(own: Int32Array, signatures: Int32Array): RowCounts {
  const ofColumn = new Int32Array(signatures.length);
  const ofSignature = new Int32Array(signatures.length);
  for (const column of own) {
    const signature = signatures[column] as number;
    ofColumn[column] = (ofColumn[column] as number) + 1;
    ofSignature[signature] = (ofSignature[signature] as number) + 1;
  }
  return { ofColumn, ofSignature };
}

function* surpriseAmongScored(
  rows: readonly ScoredRow[],
  labels: readonly RowLabels[],
  rowsOfSignature: Int32Array,
): Interruptible<PlannedSums['amongScored']> {
  const isExchangeable = exchangeableOf(rows);
  const sums = { surprise: 0, squared: 0, variance: 0 };
  for (const [r, { scored, values }] of labels.entries()) {
    const weights = scored.map((prompt) =>
      isExchangeable(rows[r] as ScoredRow, prompt) ? (rowsOfSignature[prompt.signature] as number) : 0,
    );
    const { surprise, variance } = surpriseOf(scored, weights, values.miSeq);
    sums.surprise += surprise;
    sums.squared += surprise ** 2;
    sums.variance += variance;
    yield;
  }
  return sums;
}

function* scalesOf(
  labels: readonly RowLabels[],
  columns: number,
): Interruptible<Pick<PlannedSums, 'scoreScale' | 'scoreScaleToken'>> {
  const scales = { scoreScale: 0, scoreScaleToken: 0 };
  for (const { scored, planned } of labels) {
    const scale = scored.reduce(
      (most, { score }) => (Number.isFinite(score) ? Math.max(most, Math.abs(score)) : most),
      Math.log(columns),
    );
    scales.scoreScale += scale;
    scales.scoreScaleToken += scale / planned.length;
    yield;
  }
  return scales;
}

function perLength(rows: readonly ScoredRow[], columns: number): Float64Array {
  const sums = new Float64Array(columns);
  for (const { planned } of rows) {
    sums[planned.ownColumn] = (sums[planned.ownColumn] as number) + 1 / planned.length;
  }
  return sums;
}
