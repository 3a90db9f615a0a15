// What a plan's pairs say, again, plainly in float64: subsets of the draws and columns really left out, every figure
// from its definition (docs/guide/cheaper-scoring.md, docs/reference/intervals.md). For rows whose scores lie within
// some hundred nats.
import type { ScorePlan } from '../../src/metrics/sampled/plan.js';
import { logSumExp, mean } from '../support/metrics-reference.js';

const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
const square = (x: number): number => x * x;

/** One column of the row's matrix: its prompt, and its score if that was scored. */
interface Stratum {
  /** Columns of the stratum, and different prompts. */
  readonly columns: number;
  readonly size: number;
  /** Scores and columns of the prompts drawn. */
  readonly draws: readonly { readonly score: number; readonly count: number; readonly signature: number }[];
}

interface Row {
  readonly own: number;
  readonly signature: number;
  readonly length: number;
  readonly score: number;
  readonly count: number;
  readonly strata: readonly Stratum[];
}

/** ln of a stratum's total at a temperature, from its draws but some. */
function plainLog({ draws, columns }: Stratum, temperature: number, left: readonly number[]): number {
  const kept = draws.filter((_, i) => !left.includes(i));
  if (columns === 0 || kept.length === 0) return Number.NEGATIVE_INFINITY;
  const terms = kept.map(({ score, count }) => score / temperature + Math.log(count));
  return logSumExp(terms) + Math.log(columns) - Math.log(sum(kept.map(({ count }) => count)));
}

/** The value at 1/k = x of the polynomial through points. */
function extended(points: readonly (readonly [number, number])[], x: number): number {
  return sum(
    points.map(([at, y], i) =>
      points.reduce((part, [other], j) => (i === j ? part : (part * (x - other)) / (at - other)), y),
    ),
  );
}

interface LogTotal {
  readonly plain: number;
  readonly value: number;
  readonly last: number;
  readonly variance: number;
}

/** ln(own's columns + all strata), corrected for the bias of the logarithm. One stratum. */
function logTotal(ownLog: number, stratum: Stratum, temperature: number): LogTotal {
  const of = (...left: number[]) => logSumExp([ownLog, plainLog(stratum, temperature, left)]);
  const n = stratum.draws.length;
  const plain = of();
  if (n === stratum.size) return { plain, value: plain, last: 0, variance: 0 };
  const each = stratum.draws.map((_, i) => i);
  const ones = each.map((i) => of(i));
  const two = mean(each.flatMap((i) => each.slice(0, i).map((j) => of(i, j))));
  const one = mean(ones);
  const [x, points] = [1 / stratum.size, [[1 / n, plain] as const, [1 / (n - 1), one] as const]];
  const first = extended(points, x);
  const value = n > 32 ? first : extended([...points, [1 / (n - 2), two]], x);
  const variance = ((1 - n / stratum.size) * (n - 1) * sum(ones.map((log) => square(log - one)))) / n;
  return { plain, value, last: n > 32 ? first - plain : value - first, variance };
}

/** The row as it would be without a column: of a draw, of the own prompt's twins, or (undefined) one not drawn. */
function without(row: Row, signature: number | undefined): Row {
  if (signature === row.signature) return { ...row, count: row.count - 1 };
  const strata = row.strata.map((stratum) => ({
    ...stratum,
    columns: stratum.columns - 1,
    draws: stratum.draws
      .map((draw) => (draw.signature === signature ? { ...draw, count: draw.count - 1 } : draw))
      .filter(({ count }) => count > 0),
  }));
  return { ...row, strata };
}

/** Own prompt and draw i change places. */
function exchanged(row: Row, i: number): Row {
  const stratum = row.strata[0] as Stratum;
  const draw = stratum.draws[i] as Stratum['draws'][number];
  const draws = stratum.draws.map((other, at) => (at === i ? row : other));
  const columns = stratum.columns + row.count - draw.count;
  return {
    ...row,
    signature: draw.signature,
    score: draw.score,
    count: draw.count,
    strata: [{ ...stratum, columns, draws }],
  };
}

export interface ReferenceEstimates {
  readonly value: number;
  readonly drawVariance: number;
  readonly batch: number;
  readonly population: number;
}

/**
 * Of mi_seq_estimate alone: the estimate and the squares of its standard errors. One kind of negatives, all scores
 * finite.
 */
export function referenceEstimates(plan: ScorePlan, sums: ArrayLike<number>, calibrated: boolean): ReferenceEstimates {
  const { layout } = plan;
  const P = layout.signatures.length;
  const scoreOf = new Map(Array.from(plan.rows, (row, at) => [`${row}/${plan.prompts[at]}`, sums[at] as number]));
  const rows = layout.rows.map(({ row, ownColumn, length, strata, drawn }): Row => {
    const of = (signature: number) => ({
      signature,
      score: scoreOf.get(`${row}/${layout.scored[signature]}`) as number,
      count: layout.counts[signature] as number,
    });
    const signature = layout.signatures[ownColumn] as number;
    const kinds = strata.map(({ size, columns }, h) => ({
      size,
      columns,
      draws: Array.from((drawn[h] as Int32Array).toSorted(), of),
    }));
    return { own: ownColumn, length, strata: kinds, ...of(signature) };
  });
  const ownLog = ({ score, count }: Row) => score + Math.log(count);
  const totals = rows.map((row) => logTotal(ownLog(row), row.strata[0] as Stratum, 1));
  const rowsOf = (signature: number) => rows.filter((row) => row.signature === signature).length;

  // Values under each label, own first, and how likely each label is.
  const labels = rows.map((row, r) => {
    const { value, plain } = totals[r] as LogTotal;
    const stratum = row.strata[0] as Stratum;
    const under = stratum.draws.map((_, i) => {
      const other = exchanged(row, i);
      return other.score - (logSumExp([ownLog(other), plainLog(other.strata[0] as Stratum, 1, [])]) + value - plain);
    });
    const values = [row.score - value, ...under].map((v) => v + Math.log(P));
    const weights = [row, ...stratum.draws].map(
      ({ signature, score }, i) =>
        rowsOf(signature) * Math.exp(score - row.score) * (i === 0 ? 1 : stratum.size / stratum.draws.length),
    );
    const signatures = [row.signature, ...stratum.draws.map(({ signature }) => signature)];
    return { values, signatures, posterior: weights.map((weight) => weight / sum(weights)) };
  });
  const R = rows.length;
  const own = labels.map(({ values }) => values[0] as number);
  const expectation = labels.map(({ values, posterior }) => sum(values.map((v, i) => v * (posterior[i] as number))));
  const labelVariance = sum(
    labels.map(({ values, posterior }, r) =>
      sum(values.map((v, i) => square(v - (expectation[r] as number)) * (posterior[i] as number))),
    ),
  );

  // Batch: the posterior's spread about each prompt's mean; where it does not hold, or a prompt has one row, at least
  // the rows'.
  const spread = Array.from(layout.counts.keys()).map((signature) => {
    const parts = labels.flatMap(({ values, posterior, signatures }) =>
      signatures.flatMap((of, i) => (of === signature ? [[posterior[i] as number, values[i] as number] as const] : [])),
    );
    const total = sum(parts.map(([weight]) => weight));
    const centre = sum(parts.map(([weight, v]) => weight * v)) / total;
    return total === 0 ? 0 : sum(parts.map(([weight, v]) => weight * square(v - centre)));
  });
  const posterior = sum(spread) / (R * (R - 1));
  const byColumn = Array.from({ length: P }, (_, column) => own.filter((_, r) => rows[r]?.own === column));
  const singles = byColumn.filter(({ length }) => length === 1).length;
  const strata = byColumn.map((values) =>
    values.length < 2 ? 0 : (values.length * sum(values.map((v) => square(v - mean(values))))) / (values.length - 1),
  );
  const around = (singles * sum(own.map((v) => square(v - mean(own))))) / (R - 1);
  const stratified = (sum(strata) + around) / square(R);
  const batch = calibrated && singles === 0 ? posterior : Math.max(posterior, stratified);

  // Population: every column left out with its rows.
  const left = byColumn.map((_, column) => {
    const signature = layout.signatures[column] as number;
    const kept = rows.flatMap((row, r) => {
      if (row.own === column) return [];
      const stratum = row.strata[0] as Stratum;
      const drawn = row.signature === signature || stratum.draws.some((draw) => draw.signature === signature);
      const fewer = without(row, drawn ? signature : undefined);
      const change =
        (totals[r] as LogTotal).plain -
        Math.log(P) -
        (logSumExp([ownLog(fewer), plainLog(fewer.strata[0] as Stratum, 1, [])]) - Math.log(P - 1));
      const { values, signatures, posterior: shares } = labels[r] as (typeof labels)[number];
      const part = (byColumn[column]?.length ?? 0) / Math.max(1, rowsOf(signature));
      const weights = shares.map((share, i) => (signatures[i] === signature ? share * (1 - part) : share));
      const others = sum(weights.map((weight, i) => weight * (values[i] as number))) / sum(weights);
      const expected = sum(weights) > 0 ? others : (own[r] as number);
      return [(calibrated ? expected : (own[r] as number)) + change];
    });
    return mean(kept);
  });
  const between = ((P - 1) / P) * sum(left.map((value) => square(value - mean(left))));
  return {
    value: mean(own),
    drawVariance: sum(totals.map(({ variance }) => variance)) / square(R),
    batch,
    population: between + (calibrated ? labelVariance / square(R) : 0),
  };
}
