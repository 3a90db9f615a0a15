// Converts RowStats that a caller hands back to the arguments of the native jobs that read them.
import { types } from 'node:util';
import { checkCount } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { shown } from '../../checks/words.js';
import type { HeldBuffers } from '../memory.js';
import type { RowStatsArguments } from '../native.js';
import { DeviceTensor } from '../tensor/device-tensor.js';
import type { HostView } from '../tensor/tensor-view.js';
import type { RowStats } from './row-stats.js';

// In the order of native/node/arguments/row_stats.cpp.
const rowStatsArrays = [
  'matchedSeq',
  'matchedToken',
  'marginalSeq',
  'marginalToken',
  'looMarginalSeq',
  'looMarginalToken',
  'posteriorEntropy',
  'argmax',
  'rankAbove',
  'rankEqual',
  'hitRank',
] as const;

export type StatsExtents = [rows: number, columns: number];

/** @throws ArgumentError unless they are extents that scoreStats() can have given */
export function statsExtents(stats: RowStats): StatsExtents {
  if (stats === null || typeof stats !== 'object') {
    throw new ArgumentError('stats', `got ${shown(stats)}, expected what scoreStats() gave`);
  }
  const { rows, columns } = stats;
  for (const [name, value] of Object.entries({ rows, columns })) checkCount(value, `stats.${name}`);
  return [rows, columns];
}

/** @throws ArgumentError unless `sums` are what `stats` were made of, by their shape */
export function sumsExtents(sums: HostView, stats: RowStats): StatsExtents {
  const extents = statsExtents(stats);
  const [rows, columns] = extents;
  if (sums.shape[0] !== rows || sums.shape[1] !== columns) {
    throw new ArgumentError('sums.shape', `got [${sums.shape.join(', ')}], but stats are of [${rows}, ${columns}]`);
  }
  return extents;
}

/** @throws ArgumentError naming the array that is not as scoreStats() gave it */
export function statsArguments(stats: RowStats, extents: StatsExtents, held: HeldBuffers): RowStatsArguments {
  const flat: (Float64Array | Int32Array | boolean)[] = [];
  for (const name of rowStatsArrays) {
    const array: unknown = stats[name];
    if (array instanceof DeviceTensor) {
      const problem = "a DeviceTensor, expected memory of the host: what scoreStats() gives without out: 'device'";
      throw new ArgumentError(`stats.${name}`, problem);
    }
    if (!types.isFloat64Array(array) && !types.isInt32Array(array)) {
      throw new ArgumentError(`stats.${name}`, `got ${shown(array)}, expected what scoreStats() gave`);
    }
    flat.push(array, held.protect(array, `stats.${name}`));
  }
  return [...extents, ...flat];
}
