// The sums of a plan's rows -> the variance of the mean of a figure for these very prompts, with its degrees of freedom.
import { type PlannedFigure, variesByLength } from './figures.js';
import type { PlannedSums } from './sums.js';
import { LEAST_SPREAD } from './wilson-interval.js';

/** A row makes up half of its prompt's mean at most: a row that made up all of it would tell nothing of the spread about it. */
const MOST_LEVERAGE = 0.5;
/** At least so many degrees of freedom: a Satterthwaite approximation by fewer gives a quantile larger than is called for. */
export const LEAST_DEGREES = 2;

export interface Variance {
  readonly value: number;
  readonly degrees: number;
}

/** A variance that is a sum over prompts, each with degrees of freedom of its own. */
class PromptVariances {
  sum = 0;
  #squares = 0;

  add(value: number, degrees: number): void {
    this.sum += value;
    this.#squares += value ** 2 / (degrees + 2);
  }

  /** After Welch (1947), which errs less than Satterthwaite's where prompts have few rows. `most`: if all spread alike. */
  degrees(most: number): number {
    const found = this.#squares > 0 ? this.sum ** 2 / this.#squares - 2 : most;
    return Math.min(most, Math.max(LEAST_DEGREES, found));
  }
}

/** Values under a row's possible labels, weighed by how likely each is: every row tells of every prompt's spread. */
export function posteriorVariance(sums: PlannedSums, figure: PlannedFigure): Variance {
  const { weight, squaredWeight, weighted, weightedSquares, squareWeighted, squareWeightedSquares, rows } = sums;
  const aroundTrueMeans = new PromptVariances();
  let squares = 0;
  let leverages = 0; // weighed by spread: where there is none, it is rounding
  weight.forEach((total, signature) => {
    if (total === 0) return;
    const first = weighted[figure][signature] as number;
    const mean = first / total;
    const spread = (weightedSquares[figure][signature] as number) - mean * first;
    if (!(spread > 0)) return;
    squares += spread;
    if (!variesByLength(figure)) return;
    // A mean of few rows lies near them: about it they spread less than about the true one, each by its part of the mean; on
    // average, weighed by what they spread, by `leverage`.
    const own =
      (squareWeightedSquares[figure][signature] as number) -
      2 * mean * (squareWeighted[figure][signature] as number) +
      mean * mean * (squaredWeight[signature] as number);
    const leverage = Math.min(MOST_LEVERAGE, Math.max(0, own / total / spread));
    aroundTrueMeans.add(spread / (1 - leverage), 1 / leverage - 1);
    leverages += leverage * spread;
  });
  // Where labels alone decide a figure, a row that is unlike its prompt's others is likely under another prompt too, and has
  // little part in either mean.
  if (!variesByLength(figure)) return { value: squares / (rows * (rows - 1)), degrees: rows - 1 };
  const most = squares > 0 ? rows * (1 - leverages / squares) : rows;
  return { value: aroundTrueMeans.sum / rows ** 2, degrees: aroundTrueMeans.degrees(Math.min(rows - 1, most)) };
}

/**
 * Prompts as strata, from the rows' own values. Prompts with a single row have no spread within: theirs is taken from all
 * rows, which adds the spread between prompts.
 * @param values [rows]
 * @param alike prompts are taken to spread alike
 */
export function stratifiedVariance(
  sums: Pick<PlannedSums, 'rowsOf' | 'own' | 'rows'>,
  values: Float64Array,
  alike = false,
): Variance {
  const { rowsOf, own, rows } = sums;
  const means = new Float64Array(rowsOf.length);
  let total = 0;
  own.forEach((column, r) => {
    means[column] = (means[column] as number) + (values[r] as number) / (rowsOf[column] as number);
    total += values[r] as number;
  });
  const squares = new Float64Array(rowsOf.length);
  let around = 0;
  own.forEach((column, r) => {
    const value = values[r] as number;
    squares[column] = (squares[column] as number) + (value - (means[column] as number)) ** 2;
    around += (value - total / rows) ** 2;
  });
  const strata = new PromptVariances();
  let degrees = 0;
  let singles = 0;
  rowsOf.forEach((count, column) => {
    if (count === 1) singles++;
    if (count < 2) return;
    strata.add((count * (squares[column] as number)) / (count - 1), count - 1);
    degrees += count - 1;
  });
  if (singles > 0) {
    const free = Math.max(1, singles - 1);
    strata.add((singles * around) / (rows - 1), free);
    degrees += free;
  }
  return { value: strata.sum / rows ** 2, degrees: alike ? degrees : strata.degrees(degrees) };
}

/** Of hits. Where all rows of each prompt are alike, rounding leaves a variance: no prompt has a part of that. */
export function hitVariance(sums: Pick<PlannedSums, 'rowsOf' | 'own' | 'rows'>, hits: Float64Array): Variance {
  const variance = stratifiedVariance(sums, hits);
  if (variance.value * sums.rows > LEAST_SPREAD) return variance;
  return { value: 0, degrees: stratifiedVariance(sums, hits, true).degrees };
}
