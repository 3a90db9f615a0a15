// Shapes and strides by themselves, at the sizes and signs where counting them goes wrong.
import { describe, expect, it } from 'vitest';
import {
  checkDType,
  checkShape,
  checkStrides,
  isDense,
  reachOf,
  rowMajor,
  viewDenseFloat64,
  viewHostTensor,
} from '../../src/engine/tensor/tensor-view.js';
import { ArgumentError, openEngine, type Tensor } from '../../src/index.js';

it('a shape has as many elements as can be counted, and none beside an axis without entries', () => {
  expect(checkShape([], 's')).toEqual({ shape: [], elements: 1 });
  expect(checkShape([3, 4], 's')).toEqual({ shape: [3, 4], elements: 12 });
  expect(checkShape([Number.MAX_SAFE_INTEGER], 's').elements).toBe(Number.MAX_SAFE_INTEGER);
  expect(() => checkShape([2 ** 30, 2 ** 30], 's')).toThrow('more elements than can be counted');
  // Their product is no number on the way.
  for (const shape of [
    [...Array<number>(40).fill(2 ** 40), 0],
    [0, ...Array<number>(40).fill(2 ** 40)],
  ])
    expect(checkShape(shape, 's').elements).toBe(0);
  for (const extent of [-1, 0.5, 2 ** 53, '1', undefined, Number.NaN])
    expect(() => checkShape([2, extent], 's')).toThrow(/axis 1 is/);
  expect(() => checkShape({ 0: 1, length: 1 }, 's')).toThrow(ArgumentError);
});

it('a shape is copied: what becomes of the caller’s does not matter', () => {
  const given = [2, 3];
  const strides = [3, 1];
  const { shape } = checkShape(given, 's');
  const copy = checkStrides(strides, given, 's');
  given[0] = 9;
  strides[0] = 9;
  expect([shape, copy]).toEqual([
    [2, 3],
    [3, 1],
  ]);
});

it('row-major strides pass over axes without entries', () => {
  expect(rowMajor([2, 3, 4])).toEqual([12, 4, 1]);
  expect(rowMajor([2, 0, 4])).toEqual([4, 4, 1]);
  expect(rowMajor([])).toEqual([]);
});

it('strides are one safe integer an axis, of any sign', () => {
  expect(checkStrides(undefined, [2, 3], 's')).toEqual([3, 1]);
  expect(checkStrides([-3, 0], [2, 3], 's')).toEqual([-3, 0]);
  for (const wrong of [[1], [1, 2, 3], 5, null]) expect(() => checkStrides(wrong, [2, 3], 's')).toThrow('2 integers');
  for (const wrong of [0.5, 2 ** 53, '1']) expect(() => checkStrides([1, wrong], [2, 3], 's')).toThrow('axis 1 is');
});

it('a view reaches from its first element to its last', () => {
  expect(reachOf([2, 3], [3, 1], 's')).toBe(6);
  expect(reachOf([2, 3], [1, 2], 's')).toBe(6);
  expect(reachOf([2, 3], [0, 0], 's')).toBe(1);
  expect(reachOf([5, 0], [-1, 1], 's')).toBe(0);
  // The stride of an axis with one entry is never taken.
  expect(reachOf([1, 3], [-7, 1], 's')).toBe(3);
  expect(() => reachOf([2, 3], [-3, 1], 's')).toThrow('axis 0 is -3');
  expect(() => reachOf([2 ** 30, 2], [2 ** 30, 1], 's')).toThrow('more elements than can be counted');
});

it('is dense where row-major strides are taken', () => {
  expect(isDense({ shape: [2, 3], strides: [3, 1] })).toBe(true);
  expect(isDense({ shape: [2, 3], strides: [4, 1] })).toBe(false);
  expect(isDense({ shape: [2, 3], strides: [1, 2] })).toBe(false);
  expect(isDense({ shape: [1, 3], strides: [77, 1] })).toBe(true);
  expect(isDense({ shape: [2, 0], strides: [77, 5] })).toBe(true);
});

it('a tensor must have the array of its dtype, and as many elements as its shape', () => {
  const tensor = (change: object) =>
    viewHostTensor(
      { data: new Float32Array(6), dtype: 'float32', shape: [2, 3], ...change } as Tensor,
      't',
      '[R, P]',
      [2],
    );
  expect(tensor({})).toMatchObject({ code: 1, shape: [2, 3], strides: [3, 1] });
  for (const [change, argument] of [
    [{ shape: [7, 1] }, 't.shape'],
    [{ shape: [6] }, 't.shape'],
    [{ data: new Float64Array(6) }, 't.data'],
    [{ data: [1, 2, 3, 4, 5, 6] }, 't.data'],
    [{ dtype: 'int32', data: new Int32Array(6) }, 't.dtype'],
    [{ dtype: 'toString' }, 't.dtype'],
    [{ strides: [3] }, 't.strides'],
  ] as const)
    expect(() => tensor(change)).toThrow(expect.objectContaining({ argument }));
  expect(() => tensor({ dtype: 'int32' })).toThrow('download() gives them as an Int32Array');
  for (const none of [null, 5, [1], new Float32Array(1), Promise.resolve()])
    expect(() => viewHostTensor(none as never, 't', '[R, P]')).toThrow(expect.objectContaining({ argument: 't' }));
  for (const dtype of [1, 'hasOwnProperty', 'float']) expect(() => checkDType(dtype, 'd')).toThrow(ArgumentError);
});

it('where a dense float64 matrix is asked for, another one is named', () => {
  const dense = (change: object) =>
    viewDenseFloat64({ data: new Float64Array(6), dtype: 'float64', shape: [2, 3], ...change } as Tensor, 't');
  expect(dense({}).strides).toEqual([3, 1]);
  expect(() => dense({ data: new Float32Array(6), dtype: 'float32' })).toThrow('expected float64');
  expect(() => dense({ strides: [1, 2] })).toThrow('dense row-major');
  expect(() => dense({ shape: [6] })).toThrow('[rows, columns]');
});

describe('a Float16Array', () => {
  // Node 20 has none: an array of bits that goes by its name.
  const half = class Float16Array extends Uint16Array {};
  const bits = [0x3c00, 0xc000, 0x3800, 0x0000];

  it('is float16 data, read in its own memory', async () => {
    const data = half.from([0, ...bits]).subarray(1) as unknown as Uint16Array;
    const view = viewHostTensor({ data, dtype: 'float16', shape: [2, 2] }, 't', 'anything');
    expect(view.data).toEqual(Uint16Array.from(bits));
    expect(view.data.buffer).toBe(data.buffer);
    await using engine = await openEngine({ device: 'cpu' });
    const sumOf = async (given: Tensor['data']) =>
      (await engine.sumTokens({ data: given, dtype: 'float16', shape: [1, 2, 2] }, [2, 1])).sums.data;
    expect(await sumOf(data)).toEqual(Float64Array.of(-1, 0.5));
    expect(await sumOf(data)).toEqual(await sumOf(Uint16Array.from(bits)));
  });

  it('is no bfloat16', () => {
    const tensor = { data: half.from(bits), dtype: 'bfloat16', shape: [4] } as Tensor;
    expect(() => viewHostTensor(tensor, 't', 'anything')).toThrow(
      /^t.data: got .*expected a Uint16Array for dtype bfloat16/,
    );
  });

  it.runIf('Float16Array' in globalThis)('of the runtime is taken alike', () => {
    const { Float16Array: Real } = globalThis as unknown as {
      Float16Array: { from(values: number[]): Tensor['data'] };
    };
    const view = viewHostTensor({ data: Real.from([1, -2, 0.5, 0]), dtype: 'float16', shape: [4] }, 't', 'anything');
    expect(view.data).toEqual(Uint16Array.from(bits));
  });
});
