// Makes the input of a case: seeded data in engine memory, with the labels that its operation needs.
import { bell, uniformNumbers } from '../random.mjs';

/**
 * @typedef {object} Input
 * @property {import('../../dist/index.js').Tensor} tensor
 * @property {Int32Array} lengths        tokens of each row (sumTokens, scoreStats, step)
 * @property {Int32Array} own            own column of each row (scoreStats, step)
 * @property {Int32Array} targets        target column of each row (logitStats)
 * @property {import('../../dist/index.js').Tensor} [out]  where sumTokens writes to
 * @property {number} elements           elements that the operation must look at
 * @property {number} bytes              and their bytes: padding is neither
 */

// Longer than any row that is measured, and no multiple of one: rows differ, and none repeats itself.
const patternLength = 1_000_003;

const asBits = new Float32Array(1);
const bitsOf = new Uint32Array(asBits.buffer);

/** The bits of the nearest bfloat16; ties to even. */
function bfloat16Bits(value) {
  asBits[0] = value;
  const bits = bitsOf[0];
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

/** The bits of a float16 near the value, cut and not rounded; |value| below 65504 and, but for 0, above 6e-5. */
function float16Bits(value) {
  asBits[0] = value;
  const bits = bitsOf[0];
  const exponent = ((bits >>> 23) & 0xff) - 127 + 15;
  return ((bits >>> 16) & 0x8000) | (exponent <= 0 ? 0 : (exponent << 10) | ((bits >>> 13) & 0x3ff));
}

const encoders = { bfloat16: bfloat16Bits, float16: float16Bits };
const quietNaN = { bfloat16: 0x7fc0, float16: 0x7e00, float32: Number.NaN, float64: Number.NaN };

/**
 * Fills an array with a pattern of values again and again.
 * @returns {Float64Array} the pattern
 */
function fill(data, dtype, value) {
  const encode = encoders[dtype] ?? ((number) => number);
  const pattern = Float64Array.from({ length: Math.min(patternLength, data.length) }, value);
  for (let at = 0; at < pattern.length; at++) data[at] = encode(pattern[at]);
  for (let done = pattern.length; done < data.length; done *= 2) {
    data.copyWithin(done, 0, Math.min(done, data.length - done));
  }
  return pattern;
}

/**
 * A column of each row, as likely as its softmax says: what a policy samples.
 * @param {Float64Array} pattern  the logits, which repeat themselves from row to row
 */
export function sampledColumns(pattern, rows, columns, uniform) {
  const sums = new Float64Array(pattern.length + 1);
  for (let at = 0; at < pattern.length; at++) sums[at + 1] = sums[at] + Math.exp(pattern[at]);
  return Int32Array.from({ length: rows }, (_, row) => {
    const first = (row * columns) % pattern.length;
    const before = (column) => {
      const turns = Math.floor((first + column) / pattern.length);
      return turns * sums[pattern.length] + sums[first + column - turns * pattern.length] - sums[first];
    };
    const drawn = uniform() * before(columns);
    let [low, high] = [0, columns - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (before(middle + 1) > drawn) high = middle;
      else low = middle + 1;
    }
    return low;
  });
}

/**
 * @param {import('./cases.mjs').Case} given
 * @param {import('../../dist/index.js').Engine} engine
 * @returns {Input}
 */
export function makeInput({ operation, dtype, shape, packed, reuse, anyTargets }, engine) {
  const uniform = uniformNumbers(20_26);
  const none = new Int32Array(0);
  const integers = (count, below) => Int32Array.from({ length: count }, () => Math.floor(uniform() * below));
  const bytesOf = (tensor, elements) => elements * tensor.data.BYTES_PER_ELEMENT;
  if (operation === 'logitStats') {
    const tensor = engine.alloc(dtype, shape);
    const logits = fill(tensor.data, dtype, () => 3 * bell(uniform));
    const elements = tensor.data.length;
    const [rows, columns] = shape;
    const targets = anyTargets ? integers(rows, columns) : sampledColumns(logits, rows, columns, uniform);
    return { tensor, lengths: none, own: none, targets, elements, bytes: bytesOf(tensor, elements) };
  }
  if (operation === 'scoreStats') {
    const tensor = engine.alloc(dtype, shape);
    fill(tensor.data, dtype, () => -80 + 8 * bell(uniform));
    const elements = tensor.data.length;
    const lengths = integers(shape[0], 200).map((length) => length + 1);
    const own = integers(shape[0], shape[1]);
    return { tensor, lengths, own, targets: none, elements, bytes: bytesOf(tensor, elements) };
  }
  const [prompts, rows, tokens] = shape;
  const lengths = integers(rows, tokens).map((length) => length + 1); // half of the tokens, on average
  const valid = lengths.reduce((sum, length) => sum + length, 0);
  const tensor = engine.alloc(dtype, packed ? [prompts, valid] : shape);
  fill(tensor.data, dtype, () => Math.log(1e-4 + (1 - 1e-4) * uniform()));
  if (!packed) {
    // A reader of padding shows itself.
    for (let p = 0; p < prompts; p++) {
      for (let r = 0; r < rows; r++) {
        const row = (p * rows + r) * tokens;
        tensor.data.fill(quietNaN[dtype], row + lengths[r], row + tokens);
      }
    }
  }
  const own = Int32Array.from({ length: rows }, (_, r) => r % prompts);
  const elements = prompts * valid;
  const out = reuse ? { out: engine.alloc('float64', [rows, prompts]) } : {};
  return { tensor, lengths, own, targets: none, ...out, elements, bytes: bytesOf(tensor, elements) };
}
