// Checks the options that scoreStats and other operations share, and makes the arguments of their native jobs.
import { is } from '../../checks/options.js';
import type { LabelArguments } from '../native.js';
import { integerArray, optionalIntegers } from '../tensor/integers.js';
import type { RowLabels } from './row-stats.js';

// As in native/engine/score_stats.h.
const MOST_COLUMNS = 8;

/** How many best columns may be named. */
export const TOP_K = is.integer(0, MOST_COLUMNS);

/** Results that stay on the GPU. */
export const ON_DEVICE = is.oneOf(['device']);

/** @throws ArgumentError unless it is an array of integers; the entries are checked natively */
export function labelArguments(labels: RowLabels, argument: string): LabelArguments {
  return [
    integerArray(labels.own, `${argument}.own`),
    integerArray(labels.lengths, `${argument}.lengths`),
    optionalIntegers(labels.signatures, `${argument}.signatures`),
  ];
}
