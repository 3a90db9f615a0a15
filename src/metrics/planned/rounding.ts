// The sums of a plan's rows -> how far rounding of the scores may have moved the mean of a figure.
import type { PlannedFigure } from './figures.js';
import type { PlannedSums } from './sums.js';

/** Of a score, relative to the largest. */
const ROUNDING = 2 ** -40;

export function roundingOf(sums: PlannedSums, figure: PlannedFigure): number {
  const sequence = figure === 'miSeq' || figure === 'miSeqLoo' || figure === 'entropySeq';
  return (ROUNDING * (sequence ? sums.scoreScale : sums.scoreScaleToken)) / sums.rows;
}
