// A caller's description of scores in a file -> what the native job reads there, checked.

import { checkCount } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { shown } from '../../checks/shown.js';
import type { FileScores } from '../operations/operations.js';
import type { DType } from '../tensor/tensor.js';
import { checkDType, checkShape } from '../tensor/tensor-view.js';

/** Scores [P, R, T] in a file. */
export interface CheckedFileScores {
  readonly fd: number;
  /** In bytes. */
  readonly offset: number;
  readonly dtype: DType;
  readonly prompts: number;
  readonly rows: number;
  readonly tokens: number;
}

/** @throws ArgumentError naming the part of the description that is wrong */
export function checkFileScores(scores: FileScores): CheckedFileScores {
  if (scores === null || typeof scores !== 'object') {
    throw new ArgumentError('scores', `got ${shown(scores)}, expected { fd, offset, dtype, shape }`);
  }
  const { fd, offset, dtype } = scores;
  checkCount(fd, 'scores.fd');
  checkCount(offset, 'scores.offset');
  checkDType(dtype, 'scores.dtype');
  const { shape, elements } = checkShape(scores.shape, 'scores.shape');
  const [prompts, rows, tokens] = shape;
  if (prompts === undefined || rows === undefined || tokens === undefined || shape.length !== 3) {
    throw new ArgumentError('scores.shape', `got [${shape.join(', ')}], expected [P, R, T]`);
  }
  if (!Number.isSafeInteger(offset + 8 * elements)) {
    throw new ArgumentError('scores.shape', `[${shape.join(', ')}] has more bytes than a file can hold`);
  }
  return { fd, offset, dtype, prompts, rows, tokens };
}
