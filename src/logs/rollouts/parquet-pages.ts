// Looks through the pages of a column chunk before they are decoded: hyparquet makes arrays as long as a page's header says, and a
// few damaged or hostile bytes would have it take all memory there is. parquet.thrift: PageHeader; the compact protocol of Thrift.

/** Values of a page, and bytes it unpacks to, that are read: writers make pages of about 1 MiB. */
const MOST_VALUES = 2 ** 26;
const MOST_BYTES = 2 ** 30;

/** @throws {Error} saying what is wrong */
export function checkPages(chunk: Uint8Array, values: number): void {
  const reader = new Thrift(chunk);
  let counted = 0;
  while (reader.at < chunk.length) {
    const header = reader.struct();
    const packed = numberIn(header, 3);
    const unpacked = numberIn(header, 2);
    const count = numberIn(asStruct(header.get(5) ?? header.get(7) ?? header.get(8)), 1);
    if (packed < 0 || packed > chunk.length - reader.at)
      throw new Error(`a page of ${packed} bytes, ${chunk.length - reader.at} are left`);
    if (unpacked < 0 || unpacked > MOST_BYTES) throw new Error(`a page that unpacks to ${unpacked} bytes`);
    if (count < 0 || count > MOST_VALUES) throw new Error(`a page of ${count} values`);
    // A dictionary has no rows.
    if (header.get(7) === undefined) counted += count;
    if (counted > values) throw new Error(`pages of ${counted} values, the column has ${values}`);
    reader.at += packed;
  }
}

type Struct = Map<number, unknown>;

function asStruct(value: unknown): Struct {
  if (value instanceof Map) return value as Struct;
  throw new Error('a page of a kind that is not known');
}

function numberIn(struct: Struct, field: number): number {
  const value = struct.get(field);
  if (typeof value === 'number') return value;
  throw new Error('a header of a page that is not complete');
}

/** Nesting of a page's header: it has two levels. */
const MOST_DEPTH = 8;

class Thrift {
  at = 0;
  #depth = 0;

  constructor(private readonly bytes: Uint8Array) {}

  struct(): Struct {
    if (++this.#depth > MOST_DEPTH) throw new Error('a header of a page that is nested too deep');
    const found: Struct = new Map();
    for (let field = 0; ; ) {
      const head = this.#byte();
      if (head === 0) break;
      field = head >> 4 === 0 ? this.#zigZag() : field + (head >> 4);
      found.set(field, this.#value(head & 0xf));
    }
    this.#depth--;
    return found;
  }

  #value(type: number): unknown {
    switch (type) {
      case 1:
        return true;
      case 2:
        return false;
      case 3:
        return this.#byte();
      case 4:
      case 5:
      case 6:
        return this.#zigZag();
      case 7:
        return this.#skip(8);
      case 8:
        return this.#skip(this.#varint());
      case 9:
        return this.#list();
      case 12:
        return this.struct();
      default:
        throw new Error('a header of a page that is damaged');
    }
  }

  #list(): undefined {
    const head = this.#byte();
    const size = head >> 4 === 15 ? this.#varint() : head >> 4;
    // Every element takes a byte at least.
    if (size > this.bytes.length - this.at) throw new Error('a header of a page that is damaged');
    for (let index = 0; index < size; index++) this.#value((head & 0xf) <= 2 ? 3 : head & 0xf);
  }

  #skip(bytes: number): undefined {
    if (bytes > this.bytes.length - this.at) throw new Error('a header of a page that is damaged');
    this.at += bytes;
  }

  #byte(): number {
    const byte = this.bytes[this.at++];
    if (byte === undefined) throw new Error('a header of a page that is cut');
    return byte;
  }

  #varint(): number {
    let value = 0;
    for (let scale = 1; scale <= 2 ** 63; scale *= 128) {
      const byte = this.#byte();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
    throw new Error('a header of a page that is damaged');
  }

  #zigZag(): number {
    const value = this.#varint();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }
}
