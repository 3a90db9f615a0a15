// A caller's Tensor -> a checked copy of its description. Whether the strides stay inside the memory is checked
// natively, at the moment the memory is looked at; the elements are never looped over here.
import { types } from 'node:util';
import { ArgumentError } from '../errors.js';
import { lengthOfArray } from './memory.js';
import type { DType, Tensor, TensorData } from './tensor.js';

/** A tensor read once: what its object says later does not matter. */
export interface TensorView {
  readonly data: TensorData;
  readonly dtype: DType;
  /** Number of the dtype in native/engine/dtype.h. */
  readonly code: number;
  readonly shape: readonly number[];
  /** In elements; as many as `shape` has. */
  readonly strides: readonly number[];
}

const dtypes: Record<DType, { code: number; array: string; matches: (value: unknown) => boolean }> = {
  float64: { code: 0, array: 'Float64Array', matches: types.isFloat64Array },
  float32: { code: 1, array: 'Float32Array', matches: types.isFloat32Array },
  float16: { code: 2, array: 'Uint16Array', matches: types.isUint16Array },
  bfloat16: { code: 3, array: 'Uint16Array', matches: types.isUint16Array },
};

/** A value as it should stand in an error message: short, and never throwing. */
export function shown(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);
  if (typeof value === 'bigint') return `${value}n`;
  if (value === null || typeof value !== 'object') return typeof value === 'function' ? 'a function' : String(value);
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (ArrayBuffer.isView(value)) return `a ${Object.prototype.toString.call(value).slice(8, -1)}`;
  return `a value of type ${Object.prototype.toString.call(value).slice(8, -1)}`;
}

/** @throws ArgumentError if `dtype` is none of the four */
export function checkDType(dtype: unknown, argument: string): asserts dtype is DType {
  if (typeof dtype !== 'string' || !Object.hasOwn(dtypes, dtype)) {
    throw new ArgumentError(argument, `got ${shown(dtype)}, expected 'float64', 'float32', 'float16' or 'bfloat16'`);
  }
}

/** Number of the dtype in native/engine/dtype.h. */
export function dtypeCode(dtype: DType): number {
  return dtypes[dtype].code;
}

/**
 * A copy of the shape and its number of elements.
 * @throws ArgumentError if an extent is no safe integer >= 0, or the product no safe integer
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

function rowMajor(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length);
  let stride = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = stride;
    stride *= Math.max(1, shape[axis] as number);
  }
  return strides;
}

/**
 * @param ranks how many axes it may have, and what they mean, such as `[R, P]`
 * @throws ArgumentError naming the part of the tensor that is wrong
 */
export function viewTensor(tensor: Tensor, argument: string, ranks: readonly number[], meaning: string): TensorView {
  if (tensor === null || typeof tensor !== 'object') {
    throw new ArgumentError(argument, `got ${shown(tensor)}, expected a tensor { data, dtype, shape, strides? }`);
  }
  const { data, dtype, shape: givenShape, strides: givenStrides } = tensor;
  checkDType(dtype, `${argument}.dtype`);
  const kind = dtypes[dtype];
  if (!kind.matches(data)) {
    throw new ArgumentError(`${argument}.data`, `got ${shown(data)}, expected a ${kind.array} for dtype ${dtype}`);
  }
  const { shape, elements } = checkShape(givenShape, `${argument}.shape`);
  if (!ranks.includes(shape.length)) {
    throw new ArgumentError(`${argument}.shape`, `got [${shape.join(', ')}], expected ${meaning}`);
  }
  let strides: number[];
  if (givenStrides === undefined) {
    strides = rowMajor(shape);
    const available = lengthOfArray(data);
    if (elements > available) {
      throw new ArgumentError(
        `${argument}.shape`,
        `[${shape.join(', ')}] has ${elements} elements, but data has ${available}`,
      );
    }
  } else {
    if (!Array.isArray(givenStrides) || givenStrides.length !== shape.length) {
      throw new ArgumentError(
        `${argument}.strides`,
        `got ${shown(givenStrides)}, expected an array of ${shape.length} integers, one an axis`,
      );
    }
    strides = [...givenStrides];
    for (const [axis, stride] of strides.entries()) {
      if (!Number.isSafeInteger(stride)) {
        throw new ArgumentError(`${argument}.strides`, `axis ${axis} is ${shown(stride)}, expected an integer`);
      }
    }
  }
  return { data, dtype, code: kind.code, shape, strides };
}

/** Whether the elements stand row-major without gaps. */
export function isDense(view: TensorView): boolean {
  const dense = rowMajor(view.shape);
  // The stride of an axis with one entry is never taken.
  return (
    view.shape.includes(0) || dense.every((stride, axis) => view.shape[axis] === 1 || view.strides[axis] === stride)
  );
}
