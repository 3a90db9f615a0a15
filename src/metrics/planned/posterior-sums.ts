// Rows with the posterior of their labels in; by prompt, the sums of their values weighted by it, and over all rows what the
// posterior expects, out.
import { type EachFigure, eachFigure, PLANNED_FIGURES, variesByLength } from './figures.js';
import type { RowLabels } from './row-labels.js';

export class PosteriorSums {
  /** By signature: sums of the posterior and of its squares. */
  readonly weight: Float64Array;
  readonly squaredWeight: Float64Array;
  /** By signature, weighted by the posterior: sums of values and of their squares. */
  readonly weighted: EachFigure<Float64Array>;
  readonly weightedSquares: EachFigure<Float64Array>;
  /** By signature, weighted by the posterior's square: the same, for figures per token alone. */
  readonly squareWeighted: EachFigure<Float64Array>;
  readonly squareWeightedSquares: EachFigure<Float64Array>;
  /** Sums over rows: expectation and variance over the posterior. */
  readonly expected = eachFigure(() => 0);
  readonly labelVariance = eachFigure(() => 0);

  constructor(signatures: number) {
    const zeros = (): Float64Array => new Float64Array(signatures);
    this.weight = zeros();
    this.squaredWeight = zeros();
    this.weighted = eachFigure(zeros);
    this.weightedSquares = eachFigure(zeros);
    this.squareWeighted = eachFigure(zeros);
    this.squareWeightedSquares = eachFigure(zeros);
  }

  /** @returns the row's expectations over its labels */
  add({ scored, posterior, values }: RowLabels): EachFigure<number> {
    scored.forEach(({ signature }, i) => {
      const share = posterior[i] as number;
      increase(this.weight, signature, share);
      increase(this.squaredWeight, signature, share ** 2);
    });
    const expectation = eachFigure(() => 0);
    for (const figure of PLANNED_FIGURES) {
      let first = 0;
      let second = 0;
      scored.forEach(({ signature }, i) => {
        const share = posterior[i] as number;
        if (share === 0) return; // its value may be infinite
        const value = values[figure][i] as number;
        const product = share * value;
        increase(this.weighted[figure], signature, product);
        increase(this.weightedSquares[figure], signature, product * value);
        if (variesByLength(figure)) {
          increase(this.squareWeighted[figure], signature, share * product);
          increase(this.squareWeightedSquares[figure], signature, share * product * value);
        }
        first += product;
        second += product * value;
      });
      this.expected[figure] += first;
      this.labelVariance[figure] += Math.max(0, second - first * first);
      expectation[figure] = first;
    }
    return expectation;
  }
}

function increase(sums: Float64Array, at: number, by: number): void {
  sums[at] = (sums[at] as number) + by;
}
