// Copies and checks the description of a caller's Tensor, and makes the arguments of native jobs, with its memory
// protected while they run. Strides are checked natively, when the memory is looked at; no loop here visits elements.

import { types } from 'node:util';
import { checkAwaited } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { shown } from '../../checks/words.js';
import type { DeviceMemory } from '../device/device-memory.js';
import { elementBytes, type HeldBuffers, lengthOfArray } from '../memory.js';
import type { MatrixArguments, TokenArguments } from '../native.js';
import { type DeviceOwner, DeviceTensor } from './device-tensor.js';
import { halfBits, isFloat16Array } from './float16-array.js';
import { integerArray, optionalIntegers } from './integers.js';
import type { DType, Integers, Tensor, TensorData } from './tensor.js';

/** A tensor read once: what its object says later does not matter. */
export interface TensorView {
  /** On the host the array; on a GPU the native name of the memory. */
  readonly data: TensorData | DeviceMemory;
  readonly dtype: DType;
  /** Number of the dtype in native/engine/dtype.h. */
  readonly code: number;
  readonly shape: readonly number[];
  /** In elements; as many as `shape` has. */
  readonly strides: readonly number[];
}

export interface HostView extends TensorView {
  readonly data: TensorData;
}

const dtypes: Record<DType, { code: number; array: string; matches: (value: unknown) => boolean }> = {
  float64: { code: 0, array: 'Float64Array', matches: types.isFloat64Array },
  float32: { code: 1, array: 'Float32Array', matches: types.isFloat32Array },
  float16: { code: 2, array: 'Uint16Array', matches: types.isUint16Array },
  bfloat16: { code: 3, array: 'Uint16Array', matches: (value) => types.isUint16Array(value) && !isFloat16Array(value) },
};

/** The dtype's number in native/engine/dtype.h. */
export function dtypeCode(dtype: DType): number {
  return dtypes[dtype].code;
}

/** @throws ArgumentError unless `dtype` is one of the four */
export function checkDType(dtype: unknown, argument: string): asserts dtype is DType {
  if (typeof dtype !== 'string' || !Object.hasOwn(dtypes, dtype)) {
    throw new ArgumentError(argument, `got ${shown(dtype)}, expected 'float64', 'float32', 'float16' or 'bfloat16'`);
  }
}

/**
 * A copy of the shape and its number of elements.
 * @throws ArgumentError unless every extent is a safe integer >= 0, and their product a safe integer
 */
export function checkShape(shape: unknown, argument: string): { shape: number[]; elements: number } {
  if (!Array.isArray(shape)) throw new ArgumentError(argument, `got ${shown(shape)}, expected an array of integers`);
  const copy = [...(shape as unknown[])];
  let elements = 1;
  for (const [axis, extent] of copy.entries()) {
    if (!Number.isSafeInteger(extent) || (extent as number) < 0) {
      throw new ArgumentError(argument, `axis ${axis} is ${shown(extent)}, expected an integer of 0 or more`);
    }
    elements *= extent as number;
  }
  if (copy.includes(0)) elements = 0;
  if (!Number.isSafeInteger(elements)) {
    throw new ArgumentError(argument, `[${copy.join(', ')}] has more elements than can be counted (2^53 - 1)`);
  }
  return { shape: copy as number[], elements };
}

export function rowMajor(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length);
  let stride = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = stride;
    stride *= Math.max(1, shape[axis] as number);
  }
  return strides;
}

/**
 * A copy of the strides, row-major if none are given.
 * @throws ArgumentError unless there is one safe integer an axis
 */
export function checkStrides(strides: unknown, shape: readonly number[], argument: string): number[] {
  if (strides === undefined) return rowMajor(shape);
  if (!Array.isArray(strides) || strides.length !== shape.length) {
    throw new ArgumentError(
      argument,
      `got ${shown(strides)}, expected an array of ${shape.length} integers, one an axis`,
    );
  }
  const copy = [...(strides as unknown[])];
  for (const [axis, stride] of copy.entries()) {
    if (!Number.isSafeInteger(stride)) {
      throw new ArgumentError(argument, `axis ${axis} is ${shown(stride)}, expected an integer`);
    }
  }
  return copy as number[];
}

/**
 * How many elements there are from the first to the last that a view reaches.
 * @throws ArgumentError if a stride is negative, or there are more elements than a safe integer counts
 */
export function reachOf(shape: readonly number[], strides: readonly number[], argument: string): number {
  if (shape.includes(0)) return 0;
  let last = 0;
  for (const [axis, extent] of shape.entries()) {
    const stride = strides[axis] as number;
    if (extent > 1 && stride < 0) throw new ArgumentError(argument, `axis ${axis} is ${stride}, expected 0 or more`);
    last += (extent - 1) * stride;
  }
  if (!Number.isSafeInteger(last + 1)) {
    throw new ArgumentError(argument, 'it reaches more elements than can be counted (2^53 - 1)');
  }
  return last + 1;
}

/** The memory of a device tensor, which this engine must have made. */
function memoryOn(
  data: DeviceTensor,
  dtype: DType,
  argument: string,
  device: DeviceOwner | undefined | 'host',
  operation: string,
): DeviceMemory {
  if (device === 'host') {
    throw new ArgumentError(
      `${argument}.data`,
      'a DeviceTensor, expected memory of the host: pass what its download() gives',
    );
  }
  if (device === undefined || !data.isOf(device)) {
    const here = device === undefined ? 'which has no GPU' : `on ${device.name}`;
    throw new ArgumentError(
      `${argument}.data`,
      `a DeviceTensor of another engine, on ${data.device}; expected one of this engine, ${here}`,
    );
  }
  const memory = data.memoryFor(operation, device);
  if (data.dtype !== dtype) {
    throw new ArgumentError(`${argument}.dtype`, `got ${dtype}, but the DeviceTensor is of ${data.dtype}`);
  }
  return memory;
}

/** @throws ArgumentError for what has not the form of a tensor: bare numbers do not say their dtype and shape */
export function checkTensor(value: unknown, argument: string): void {
  checkAwaited(value, argument);
  if (value !== null && typeof value === 'object' && !Array.isArray(value) && !ArrayBuffer.isView(value)) return;
  throw new ArgumentError(argument, `got ${shown(value)}, expected a tensor { data, dtype, shape, strides? }`);
}

/**
 * @param ranks how many axes it may have (undefined: any number), and what they mean, such as `[R, P]`
 * @param device of the engine that the operation runs on; 'host': it has the CPU only
 * @throws ArgumentError naming the part of the tensor that is wrong; DisposedError for a disposed DeviceTensor
 */
export function viewTensor(
  tensor: Tensor,
  argument: string,
  ranks: readonly number[] | undefined,
  meaning: string,
  device: DeviceOwner | undefined | 'host',
  operation: string,
): TensorView {
  checkTensor(tensor, argument);
  const { data: given, dtype, shape: givenShape, strides: givenStrides } = tensor;
  const data = dtype === 'float16' && isFloat16Array(given) ? halfBits(given) : (given as TensorData | DeviceTensor);
  if ((dtype as string) === 'int32') {
    const problem =
      'got int32, which results on the GPU have but no operation takes: download() gives them as an Int32Array';
    throw new ArgumentError(`${argument}.dtype`, problem);
  }
  checkDType(dtype, `${argument}.dtype`);
  const kind = dtypes[dtype];
  const onDevice = data instanceof DeviceTensor;
  if (!onDevice && !kind.matches(data)) {
    throw new ArgumentError(`${argument}.data`, `got ${shown(data)}, expected a ${kind.array} for dtype ${dtype}`);
  }
  const memory = onDevice ? memoryOn(data, dtype, argument, device, operation) : data;
  const { shape, elements } = checkShape(givenShape, `${argument}.shape`);
  if (ranks !== undefined && !ranks.includes(shape.length)) {
    throw new ArgumentError(`${argument}.shape`, `got [${shape.join(', ')}], expected ${meaning}`);
  }
  if (givenStrides === undefined) {
    const available = onDevice ? Math.floor(data.byteLength / elementBytes[dtype]) : lengthOfArray(data);
    if (elements > available) {
      throw new ArgumentError(
        `${argument}.shape`,
        `[${shape.join(', ')}] has ${elements} elements, but data has ${available}`,
      );
    }
  }
  const strides = checkStrides(givenStrides, shape, `${argument}.strides`);
  return { data: memory, dtype, code: kind.code, shape, strides };
}

/**
 * The same for an operation that only the CPU has.
 * @throws ArgumentError for a DeviceTensor, too
 */
export function viewHostTensor(
  tensor: Tensor,
  argument: string,
  meaning: string,
  ranks: readonly number[] | undefined = undefined,
): HostView {
  return viewTensor(tensor, argument, ranks, meaning, 'host', '') as HostView;
}

/** Whether the elements are row-major without gaps. */
export function isDense(view: Pick<TensorView, 'shape' | 'strides'>): boolean {
  const dense = rowMajor(view.shape);
  // The stride of an axis with one entry is never taken.
  return (
    view.shape.includes(0) || dense.every((stride, axis) => view.shape[axis] === 1 || view.strides[axis] === stride)
  );
}

/**
 * A dense float64 matrix.
 * @param device as for viewTensor()
 * @throws ArgumentError for another one, too
 */
export function viewDenseFloat64(
  tensor: Tensor,
  argument: string,
  device: DeviceOwner | undefined | 'host' = 'host',
  operation = '',
): TensorView {
  const view = viewTensor(tensor, argument, [2], '[rows, columns]', device, operation);
  if (view.dtype !== 'float64') throw new ArgumentError(`${argument}.dtype`, `got ${view.dtype}, expected float64`);
  if (!isDense(view)) throw new ArgumentError(`${argument}.strides`, 'expected a dense row-major tensor');
  return view;
}

/** Whether the memory may be read in place: that of the GPU may always. */
function protect(held: HeldBuffers, { data }: TensorView, argument: string): boolean {
  return typeof data === 'number' || held.protect(data, argument);
}

/** Arguments for a matrix [rows, columns]. */
export function matrixArguments(view: TensorView, argument: string, held: HeldBuffers): MatrixArguments {
  const [rows, columns] = view.shape as [number, number];
  const [rowStride, columnStride] = view.strides as [number, number];
  return [view.data, view.code, protect(held, view, argument), rows, columns, rowStride, columnStride];
}

/**
 * Arguments for token log-probs, padded [P, R, T] or packed [P, N].
 * @returns what protects the memory when the job starts; all else is checked now
 * @throws ArgumentError unless lengths and offsets are arrays of integers; their entries are checked natively
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
