// Figures of each group of one column of rollouts, in float64 or with the reference's float32 roundings.
import { float32Std, float32Sum } from './float32-sums.js';
import type { ColumnName } from './input/filter-input.js';
import { RowsProblem } from './input/sentences.js';

/** One figure a group; singletons have a spread of 0. */
export interface GroupStatistics {
  /** [groups] rollouts. */
  readonly counts: Int32Array;
  readonly mean: Float64Array;
  readonly sum: Float64Array;
  readonly max: Float64Array;
  /** ddof 1 */
  readonly variance: Float64Array;
  /** ddof 1; only of the reference, which ranks by it. */
  readonly std?: Float64Array;
}

export interface SpreadStatistics extends GroupStatistics {
  /** The variances with all their rounding: 0 only if all values are equal. */
  readonly exactVariance: Float64Array;
  /** The variances in units of unit², in which the largest neither overflows nor vanishes: groups are ranked by it. */
  readonly rankedVariance: Float64Array;
  readonly unit: number;
  /** No value is larger. */
  readonly largest: number;
  /** [groups] 1 if all rollouts are alike but for rounding; their spread is 0. */
  readonly constant: Uint8Array;
}

/** A std below this share of the largest in the batch counts as 0: it is rounding, from arithmetic at another offset. */
const NOISE_OF_BATCH = 1e-9;
/** The share of a value that can be rounding: of float64 values, and of those that came in float32. */
const NOISE_OF_FLOAT64 = 2 ** -50;
const NOISE_OF_FLOAT32 = 2 ** -22;

/** Squares of more cannot be added up. */
const LARGEST = 1e100;
/** Variances below this have lost bits. */
const SMALLEST_VARIANCE = 1e-270;
/** A difference of sums that leaves less than this share of them has lost too many bits. */
const CANCELLED = 1e-3;

/**
 * Figures of `values` within [offsets[g], offsets[g + 1]), in float64.
 * @param isFloat32 they came in float32, so that their rounding is that of float32: never guessed from the values
 * @throws RowsProblem for a value beyond ±1e100
 */
export function groupStatistics(
  name: ColumnName,
  values: Float64Array,
  offsets: Int32Array,
  isFloat32: boolean,
): SpreadStatistics {
  let unit = 1;
  let figures = measure(values, offsets, unit);
  if (!(figures.largest <= LARGEST)) {
    // What was measured is a bound, up to twice the largest value.
    const size = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    if (!(size <= LARGEST)) {
      throw new RowsProblem(name, `values up to ${size} in size, expected at most ${LARGEST}: scale them down`);
    }
  }
  const { largest } = figures;
  if (figures.widest < SMALLEST_VARIANCE) {
    const deviation = largestDeviation(values, offsets);
    if (deviation > 0) {
      // Not below the least number whose reciprocal is finite.
      unit = 2 ** Math.max(-1022, Math.floor(Math.log2(deviation)));
      figures = measure(values, offsets, unit);
    }
  }
  const { counts, mean, sum, max, variance: found, widest } = figures;
  const noise = isFloat32 ? NOISE_OF_FLOAT32 : NOISE_OF_FLOAT64;
  const batchNoise = NOISE_OF_BATCH ** 2 * widest;
  const constant = new Uint8Array(found.length);
  const rankedVariance = found.slice();
  for (let group = 0; group < constant.length; group++) {
    const value = found[group] as number;
    const centre = (mean[group] as number) / unit;
    if (value > batchNoise && value > noise * noise * (centre * centre + value)) continue;
    // Differences of whole numbers are exact.
    if (value > 0 && values.subarray(offsets[group], offsets[group + 1]).every(Number.isSafeInteger)) continue;
    constant[group] = 1;
    rankedVariance[group] = 0;
  }
  const inValues = (variances: Float64Array) =>
    unit === 1 ? variances : variances.map((value) => value * unit * unit);
  return {
    ...{ counts, mean, sum, max, rankedVariance, unit, largest, constant },
    variance: inValues(rankedVariance),
    exactVariance: inValues(found),
  };
}

/** Variances in units of unit², the largest of them, and a bound of the values' sizes. */
function measure(
  values: Float64Array,
  offsets: Int32Array,
  unit: number,
): GroupStatistics & { readonly largest: number; readonly widest: number } {
  const groups = offsets.length - 1;
  const counts = new Int32Array(groups);
  const [mean, sum, max, variance] = Array.from({ length: 4 }, () => new Float64Array(groups)) as Quadruple;
  const scale = 1 / unit;
  let largestAnchor = 0;
  let largestSquares = 0;
  let widest = 0;
  for (let group = 0; group < groups; group++) {
    const begin = offsets[group] as number;
    const end = offsets[group + 1] as number;
    const count = end - begin;
    counts[group] = count;
    if (count === 0) continue;
    // Offsets from the group's first value: a constant added to all of them changes no more than their own rounding.
    const anchor = values[begin] as number;
    let high = anchor;
    let total = anchor;
    let offset = 0;
    let squares = 0;
    for (let at = begin + 1; at < end; at++) {
      const value = values[at] as number;
      const difference = (value - anchor) * scale;
      if (value > high) high = value;
      total += value;
      offset += difference;
      squares += difference * difference;
    }
    const centre = offset / count;
    let spread = squares - offset * centre;
    if (spread < CANCELLED * squares) {
      // The first value lies far from the others.
      spread = 0;
      for (let at = begin; at < end; at++) spread += (((values[at] as number) - anchor) * scale - centre) ** 2;
    }
    sum[group] = total;
    max[group] = high;
    mean[group] = anchor + centre * unit;
    variance[group] = count > 1 ? spread / (count - 1) : 0;
    largestAnchor = Math.max(largestAnchor, Math.abs(anchor));
    largestSquares = Math.max(largestSquares, squares);
    widest = Math.max(widest, variance[group] as number);
  }
  return { counts, mean, sum, max, variance, widest, largest: largestAnchor + Math.sqrt(largestSquares) * unit };
}

type Quadruple = [Float64Array, Float64Array, Float64Array, Float64Array];

function largestDeviation(values: Float64Array, offsets: Int32Array): number {
  let largest = 0;
  for (let group = 0; group + 1 < offsets.length; group++) {
    const begin = offsets[group] as number;
    for (let at = begin; at < (offsets[group + 1] as number); at++) {
      largest = Math.max(largest, Math.abs((values[at] as number) - (values[begin] as number)));
    }
  }
  return largest;
}

/**
 * The same figures as the reference has them, each rounded to float32 where torch rounds.
 * @throws RowsProblem for a value beyond the range of float32
 */
export function float32Statistics(name: ColumnName, values: Float64Array, offsets: Int32Array): GroupStatistics {
  const rounded = new Float32Array(values);
  const beyond = 'beyond float32, in which the dialect "ragen" computes: scale';
  const bad = rounded.findIndex((value) => !Number.isFinite(value));
  if (bad >= 0) throw new RowsProblem(name, `${values[bad]} is ${beyond} it down`);
  const groups = offsets.length - 1;
  const counts = new Int32Array(groups);
  const [mean, sum, max, std] = Array.from({ length: 4 }, () => new Float64Array(groups)) as Quadruple;
  for (let group = 0; group < groups; group++) {
    const begin = offsets[group] as number;
    const end = offsets[group + 1] as number;
    const count = end - begin;
    counts[group] = count;
    if (count === 0) continue;
    let high = rounded[begin] as number;
    for (let at = begin + 1; at < end; at++) high = Math.max(high, rounded[at] as number);
    max[group] = high;
    sum[group] = float32Sum(rounded, begin, end);
    mean[group] = Math.fround((sum[group] as number) / count);
    if (count > 1) std[group] = float32Std(rounded, begin, end, groups === 1);
    // Values near the end of the range: their sum or std is beyond it, and masses and means over groups would be NaN.
    if (Number.isFinite(sum[group]) && Number.isFinite(std[group])) continue;
    throw new RowsProblem(name, `values whose sum or std is ${beyond} them down`);
  }
  return { counts, mean, sum, max, std, variance: std.map((value) => value * value) };
}
