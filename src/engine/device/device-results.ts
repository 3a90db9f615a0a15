// Results that an operation leaves on the GPU: native code names the memory of each by its number.

import { noteEngineMemory } from '../memory.js';
import { DeviceTensor } from '../tensor/device-tensor.js';
import type { HostIntegers } from '../tensor/tensor.js';
import type { DeviceMemory } from './device-memory.js';

type ResultDType = 'float64' | 'int32';
export type ResultTensor = DeviceTensor | DeviceTensor<HostIntegers>;
type MakeTensor = (memory: DeviceMemory, dtype: ResultDType, shape: readonly number[]) => ResultTensor;

interface Extents {
  rows: number;
  columns: number;
  topK?: number;
}

/** What a native job gives, field by field: numbers of memory under the names of `dtypes`. */
type NativeResult = Record<string, unknown>;

const dtypes: Readonly<Record<string, ResultDType>> = {
  logsumexp: 'float64',
  entropy: 'float64',
  targetLogprob: 'float64',
  matchedSeq: 'float64',
  matchedToken: 'float64',
  marginalSeq: 'float64',
  marginalToken: 'float64',
  looMarginalSeq: 'float64',
  looMarginalToken: 'float64',
  posteriorEntropy: 'float64',
  sums: 'float64',
  argmax: 'int32',
  rankAbove: 'int32',
  rankEqual: 'int32',
  hitRank: 'int32',
  topColumns: 'int32',
};

function shapeOf(name: string, { rows, columns, topK = 0 }: Extents): readonly number[] {
  if (name === 'sums') return [rows, columns];
  return name === 'topColumns' ? [rows, topK] : [rows];
}

/** The fields of one result, which are disposed together. */
class KeptResult {
  async dispose(): Promise<void> {
    const kept = Object.values(this).filter((value) => value instanceof DeviceTensor || value instanceof KeptResult);
    await Promise.all(kept.map((value: ResultTensor | KeptResult) => value.dispose()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}

/** A job's result with a tensor in place of each number of memory; fields that are undefined are left out. */
export function tensorsOf(native: object, make: MakeTensor): object {
  const fields = native as NativeResult;
  const extents = (fields.stats ?? fields) as Extents;
  const result: NativeResult = {};
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    const dtype = dtypes[name];
    if (dtype !== undefined) result[name] = make(value as DeviceMemory, dtype, shapeOf(name, extents));
    else if (name === 'stats') result[name] = tensorsOf(value as object, make);
    else result[name] = ArrayBuffer.isView(value) ? noteEngineMemory(value) : value;
  }
  return Object.assign(new KeptResult(), result);
}

/** All memory of a job's result, for one that nobody takes. */
export function memoryIn(native: object): DeviceMemory[] {
  return Object.entries(native).flatMap(([name, value]) => {
    if (name === 'stats') return memoryIn(value);
    return name in dtypes && value !== undefined ? [value] : [];
  });
}
