// The options of scoreStats, and of the operations that take the same ones -> the arguments of their native jobs.
import { ArgumentError } from '../../checks/errors.js';
import { shown } from '../../checks/words.js';
import type { LabelArguments } from '../native.js';
import { integerArray, optionalIntegers } from '../tensor/integers.js';
import type { RowLabels } from './row-stats.js';

// As in native/engine/score_stats.h.
const maxTopK = 8;

/** @throws ArgumentError unless it is one that native code takes */
export function topKOf({ topK = 0 }: { topK?: number | undefined }): number {
  if (!Number.isInteger(topK) || topK < 0 || topK > maxTopK) {
    throw new ArgumentError('options.topK', `got ${shown(topK)}, expected an integer from 0 to ${maxTopK}`);
  }
  return topK;
}

/**
 * Whether `options.out` asks for results that stay on the GPU.
 * @throws ArgumentError for anything else
 */
export function staysOnDevice(options: object): boolean {
  const { out } = options as { out?: unknown };
  if (out === undefined || out === 'device') return out === 'device';
  throw new ArgumentError('options.out', `got ${shown(out)}, expected 'device' or nothing`);
}

/** @throws ArgumentError for what is no array of integers; the entries are checked natively */
export function labelArguments(labels: RowLabels, argument: string): LabelArguments {
  return [
    integerArray(labels.own, `${argument}.own`),
    integerArray(labels.lengths, `${argument}.lengths`),
    optionalIntegers(labels.signatures, `${argument}.signatures`),
  ];
}
