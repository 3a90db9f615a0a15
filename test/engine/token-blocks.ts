// Steps of any shape for the tests of blocks: storage of every dtype, special values, and random partitions into boxes.
import fc from 'fast-check';
import type { TokenBlock } from '../../src/exports/engine.js';
import type { DType, Tensor, TensorData } from '../../src/index.js';
import { uniformNumbers } from '../support/random-numbers.js';

export interface WholeStep {
  readonly dtype: DType;
  readonly prompts: number;
  readonly lengths: number[];
  /** Bits of element (p, r, t), row-major [P, R, T]. */
  readonly data: TensorData;
  readonly tokens: number;
}

const special: Record<DType, number[]> = {
  float64: [Number.NaN, Infinity, -Infinity, -0, -1e308, 1e308],
  float32: [Number.NaN, Infinity, -Infinity, -0, -3e38, 1e-40],
  float16: [0x7e00, 0x7c00, 0xfc00, 0x8000, 0xfbff, 0x0001],
  bfloat16: [0x7fc0, 0x7f80, 0xff80, 0x8000, 0xff7f, 0x0001],
};

export function storage(dtype: DType, count: number): TensorData {
  if (dtype === 'float64') return new Float64Array(count);
  return dtype === 'float32' ? new Float32Array(count) : new Uint16Array(count);
}

/** @param share of elements that are special */
export function wholeStep(dtype: DType, prompts: number, lengths: number[], seed: number, share: number): WholeStep {
  const next = uniformNumbers(seed);
  const tokens = Math.max(1, ...lengths);
  const data = storage(dtype, prompts * lengths.length * tokens);
  for (let at = 0; at < data.length; at++) {
    if (next() < share) data[at] = special[dtype][Math.floor(6 * next())] as number;
    else if (dtype === 'float64' || dtype === 'float32') data[at] = -12 * next() ** 3;
    else data[at] = (dtype === 'float16' ? 0xa000 : 0xbc00) + Math.floor(0x0800 * next());
  }
  return { dtype, prompts, lengths, data, tokens };
}

export function tensorOf({ data, dtype, prompts, lengths, tokens }: WholeStep): Tensor {
  return { data, dtype, shape: [prompts, lengths.length, tokens] };
}

/** One box of a partition: lists of prompts and rows, and a range of tokens. */
export interface BoxOfStep {
  readonly prompts: number[];
  readonly rows: number[];
  readonly from: number;
  readonly to: number;
}

/** How a box is handed over. */
export interface Layout {
  /** Axes from the innermost in memory to the outermost. */
  readonly order: readonly number[];
  readonly gap: number;
  /** Elements before the first. */
  readonly skip: number;
}

export const layouts: fc.Arbitrary<Layout> = fc.record({
  order: fc.constantFrom([2, 1, 0], [2, 1, 0], [2, 0, 1], [0, 1, 2], [1, 2, 0], [1, 0, 2], [0, 2, 1]),
  gap: fc.nat(2),
  skip: fc.nat(3),
});

/** The elements of a box as a block of their own; past a row's length and in gaps stands NaN. */
export function blockOf(step: WholeStep, box: BoxOfStep, { order, gap, skip }: Layout): TokenBlock {
  const { dtype, lengths, tokens } = step;
  const shape = [box.prompts.length, box.rows.length, box.to - box.from];
  const strides = [0, 0, 0];
  let stride = 1;
  for (const axis of order) {
    strides[axis] = stride;
    stride *= (shape[axis] as number) + gap;
  }
  const data = storage(dtype, stride + skip).fill(special[dtype][0] as number);
  box.prompts.forEach((prompt, p) => {
    box.rows.forEach((row, r) => {
      const base = (prompt * lengths.length + row) * tokens;
      const end = Math.min(box.to, lengths[row] as number);
      for (let t = box.from; t < end; t++) {
        const at = p * (strides[0] as number) + r * (strides[1] as number) + (t - box.from) * (strides[2] as number);
        data[skip + at] = step.data[base + t] as number;
      }
    });
  });
  return {
    prompts: box.prompts,
    rows: box.rows,
    tokens: { from: box.from, to: box.to },
    logprobs: { data: data.subarray(skip), dtype, shape, strides },
  };
}

/** A step cut again and again along some axis; the prompts and rows of a box are in any order. */
export function partition(
  step: WholeStep,
  cuts: number,
  pick: () => number,
  places: readonly number[] = [],
): BoxOfStep[] {
  const shuffled = (count: number): number[] => {
    const all = [...Array(count).keys()];
    if (pick() % 3 > 0) return all;
    for (let at = all.length - 1; at > 0; at--) {
      const other = pick() % (at + 1);
      [all[at], all[other]] = [all[other] as number, all[at] as number];
    }
    return all;
  };
  const boxes = [{ prompts: shuffled(step.prompts), rows: shuffled(step.lengths.length), from: 0, to: step.tokens }];
  for (let cut = 0; cut < cuts; cut++) {
    const [box] = boxes.splice(pick() % boxes.length, 1) as [BoxOfStep];
    const { prompts, rows, from, to } = box;
    const axis = pick() % 3;
    if (axis === 0 && prompts.length > 1) {
      const at = 1 + (pick() % (prompts.length - 1));
      boxes.push({ ...box, prompts: prompts.slice(0, at) }, { ...box, prompts: prompts.slice(at) });
    } else if (axis === 1 && rows.length > 1) {
      const at = 1 + (pick() % (rows.length - 1));
      boxes.push({ ...box, rows: rows.slice(0, at) }, { ...box, rows: rows.slice(at) });
    } else if (to - from > 1) {
      const inside = places.filter((place) => place > from && place < to);
      const at =
        inside.length > 0 && pick() % 2 === 0
          ? (inside[pick() % inside.length] as number)
          : from + 1 + (pick() % (to - from - 1));
      boxes.push({ ...box, to: at }, { ...box, from: at });
    } else boxes.push(box);
  }
  for (let at = boxes.length - 1; at > 0; at--) {
    const other = pick() % (at + 1);
    [boxes[at], boxes[other]] = [boxes[other] as BoxOfStep, boxes[at] as BoxOfStep];
  }
  return boxes;
}
