// Recognises Float16Array (Node 24 on) by its name, as older runtimes do not know the type.

/** Two bytes an element, of IEEE binary16; read as numbers. */
export interface Float16ArrayLike {
  readonly buffer: ArrayBufferLike;
  readonly byteOffset: number;
  readonly byteLength: number;
  readonly length: number;
  readonly BYTES_PER_ELEMENT: number;
  readonly [index: number]: number;
}

/** The bits of its elements, in the same memory: what operations read. */
export function halfBits({ buffer, byteOffset, length }: Float16ArrayLike): Uint16Array {
  return new Uint16Array(buffer, byteOffset, length);
}

export function isFloat16Array(value: unknown): value is Float16ArrayLike {
  if (!ArrayBuffer.isView(value)) return false;
  const { BYTES_PER_ELEMENT } = value as unknown as Float16ArrayLike;
  return BYTES_PER_ELEMENT === 2 && value.constructor?.name === 'Float16Array';
}

const single = new Float32Array(1);
const singleBits = new Uint32Array(single.buffer);

/** 2^(10 − exponent) by exponent + 14: a power by itself takes as long as all else. */
const SCALES = Float64Array.from({ length: 30 }, (_, at) => 2 ** (24 - at));

/** The nearest element's bits, ties to even; finite values beyond its range become its largest. */
export function float16Bits(value: number): number {
  if (Number.isNaN(value)) return 0x7e00;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  if (magnitude >= 65504) return sign | (magnitude === Number.POSITIVE_INFINITY ? 0x7c00 : 0x7bff);
  single[0] = magnitude;
  // Below 2^-14 one unit is 2^-24. What float32 rounds up to a power of two is rounded up to it here, too.
  const exponent = Math.max(-14, ((singleBits[0] as number) >>> 23) - 127);
  const exact = magnitude * (SCALES[exponent + 14] as number);
  const below = Math.floor(exact);
  const rest = exact - below;
  const units = below + Number(rest > 0.5 || (rest === 0.5 && below % 2 === 1));
  return sign | (((exponent + 14) << 10) + units);
}

/** Value of the bits of an IEEE half. */
export function float16Value(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}
