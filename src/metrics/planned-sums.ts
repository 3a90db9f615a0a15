// The scored rows of a plan -> the sums that intervals are made of: as native/engine/row_sums.cpp takes them from whole rows.
// A scored negative stands for N/n of its kind in the posterior of a row's label.
import { exchangeableOf, surpriseOf } from './planned-calibration.js';
import {
  labelMarginals,
  leaveOneOutMarginal,
  type RowMarginal,
  rowMarginal,
  rowTerms,
  type ScoredPrompt,
  type ScoredRow,
} from './planned-row.js';
import type { PlanLayout } from './score-plan.js';

/** Figures that are means over rows of a value per row. Entropies are −marginal. */
const PLANNED_FIGURES = ['miSeq', 'miSeqLoo', 'miPerToken', 'miToken', 'entropySeq', 'entropyToken'] as const;
export type PlannedFigure = (typeof PLANNED_FIGURES)[number];
type Each<T> = Record<PlannedFigure, T>;

export interface PlannedSums {
  readonly rows: number;
  readonly columns: number;
  /** Rows of each canonical column. */
  readonly rowsOf: Int32Array;
  /** Canonical column of each row. */
  readonly own: Int32Array;
  /** [rows] under the own label. */
  readonly values: Each<Float64Array>;
  readonly mean: Each<number>;
  /** Mean over rows: by how much the last order of bias correction moved the figure. */
  readonly lastCorrection: Each<number>;
  /** How far too high the figure may be: where `upper` of a LogTotal is above its value. Leave-one-out: by the whole correction. */
  readonly excess: Each<number>;
  /** Variance of the mean that comes from the drawing of negatives (0 where all are scored). */
  readonly drawVariance: Each<number>;
  /** By signature, weighted by the posterior of the label: sum of weights, of their squares, of values, of the values' squares. */
  readonly weight: Float64Array;
  readonly squaredWeight: Float64Array;
  /** By signature, weighted by the posterior's square: sum of values, of their squares. For figures per token alone. */
  readonly squareWeighted: Each<Float64Array>;
  readonly squareWeightedSquares: Each<Float64Array>;
  readonly weighted: Each<Float64Array>;
  readonly weightedSquares: Each<Float64Array>;
  /** Sums over rows: expectation and variance over the posterior; squared surprise of miSeq. */
  readonly expected: Each<number>;
  readonly labelVariance: Each<number>;
  readonly squaredSurprise: number;
  /** Sums over rows: surprise of miSeq among the scored prompts alone, its square, and its variance (planned-calibration.ts). */
  readonly amongScored: { readonly surprise: number; readonly squared: number; readonly variance: number };
  /** [columns] sums over the rows of the other columns with column j left out: of the values, and of their expectations. */
  readonly without: Each<Float64Array>;
  readonly expectedWithout: Each<Float64Array>;
  /** Sums over rows: largest of ln P and any finite |S|, the same per token. */
  readonly scoreScale: number;
  readonly scoreScaleToken: number;
  /** [columns]: over the rows of each, 1 / length. */
  readonly perLengthOf: Float64Array;
  readonly matchedSeqMean: number;
  readonly matchedTokenMean: number;
}

function each<T>(make: (figure: PlannedFigure) => T): Each<T> {
  return Object.fromEntries(PLANNED_FIGURES.map((figure) => [figure, make(figure)])) as Each<T>;
}

/** Sum with its rounding carried along (Neumaier 1974). */
export function exactSum(values: Iterable<number>): number {
  let sum = 0;
  let carry = 0;
  for (const value of values) {
    const next = sum + value;
    carry += Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum;
    sum = next;
  }
  return Number.isFinite(sum) ? sum + carry : sum;
}

/** A row's values under each of its scored labels, its posterior over them, and its drops. */
interface RowLabels {
  readonly scored: readonly ScoredPrompt[];
  readonly posterior: Float64Array;
  readonly values: Each<readonly number[]>;
  readonly seq: RowMarginal;
  readonly token: RowMarginal;
  readonly loo: RowMarginal;
}

function labelsOf(row: ScoredRow, layout: PlanLayout, rowsOfSignature: Int32Array): RowLabels {
  const { length } = row.planned;
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
  const rowsOf = ({ signature }: ScoredPrompt): number => rowsOfSignature[signature] as number;
  const top = scored.reduce(
    (most, prompt) => (rowsOf(prompt) > 0 ? Math.max(most, prompt.score) : most),
    Number.NEGATIVE_INFINITY,
  );
  const shares = scored.map((prompt) =>
    rowsOf(prompt) > 0 ? rowsOf(prompt) * prompt.expansion * Math.exp(prompt.score - top) : 0,
  );
  const total = shares.reduce((sum, share) => sum + share, 0);
  return {
    scored,
    posterior: Float64Array.from(shares, (share) => share / total),
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

/** Figures per token: rows of one prompt differ by their lengths, which the rows of other prompts know nothing of. */
export function variesByLength(figure: PlannedFigure): boolean {
  return figure === 'miPerToken' || figure === 'miToken';
}

export function sumPlannedRows(rows: readonly ScoredRow[], layout: PlanLayout): PlannedSums {
  const columns = layout.signatures.length;
  const own = Int32Array.from(rows, ({ planned }) => planned.ownColumn);
  const rowsOf = new Int32Array(columns);
  const rowsOfSignature = new Int32Array(columns);
  for (const column of own) {
    const signature = layout.signatures[column] as number;
    rowsOf[column] = (rowsOf[column] as number) + 1;
    rowsOfSignature[signature] = (rowsOfSignature[signature] as number) + 1;
  }
  const labels = rows.map((row) => labelsOf(row, layout, rowsOfSignature));

  const values = each((figure) => Float64Array.from(labels, (row) => row.values[figure][0] as number));
  const weight = new Float64Array(columns);
  const squaredWeight = new Float64Array(columns);
  const weighted = each(() => new Float64Array(columns));
  const weightedSquares = each(() => new Float64Array(columns));
  const squareWeighted = each(() => new Float64Array(columns));
  const squareWeightedSquares = each(() => new Float64Array(columns));
  const without = each(() => new Float64Array(columns));
  const expectedWithout = each(() => new Float64Array(columns));
  const expected = each(() => 0);
  const labelVariance = each(() => 0);
  let squaredSurprise = 0;
  const amongScored = { surprise: 0, squared: 0, variance: 0 };
  const isExchangeable = exchangeableOf(rows);
  let scoreScale = 0;
  let scoreScaleToken = 0;
  const perLengthOf = new Float64Array(columns);

  const columnsOf: number[][] = [];
  layout.signatures.forEach((signature, column) => {
    const list = columnsOf[signature];
    if (list === undefined) columnsOf[signature] = [column];
    else list.push(column);
  });
  /** By own column and stratum: sums of `withColumnOut` over its rows. */
  const unscored = new Map<number, number[][]>();

  labels.forEach((row, r) => {
    const { planned } = rows[r] as ScoredRow;
    row.scored.forEach(({ signature }, i) => {
      const share = row.posterior[i] as number;
      weight[signature] = (weight[signature] as number) + share;
      squaredWeight[signature] = (squaredWeight[signature] as number) + share ** 2;
    });
    const expectation = each((figure) => {
      let first = 0;
      let second = 0;
      row.scored.forEach(({ signature }, i) => {
        const share = row.posterior[i] as number;
        if (share === 0) return; // its value may be infinite
        const value = row.values[figure][i] as number;
        const product = share * value;
        weighted[figure][signature] = (weighted[figure][signature] as number) + product;
        weightedSquares[figure][signature] = (weightedSquares[figure][signature] as number) + product * value;
        if (variesByLength(figure)) {
          squareWeighted[figure][signature] = (squareWeighted[figure][signature] as number) + share * product;
          squareWeightedSquares[figure][signature] =
            (squareWeightedSquares[figure][signature] as number) + share * product * value;
        }
        first += product;
        second += product * value;
      });
      expected[figure] += first;
      labelVariance[figure] += Math.max(0, second - first * first);
      return first;
    });
    squaredSurprise += ((row.values.miSeq[0] as number) - expectation.miSeq) ** 2;
    const weights = row.scored.map((prompt) =>
      isExchangeable(rows[r] as ScoredRow, prompt) ? (rowsOfSignature[prompt.signature] as number) : 0,
    );
    const { surprise, variance } = surpriseOf(row.scored, weights, row.values.miSeq);
    amongScored.surprise += surprise;
    amongScored.squared += surprise ** 2;
    amongScored.variance += variance;
    addWithout(row, r, expectation);
    const scale = row.scored.reduce(
      (most, { score }) => (Number.isFinite(score) ? Math.max(most, Math.abs(score)) : most),
      Math.log(columns),
    );
    scoreScale += scale;
    scoreScaleToken += scale / planned.length;
    const column = own[r] as number;
    perLengthOf[column] = (perLengthOf[column] as number) + 1 / planned.length;
  });

  for (const [ownColumn, gathered] of unscored) {
    const { strata } = (rows[own.indexOf(ownColumn)] as ScoredRow).planned;
    strata.forEach(({ signatures }, h) => {
      const sum = gathered[h] as number[];
      for (const signature of signatures) {
        for (const j of columnsOf[signature] ?? []) {
          PLANNED_FIGURES.forEach((figure, f) => {
            without[figure][j] = (without[figure][j] as number) + (sum[f] as number);
            expectedWithout[figure][j] =
              (expectedWithout[figure][j] as number) + (sum[f + PLANNED_FIGURES.length] as number);
          });
        }
      }
    });
  }

  /**
   * The row's values and expectations with each column but its own left out. Columns of a stratum that were not drawn all
   * do the same: they are gathered in `unscored` and handed out at the end.
   */
  function addWithout(row: RowLabels, r: number, expectation: Each<number>): void {
    const { ownColumn, length, strata } = (rows[r] as ScoredRow).planned;
    const add = (
      j: number,
      at: number,
      drop: (marginal: RowMarginal) => number,
      baseline: number[] | undefined,
    ): void => {
      const found = withColumnOut(row, r, length, expectation, at, j, drop);
      PLANNED_FIGURES.forEach((figure, f) => {
        const base = baseline === undefined ? 0 : (baseline[f] as number);
        const expectedBase = baseline === undefined ? 0 : (baseline[f + PLANNED_FIGURES.length] as number);
        without[figure][j] = (without[figure][j] as number) + (found[f] as number) - base;
        expectedWithout[figure][j] =
          (expectedWithout[figure][j] as number) + (found[f + PLANNED_FIGURES.length] as number) - expectedBase;
      });
    };
    const bases = strata.map(({ signatures }, h) => {
      if (row.scored.filter(({ stratum }) => stratum === h).length === signatures.length) return undefined;
      const base = withColumnOut(row, r, length, expectation, -1, -1, ({ drops }) => drops.unscored[h] as number);
      const gathered = unscored.get(ownColumn) ?? strata.map(() => base.map(() => 0));
      unscored.set(ownColumn, gathered);
      base.forEach((value, i) => {
        const sum = gathered[h] as number[];
        sum[i] = (sum[i] as number) + value;
      });
      return base;
    });
    row.scored.forEach(({ signature, stratum }, at) => {
      for (const j of columnsOf[signature] ?? []) {
        if (j === ownColumn) continue;
        add(j, at, ({ drops }) => (at === 0 ? drops.twin : (drops.scored[at - 1] as number)), bases[stratum]);
      }
    });
  }

  /** The figures of one row without one column, then their expectations. */
  function withColumnOut(
    row: RowLabels,
    r: number,
    length: number,
    expectation: Each<number>,
    at: number,
    j: number,
    drop: (marginal: RowMarginal) => number,
  ): number[] {
    const seq = drop(row.seq);
    const token = drop(row.token);
    const drops: Each<number> = {
      miSeq: seq,
      miSeqLoo: drop(row.loo),
      miPerToken: seq / length,
      miToken: token,
      entropySeq: seq,
      entropyToken: token,
    };
    const found = PLANNED_FIGURES.map((figure) => (values[figure][r] as number) + drops[figure]);
    const expect = (figure: 'miSeq' | 'miToken'): number => {
      const others = expectedOthers(row, figure, expectation[figure], at, j);
      return (Number.isNaN(others) ? (values[figure][r] as number) : others) + drops[figure];
    };
    const expectSeq = expect('miSeq');
    const expected: Each<number> = {
      miSeq: expectSeq,
      miSeqLoo: 0,
      miPerToken: expectSeq / length,
      miToken: expect('miToken'),
      entropySeq: 0,
      entropyToken: 0,
    };
    return [...found, ...PLANNED_FIGURES.map((figure) => expected[figure])];
  }

  /** Expectation over the labels other than column j; NaN if no other is conceivable. */
  function expectedOthers(row: RowLabels, figure: PlannedFigure, whole: number, at: number, j: number) {
    const share = at < 0 ? 0 : (row.posterior[at] as number);
    if (share === 0) return whole;
    const signature = layout.signatures[j] as number;
    // Columns of one prompt have their part of its weight.
    const part = (rowsOf[j] as number) / (rowsOfSignature[signature] as number);
    const gone = share * part;
    if (gone === 0) return whole;
    const value = row.values[figure][at] as number;
    if (gone <= 0.5) return (whole - gone * value) / (1 - gone);
    let sum = 0;
    let left = 0;
    row.posterior.forEach((weightOf, i) => {
      const kept = i === at ? share * (1 - part) : weightOf;
      if (kept === 0) return;
      left += kept;
      sum += kept * (row.values[figure][i] as number);
    });
    return left > 0 ? sum / left : Number.NaN;
  }

  const count = rows.length;
  const meanOf = (of: (row: RowLabels, planned: ScoredRow['planned']) => number): number =>
    exactSum(labels.map((row, r) => of(row, (rows[r] as ScoredRow).planned))) / count;
  const lastCorrection: Each<number> = {
    miSeq: meanOf(({ seq }) => seq.total.lastCorrection),
    miSeqLoo: meanOf(({ loo }) => loo.total.lastCorrection),
    miPerToken: meanOf(({ seq }, { length }) => seq.total.lastCorrection / length),
    miToken: meanOf(({ token }) => token.total.lastCorrection),
    entropySeq: meanOf(({ seq }) => seq.total.lastCorrection),
    entropyToken: meanOf(({ token }) => token.total.lastCorrection),
  };
  const above = ({ total }: RowMarginal): number => total.upper - total.value;
  const seqExcess = Math.max(
    0,
    meanOf(({ seq }) => above(seq)),
  );
  const tokenExcess = Math.max(
    0,
    meanOf(({ token }) => above(token)),
  );
  const excess: Each<number> = {
    miSeq: seqExcess,
    miSeqLoo: Math.abs(meanOf(({ loo }) => loo.total.value - loo.total.plain)),
    miPerToken: Math.max(
      0,
      meanOf(({ seq }, { length }) => above(seq) / length),
    ),
    miToken: tokenExcess,
    entropySeq: seqExcess,
    entropyToken: tokenExcess,
  };
  const seqVariance = meanOf(({ seq }) => seq.total.variance) / count;
  const tokenVariance = meanOf(({ token }) => token.total.variance) / count;
  return {
    rows: count,
    columns,
    rowsOf,
    own,
    values,
    mean: each((figure) => exactSum(values[figure]) / count),
    lastCorrection,
    excess,
    drawVariance: {
      miSeq: seqVariance,
      miSeqLoo: meanOf(({ loo }) => loo.total.variance) / count,
      miPerToken: meanOf(({ seq }, { length }) => seq.total.variance / length ** 2) / count,
      miToken: tokenVariance,
      entropySeq: seqVariance,
      entropyToken: tokenVariance,
    },
    weight,
    squaredWeight,
    weighted,
    weightedSquares,
    squareWeighted,
    squareWeightedSquares,
    expected,
    labelVariance,
    squaredSurprise,
    amongScored,
    without,
    expectedWithout,
    scoreScale,
    scoreScaleToken,
    perLengthOf,
    matchedSeqMean: exactSum(rows.map(({ own: o }) => o.score)) / count,
    matchedTokenMean: exactSum(rows.map(({ own: o, planned }) => o.score / planned.length)) / count,
  };
}
