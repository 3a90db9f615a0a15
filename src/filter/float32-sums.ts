// Sums, means and standard deviations of float32 numbers with the very roundings of the reference (torch on a CPU):
// which groups a threshold keeps can hang on the last bit.

/** torch adds eight lanes at a time on every instruction set … */
const LANES = 8;
/** … of four interleaved rows … */
const ROWS = 4;
/** … in a cascade of four levels. */
const LEVELS = 4;
const STRIDE = ROWS * LANES;

/** From here on torch splits a sum by threads, so that its last bits are those of the machine. */
export const FLOAT32_SPLIT = 32768;

/**
 * Sum of values[begin, end), in float32: to torch's bit up to 32,768 values; more are added in float64 and rounded
 * once.
 */
export function float32Sum(values: Float32Array, begin: number, end: number): number {
  const count = end - begin;
  if (count > FLOAT32_SPLIT) {
    let sum = 0;
    for (let at = begin; at < end; at++) sum += values[at] as number;
    return Math.fround(sum);
  }
  if (count < LANES) return shortSum(values, begin, count);
  const vectors = Math.floor(count / LANES);
  if (vectors === 1) return oneVectorSum(values, begin, end);
  const lanes = laneSums(values, begin, vectors);
  let sum = 0;
  for (let at = begin + vectors * LANES; at < end; at++) sum = Math.fround(sum + (values[at] as number));
  for (let lane = 0; lane < LANES; lane++) sum = Math.fround(sum + (lanes[lane] as number));
  return sum;
}

/** Mean of values[begin, end), in float32. */
export function float32Mean(values: Float32Array, begin: number, end: number): number {
  return Math.fround(float32Sum(values, begin, end) / (end - begin));
}

/**
 * Standard deviation (ddof 1) of values[begin, end): moments in float64, the result in float32.
 * @param alone the only row of its tensor: torch then takes the mean in float32 first, which is why sixteen equal
 *   rewards of 0.8 have a std of 6e-8 there
 */
export function float32Std(values: Float32Array, begin: number, end: number, alone: boolean): number {
  let squares = 0;
  if (alone) {
    const mean = float32Mean(values, begin, end);
    for (let at = begin; at < end; at++) squares += ((values[at] as number) - mean) ** 2;
  } else {
    let mean = 0;
    for (let at = begin; at < end; at++) {
      const delta = (values[at] as number) - mean;
      mean += delta / (at - begin + 1);
      squares += delta * ((values[at] as number) - mean);
    }
  }
  return Math.fround(Math.sqrt(squares / (end - begin - 1)));
}

/** Fewer values than lanes: four interleaved sums, the rest onto the first. */
function shortSum(values: Float32Array, begin: number, count: number): number {
  const at = (index: number): number => values[begin + index] as number;
  if (count < ROWS) {
    let sum = 0;
    for (let index = 0; index < count; index++) sum = Math.fround(sum + at(index));
    return sum;
  }
  let sum = at(0);
  for (let index = ROWS; index < count; index++) sum = Math.fround(sum + at(index));
  for (let index = 1; index < ROWS; index++) sum = Math.fround(sum + at(index));
  return sum;
}

/** Up to fifteen values, the usual group: what is behind the lanes first. */
function oneVectorSum(values: Float32Array, begin: number, end: number): number {
  let sum = 0;
  for (let at = begin + LANES; at < end; at++) sum = Math.fround(sum + (values[at] as number));
  for (let at = begin; at < begin + LANES; at++) sum = Math.fround(sum + (values[at] as number));
  return sum;
}

const lanesOfCall = new Float32Array(LANES);

/** Lane sums of `vectors` consecutive vectors; the result is overwritten by the next call. */
function laneSums(values: Float32Array, begin: number, vectors: number): Float32Array {
  const lanes = lanesOfCall.fill(0);
  if (vectors < ROWS) {
    addVectors(lanes, values, begin, vectors);
    return lanes;
  }
  const steps = Math.floor(vectors / ROWS);
  const power = Math.max(4, Math.floor(ceilLog2(steps) / LEVELS));
  const size = 2 ** power;
  const levels = new Float32Array(LEVELS * STRIDE);
  let step = 0;
  while (step + size <= steps) {
    for (let end = step + size; step < end; step++) addStep(levels, values, begin + step * STRIDE);
    for (let level = 1; level < LEVELS; level++) {
      for (let at = 0; at < STRIDE; at++) {
        const lower = (level - 1) * STRIDE + at;
        levels[level * STRIDE + at] = (levels[level * STRIDE + at] as number) + (levels[lower] as number);
        levels[lower] = 0;
      }
      if ((step & ((size - 1) << (level * power))) !== 0) break;
    }
  }
  for (; step < steps; step++) addStep(levels, values, begin + step * STRIDE);
  for (let level = 1; level < LEVELS; level++) {
    for (let at = 0; at < STRIDE; at++) {
      levels[at] = (levels[at] as number) + (levels[level * STRIDE + at] as number);
    }
  }
  lanes.set(levels.subarray(0, LANES));
  addVectors(lanes, values, begin + steps * STRIDE, vectors - steps * ROWS);
  for (let row = 1; row < ROWS; row++) {
    for (let lane = 0; lane < LANES; lane++) {
      lanes[lane] = (lanes[lane] as number) + (levels[row * LANES + lane] as number);
    }
  }
  return lanes;
}

/** A Float32Array rounds on every store: each addition is a float32 addition. */
function addVectors(lanes: Float32Array, values: Float32Array, begin: number, vectors: number): void {
  for (let at = 0; at < vectors * LANES; at++) {
    const lane = at % LANES;
    lanes[lane] = (lanes[lane] as number) + (values[begin + at] as number);
  }
}

function addStep(levels: Float32Array, values: Float32Array, begin: number): void {
  for (let at = 0; at < STRIDE; at++) levels[at] = (levels[at] as number) + (values[begin + at] as number);
}

function ceilLog2(value: number): number {
  return value <= 1 ? 0 : 32 - Math.clz32(value - 1);
}
