// Memory for a tensor of a file, and its values there as typed arrays.
import { types } from 'node:util';
import { ArgumentError, FileError } from '../../checks/errors.js';
import { shown } from '../../checks/words.js';
import type { DType, HostTensor, TensorData } from '../../engine/tensor/tensor.js';
import { type SafetensorsDType, storedBytes, type TensorEntry } from '../formats/safetensors.js';
import type { ReadStepOptions } from './read-step-options.js';
import type { StoredIntegers } from './step-data.js';

/** What to do about a step that memory cannot hold. */
export const FEWER_ROWS = 'write steps of fewer rows, or read them where there is more memory';

/** A tensor whose bytes have been read. */
export interface ReadTensor {
  readonly entry: TensorEntry;
  readonly memory: ArrayBufferLike;
}

/** @throws FileError if memory does not suffice */
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
  return (entry.end - entry.begin) / storedBytes(entry.dtype);
}

export function floats(tensor: ReadTensor | undefined): HostTensor | undefined {
  if (tensor === undefined) return undefined;
  const dtype = floatDType(tensor.entry);
  return { data: floatView(dtype, tensor.memory, elementsOf(tensor.entry)), dtype, shape: tensor.entry.shape };
}

export function integers(tensor: ReadTensor | undefined): StoredIntegers | undefined {
  if (tensor === undefined) return undefined;
  const elements = elementsOf(tensor.entry);
  if (tensor.entry.dtype === 'I64') return new BigInt64Array(tensor.memory, 0, elements);
  return new Int32Array(tensor.memory, 0, elements);
}

/**
 * In float64, exactly. @param fail called with the index and value of an integer that float64 does not hold; must throw
 */
export function widened(
  tensor: ReadTensor | undefined,
  fail: (index: number, value: bigint) => never,
): Float64Array | undefined {
  if (tensor === undefined) return undefined;
  const { entry, memory } = tensor;
  const elements = elementsOf(entry);
  switch (entry.dtype) {
    case 'F64':
      return new Float64Array(memory, 0, elements);
    case 'F16':
      return Float64Array.from(new Uint16Array(memory, 0, elements), halfValue);
    case 'BF16':
      return new Float64Array(brainValues(new Uint16Array(memory, 0, elements)));
    case 'I64':
      return Float64Array.from(new BigInt64Array(memory, 0, elements), (value, index) => {
        const found = Number(value);
        return Number.isSafeInteger(found) ? found : fail(index, value);
      });
    case 'I32':
      return new Float64Array(new Int32Array(memory, 0, elements));
    case 'I16':
      return new Float64Array(new Int16Array(memory, 0, elements));
    case 'I8':
      return new Float64Array(new Int8Array(memory, 0, elements));
    case 'U8':
    case 'BOOL':
      return new Float64Array(new Uint8Array(memory, 0, elements));
    default:
      return new Float64Array(new Float32Array(memory, 0, elements));
  }
}

/** IEEE binary16. */
function halfValue(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (0x400 + fraction) * 2 ** (exponent - 25);
}

/** bfloat16 is the upper half of a float32. */
function brainValues(bits: Uint16Array): Float32Array {
  return new Float32Array(Uint32Array.from(bits, (half) => half << 16).buffer);
}

export function flags(tensor: ReadTensor | undefined): Uint8Array | undefined {
  return tensor === undefined ? undefined : new Uint8Array(tensor.memory, 0, elementsOf(tensor.entry));
}
