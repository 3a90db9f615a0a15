// Logs in Parquet: a row group at a time, and of it the columns that the reader wants. Decoded by hyparquet; every
// length in the file is checked against the file before memory is taken for it. hyparquet is loaded where a log is
// Parquet: it would hold up every start otherwise.
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import type { AsyncBuffer, Compressors, FileMetaData, RowGroup } from 'hyparquet';
import { ArgumentError, FileError } from '../../../checks/errors.js';
import type { ByteSource } from '../../stores/byte-source.js';
import { openBytes } from '../../stores/store.js';
import { LineProblem, ObjectFields } from '../fields.js';
import type { RolloutFormat, TableColumn } from '../format.js';
import { addRow, type BlockContext, formatOf } from '../json-lines/parse-lines.js';
import type { LogPart, Range } from '../log-part.js';
import { BatchBuilder, type RowBatch } from '../row-batch.js';
import { unpackPages } from './parquet-pages.js';

/** Bytes of a footer that are read: a header of thousands of row groups has less. */
const MOST_FOOTER_BYTES = 256 * 2 ** 20;

/** A row group is decoded whole: more rows at a time are refused, with what to do. */
const MOST_GROUP_ROWS = 2 ** 24;
const MOST_GROUP_VALUES = 2 ** 28;

export class ParquetFile {
  #decoded: { group: number; names: string; rows: Record<string, unknown>[] } | undefined;

  private constructor(
    private readonly source: ByteSource,
    private readonly metadata: FileMetaData,
    /** Of the top level: where a column is a list, its type is that of its values. */
    readonly columns: readonly TableColumn[],
  ) {}

  static async open(path: string, signal?: AbortSignal): Promise<ParquetFile> {
    const source = await openBytes(path, { signal });
    try {
      const metadata = await readMetadata(source, signal);
      checkMetadata(source, metadata);
      return new ParquetFile(source, metadata, columnsOf(metadata));
    } catch (error) {
      await source.close();
      throw error;
    }
  }

  get storedBytes(): number {
    return this.source.bytes;
  }

  get stamp(): string {
    return this.source.stamp;
  }

  close(): Promise<void> {
    return this.source.close();
  }

  /** Which rows are of which step; one part, without a step, where no column says it. */
  async index(format: RolloutFormat, signal: AbortSignal | undefined): Promise<LogPart[]> {
    const names = [format.stepField, format.runField].filter(
      (name) => name !== undefined && this.columns.some((column) => column.name === name),
    ) as string[];
    const whole: LogPart[] = [{ ranges: [{ begin: 0, end: Number.POSITIVE_INFINITY, line: 0 }] }];
    if (names.length === 0) return whole;
    const parts = new Map<string, LogPart & { ranges: Range[] }>();
    let range: Range | undefined;
    let key: string | undefined;
    let row = 0;
    for (let group = 0; group < this.metadata.row_groups.length; group++) {
      for (const values of await this.#rows(group, names, signal)) {
        const said = stepIn(new ObjectFields(values), format);
        if (said !== undefined && said.key !== key) {
          const first = range === undefined;
          range = { begin: first ? 0 : row, end: row + 1, line: first ? 0 : row };
          key = said.key;
          const part = parts.get(key) ?? { step: said.step, run: said.run, ranges: [] };
          part.ranges.push(range);
          parts.set(key, part);
        } else if (range !== undefined) {
          range.end = row + 1;
        }
        row++;
      }
    }
    return parts.size === 0 ? whole : [...parts.values()];
  }

  /** Rows of these ranges, a row group at a time. @throws FileError when the file cannot be read */
  async *read(
    ranges: readonly Range[],
    context: BlockContext,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<{ batch: RowBatch; line: number; offset: number }, void, undefined> {
    const format = formatOf(context.choice);
    const names = this.#columnsFor(format);
    let first = 0;
    for (const [group, { num_rows: count }] of this.metadata.row_groups.entries()) {
      const end = first + Number(count);
      for (const range of ranges) {
        const [from, to] = [Math.max(first, range.begin), Math.min(end, range.end)];
        if (from >= to) continue;
        const rows = await this.#rows(group, names, signal);
        const batch = new BatchBuilder();
        for (let row = from; row < to; row++)
          addRow(batch, new ObjectFields(rows[row - first] ?? {}), row - from, format, context);
        yield { batch: batch.finish(to - from), line: from, offset: Number.NaN };
      }
      first = end;
    }
  }

  /** @throws FileError where none of the format's columns are there */
  #columnsFor(format: RolloutFormat): string[] {
    const there = new Set(this.columns.map(({ name }) => name));
    const names = [...format.fields, ...(format.columnsOf?.(this.columns) ?? [])].filter((name) => there.has(name));
    if (names.length > 0) return [...new Set(names)];
    const problem = `has none of the columns ${format.fields.join(', ')}; there are ${[...there].join(', ')}`;
    throw new FileError({ path: this.source.path }, problem);
  }

  async #rows(
    group: number,
    names: readonly string[],
    signal: AbortSignal | undefined,
  ): Promise<Record<string, unknown>[]> {
    const key = names.join('\n');
    if (this.#decoded?.group === group && this.#decoded.names === key) return this.#decoded.rows;
    this.#decoded = undefined;
    const { path } = this.source;
    const { row_groups: groups } = this.metadata;
    const begin = groups.slice(0, group).reduce((sum, { num_rows: count }) => sum + Number(count), 0);
    const count = Number((groups[group] as RowGroup).num_rows);
    const chunks = await readChunks(this.source, this.metadata, groups[group] as RowGroup, new Set(names), signal);
    const { parquetReadObjects } = await import('hyparquet');
    try {
      const rows = (await parquetReadObjects({
        ...chunks,
        metadata: this.metadata,
        columns: [...names],
        rowStart: begin,
        rowEnd: begin + count,
        geoparquet: false,
      })) as Record<string, unknown>[];
      this.#decoded = { group, names: key, rows };
      return rows;
    } catch (error) {
      throw damaged(path, error);
    }
  }
}

function stepIn(
  fields: ObjectFields,
  { stepField, runField }: RolloutFormat,
): { key: string; step: number | undefined; run: string | undefined } | undefined {
  try {
    const step = stepField === undefined ? undefined : fields.count(stepField);
    const run = runField === undefined ? undefined : fields.id(runField);
    return step === undefined && run === undefined ? undefined : { key: `${step}\n${run}`, step, run };
  } catch (error) {
    if (error instanceof LineProblem) return undefined;
    throw error;
  }
}

async function readMetadata(source: ByteSource, signal: AbortSignal | undefined): Promise<FileMetaData> {
  const { path } = source;
  const end = Buffer.alloc(8);
  if (source.bytes < 12) throw new FileError({ path }, 'is too short for Parquet: it is being written, or was cut');
  await source.read(end, source.bytes - 8, { signal });
  if (end.toString('latin1', 4) !== 'PAR1') {
    throw new FileError(
      { path },
      'does not end as Parquet does: it is being written, was cut, or is encrypted or something else',
    );
  }
  const footer = end.readUInt32LE(0);
  if (footer > source.bytes - 12 || footer > MOST_FOOTER_BYTES) {
    throw new FileError(
      { path },
      `its footer says that it has ${footer} bytes, of ${source.bytes}: the file is damaged`,
    );
  }
  const file: AsyncBuffer = {
    byteLength: source.bytes,
    slice: async (begin, until = source.bytes) => {
      const bytes = new Uint8Array(new ArrayBuffer(until - begin));
      await source.read(bytes, begin, { signal });
      return bytes.buffer;
    },
  };
  const { parquetMetadataAsync } = await import('hyparquet');
  try {
    return await parquetMetadataAsync(file, { initialFetchSize: footer + 8, geoparquet: false });
  } catch (error) {
    throw damaged(path, error);
  }
}

/** Where column chunks lie is checked when they are read; that there can be so many rows, here. */
function checkMetadata({ path }: ByteSource, { row_groups: groups }: FileMetaData): void {
  for (const [at, { num_rows: count, columns }] of groups.entries()) {
    const rows = Number(count);
    if (!(rows >= 0) || !Array.isArray(columns)) throw new FileError({ path }, `row group ${at} is damaged`);
    if (rows > MOST_GROUP_ROWS) {
      const problem = `row group ${at} has ${rows} rows, more than the ${MOST_GROUP_ROWS} that are read at a time: write smaller row groups (row_group_size)`;
      throw new FileError({ path }, problem);
    }
  }
}

function columnsOf({ schema }: FileMetaData): TableColumn[] {
  const found: TableColumn[] = [];
  const skip = (at: number): number => {
    const count = schema[at]?.num_children ?? 0;
    let next = at + 1;
    for (let child = 0; child < count && next < schema.length; child++) next = skip(next);
    return next;
  };
  for (let at = 1; at < schema.length; at = skip(at)) {
    const { name, type } = schema[at] as { name: string; type?: string };
    found.push({ name, type: type ?? 'GROUP' });
  }
  return found;
}

/**
 * The chunks of the columns wanted, in the shape that hyparquet reads from, and their pages, unpacked and looked
 * through.
 */
async function readChunks(
  source: ByteSource,
  metadata: FileMetaData,
  { columns }: RowGroup,
  names: ReadonlySet<string>,
  signal: AbortSignal | undefined,
): Promise<{ file: AsyncBuffer; compressors: Compressors }> {
  const { path } = source;
  const chunks: { begin: number; bytes: Uint8Array }[] = [];
  /** By where their packed bytes stand in the file. */
  const pages = new Map<number, Uint8Array>();
  for (const { meta_data: meta, file_path: elsewhere } of columns) {
    const name = meta?.path_in_schema?.[0];
    if (meta === undefined || name === undefined || !names.has(name)) continue;
    const begin = Number(meta.dictionary_page_offset || meta.data_page_offset);
    const length = Number(meta.total_compressed_size);
    if (elsewhere || !(begin >= 4) || !(length >= 0) || begin + length > source.bytes) {
      throw new FileError({ path }, `column "${name}": its data are not in the file, which is damaged or was cut`);
    }
    const values = Number(meta.num_values);
    if (values > MOST_GROUP_VALUES) {
      const problem = `column "${name}": ${values} values in a row group, more than are read at a time: write smaller row groups (row_group_size)`;
      throw new FileError({ path }, problem);
    }
    const bytes = new Uint8Array(new ArrayBuffer(length));
    await source.read(bytes, begin, { signal });
    try {
      const chunk = {
        bytes,
        values,
        unpack: await unpackerOf(meta.codec),
        ...(await levelsOf(metadata, meta.path_in_schema)),
      };
      for (const [at, page] of unpackPages(chunk)) pages.set(begin + at, page);
    } catch (error) {
      throw damaged(path, error, `column "${name}"`);
    }
    chunks.push({ begin, bytes });
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
    byteLength: source.bytes,
    slice: async (begin, end = source.bytes) => {
      if (!(end >= begin && end <= source.bytes)) throw new Error(`bytes ${begin} to ${end}, of ${source.bytes}`);
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
  return { file, compressors: Object.fromEntries(codecs.map((codec) => [codec, unpacked])) };
}

/** How deep lists and missing values are nested on the way to a column. */
async function levelsOf(
  metadata: FileMetaData,
  path: readonly string[],
): Promise<{ maxRepetition: number; maxDefinition: number }> {
  const { parquetSchema } = await import('hyparquet');
  let node = parquetSchema(metadata);
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

type Unpacker = (packed: Uint8Array, length: number) => Uint8Array;

/** Snappy, gzip and brotli unpack with what is there; zstd and LZ4 with a package that is loaded for them alone. */
async function unpackerOf(codec: string): Promise<Unpacker | undefined> {
  switch (codec) {
    case 'UNCOMPRESSED':
      return undefined;
    case 'SNAPPY': {
      const { snappyUncompress } = await import('hyparquet');
      return (packed, length) => {
        // Its best is 64 bytes for 3.
        if (length > 22 * packed.length + 64)
          throw new Error(`a page of ${packed.length} bytes that unpacks to ${length}`);
        const page = new Uint8Array(length);
        snappyUncompress(packed, page);
        return page;
      };
    }
    case 'GZIP':
      return (packed, length) => gunzipSync(packed, { maxOutputLength: Math.max(1, length) });
    case 'BROTLI':
      return (packed, length) => brotliDecompressSync(packed, { maxOutputLength: Math.max(1, length) });
    case 'ZSTD':
    case 'LZ4':
    case 'LZ4_RAW': {
      const { compressors } = await import('hyparquet-compressors');
      return compressors[codec] as Unpacker;
    }
    default:
      throw new Error(`unsupported compression ${codec}: read are snappy, gzip, brotli, zstd and LZ4`);
  }
}

function damaged(path: string, error: unknown, where?: string): unknown {
  if (error instanceof FileError || error instanceof ArgumentError) return error;
  if (!(error instanceof Error) || error.name === 'AbortError') return error;
  const place = where === undefined ? '' : `${where}: `;
  const unsupported = /unsupported|unhandled/.test(error.message);
  const what = unsupported ? 'cannot be read' : 'is damaged, was cut, or is no Parquet that is read here';
  return new FileError({ path }, `${place}${what}: ${error.message}`, { cause: error });
}
