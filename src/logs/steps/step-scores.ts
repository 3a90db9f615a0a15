// The scores of a step file, which stay on disk until they are asked for, and then come block by block in memory that
// does not grow with them.

import { checkSignal } from '../../checks/argument-checks.js';
import { FileError } from '../../checks/errors.js';
import type { FileScores } from '../../engine/operations/sum-file-tokens.js';
import type { HostTensor } from '../../engine/tensor/tensor.js';
import { FileReadError } from '../../engine/tokens/file-read-error.js';
import type { StepContainer } from '../formats/container.js';
import { storedBytes, type TensorEntry } from '../formats/safetensors.js';
import { cutShort, placeOf, type ReadOptions } from '../stores/byte-source.js';
import { systemProblem } from '../stores/system-problem.js';
import { readAhead } from './read-ahead.js';
import type { ReadStepOptions } from './read-step-options.js';
import type { LogprobBlock, StepScores } from './step-data.js';
import { allocated, elementsOf, floatDType, floatView } from './tensor-memory.js';

const DEFAULT_BLOCK_BYTES = 64 * 2 ** 20;

export function stepScores({ source, tensors, reopen }: StepContainer, options: ReadStepOptions): StepScores {
  const logprobs = tensors.get('cross_logprobs');
  if (logprobs !== undefined) {
    const [prompts = 0, rows = 0, tokens = 0] = logprobs.shape;
    const size = storedBytes(logprobs.dtype);
    return {
      kind: 'logprobs',
      dtype: floatDType(logprobs),
      shape: [prompts, rows, tokens],
      blocks: (signal = options.signal) => readBlocks(reopen, logprobs, { ...options, signal }),
      ...(source.openFile?.(logprobs.begin) && { inFile: (use) => useFile(reopen, logprobs, use) }),
      offsetOf: (prompt, row, token) =>
        placeOf(source, logprobs.begin + ((prompt * rows + row) * tokens + token) * size).offset,
    };
  }
  const sums = tensors.get('cross_logprob_sums') as TensorEntry;
  const [rows = 0, prompts = 0] = sums.shape;
  return {
    kind: 'sums',
    dtype: floatDType(sums),
    shape: [rows, prompts],
    read: (signal = options.signal) => readSums(reopen, sums, { ...options, signal }),
    offsetOf: (row, column) => placeOf(source, sums.begin + (row * prompts + column) * storedBytes(sums.dtype)).offset,
  };
}

async function useFile<T>(
  reopen: StepContainer['reopen'],
  entry: TensorEntry,
  use: (scores: FileScores) => Promise<T>,
): Promise<T> {
  const source = await reopen();
  try {
    const file = source.openFile?.(entry.begin);
    if (file === undefined) throw new TypeError(`${source.path}: opened again, this is no local file`);
    const [prompts = 0, rows = 0, tokens = 0] = entry.shape;
    const used = await use({ ...file, dtype: floatDType(entry), shape: [prompts, rows, tokens] });
    await source.checkUnchanged();
    return used;
  } catch (error) {
    if (!(error instanceof FileReadError)) throw error;
    const where = { path: source.path, tensor: entry.name, offset: error.offset };
    const problem =
      error.system === undefined ? cutShort(entry.end - error.offset) : systemProblem({ code: error.system });
    throw new FileError(where, problem, { cause: error });
  } finally {
    await source.close();
  }
}

/**
 * Whole prompts at a time into one buffer, or two where the bytes come from far; the file is open while the iterator
 * runs.
 */
async function* readBlocks(
  reopen: StepContainer['reopen'],
  entry: TensorEntry,
  options: ReadStepOptions,
): AsyncGenerator<LogprobBlock, void, undefined> {
  checkSignal(options.signal, 'signal');
  const [prompts = 0, rows = 0, tokens = 0] = entry.shape;
  const dtype = floatDType(entry);
  const promptBytes = rows * tokens * storedBytes(entry.dtype);
  const fitting = Math.floor((options.blockBytes ?? DEFAULT_BLOCK_BYTES) / Math.max(1, promptBytes));
  const most = Math.min(prompts, Math.max(1, fitting));
  const blocks = most === 0 ? 0 : Math.ceil(prompts / most);
  const source = await reopen();
  try {
    // The system reads local files ahead by itself.
    const isFar = source.openFile?.(entry.begin) === undefined;
    const buffers = Array.from({ length: isFar ? Math.min(2, blocks) : 1 }, () => {
      const memory = allocated(source.path, most * promptBytes, entry.name, options.allocate);
      const bytes = new Uint8Array(memory, 0, most * promptBytes);
      return { bytes, view: floatView(dtype, memory, most * rows * tokens) };
    });
    const read = async (block: number, signal: AbortSignal | undefined): Promise<LogprobBlock> => {
      const { bytes, view } = buffers[block % buffers.length] as (typeof buffers)[number];
      const firstPrompt = block * most;
      const count = Math.min(most, prompts - firstPrompt);
      const target = bytes.subarray(0, count * promptBytes);
      await source.read(target, entry.begin + firstPrompt * promptBytes, { tensor: entry.name, signal });
      await source.checkUnchanged();
      const data = view.subarray(0, count * rows * tokens);
      return { firstPrompt, logprobs: { data, dtype, shape: [count, rows, tokens] } };
    };
    if (isFar) yield* readAhead(blocks, read, options.signal);
    else for (let block = 0; block < blocks; block++) yield await read(block, options.signal);
  } finally {
    await source.close();
  }
}

async function readSums(
  reopen: StepContainer['reopen'],
  entry: TensorEntry,
  options: ReadStepOptions,
): Promise<HostTensor> {
  checkSignal(options.signal, 'signal');
  const source = await reopen();
  try {
    const bytes = entry.end - entry.begin;
    const memory = allocated(source.path, bytes, entry.name, options.allocate);
    const reading: ReadOptions = { tensor: entry.name, signal: options.signal };
    await source.read(new Uint8Array(memory, 0, bytes), entry.begin, reading);
    await source.checkUnchanged();
    const dtype = floatDType(entry);
    return { data: floatView(dtype, memory, elementsOf(entry)), dtype, shape: entry.shape };
  } finally {
    await source.close();
  }
}
