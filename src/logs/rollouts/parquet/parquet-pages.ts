// Unpacks the pages of a column chunk and checks them before hyparquet decodes them: it makes arrays as long as headers
// and runs say, so hostile bytes could take all memory or time. parquet.thrift: PageHeader; Encodings.md: RLE hybrid.

/** Values of a page, and bytes it unpacks to, that are read: writers make pages of about 1 MiB. */
const MOST_VALUES = 2 ** 26;
const MOST_BYTES = 2 ** 30;

/** Numbers of parquet.thrift. */
const DATA_PAGE = 0;
const DICTIONARY_PAGE = 2;
const DATA_PAGE_V2 = 3;
const RLE = 3;
const DICTIONARY_ENCODINGS = [2, 8];

export interface ColumnChunk {
  readonly bytes: Uint8Array;
  /** Values that its header promises. */
  readonly values: number;
  readonly maxRepetition: number;
  readonly maxDefinition: number;
  /** Of booleans: their runs have a length before them, those of a dictionary a width. */
  readonly isBoolean?: boolean;
  /** Called with the bytes of each page before it is unpacked. @throws {Error} if there is no room for them */
  readonly take?: ((length: number) => void) | undefined;
  /** @throws {Error} if that is not what they unpack to; undefined: pages are not packed */
  readonly unpack?: ((packed: Uint8Array, length: number) => Uint8Array) | undefined;
}

/**
 * @returns the content of pages, by the offset of their packed bytes in the chunk
 * @throws {Error} saying what is wrong
 */
export function unpackPages(chunk: ColumnChunk): Map<number, Uint8Array> {
  const { bytes, values } = chunk;
  const pages = new Map<number, Uint8Array>();
  const reader = new Thrift(bytes);
  let counted = 0;
  while (reader.at < bytes.length) {
    const header = reader.struct();
    const [type, length, packed] = [1, 2, 3].map((field) => numberIn(header, field)) as [number, number, number];
    const left = bytes.length - reader.at;
    if (packed < 0 || packed > left) throw new Error(`a page of ${packed} bytes, ${left} are left`);
    if (length < 0 || length > MOST_BYTES) throw new Error(`a page that unpacks to ${length} bytes`);
    chunk.take?.(length);
    const inner = asStruct(
      header.get(type === DATA_PAGE ? 5 : type === DICTIONARY_PAGE ? 7 : type === DATA_PAGE_V2 ? 8 : -1),
    );
    const count = numberIn(inner, 1);
    if (count < 0 || count > MOST_VALUES) throw new Error(`a page of ${count} values`);
    // A dictionary has no rows.
    if (type !== DICTIONARY_PAGE) counted += count;
    if (counted > values) throw new Error(`pages of ${counted} values, the column has ${values}`);
    const at = reader.at;
    const body = bytes.subarray(at, at + packed);
    if (type === DATA_PAGE_V2) unpackV2(chunk, inner, body, length, at, pages);
    else {
      const page = chunk.unpack === undefined ? body : chunk.unpack(body, length);
      pages.set(at, page);
      if (type === DATA_PAGE) checkV1(chunk, inner, page, count);
    }
    reader.at += packed;
  }
  return pages;
}

/** Levels, each with their length before them, then values. */
function checkV1(chunk: ColumnChunk, header: Struct, page: Uint8Array, count: number): void {
  const view = new DataView(page.buffer, page.byteOffset, page.byteLength);
  let at = 0;
  const prefixed = (width: number): void => {
    if (at + 4 > page.length) throw new Error('a page that is cut');
    const end = at + 4 + view.getUint32(at, true);
    if (end > page.length) throw new Error('a page whose levels are cut');
    // hyparquet reads on where a length is too short for the values.
    checkRuns(page, at + 4, page.length, width, count);
    at = end;
  };
  for (const level of [chunk.maxRepetition, chunk.maxDefinition]) if (level > 0) prefixed(widthOf(level));
  const encoding = numberIn(header, 2);
  if (encoding !== RLE && !DICTIONARY_ENCODINGS.includes(encoding)) return;
  if (chunk.isBoolean) prefixed(1);
  else checkRuns(page, at + 1, page.length, page[at] ?? 0, count);
}

/** Levels, whose lengths the header has and which are never packed, then values, which may be. */
function unpackV2(
  chunk: ColumnChunk,
  header: Struct,
  body: Uint8Array,
  length: number,
  place: number,
  pages: Map<number, Uint8Array>,
): void {
  const [count, nulls, rows, encoding, definitions, repetitions] = [1, 2, 3, 4, 5, 6].map((field) =>
    numberIn(header, field),
  ) as [number, number, number, number, number, number];
  const levels = definitions + repetitions;
  if (definitions < 0 || repetitions < 0 || levels > body.length || levels > length)
    throw new Error('a page whose levels are cut');
  if (nulls < 0 || nulls > count || rows < 0 || rows > count)
    throw new Error(`a page of ${rows} rows and ${nulls} nulls of ${count}`);
  if (chunk.maxRepetition > 0) checkRuns(body, 0, body.length, widthOf(chunk.maxRepetition), count);
  if (chunk.maxDefinition > 0) checkRuns(body, repetitions, body.length, widthOf(chunk.maxDefinition), count);
  const packed = body.subarray(levels);
  const isPacked = chunk.unpack !== undefined && header.get(7) !== false;
  const page = isPacked && chunk.unpack ? chunk.unpack(packed, length - levels) : packed;
  pages.set(place + levels, page);
  if (encoding === RLE) checkRuns(page, 4, page.length, 1, count);
  else if (DICTIONARY_ENCODINGS.includes(encoding)) checkRuns(page, 1, page.length, page[0] ?? 0, count);
}

function widthOf(level: number): number {
  return 32 - Math.clz32(level);
}

/** Writers fill the last group of a run up. */
const PADDING = 504;

/** Runs may not say more values than the page has. */
function checkRuns(bytes: Uint8Array, begin: number, end: number, width: number, values: number): void {
  if (width > 32) throw new Error(`values of ${width} bits`);
  let at = begin;
  for (let seen = 0; seen < values && at < end; ) {
    let header = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[at++];
      if (byte === undefined || at > end || scale > 2 ** 28) throw new Error('a run that is damaged');
      header += (byte & 0x7f) * scale;
      if (byte < 0x80) break;
    }
    const isPacked = header % 2 === 1;
    const count = isPacked ? (header - 1) * 4 : header / 2;
    if (count > values - seen + PADDING) throw new Error(`a run of ${count} values, ${values - seen} are left`);
    seen += count;
    at += isPacked ? (count / 8) * width : (width + 7) >> 3;
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
