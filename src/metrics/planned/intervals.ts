// The sums of a plan's rows -> intervals: the formulas of native/engine/inference/{variances,intervals}.cpp (docs/reference/intervals.md), to which estimated
// marginals bring two things. Their noise: every row draws its negatives for itself, so it is part of the spread between rows that
// the variances measure. Their remaining bias: the interval grows by what the orders of correction, and an estimate that errs to
// the other side, differ by.

import { wholePower } from '../figures/whole-power.js';
import type { Interval } from '../step-metrics.js';
import type { PlannedFigure } from './figures.js';
import { roundingOf } from './rounding.js';
import { studentT } from './student-t.js';
import type { PlannedSums } from './sums.js';
import { LEAST_DEGREES, posteriorVariance, stratifiedVariance } from './variances.js';

const NO_ROWS: Interval = { absent: 'too few rows: at least two are needed' };
const NO_PROMPTS: Interval = { absent: 'too few prompts with rows: at least three are needed' };

/** Figures that have no bound above, for which a row unlike the others weighs more than the posterior expects. */
function isUnbounded(figure: PlannedFigure): boolean {
  return figure === 'miSeqLoo' || isEntropy(figure);
}

function isEntropy(figure: PlannedFigure): boolean {
  return figure === 'entropySeq' || figure === 'entropyToken';
}

/**
 * How far up the interval of a positive, skewed mean of about `size` reaches: as if its logarithm were what varies, to the second
 * order, and never more than half as far again.
 */
function skewedHalf(half: number, size: number): number {
  return half > 0 ? half * (1 + half / (2 * Math.max(size, half))) : half;
}

/** What an interval grows by for bias that may remain; too few draws make every figure too high (Jensen). */
export function biasAllowance({ lastCorrection, excess }: PlannedSums, figure: PlannedFigure) {
  const last = Math.abs(lastCorrection[figure]);
  return { below: Math.max(last, excess[figure]), above: last };
}

type Allowance = ReturnType<typeof biasAllowance>;

function widen(
  low: number,
  high: number,
  error: number,
  { below, above }: Allowance,
  cap: number,
  otherwise: Interval,
): Interval {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return otherwise;
  return { low: low - below, high: above > 0 ? Math.min(high + above, cap) : high, error };
}

/** For these very prompts: what is random is the sampling of each response, and of its negatives. */
export function batchInterval(
  sums: PlannedSums,
  figure: PlannedFigure,
  calibrated: boolean,
  confidence: number,
): Interval {
  const { rows, columns, rowsOf } = sums;
  if (rows < 2 || columns < 2) return NO_ROWS;
  const estimate = sums.mean[figure];
  let variance = posteriorVariance(sums, figure);
  const singles = rowsOf.includes(1);
  if (!calibrated || singles || isUnbounded(figure)) {
    const strata = stratifiedVariance(sums, sums.values[figure], figure === 'miSeq');
    const larger = strata.value > variance.value ? strata : variance;
    // Both are too large for single rows: there neither is short of pieces.
    const degrees = singles ? Math.max(variance.degrees, strata.degrees) : larger.degrees;
    variance = { value: larger.value, degrees: calibrated ? degrees : strata.degrees };
  }
  const error = Math.sqrt(variance.value);
  const half = studentT(variance.degrees, confidence) * error + roundingOf(sums, figure);
  const bias = biasAllowance(sums, figure);
  // No row's value exceeds ln P: neither does their expectation.
  const cap =
    figure === 'miSeq' || figure === 'miToken' ? Math.max(estimate, Math.log(columns)) : Number.POSITIVE_INFINITY;
  const high = Math.min(estimate + (isEntropy(figure) ? skewedHalf(half, estimate) : half), cap);
  return widen(estimate - half, high, error, bias, cap, NO_ROWS);
}

/** (P − 1)/P Σ (θ₋ⱼ − mean)²: prompts left out one at a time, each with its column and its rows. */
function jackknifeVariance({ rows, columns, rowsOf }: PlannedSums, without: Float64Array): number {
  const left = without.map((total, j) => total / (rows - (rowsOf[j] as number)));
  const mean = left.reduce((sum, value) => sum + value, 0) / columns;
  return ((columns - 1) / columns) * left.reduce((sum, value) => sum + (value - mean) ** 2, 0);
}

/**
 * On how many prompts' differences the variance between prompts rests. The influence of a prompt has a part that comes from
 * drawing its rows, the square of which is proportional to their number, and one that all of its rows share, to the number's
 * square: with that, Satterthwaite's degrees of freedom. All with as many rows: one less than there are.
 */
function promptDegrees({ rowsOf, rows }: PlannedSums, between: number, within: number): number {
  const counts = rowsOf.filter((count) => count > 0);
  const squares = counts.reduce((sum, count) => sum + count ** 2, 0);
  const share = between > within ? within / between : 1;
  let uneven = 0;
  for (const count of counts) {
    const part = share * (count / rows) + (1 - share) * (count ** 2 / squares);
    uneven += (part * counts.length - 1) ** 2;
  }
  const free = counts.length - 1;
  return Math.max(Math.min(LEAST_DEGREES, free), free / (1 + uneven / counts.length));
}

/** What no value of a figure exceeds, ln of the columns or that per token: over all rows, and without each prompt in turn. */
function boundOf({ columns, rowsOf, perLengthOf }: PlannedSums, figure: PlannedFigure) {
  const weights = figure === 'miPerToken' ? perLengthOf : Float64Array.from(rowsOf);
  const all = weights.reduce((sum, weight) => sum + weight, 0);
  return {
    sum: Math.log(columns) * all,
    without: weights.map((own) => Math.log(columns - 1) * (all - own)),
  };
}

/** For prompts drawn like these: their columns and rows are random too. */
export function populationInterval(
  sums: PlannedSums,
  figure: PlannedFigure,
  calibrated: boolean,
  confidence: number,
): Interval {
  const { rows, columns, rowsOf } = sums;
  const sampled = rowsOf.filter((count) => count > 0).length;
  if (rows < 2 || columns < 3 || sampled < 2) return NO_PROMPTS;
  const estimate = sums.mean[figure];
  const expectations = calibrated && !isUnbounded(figure);
  const without = (expectations ? sums.expectedWithout : sums.without)[figure];
  const between = jackknifeVariance(sums, without);
  const labels = expectations ? sums.labelVariance[figure] / rows ** 2 : 0;
  const variance = between + labels;
  const error = Math.sqrt(variance);
  if (Number.isNaN(error)) return NO_PROMPTS;
  const within = Math.max(0, posteriorVariance(sums, figure).value - labels);
  const pieces = between ** 2 / promptDegrees(sums, between, within) + labels ** 2 / (rows - 1);
  const quantile = studentT(variance > 0 ? variance ** 2 / pieces : columns - 1, confidence);
  const rounding = roundingOf(sums, figure);
  const half = quantile * error;
  const bias = biasAllowance(sums, figure);
  const none = Number.POSITIVE_INFINITY;
  if (isUnbounded(figure)) {
    const high = estimate + (isEntropy(figure) ? skewedHalf(half, estimate) : half) + rounding;
    return widen(estimate - half - rounding, high, error, bias, none, NO_PROMPTS);
  }

  // The gap to the bound is positive and skewed, and prompts of which few are alike may have others beside them.
  const attainable = boundOf(sums, figure);
  const logColumns = Math.log(columns);
  const bound = attainable.sum / rows;
  const expected = expectations ? sums.expected[figure] / rows : estimate;
  const gap = Math.max(0, bound - estimate, bound - expected);
  const seen = gap > rounding;
  const unseen = ((-Math.log((1 - confidence) / 2) / sampled) * Math.LN2 * bound) / logColumns;
  const gaps = without.map((total, j) => (attainable.without[j] as number) - total);
  const unlike = Math.max(seen ? largestMean(gap, jackknifeVariance(sums, gaps), quantile) : 0, unseen) - gap;
  const down = Math.max(half, Math.sqrt(unlike ** 2 + quantile ** 2 * labels));
  const low = Math.min(estimate, Math.max(estimate - down, Math.min(0, estimate - half)));
  if (figure === 'miPerToken') {
    // The mean of the bound over rows is skewed, by short ones.
    const high = Math.min(estimate + skewedHalf(half, bound), Math.max(estimate, logColumns));
    return widen(low - rounding, high + rounding, error, bias, none, NO_PROMPTS);
  }
  const up = seen ? -gap * Math.expm1(-half / gap) : 0;
  const cap = Math.max(bound, estimate);
  return widen(low - rounding, Math.min(estimate + up, cap) + rounding, error, bias, cap + rounding, NO_PROMPTS);
}

/** The upper limit of the mean of a sum of rare events, each of the size variance / sum: Byar's formula (docs/reference/intervals.md). */
function largestMean(sum: number, variance: number, quantile: number): number {
  if (!(variance > 0)) return sum;
  const size = variance / sum;
  const count = sum / size + 1;
  return size * count * wholePower(1 - 1 / (9 * count) + quantile / (3 * Math.sqrt(count)), 3);
}
