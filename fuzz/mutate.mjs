// One input in, a changed one out: the mutations that libFuzzer has, and a repair of the lengths that a format begins
// or ends with, without which hardly a change would be looked at.

const NUMBERS = [
  0,
  1,
  2,
  3,
  7,
  8,
  16,
  127,
  128,
  255,
  256,
  32767,
  32768,
  65535,
  65536,
  2 ** 31 - 1,
  2 ** 31,
  2 ** 32 - 1,
];
const WIDE = [2n ** 32n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 63n - 1n, 2n ** 64n - 1n, 100_000_001n];
const MOST_BYTES = 8192;

/** xorshift32: the same seed, the same run. */
export class Random {
  constructor(seed) {
    this.state = seed >>> 0 || 1;
  }

  below(limit) {
    this.state ^= this.state << 13;
    this.state ^= this.state >>> 17;
    this.state ^= this.state << 5;
    return (this.state >>> 0) % limit;
  }

  of(list) {
    return list[this.below(list.length)];
  }
}

export function mutate(bytes, { name, words }, other, random) {
  let changed = Buffer.from(bytes);
  for (let times = 1 + random.below(4); times > 0; times--) changed = change(changed, words, other, random);
  if (random.below(3) > 0) changed = REPAIRS[name]?.(changed) ?? changed;
  return changed.subarray(0, MOST_BYTES);
}

function change(bytes, words, other, random) {
  const at = random.below(bytes.length + 1);
  const run = 1 + random.below(random.below(4) === 0 ? 64 : 8);
  const replace = (begin, end, middle) =>
    Buffer.concat([bytes.subarray(0, begin), middle, bytes.subarray(Math.min(end, bytes.length))]);
  switch (random.below(10)) {
    case 0:
      if (at < bytes.length) bytes[at] ^= 1 << random.below(8);
      return bytes;
    case 1:
      if (at < bytes.length) bytes[at] = random.below(256);
      return bytes;
    case 2: {
      const width = random.of([1, 2, 4]);
      if (at + width <= bytes.length) bytes.writeUIntLE(random.of(NUMBERS) % 2 ** (8 * width), at, width);
      return bytes;
    }
    case 3:
      if (at + 8 <= bytes.length) bytes.writeBigUInt64LE(random.of(WIDE), at);
      return bytes;
    case 4:
      return replace(at, at, Buffer.from(Array.from({ length: run }, () => random.below(256))));
    case 5:
      return replace(at, at + run, Buffer.alloc(0));
    case 6:
      return replace(at, at, bytes.subarray(at, at + run));
    case 7:
      return replace(at, random.below(2) === 0 ? at : at + run, Buffer.from(random.of(words), 'latin1'));
    case 8: {
      const from = random.below(other.length + 1);
      return replace(at, at + run, other.subarray(from, from + random.below(256)));
    }
    default: {
      // A number as it is written.
      const digits = [...bytes.toString('latin1').matchAll(/[0-9]+/g)];
      if (digits.length === 0) return bytes;
      const found = random.of(digits);
      const value = Number(found[0]) + random.below(5) - 2;
      const text = String(random.below(2) === 0 ? random.of(NUMBERS) : Math.max(0, value));
      return replace(found.index, found.index + found[0].length, Buffer.from(text));
    }
  }
}

const REPAIRS = {
  /** The header ends where its last brace does. */
  safetensors: (bytes) => {
    const end = bytes.lastIndexOf('}}');
    if (bytes.length >= 8 && end > 8) bytes.writeBigUInt64LE(BigInt(end + 2 - 8), 0);
    return bytes;
  },
  /** The header ends with its line. */
  npy: (bytes) => {
    const end = bytes.indexOf(0x0a, 10);
    if (end < 12 || end > 0xffff) return bytes;
    if (bytes[6] === 1) bytes.writeUInt16LE(end + 1 - 10, 8);
    else if (bytes.length >= 12) bytes.writeUInt32LE(end + 1 - 12, 8);
    return bytes;
  },
  /** The directory begins at its first record and ends at the end record; members begin at their headers. */
  npz: (bytes) => {
    const end = bytes.lastIndexOf('PK\x05\x06');
    const first = bytes.indexOf('PK\x01\x02');
    if (first < 0 || end < first || end + 22 > bytes.length) return bytes;
    let at = first;
    let count = 0;
    let local = -1;
    for (; at >= 0 && at < end && at + 46 <= bytes.length; at = bytes.indexOf('PK\x01\x02', at + 4)) {
      local = bytes.indexOf('PK\x03\x04', local + 1);
      if (local >= 0) bytes.writeUInt32LE(local, at + 42);
      count++;
    }
    bytes.writeUInt16LE(count, end + 10);
    bytes.writeUInt32LE(end - first, end + 12);
    bytes.writeUInt32LE(first, end + 16);
    bytes.writeUInt16LE(0, end + 20);
    return bytes.subarray(0, end + 22);
  },
};
