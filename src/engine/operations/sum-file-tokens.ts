// engine.sumFileTokens: options, checks, native call, result.

import { getSystemErrorName } from 'node:util';
import { checkCount } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import type { OperationOptions } from '../../checks/operation-options.js';
import { is, OPERATION, type OptionTable } from '../../checks/options.js';
import { shown } from '../../checks/words.js';
import type { EngineCore } from '../engine-core.js';
import { noteEngineMemory } from '../memory.js';
import type { NativeResults } from '../native.js';
import { integerArray } from '../tensor/integers.js';
import type { DType, HostTensor, Integers } from '../tensor/tensor.js';
import { checkDType, checkShape, dtypeCode, viewDenseFloat64 } from '../tensor/tensor-view.js';
import { FileReadError } from '../tokens/file-read-error.js';
import type { TokenSums } from './sum-tokens.js';

/**
 * Token log-probs [P, R, T] in an open local file, row-major without gaps, little-endian: element (p, r, t) is at
 * byte `offset + ((p·R + r)·T + t)·size`. Any offset will do. The caller keeps the file open until the operation is
 * over.
 */
export interface FileScores {
  readonly fd: number;
  readonly offset: number;
  readonly dtype: DType;
  readonly shape: readonly [prompts: number, rows: number, tokens: number];
}

/** Options of `engine.sumFileTokens`. */
export interface SumFileTokensOptions extends OperationOptions {
  /** A dense float64 [R, P] tensor to write into instead of a new one (allocate it with `engine.alloc`). */
  out?: HostTensor | undefined;
}

const FILE_OPTIONS: OptionTable<SumFileTokensOptions> = { out: is.any, ...OPERATION };

/** Scores [P, R, T] in a file. */
interface CheckedFileScores {
  readonly fd: number;
  /** In bytes. */
  readonly offset: number;
  readonly dtype: DType;
  readonly prompts: number;
  readonly rows: number;
  readonly tokens: number;
}

/** @throws ArgumentError naming the part of the description that is wrong */
function checkFileScores(scores: FileScores): CheckedFileScores {
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

/** Engine.sumFileTokens() */
export async function sumFileTokens(
  engine: EngineCore,
  scores: FileScores,
  lengths: Integers,
  options: SumFileTokensOptions = {},
): Promise<Pick<TokenSums, 'sums' | 'firstInvalid'>> {
  engine.begin('sumFileTokens', options, FILE_OPTIONS);
  const { fd, offset, dtype, prompts, rows, tokens } = checkFileScores(scores);
  const rowLengths = integerArray(lengths, 'lengths');
  const out = options.out;
  const outView = out === undefined ? undefined : viewDenseFloat64(out, 'options.out');
  return engine.jobs.run<NativeResults['sumFileTokens'], Pick<TokenSums, 'sums' | 'firstInvalid'>>(
    'sumFileTokens',
    options,
    (settle) =>
      engine.native.sumFileTokens(
        settle,
        fd,
        offset,
        dtypeCode(dtype),
        prompts,
        rows,
        tokens,
        rowLengths,
        outView?.shape[0] ?? 0,
        outView?.shape[1] ?? 0,
        outView?.data as Float64Array | undefined,
      ),
    ({ sums, firstInvalid, failure }) => {
      if (failure !== null) {
        const { error, offset } = failure;
        throw new FileReadError(fd, offset, error === 0 ? undefined : getSystemErrorName(-error));
      }
      if (out !== undefined) return { sums: out, firstInvalid };
      const data = noteEngineMemory(sums as Float64Array);
      return { sums: { data, dtype: 'float64', shape: [rows, prompts] }, firstInvalid };
    },
  );
}
