// Numbers <-> their bytes, all first bytes, then all second ones: neighbours of a series share their high bytes, and
// gzip finds that. Little-endian on every machine.

export type ColumnType = 'float64' | 'float32' | 'uint32' | 'uint16' | 'uint8';
export type Column = Float64Array | Float32Array | Uint32Array | Uint16Array | Uint8Array;

const ARRAYS = {
  float64: Float64Array,
  float32: Float32Array,
  uint32: Uint32Array,
  uint16: Uint16Array,
  uint8: Uint8Array,
} as const;

export const bytesOf = (type: ColumnType): number => ARRAYS[type].BYTES_PER_ELEMENT;

export function typeOf(column: Column): ColumnType {
  for (const [type, of] of Object.entries(ARRAYS)) if (column instanceof of) return type as ColumnType;
  throw new TypeError('no column of a report');
}

const isBigEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 0;

/** @returns `length * bytesOf(type)` bytes */
export function toPlanes(column: Column): Uint8Array {
  const width = column.BYTES_PER_ELEMENT;
  const bytes = new Uint8Array(column.buffer, column.byteOffset, column.byteLength);
  const planes = new Uint8Array(bytes.length);
  for (let plane = 0; plane < width; plane++) {
    const from = isBigEndian ? width - 1 - plane : plane;
    for (let at = 0; at < column.length; at++) planes[plane * column.length + at] = bytes[at * width + from] as number;
  }
  return planes;
}

export function fromPlanes(type: ColumnType, planes: Uint8Array): Column {
  const width = bytesOf(type);
  const length = planes.length / width;
  const column = new ARRAYS[type](length);
  const bytes = new Uint8Array(column.buffer);
  for (let plane = 0; plane < width; plane++) {
    const to = isBigEndian ? width - 1 - plane : plane;
    for (let at = 0; at < length; at++) bytes[at * width + to] = planes[plane * length + at] as number;
  }
  return column;
}
