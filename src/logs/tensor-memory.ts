// Memory for a tensor of a file, and its values there as typed arrays.
import { types } from 'node:util';
import { shown } from '../engine/shown.js';
import type { DType, HostTensor, TensorData } from '../engine/tensor.js';
import { ArgumentError, FileError } from '../errors.js';
import type { ReadStepOptions } from './read-step-options.js';
import { elementBytes, type SafetensorsDType, type TensorEntry } from './safetensors.js';
import type { IntegerArray } from './step-data.js';

/** What to do about a step that memory cannot hold. */
export const FEWER_ROWS = 'write steps of fewer rows, or read them where there is more memory';

/** A tensor whose bytes have been read. */
export interface ReadTensor {
  readonly entry: TensorEntry;
  readonly memory: ArrayBufferLike;
}

/** @throws FileError if there is no memory for so many bytes */
export function allocated(
  path: string,
  bytes: number,
  tensor: string,
  allocate: ReadStepOptions['allocate'] = (size) => new SharedArrayBuffer(size),
): ArrayBufferLike {
  try {
    return checkAllocated(allocate(bytes), bytes);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const problem = `no memory for ${bytes} bytes: ${error.message}; ${FEWER_ROWS}`;
    throw new FileError({ path, tensor }, problem, { cause: error });
  }
}

/** @throws {ArgumentError} for what cannot hold them: an allocator may be the caller's */
function checkAllocated(memory: unknown, bytes: number): ArrayBufferLike {
  if (types.isAnyArrayBuffer(memory) && memory.byteLength >= bytes) return memory;
  const got = types.isAnyArrayBuffer(memory) ? `${memory.byteLength} bytes` : shown(memory);
  throw new ArgumentError('options.allocate', `gave ${got}, expected an ArrayBuffer of at least ${bytes} bytes`);
}

const FLOAT_DTYPES: Readonly<Partial<Record<SafetensorsDType, DType>>> = {
  F64: 'float64',
  F32: 'float32',
  F16: 'float16',
  BF16: 'bfloat16',
};

export function floatDType(entry: TensorEntry): DType {
  const dtype = FLOAT_DTYPES[entry.dtype];
  // Not to be had: checkLayout lets no other dtype through.
  if (dtype === undefined)
    throw new TypeError(`${entry.name}: ${entry.dtype} is no floating-point dtype of the engine`);
  return dtype;
}

export function floatView(dtype: DType, memory: ArrayBufferLike, elements: number): TensorData {
  if (dtype === 'float64') return new Float64Array(memory, 0, elements);
  if (dtype === 'float32') return new Float32Array(memory, 0, elements);
  return new Uint16Array(memory, 0, elements);
}

export function elementsOf(entry: TensorEntry): number {
  return (entry.end - entry.begin) / elementBytes(entry.dtype);
}

export function floats(tensor: ReadTensor | undefined): HostTensor | undefined {
  if (tensor === undefined) return undefined;
  const dtype = floatDType(tensor.entry);
  return { data: floatView(dtype, tensor.memory, elementsOf(tensor.entry)), dtype, shape: tensor.entry.shape };
}

export function integers(tensor: ReadTensor | undefined): IntegerArray | undefined {
  if (tensor === undefined) return undefined;
  const elements = elementsOf(tensor.entry);
  if (tensor.entry.dtype === 'I64') return new BigInt64Array(tensor.memory, 0, elements);
  return new Int32Array(tensor.memory, 0, elements);
}

export function widened(tensor: ReadTensor | undefined): Float64Array | undefined {
  if (tensor === undefined) return undefined;
  const elements = elementsOf(tensor.entry);
  if (tensor.entry.dtype === 'F64') return new Float64Array(tensor.memory, 0, elements);
  return new Float64Array(new Float32Array(tensor.memory, 0, elements));
}

export function flags(tensor: ReadTensor | undefined): Uint8Array | undefined {
  return tensor === undefined ? undefined : new Uint8Array(tensor.memory, 0, elementsOf(tensor.entry));
}
