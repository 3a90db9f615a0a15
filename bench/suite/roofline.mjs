// The rooflines: what memory, files and arithmetic allow, with threads as the engine has them, timed natively
// (bench/native, compiled when it is asked for).
import { createRequire } from 'node:module';
import { elementBytes } from '../../dist/engine/memory.js';
import { nativeTarget } from '../../scripts/native-target.mjs';

/** Prefetch distances in bytes that are tried; the fastest is the roofline. 0 leaves it to the hardware. */
export const readPlans = [0, 4096];

/** Of multiply-adds on each thread: some two milliseconds. */
const arithmeticSteps = 350_000;

/** The path of the addon that bench/native/rooflines.cpp makes. */
export function rooflinesPath() {
  const path = nativeTarget('rooflines');
  if (path === undefined) throw new Error('bench: the rooflines need a C++20 compiler and CMake 3.19 or newer');
  return path;
}

/** A pool of threads that computes nothing. */
export class Reader {
  #rooflines;

  /** @param {number} threads */
  constructor(threads) {
    this.#rooflines = new (createRequire(import.meta.url)(rooflinesPath()).Rooflines)(threads);
  }

  /**
   * Reads the first `elements` elements of a tensor (bench/native/read_bytes.h).
   * @returns {number} seconds
   */
  read({ data, dtype }, elements, prefetchBytes) {
    return this.#rooflines.readBytes(data, elements * elementBytes[dtype], prefetchBytes).seconds;
  }

  /**
   * Touches each cache line of the valid tokens of a tensor, [P, R, T] or packed [P, N] (bench/native/touch_lines.h).
   * @returns {number} seconds
   */
  touch({ data, dtype, shape }, lengths) {
    const [prompts, , tokens] = shape;
    let packed = 0;
    const offsets = Float64Array.from(lengths, (length, row) => {
      packed += Number(length);
      return tokens === undefined ? packed - Number(length) : row * tokens;
    });
    const promptStride = shape.slice(1).reduce((product, size) => product * size, 1);
    const given = [data, elementBytes[dtype], prompts, promptStride, offsets, Float64Array.from(lengths, Number)];
    return this.#rooflines.touchLines(...given).seconds;
  }

  /**
   * Vector multiply-adds of the kernels' instruction set on all threads (bench/native/multiply_adds.h).
   * @returns {number} seconds a lane: of one float32 multiply-add
   */
  multiplyAdds() {
    const { seconds, count } = this.#rooflines.multiplyAdds(arithmeticSteps);
    return seconds / count;
  }
}
