// The columns of a row group, unpacked here and decoded by hyparquet. Every length in the bytes is checked before memory
// is taken for it.
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import type { AsyncBuffer, Compressors, FileMetaData, SchemaTree } from 'hyparquet';
import { CollapsarError } from '../../../checks/errors.js';
import { loadAddon } from '../../../engine/addon.js';
import { parseJsonLine } from '../json-lines/json-line.js';
import { bufferOver } from '../logged-text.js';
import { type Column, heldText } from './column-fields.js';
import { unpackPages } from './parquet-pages.js';
import { groupProblem, MOST_GROUP_BYTES, placeOf, type StoredGroup } from './stored-group.js';

let loaded: Promise<typeof import('hyparquet')> | undefined;

/** Loaded where a log is Parquet: it would hold up every start otherwise. */
export function hyparquet(): Promise<typeof import('hyparquet')> {
  loaded ??= import('hyparquet');
  return loaded;
}

/** What is wrong with a file: said with its path by whoever knows that. */
export class ParquetProblem extends Error {}

/**
 * Columns by name, in the order of the names, with a value for each row.
 * @throws {ParquetProblem} naming the column that cannot be read
 */
export async function decodeColumns(
  group: StoredGroup,
  names: readonly string[],
  maxMemory = MOST_GROUP_BYTES,
): Promise<Map<string, Column>> {
  const { texts, ...chunks } = await unpackChunks(group, maxMemory);
  const { parquetRead } = await hyparquet();
  /** A piece a page, or all of a column. */
  const pieces = new Map<string, ArrayLike<unknown>[]>();
  try {
    // Texts in lists and objects are needed as strings; of the others long ones stay bytes.
    for (const isText of [true, false]) {
      const wanted = names.filter((name) => texts.has(name) === isText);
      if (wanted.length === 0) continue;
      await parquetRead({
        ...chunks,
        metadata: group.metadata,
        columns: wanted,
        geoparquet: false,
        parsers: { jsonFromBytes, ...(isText && { stringFromBytes: heldText }) },
        onChunk: ({ columnName, columnData }) => {
          const column = pieces.get(columnName) ?? [];
          pieces.set(columnName, column);
          column.push(columnData);
        },
      });
    }
  } catch (error) {
    throw damaged(error);
  }
  const rows = Number(group.metadata.row_groups[0]?.num_rows);
  const columns = new Map<string, Column>();
  for (const name of names) {
    const values = joined(pieces.get(name) ?? []);
    // Rows that are not there would be counted, one by one, up to whatever number the footer says.
    if (values.length < rows) {
      const problem = `column "${name}": has ${values.length} values for the ${rows} rows of its row group`;
      throw new ParquetProblem(`${problem}: the file is damaged`);
    }
    columns.set(name, { values, isText: texts.has(name) });
  }
  return columns;
}

/** Of columns whose logical type is JSON. */
function jsonFromBytes(bytes: Uint8Array | undefined): unknown {
  return bytes && parseJsonLine(bufferOver(bytes).toString('utf8'));
}

function joined(pieces: readonly ArrayLike<unknown>[]): ArrayLike<unknown> {
  if (pieces.length === 1) return pieces[0] as ArrayLike<unknown>;
  const all: unknown[] = [];
  for (const piece of pieces) for (let at = 0; at < piece.length; at++) all.push(piece[at]);
  return all;
}

/** The chunks in the shape that hyparquet reads from, and their pages, unpacked and looked through. */
async function unpackChunks(
  { metadata, fileBytes, bytes: all }: StoredGroup,
  maxMemory: number,
): Promise<{
  file: AsyncBuffer;
  compressors: Compressors;
  /** Columns that are a text a row. */
  texts: ReadonlySet<string>;
}> {
  const texts = new Set<string>();
  const chunks: { begin: number; bytes: Uint8Array }[] = [];
  /** By where their packed bytes stand in the file. */
  const pages = new Map<number, Uint8Array>();
  const schema = schemaOf(metadata, await hyparquet());
  let at = 0;
  let needed = 0;
  for (const column of metadata.row_groups[0]?.columns ?? []) {
    const { meta_data: meta } = column;
    const { begin, length } = placeOf(column);
    const bytes = all.subarray(at, at + length);
    at += length;
    chunks.push({ begin, bytes });
    if (meta === undefined) continue;
    const [name = ''] = meta.path_in_schema;
    try {
      const levels = levelsOf(schema, meta.path_in_schema);
      if (meta.type === 'BYTE_ARRAY' && meta.path_in_schema.length === 1 && levels.maxRepetition === 0) texts.add(name);
      const isBoolean = meta.type === 'BOOLEAN';
      const chunk = {
        bytes,
        values: Number(meta.num_values),
        isBoolean,
        unpack: await unpackerOf(meta.codec),
        // Before each page is unpacked: its header may say more than the footer.
        take: (length: number): void => {
          needed += length;
          if (needed > maxMemory) throw new ParquetProblem(groupProblem(needed, maxMemory));
        },
        ...levels,
      };
      for (const [at, page] of unpackPages(chunk)) pages.set(begin + at, page);
    } catch (error) {
      throw damaged(error, `column "${name}"`);
    }
  }
  /** Where in the file the buffers begin that hyparquet was given. */
  const begins = new WeakMap<ArrayBufferLike, number>();
  /** It cuts them into columns itself. */
  const placed = (buffer: ArrayBuffer, begin: number): ArrayBuffer => {
    begins.set(buffer, begin);
    const slice = (from = 0, to?: number): ArrayBuffer =>
      placed(ArrayBuffer.prototype.slice.call(buffer, from, to), begin + from);
    return Object.defineProperty(buffer, 'slice', { value: slice });
  };
  const file: AsyncBuffer = {
    byteLength: fileBytes,
    slice: async (begin, end = fileBytes) => {
      if (!(end >= begin && end <= fileBytes)) throw new Error(`bytes ${begin} to ${end}, of ${fileBytes}`);
      const bytes = new Uint8Array(new ArrayBuffer(end - begin));
      // Several columns may be asked for at once; what lies between them is not looked at.
      for (const chunk of chunks) {
        const from = Math.max(begin, chunk.begin);
        const to = Math.min(end, chunk.begin + chunk.bytes.length);
        if (from < to) bytes.set(chunk.bytes.subarray(from - chunk.begin, to - chunk.begin), from - begin);
      }
      return placed(bytes.buffer, begin);
    },
  };
  const unpacked = (packed: Uint8Array): Uint8Array => {
    const page = pages.get((begins.get(packed.buffer) ?? Number.NaN) + packed.byteOffset);
    if (page === undefined) throw new Error('a page where none is');
    return page;
  };
  const codecs = ['SNAPPY', 'GZIP', 'BROTLI', 'ZSTD', 'LZ4', 'LZ4_RAW'] as const;
  return { file, compressors: Object.fromEntries(codecs.map((codec) => [codec, unpacked])), texts };
}

function schemaOf(metadata: FileMetaData, { parquetSchema }: Awaited<ReturnType<typeof hyparquet>>): SchemaTree {
  try {
    return parquetSchema(metadata);
  } catch (error) {
    throw damaged(error);
  }
}

/** How deep lists and missing values are nested on the way to a column. */
function levelsOf(root: SchemaTree, path: readonly string[]): { maxRepetition: number; maxDefinition: number } {
  let node = root;
  // hyparquet counts the root among the lists, where a file says that it is one.
  const levels = { maxRepetition: node.element.repetition_type === 'REPEATED' ? 1 : 0, maxDefinition: 0 };
  for (const name of path) {
    const child = node.children.find(({ element }) => element.name === name);
    if (child === undefined) throw new Error(`no ${path.join('.')} in the schema`);
    node = child;
    const { repetition_type: repetition } = node.element;
    if (repetition === 'REPEATED') levels.maxRepetition++;
    if (repetition !== 'REQUIRED') levels.maxDefinition++;
  }
  return levels;
}

/** The most that a block of zstd unpacks to. */
const ZSTD_BLOCK_BYTES = 2 ** 17;

/** What frames of zstd unpack to at most, by their headers or, where these do not say, by their blocks. RFC 8878, 3.1.1. */
export function mostUnpacked(packed: Uint8Array): number {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  const cut = (): never => {
    throw new Error('a page whose zstd is cut');
  };
  let total = 0;
  for (let at = 0; at < packed.length; ) {
    if (at + 8 > packed.length) return cut();
    const magic = view.getUint32(at, true);
    if ((magic & 0xfffffff0) >>> 0 === 0x184d2a50) {
      at += 8 + view.getUint32(at + 4, true);
      continue;
    }
    if (magic !== 0xfd2fb528) throw new Error('a page that is no zstd');
    const head = packed[at + 4] as number;
    const isSingle = (head & 0x20) !== 0;
    at += 5 + (isSingle ? 0 : 1) + ([0, 1, 2, 4][head & 3] as number);
    const sizeBytes = head >> 6 === 0 ? Number(isSingle) : 2 ** (head >> 6);
    if (at + sizeBytes > packed.length) return cut();
    let size: number | undefined;
    if (sizeBytes === 1) size = view.getUint8(at);
    if (sizeBytes === 2) size = view.getUint16(at, true) + 256;
    if (sizeBytes === 4) size = view.getUint32(at, true);
    if (sizeBytes === 8) size = Number(view.getBigUint64(at, true));
    at += sizeBytes;
    let blocks = 0;
    for (let isLast = false; !isLast; ) {
      if (at + 3 > packed.length) return cut();
      const block = view.getUint16(at, true) | (view.getUint8(at + 2) << 16);
      isLast = (block & 1) === 1;
      const [kind, bytes] = [(block >> 1) & 3, block >> 3];
      blocks += kind === 2 ? ZSTD_BLOCK_BYTES : bytes;
      at += 3 + (kind === 1 ? 1 : bytes);
    }
    total += size ?? blocks;
    if ((head & 4) !== 0) at += 4;
  }
  return total;
}

type Unpacker = (packed: Uint8Array, length: number) => Uint8Array;

/** Snappy, gzip and brotli are unpacked by what is there; zstd and LZ4 with a package that is loaded for them alone. */
async function unpackerOf(codec: string): Promise<Unpacker | undefined> {
  switch (codec) {
    case 'UNCOMPRESSED':
      return undefined;
    case 'SNAPPY':
      return (packed, length) => {
        // Its best is 64 bytes for 3.
        if (length > 22 * packed.length + 64)
          throw new Error(`a page of ${packed.length} bytes that unpacks to ${length}`);
        const page = Buffer.allocUnsafeSlow(length);
        if (!loadAddon().unpackSnappy(packed, page)) throw new Error('a page whose Snappy is damaged');
        return page;
      };
    case 'GZIP':
      return (packed, length) => gunzipSync(packed, { maxOutputLength: Math.max(1, length) });
    case 'BROTLI':
      return (packed, length) => brotliDecompressSync(packed, { maxOutputLength: Math.max(1, length) });
    case 'ZSTD': {
      const { compressors } = await import('hyparquet-compressors');
      return (packed, length) => {
        // It takes memory for what the frames say, whatever the page does.
        const most = mostUnpacked(packed);
        if (most > length + ZSTD_BLOCK_BYTES * 8)
          throw new Error(`a page of ${length} bytes whose zstd may unpack to ${most}`);
        return (compressors.ZSTD as Unpacker)(packed, length);
      };
    }
    case 'LZ4':
    case 'LZ4_RAW': {
      const { compressors } = await import('hyparquet-compressors');
      return compressors[codec] as Unpacker;
    }
    default:
      throw new Error(`unsupported compression ${codec}: read are snappy, gzip, brotli, zstd and LZ4`);
  }
}

function damaged(error: unknown, where?: string): unknown {
  if (error instanceof CollapsarError || error instanceof ParquetProblem || !(error instanceof Error)) return error;
  return new ParquetProblem(problemOf(error, where), { cause: error });
}

export function problemOf({ message }: Error, where?: string): string {
  const place = where === undefined ? '' : `${where}: `;
  const unsupported = /unsupported|unhandled/.test(message);
  const what = unsupported ? 'cannot be read' : 'is damaged, was cut, or is no Parquet that is read here';
  return `${place}${what}: ${message}`;
}
