// Result of an operation with `out: 'device'`.
import type { DeviceTensor } from '../tensor/device-tensor.js';
import type { HostIntegers } from '../tensor/tensor.js';

/** What an operation left on the GPU: its tensors are the caller's to dispose, one by one or all at once. */
export interface ResultOnDevice {
  /** Disposes all of its tensors; resolves when their memory is free. */
  dispose(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** The same result on the GPU: float64 for a Float64Array, int32 for an Int32Array. */
export type OnDevice<Value> = Value extends Float64Array
  ? DeviceTensor
  : Value extends Int32Array
    ? DeviceTensor<HostIntegers>
    : Value;
