// Computes exp and ln with only IEEE operations: the same bits on every JavaScript engine. Math.exp and Math.log round
// as each likes, and what a verdict rests on, and a saved run with it, would depend on who computed it.
import { wholePower } from '../../metrics/figures/whole-power.js';

/** ln 2 in two parts, the first with so few bits that its products with exponents are exact. */
const LN2_HIGH = 0.6931471803691238;
const LN2_LOW = 1.9082149292705877e-10;

/** e^x, relative error below 3e-16. */
export function fixedExp(x: number): number {
  if (!(x > -746)) return Number.isNaN(x) ? x : 0;
  if (x > 710) return Number.POSITIVE_INFINITY;
  const exponent = Math.round(x / Math.LN2);
  const rest = x - exponent * LN2_HIGH - exponent * LN2_LOW;
  // Taylor's series: |rest| ≤ ln 2 / 2, whose 15th power / 15! is below half a unit in the last place.
  let sum = 1;
  for (let n = 14; n >= 1; n--) sum = 1 + (sum * rest) / n;
  // In two steps: 2^exponent by itself may be out of range.
  const half = Math.trunc(exponent / 2);
  return sum * powerOfTwo(half) * powerOfTwo(exponent - half);
}

function powerOfTwo(exponent: number): number {
  return exponent >= 0 ? wholePower(2, exponent) : wholePower(0.5, -exponent);
}

const bits = new DataView(new ArrayBuffer(8));

/** ln x, relative error below 1e-15 away from 1, absolute below 1e-16 near it. */
export function fixedLog(x: number): number {
  if (!(x > 0)) return x === 0 ? Number.NEGATIVE_INFINITY : Number.NaN;
  if (x === Number.POSITIVE_INFINITY) return x;
  // Subnormal numbers are made normal first.
  const lift = x < 2.2250738585072014e-308 ? 54 : 0;
  bits.setFloat64(0, x * powerOfTwo(lift));
  const high = bits.getUint32(0);
  let exponent = (high >>> 20) - 1023;
  bits.setUint32(0, (high & 0xfffff) | (1023 << 20));
  let mantissa = bits.getFloat64(0);
  if (mantissa > Math.SQRT2) {
    mantissa /= 2;
    exponent++;
  }
  // ln m = 2 artanh((m − 1) / (m + 1)): its argument is at most 0.172, whose 23rd power no longer counts.
  const ratio = (mantissa - 1) / (mantissa + 1);
  const square = ratio * ratio;
  let sum = 0;
  for (let n = 23; n >= 1; n -= 2) sum = sum * square + 1 / n;
  exponent -= lift;
  return exponent * LN2_HIGH + (exponent * LN2_LOW + 2 * ratio * sum);
}

/** √(a² + b²) without overflow on the way: Math.hypot, too, is each engine's own. */
export function fixedHypot(a: number, b: number): number {
  const size = Math.max(Math.abs(a), Math.abs(b));
  if (!(size > 0 && size < Number.POSITIVE_INFINITY)) return size;
  const [x, y] = [a / size, b / size];
  return size * Math.sqrt(x * x + y * y);
}
