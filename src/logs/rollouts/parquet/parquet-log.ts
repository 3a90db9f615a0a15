// Logs in Parquet: a row group at a time, and of it the columns that the reader wants.
import { createHash } from 'node:crypto';
import type { AsyncBuffer, FileMetaData, RowGroup } from 'hyparquet';
import { FileError } from '../../../checks/errors.js';
import type { ByteSource } from '../../stores/byte-source.js';
import { openBytes } from '../../stores/store.js';
import { type Fields, LineProblem } from '../fields.js';
import type { RolloutFormat, TableColumn } from '../format.js';
import { giveBack } from '../json-lines/line-blocks.js';
import { addRow, type BlockContext, formatOf } from '../json-lines/parse-lines.js';
import { checkSilent, type LoggedRange, type LogPart, type Range, RangeRoom, WHOLE_FILE } from '../log-part.js';
import { followingPaths, withRoots } from '../rows/dotted-paths.js';
import { BatchBuilder, type RowBatch } from '../rows/row-batch.js';
import { hashValue } from '../rows/value-digest.js';
import { type Column, ColumnFields } from './column-fields.js';
import { decodeColumns, hyparquet, ParquetProblem, problemOf } from './decode-columns.js';
import { MOST_GROUP_BYTES, readGroup } from './stored-group.js';

/** Bytes of a footer that are read: a header of thousands of row groups has less. */
const MOST_FOOTER_BYTES = 256 * 2 ** 20;

/** A row group is decoded whole: more rows at a time are refused, with what to do. */
const MOST_GROUP_ROWS = 2 ** 24;

/** Rows that are given at a time. */
const BATCH_ROWS = 2 ** 12;

export class ParquetFile {
  #decoded: { group: RowGroup; key: string; columns: ReadonlyMap<string, Column> } | undefined;

  private constructor(
    private readonly source: ByteSource,
    private readonly metadata: FileMetaData,
    /** Of the top level: where a column is a list, its type is that of its values. */
    readonly columns: readonly TableColumn[],
    private readonly maxMemory: number,
  ) {}

  /** @param maxMemory bytes that a row group may take, about */
  static async open(path: string, signal?: AbortSignal, maxMemory = MOST_GROUP_BYTES): Promise<ParquetFile> {
    const source = await openBytes(path, { signal });
    try {
      const metadata = await readMetadata(source, signal);
      checkMetadata(source, metadata);
      return new ParquetFile(source, metadata, columnsOf(metadata), maxMemory);
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

  /** Which rows are of which step; one part, without a step, if no column says it. */
  async index(format: RolloutFormat, signal: AbortSignal | undefined): Promise<LogPart[]> {
    const names = new Set(
      withRoots([format.stepField, format.runField].filter((name) => name !== undefined)).filter((name) =>
        this.#has(name),
      ),
    );
    if (names.size === 0) return [WHOLE_FILE];
    const parts = new Map<string, LogPart & { ranges: LoggedRange[] }>();
    const room = new RangeRoom(this.source.path, this.maxMemory, true);
    let silent = 0;
    let range: LoggedRange | undefined;
    let key: string | undefined;
    let row = 0;
    for (const group of this.metadata.row_groups) {
      const fields = new ColumnFields(await this.#read(group, names, signal));
      const count = Number(group.num_rows);
      for (fields.row = 0; fields.row < count; fields.row++) {
        // Rows of a step are mostly adjacent.
        const isSame = fields.row > 0 && fields.isAsBefore();
        const said = isSame ? undefined : stepIn(fields, format);
        if (!isSame) silent = said === undefined ? silent + 1 : 0;
        if (range !== undefined) checkSilent(this.source.path, silent, 'rows', row + 1);
        if (said !== undefined && said.key !== key) {
          const first = range === undefined;
          const begin = first ? 0 : row;
          range = { begin, end: row + 1, line: begin, lines: row + 1 - begin };
          key = said.key;
          const part = parts.get(key) ?? { step: said.step, run: said.run, ranges: [] };
          room.take(part.ranges.length === 0);
          part.ranges.push(range);
          parts.set(key, part);
        } else if (range !== undefined) {
          range.end++;
          range.lines++;
        }
        if (range !== undefined) room.addRow();
        row++;
      }
    }
    return parts.size === 0 ? [WHOLE_FILE] : [...parts.values()];
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
    for (const group of this.metadata.row_groups) {
      const end = first + Number(group.num_rows);
      for (const range of ranges) {
        const [from, to] = [Math.max(first, range.begin), Math.min(end, range.end)];
        if (from >= to) continue;
        const fields = new ColumnFields(await this.#read(group, names, signal));
        for (let begin = from; begin < to; begin += BATCH_ROWS) {
          const batch = new BatchBuilder();
          const count = Math.min(BATCH_ROWS, to - begin);
          for (let row = 0; row < count; row++) {
            fields.row = begin - first + row;
            addRow(batch, fields, row, format, context);
          }
          yield { batch: batch.finish(count), line: begin, offset: Number.NaN };
        }
      }
      first = end;
    }
  }

  /** Of the rows of these ranges, in their order, without some columns. @throws FileError when the file cannot be read */
  async digest(
    ranges: readonly Range[],
    isLeftOut: (column: string) => boolean,
    signal: AbortSignal | undefined,
  ): Promise<string> {
    const names = new Set(this.columns.map(({ name }) => name).filter((name) => !isLeftOut(name)));
    const hash = createHash('sha256');
    hashValue(hash, [...names]);
    for await (const { columns, from, to } of this.pieces(ranges, names, signal)) {
      for (let row = from; row < to; row++) for (const { values } of columns.values()) hashValue(hash, values[row]);
    }
    return hash.digest('base64');
  }

  /** Columns as they are, a row group at a time: of each the rows from `from` to `to` are meant. */
  async *pieces(
    ranges: readonly Range[],
    names: ReadonlySet<string>,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<{ columns: ReadonlyMap<string, Column>; from: number; to: number }, void, undefined> {
    let first = 0;
    for (const group of this.metadata.row_groups) {
      const end = first + Number(group.num_rows);
      for (const range of ranges) {
        const [from, to] = [Math.max(first, range.begin), Math.min(end, range.end)];
        if (from < to) yield { columns: await this.#read(group, names, signal), from: from - first, to: to - first };
      }
      first = end;
    }
  }

  /** @throws FileError if none of the format's columns are there */
  #columnsFor(format: RolloutFormat): Set<string> {
    const there = new Set(this.columns.map(({ name }) => name));
    const names = [...format.fields, ...(format.columnsOf?.(this.columns) ?? [])].filter((name) => there.has(name));
    if (names.length > 0) return new Set(names);
    const problem = `has none of the columns ${format.fields.join(', ')}; there are ${[...there].join(', ')}`;
    throw new FileError({ path: this.source.path }, problem);
  }

  /** The one that was decoded last is there: several steps may have rows in it. */
  async #read(
    group: RowGroup,
    names: ReadonlySet<string>,
    signal: AbortSignal | undefined,
  ): Promise<ReadonlyMap<string, Column>> {
    const inOrder = this.columns.map(({ name }) => name).filter((name) => names.has(name));
    const key = inOrder.join('\n');
    if (this.#decoded?.group === group && this.#decoded.key === key) return this.#decoded.columns;
    this.#decoded = undefined;
    const stored = await readGroup(this.source, this.metadata, group, names, signal, this.maxMemory);
    try {
      const columns = await decodeColumns(stored, inOrder, this.maxMemory);
      this.#decoded = { group, key, columns };
      return columns;
    } catch (error) {
      throw error instanceof ParquetProblem
        ? new FileError({ path: this.source.path }, error.message, { cause: error.cause })
        : error;
    } finally {
      giveBack(stored.bytes.buffer);
    }
  }

  #has(name: string): boolean {
    return this.columns.some((column) => column.name === name);
  }
}

function stepIn(
  fields: Fields,
  { stepField, runField }: RolloutFormat,
): { key: string; step: number | undefined; run: string | undefined } | undefined {
  try {
    const at = followingPaths(fields, [stepField ?? '', runField ?? '']);
    const step = stepField === undefined ? undefined : at.count(stepField);
    const run = runField === undefined ? undefined : at.id(runField);
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
  const { parquetMetadataAsync } = await hyparquet();
  try {
    return await parquetMetadataAsync(file, { initialFetchSize: footer + 8, geoparquet: false });
  } catch (error) {
    if (!(error instanceof Error) || error instanceof FileError || error.name === 'AbortError') throw error;
    throw new FileError({ path }, problemOf(error), { cause: error });
  }
}

/** Checks that the numbers of rows are possible; where column chunks lie is checked when they are read. */
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
