// Checked tensors -> the arguments by which native jobs take them, with their memory protected while the job runs.

import type { HeldBuffers } from '../memory.js';
import type { MatrixArguments, TokenArguments } from '../native.js';
import { integerArray, optionalIntegers } from './integers.js';
import type { Integers } from './tensor.js';
import type { TensorView } from './tensor-view.js';

/** Whether the memory may be read in place: that of the GPU may always. */
function protect(held: HeldBuffers, { data }: TensorView, argument: string): boolean {
  return typeof data === 'number' || held.protect(data, argument);
}

/** Of a matrix [rows, columns]. */
export function matrixArguments(view: TensorView, argument: string, held: HeldBuffers): MatrixArguments {
  const [rows, columns] = view.shape as [number, number];
  const [rowStride, columnStride] = view.strides as [number, number];
  return [view.data, view.code, protect(held, view, argument), rows, columns, rowStride, columnStride];
}

/**
 * Of token log-probs, padded [P, R, T] or packed [P, N].
 * @returns what protects the memory when the job starts; all else is checked now
 * @throws ArgumentError for what is no array of integers; the entries are checked natively
 */
export function tokenArguments(
  view: TensorView,
  lengths: Integers,
  offsets: Integers | undefined,
): (held: HeldBuffers) => TokenArguments {
  const packed = view.shape.length === 2;
  const [prompts, rows, tokens] = (packed ? [view.shape[0], 0, view.shape[1]] : view.shape) as [number, number, number];
  const [promptStride, rowStride, tokenStride] = (packed ? [view.strides[0], 0, view.strides[1]] : view.strides) as [
    number,
    number,
    number,
  ];
  const rowLengths = integerArray(lengths, 'lengths');
  const rowOffsets = optionalIntegers(offsets, 'options.offsets');
  return (held) => [
    view.data,
    view.code,
    protect(held, view, 'logprobs'),
    packed,
    prompts,
    rows,
    tokens,
    promptStride,
    rowStride,
    tokenStride,
    rowLengths,
    rowOffsets,
  ];
}
