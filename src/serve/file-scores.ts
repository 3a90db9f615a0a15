// Scores that a client has put into a safetensors file (best in /dev/shm): the engine's threads read and sum them from
// there.
import { ArgumentError, FileError } from '../checks/errors.js';
import type { Engine } from '../engine/engine.js';
import type { HostTensor } from '../engine/tensor/tensor.js';
import { FileReadError } from '../engine/tokens/file-read-error.js';
import { headerLength, LENGTH_BYTES, parseHeader, type TensorEntry } from '../logs/formats/safetensors.js';
import { type ByteSource, cutShort, openSource } from '../logs/stores/byte-source.js';
import { systemProblem } from '../logs/stores/system-problem.js';

/** Where scores lie. */
export interface ScoreFile {
  /** A local path. */
  readonly path: string;
  /** Default: the only tensor of the file. */
  readonly tensor?: string | undefined;
}

const DTYPES = { F64: 'float64', F32: 'float32', F16: 'float16', BF16: 'bfloat16' } as const;

/**
 * Sums the log-probs of a file over tokens.
 * @param lengths tokens of each row of the tensor
 * @param prompts whether the tensor has an axis of prompts: [P, r, T], or else [r, T] of one prompt
 * @returns sums float64 [r, P], or [r, 1]
 * @throws {FileError} for a file that is none, or too short; {ArgumentError} for a tensor that does not fit
 */
export async function sumsOfFile(
  engine: Engine,
  file: ScoreFile,
  lengths: readonly number[],
  prompts: boolean,
  signal: AbortSignal,
): Promise<HostTensor> {
  const source = await openSource(file.path);
  try {
    const entry = await findTensor(source, file.tensor, signal);
    const dtype = DTYPES[entry.dtype as keyof typeof DTYPES];
    const axes = prompts ? '[P, R, T]' : '[rows, T]';
    const shape = `${entry.dtype} [${entry.shape.join(', ')}]`;
    if (dtype === undefined || entry.shape.length !== (prompts ? 3 : 2)) {
      throw new ArgumentError('file.tensor', `"${entry.name}" is ${shape}, expected F64, F32, F16 or BF16 ${axes}`);
    }
    const [columns, rows, tokens] = (prompts ? entry.shape : [1, ...entry.shape]) as [number, number, number];
    if (rows !== lengths.length) {
      throw new ArgumentError('file.tensor', `"${entry.name}" is ${shape}, expected ${axes} of ${lengths.length} rows`);
    }
    const place = source.openFile?.(entry.begin);
    if (place === undefined) throw new TypeError(`${file.path} is no local file`);
    const { sums } = await engine.sumFileTokens({ ...place, dtype, shape: [columns, rows, tokens] }, lengths, {
      signal,
    });
    await source.checkUnchanged();
    return sums;
  } catch (error) {
    if (!(error instanceof FileReadError)) throw error;
    const problem =
      error.system === undefined ? cutShort(source.bytes - error.offset) : systemProblem({ code: error.system });
    throw new FileError({ path: file.path, offset: error.offset }, problem, { cause: error });
  } finally {
    await source.close();
  }
}

async function findTensor(source: ByteSource, name: string | undefined, signal: AbortSignal): Promise<TensorEntry> {
  const first = Buffer.alloc(Math.min(LENGTH_BYTES, source.bytes));
  await source.read(first, 0, { signal });
  const json = Buffer.alloc(headerLength(source.path, first, source.bytes));
  await source.read(json, LENGTH_BYTES, { signal });
  const { tensors } = parseHeader(source.path, json, source.bytes);
  const names = [...tensors.keys()];
  const [only] = names;
  const found = name === undefined && names.length === 1 ? tensors.get(only as string) : tensors.get(name ?? '');
  if (found !== undefined) return found;
  const problem = name === undefined ? 'missing' : `there is no "${name}"`;
  throw new ArgumentError('file.tensor', `${problem}: the file has ${names.slice(0, 8).join(', ') || 'no tensors'}`);
}
