// Sums finite doubles exactly. Rounds only at the end, so that neither the order of adding nor the way partial sums are
// merged shows in the result.

/** Sums are whole multiples of this power of two, the smallest double's. */
const LEAST_EXPONENT = -1074;
/** Beyond this the additions below could overflow; such sums are kept as integers. */
const FLOAT_LIMIT = 2 ** 1000;

const bits = new DataView(new ArrayBuffer(8));

/** `value` in units of 2^−1074. */
function toUnits(value: number): bigint {
  bits.setFloat64(0, value);
  const high = bits.getUint32(0);
  const exponent = (high >>> 20) & 0x7ff;
  const mantissa = (BigInt((high & 0xfffff) | (exponent > 0 ? 0x100000 : 0)) << 32n) | BigInt(bits.getUint32(4));
  const units = mantissa << BigInt(Math.max(0, exponent - 1));
  return high >>> 31 === 0 ? units : -units;
}

function bitLength(value: bigint): number {
  const text = value.toString(16);
  return (text.length - 1) * 4 + (32 - Math.clz32(Number.parseInt(text[0] as string, 16)));
}

/** The double nearest to `numerator` · 2^−1074 / `denominator`, ties to even. */
function nearestDouble(numerator: bigint, denominator: bigint): number {
  if (numerator === 0n) return 0;
  if (numerator < 0n) return -nearestDouble(-numerator, denominator);
  // At least 55 bits of quotient, but none below a quarter of the smallest double: the last says whether there is a
  // rest.
  const shift = Math.min(2, 56 - (bitLength(numerator) - bitLength(denominator)));
  const scaled = shift >= 0 ? numerator << BigInt(shift) : numerator;
  const divisor = shift >= 0 ? denominator : denominator << BigInt(-shift);
  let quotient = scaled / divisor;
  if (quotient * divisor !== scaled) quotient |= 1n;
  const dropped = Math.max(bitLength(quotient) - 53, shift, 0);
  let kept = quotient >> BigInt(dropped);
  const rest = quotient - (kept << BigInt(dropped));
  const half = dropped > 0 ? 1n << BigInt(dropped - 1) : 1n;
  if (rest > half || (rest === half && (kept & 1n) === 1n)) kept += 1n;
  return Number(kept) * 2 ** (dropped - shift + LEAST_EXPONENT);
}

/** An exact sum of finite doubles. */
export class ExactSum {
  /**
   * Doubles that do not overlap, the smallest first, whose exact sum is part of this one (Shewchuk 1997,
   * grow-expansion).
   */
  #parts: number[] = [];
  /** The rest of it, in units of 2^−1074. */
  #units = 0n;

  /** @param value finite */
  add(value: number): void {
    if (Math.abs(value) >= FLOAT_LIMIT) {
      this.#units += toUnits(value);
      return;
    }
    const parts = this.#parts;
    let sum = value;
    let kept = 0;
    for (let at = 0; at < parts.length; at++) {
      const part = parts[at] as number;
      // Knuth's two-sum: what rounding took from the sum, exactly, whichever of the two is larger.
      const total = sum + part;
      const ofPart = total - sum;
      const error = sum - (total - ofPart) + (part - ofPart);
      if (error !== 0) parts[kept++] = error;
      sum = total;
    }
    // As a rule there are as many parts as before, and setting a length takes as long as the rest.
    if (sum !== 0) parts[kept++] = sum;
    if (kept < parts.length) parts.length = kept;
    if (Math.abs(sum) >= FLOAT_LIMIT) this.#units = this.#total();
  }

  merge(other: ExactSum): void {
    this.#units = this.#total() + other.units;
  }

  /** The sum in units of 2^−1074. */
  get units(): bigint {
    return this.#parts.reduce((total, part) => total + toUnits(part), this.#units);
  }

  /** The double nearest to the sum divided by `count`. */
  mean(count: number): number {
    return nearestDouble(this.units, BigInt(count));
  }

  /** Takes everything into one integer. */
  #total(): bigint {
    const total = this.units;
    this.#parts = [];
    return total;
  }
}
