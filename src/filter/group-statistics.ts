// One column of rollouts -> figures of every group, in float64 or with the reference's float32 roundings.
import { ArgumentError } from '../checks/errors.js';
import { float32Mean, float32Std, float32Sum } from './float32-sums.js';

/** One figure a group; singletons have a spread of 0. */
export interface GroupStatistics {
  /** [groups] rollouts. */
  readonly counts: Int32Array;
  readonly mean: Float64Array;
  readonly sum: Float64Array;
  readonly max: Float64Array;
  /** ddof 1 */
  readonly variance: Float64Array;
}

export interface Float32Statistics extends GroupStatistics {
  /** ddof 1 */
  readonly std: Float64Array;
}

export interface SpreadStatistics extends GroupStatistics {
  /** The variances with all their rounding: 0 only where all values are equal. */
  readonly exactVariance: Float64Array;
  /**
   * The variances in a unit of their own, in which the largest neither overflows nor vanishes: what groups are ranked
   * by.
   */
  readonly rankedVariance: Float64Array;
  /** That unit: the root of it, in units of the values. */
  readonly unit: number;
  /** No value is larger. */
  readonly largest: number;
  /** [groups] 1 where all rollouts are alike but for rounding; their spread is 0. */
  readonly constant: Uint8Array;
}

/**
 * A std below this share of the largest in the batch counts as 0: it is rounding, from arithmetic at another offset.
 */
const NOISE_OF_BATCH = 1e-9;
/**
 * So much of a value can be rounding: of float64 values, and of those that came in float32. Whole numbers have none.
 */
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
 * @param refuse called where a value may be NaN or infinite: throws if one is, naming it
 * @throws ArgumentError for a value beyond ±1e100
 */
export function groupStatistics(
  argument: string,
  values: Float64Array,
  offsets: Int32Array,
  isFloat32 = false,
  refuse?: () => void,
): SpreadStatistics {
  const groups = offsets.length - 1;
  const figures = {
    counts: new Int32Array(groups),
    mean: new Float64Array(groups),
    sum: new Float64Array(groups),
    max: new Float64Array(groups),
    rankedVariance: new Float64Array(groups),
  };
  let unit = 1;
  let { largest, widest } = measure(values, offsets, unit, figures);
  if (!(largest <= LARGEST)) {
    refuse?.();
    // What was measured is a bound, up to twice the largest value.
    const size = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    if (!(size <= LARGEST)) {
      throw new ArgumentError(argument, `values up to ${size} in size, expected at most ${LARGEST}: scale them down`);
    }
  }
  if (widest < SMALLEST_VARIANCE) {
    const deviation = largestDeviation(values, offsets);
    if (deviation > 0) {
      // Not below the least number whose reciprocal is finite.
      unit = 2 ** Math.max(-1022, Math.floor(Math.log2(deviation)));
      widest = measure(values, offsets, unit, figures).widest;
    }
  }
  const { counts, mean, sum, max } = figures;
  const noise = isFloat32 ? NOISE_OF_FLOAT32 : NOISE_OF_FLOAT64;
  const batchNoise = NOISE_OF_BATCH ** 2 * widest;
  const constant = new Uint8Array(groups);
  const found = figures.rankedVariance;
  let rankedVariance = found;
  for (let group = 0; group < groups; group++) {
    const value = found[group] as number;
    const centre = (mean[group] as number) / unit;
    if (value > batchNoise && value > noise * noise * (centre * centre + value)) continue;
    if (value > 0 && areWhole(values, offsets[group] as number, offsets[group + 1] as number)) continue;
    constant[group] = 1;
    if (value === 0) continue;
    if (rankedVariance === found) rankedVariance = found.slice();
    rankedVariance[group] = 0;
  }
  const inValues = (variances: Float64Array) =>
    unit === 1 ? variances : variances.map((value) => value * unit * unit);
  const variance = inValues(rankedVariance);
  const exactVariance = rankedVariance === found ? variance : inValues(found);
  return { counts, mean, sum, max, variance, exactVariance, rankedVariance, unit, largest, constant };
}

interface Measured {
  readonly counts: Int32Array;
  readonly mean: Float64Array;
  readonly sum: Float64Array;
  readonly max: Float64Array;
  readonly rankedVariance: Float64Array;
}

/** Fills `figures`, variances in units of unit². @returns the largest size of a value and the largest variance */
function measure(
  values: Float64Array,
  offsets: Int32Array,
  unit: number,
  { counts, mean, sum, max, rankedVariance }: Measured,
): { largest: number; widest: number } {
  const groups = offsets.length - 1;
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
    if (spread < CANCELLED * squares) spread = spreadAround(values, begin, end, anchor, scale, centre);
    sum[group] = total;
    max[group] = high;
    mean[group] = anchor + centre * unit;
    largestAnchor = Math.max(largestAnchor, Math.abs(anchor));
    largestSquares = Math.max(largestSquares, squares);
    const variance = count > 1 ? spread / (count - 1) : 0;
    rankedVariance[group] = variance;
    widest = Math.max(widest, variance);
  }
  // No value is larger than this.
  return { largest: largestAnchor + Math.sqrt(largestSquares) * unit, widest };
}

/** Σ (value − anchor − centre)², for groups whose first value lies far from the others. */
function spreadAround(
  values: Float64Array,
  begin: number,
  end: number,
  anchor: number,
  scale: number,
  centre: number,
): number {
  let squares = 0;
  for (let at = begin; at < end; at++) squares += (((values[at] as number) - anchor) * scale - centre) ** 2;
  return squares;
}

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

/** Whether they are whole numbers, exact in float64: their differences are not rounding. */
function areWhole(values: Float64Array, begin: number, end: number): boolean {
  for (let at = begin; at < end; at++) if (!Number.isSafeInteger(values[at])) return false;
  return true;
}

/**
 * The same figures as the reference has them, each rounded to float32 where torch rounds.
 * @throws ArgumentError for a value beyond the range of float32
 */
export function float32Statistics(argument: string, values: Float64Array, offsets: Int32Array): Float32Statistics {
  const rounded = new Float32Array(values);
  for (let at = 0; at < rounded.length; at++) {
    if ((rounded[at] as number) - (rounded[at] as number) === 0) continue;
    const problem = `${values[at]} is beyond float32, in which the dialect "ragen" computes: scale it down`;
    throw new ArgumentError(argument, problem);
  }
  const groups = offsets.length - 1;
  const counts = new Int32Array(groups);
  const mean = new Float64Array(groups);
  const sum = new Float64Array(groups);
  const max = new Float64Array(groups);
  const std = new Float64Array(groups);
  for (let group = 0; group < groups; group++) {
    const begin = offsets[group] as number;
    const end = offsets[group + 1] as number;
    counts[group] = end - begin;
    if (begin === end) continue;
    let high = rounded[begin] as number;
    for (let at = begin + 1; at < end; at++) high = Math.max(high, rounded[at] as number);
    max[group] = high;
    sum[group] = float32Sum(rounded, begin, end);
    mean[group] = Math.fround((sum[group] as number) / (end - begin));
    if (end - begin > 1) std[group] = float32Std(rounded, begin, end, groups === 1);
    // Values near the end of the range: their sum or std is beyond it, and masses and means over groups would be NaN.
    if (Number.isFinite(sum[group]) && Number.isFinite(std[group])) continue;
    const problem = 'values whose sum or std is beyond float32, in which the dialect "ragen" computes: scale them down';
    throw new ArgumentError(argument, problem);
  }
  return { counts, mean, sum, max, std, variance: std.map((value) => value * value) };
}

/** Means over groups of each group's figures. */
export interface MeanFigures {
  readonly std: number;
  readonly max: number;
  readonly mean: number;
  readonly sum: number;
}

/**
 * Means over all groups and over the kept ones; 0 without any. A single rollout has no std, a group without rollouts
 * nothing.
 */
export function meanFigures(
  { counts, variance, max, mean, sum }: GroupStatistics,
  isKept: Uint8Array,
): { all: MeanFigures; kept: MeanFigures } {
  let groups = 0;
  let spreads = 0;
  let stds = 0;
  let maxima = 0;
  let means = 0;
  let sums = 0;
  let keptGroups = 0;
  let keptSpreads = 0;
  let keptStds = 0;
  let keptMaxima = 0;
  let keptMeans = 0;
  let keptSums = 0;
  for (let group = 0; group < counts.length; group++) {
    const count = counts[group] as number;
    if (count === 0) continue;
    const std = Math.sqrt(variance[group] as number);
    groups++;
    maxima += max[group] as number;
    means += mean[group] as number;
    sums += sum[group] as number;
    if (count > 1) {
      spreads++;
      stds += std;
    }
    if (isKept[group] === 0) continue;
    keptGroups++;
    keptMaxima += max[group] as number;
    keptMeans += mean[group] as number;
    keptSums += sum[group] as number;
    if (count > 1) {
      keptSpreads++;
      keptStds += std;
    }
  }
  const over = (total: number, number: number): number => (number === 0 ? 0 : total / number);
  return {
    all: { std: over(stds, spreads), max: over(maxima, groups), mean: over(means, groups), sum: over(sums, groups) },
    kept: {
      std: over(keptStds, keptSpreads),
      max: over(keptMaxima, keptGroups),
      mean: over(keptMeans, keptGroups),
      sum: over(keptSums, keptGroups),
    },
  };
}

/** The same with the reference's float32 roundings, which depend on the order of the kept groups. */
export function float32MeanFigures(
  statistics: Float32Statistics,
  keptOrder: Uint32Array,
): { all: MeanFigures; kept: MeanFigures } {
  const { counts } = statistics;
  const over = (chosen: Uint32Array | undefined): MeanFigures => ({
    std: float32MeanOverGroups(statistics.std, counts, 2, chosen),
    max: float32MeanOverGroups(statistics.max, counts, 1, chosen),
    mean: float32MeanOverGroups(statistics.mean, counts, 1, chosen),
    sum: float32MeanOverGroups(statistics.sum, counts, 1, chosen),
  });
  return { all: over(undefined), kept: over(keptOrder) };
}

/** Over groups with at least `least` rollouts; 0 without any. */
function float32MeanOverGroups(
  values: Float64Array,
  counts: Int32Array,
  least: number,
  chosen: Uint32Array | undefined,
): number {
  const length = chosen === undefined ? values.length : chosen.length;
  const terms = new Float32Array(length);
  let taken = 0;
  for (let at = 0; at < length; at++) {
    const group = chosen === undefined ? at : (chosen[at] as number);
    if ((counts[group] as number) >= least) terms[taken++] = values[group] as number;
  }
  return taken === 0 ? 0 : float32Mean(terms, 0, taken);
}
