// The columns of a row group, unpacked here and decoded by hyparquet. Every length in the bytes is checked before
// memory is taken for it.
import type { AsyncBuffer, Compressors, FileMetaData, SchemaTree } from 'hyparquet';
import { CollapsarError } from '../../../checks/errors.js';
import { parseJsonLine } from '../json-lines/json-line.js';
import { jsonSize } from '../json-lines/json-size.js';
import { bufferOver } from '../logged-text.js';
import { type Column, heldText } from './column-fields.js';
import { unpackerOf } from './page-codecs.js';
import { unpackPages } from './parquet-pages.js';
import { groupProblem, MOST_GROUP_BYTES, placeOf, type StoredGroup } from './stored-group.js';

let loaded: Promise<typeof import('hyparquet')> | undefined;

/** Loaded if a log is Parquet: it would hold up every start otherwise. */
export function hyparquet(): Promise<typeof import('hyparquet')> {
  loaded ??= import('hyparquet');
  return loaded;
}

/** What is wrong with a file; the caller that knows its path adds it. */
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
        parsers: { jsonFromBytes: jsonReader(maxMemory), ...(isText && { stringFromBytes: heldText }) },
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
function jsonReader(maxMemory: number): (bytes: Uint8Array | undefined) => unknown {
  let needed = 0;
  return (bytes) => {
    if (bytes === undefined) return undefined;
    needed += jsonSize(bytes);
    if (needed > maxMemory) throw new ParquetProblem(groupProblem(needed, maxMemory));
    return parseJsonLine(bufferOver(bytes).toString('utf8'));
  };
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
  /** By the offset of their packed bytes in the file. */
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
