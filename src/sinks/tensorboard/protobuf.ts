// Fields of protocol buffers, written: as much of the wire format as TensorBoard's events take.

type Bytes = Uint8Array;

const VARINT = 0;
const EIGHT_BYTES = 1;
const LENGTH = 2;
const FOUR_BYTES = 5;

/** A non-negative integer below 2^53, seven bits a byte. */
function varintBytes(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  while (rest >= 128) {
    bytes.push((rest % 128) | 128);
    rest = Math.floor(rest / 128);
  }
  bytes.push(rest);
  return bytes;
}

const tag = (field: number, wire: number): number[] => varintBytes(field * 8 + wire);

/** int32, int64, uint64, bool, enum: not negative. */
export function integer(field: number, value: number): Bytes {
  return Uint8Array.from([...tag(field, VARINT), ...varintBytes(value)]);
}

export function double(field: number, value: number): Bytes {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(value);
  return Buffer.concat([Uint8Array.from(tag(field, EIGHT_BYTES)), bytes]);
}

export function float(field: number, value: number): Bytes {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return Buffer.concat([Uint8Array.from(tag(field, FOUR_BYTES)), bytes]);
}

/** A string, or bytes. */
export function text(field: number, value: string | Bytes): Bytes {
  const bytes = typeof value === 'string' ? Buffer.from(value) : value;
  return Buffer.concat([Uint8Array.from([...tag(field, LENGTH), ...varintBytes(bytes.length)]), bytes]);
}

export function message(field: number, fields: readonly Bytes[]): Bytes {
  return text(field, Buffer.concat(fields));
}

/** `repeated double`, packed. */
export function doubles(field: number, values: readonly number[]): Bytes {
  const bytes = Buffer.alloc(8 * values.length);
  values.forEach((value, at) => {
    bytes.writeDoubleLE(value, 8 * at);
  });
  return text(field, bytes);
}
