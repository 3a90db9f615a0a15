// Input and output of the engine: strided views over typed arrays, or over memory of a GPU.
import type { Float16ArrayLike } from './float16-array.js';

/** Types of elements that operations read; in which array each lies: TensorData. */
export type DType = 'float64' | 'float32' | 'float16' | 'bfloat16';

/**
 * Memory of a tensor's elements. float16 and bfloat16 travel as their bit patterns in a Uint16Array (Node 20 has no
 * Float16Array).
 */
export type TensorData = Float64Array | Float32Array | Uint16Array;

/** Elements in memory of a GPU: a DeviceTensor. */
export interface DeviceData {
  readonly device: `cuda:${number}`;
  readonly dtype: DType;
  readonly byteLength: number;
  readonly disposed: boolean;
}

/**
 * A view of `shape` over `data`: element (i, j, …) is `data[i·strides[0] + j·strides[1] + …]`.
 * Strides count elements and default to row-major. `data` may be a subarray at any offset. A DeviceTensor is a Tensor
 * over itself; as the `data` of another view its elements are counted from its first one.
 */
export interface Tensor {
  /** The elements; for float16 also a Float16Array, where the runtime has them. */
  readonly data: TensorData | Float16ArrayLike | DeviceData;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly strides?: readonly number[];
}

/** A tensor whose elements JavaScript can read: what operations give unless they are asked to leave it on the GPU. */
export interface HostTensor extends Tensor {
  readonly data: TensorData;
}

/** Whole numbers that an operation left on the GPU, downloaded. No operation takes them as a tensor. */
export interface HostIntegers {
  readonly data: Int32Array;
  readonly dtype: 'int32';
  readonly shape: readonly number[];
  readonly strides?: readonly number[];
}

/** Whole numbers, one a row, column or sequence: ids of any sign; counts and indices from 0 on. */
export type Integers = Int32Array | BigInt64Array | readonly number[];
