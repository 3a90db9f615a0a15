// Logs in CSV, whose columns the user names: a heading, then a row a rollout; fields in quotes may hold line ends.
import { Readable } from 'node:stream';
import { FileError } from '../../checks/errors.js';
import { LineProblem, ObjectFields } from './fields.js';
import type { RolloutFormat } from './format.js';
import { parseJsonLine } from './json-lines/json-line.js';
import { LineFile } from './json-lines/line-blocks.js';
import { addRow, type BlockContext, checkText, formatOf } from './json-lines/parse-lines.js';
import { checkSilent, type LoggedRange, type LogPart, type Range, RangeRoom, WHOLE_FILE } from './log-part.js';
import { BatchBuilder, checkBad, type RowBatch } from './rows/row-batch.js';

/** Rows that are given at a time. */
const BATCH_ROWS = 1024;

/** Bytes that are taken apart at a time. */
const PIECE_BYTES = 2 ** 16;

/** No field of a rollout is longer. */
const LONGEST_ROW = 2 ** 24;

interface CsvRow {
  readonly values: Record<string, string>;
  /** Rows before it. */
  readonly row: number;
  /** What is wrong with it. */
  readonly problem?: string;
}

interface Cursor {
  readonly rows: AsyncGenerator<CsvRow, void, undefined>;
  next: CsvRow | undefined;
}

export class CsvFile {
  /** Position of the reading: steps come in their order, and continuing costs nothing. */
  #cursor: Cursor | undefined;

  private constructor(
    private readonly file: LineFile,
    readonly columns: readonly string[],
    private readonly maxMemory: number | undefined,
  ) {}

  /** @param maxMemory bytes that reading may take, about */
  static async open(path: string, signal?: AbortSignal, maxMemory?: number): Promise<CsvFile> {
    const file = await LineFile.open(path, signal, LONGEST_ROW, 'csv');
    try {
      for await (const { values } of rowsOf(file, signal)) return new CsvFile(file, Object.keys(values), maxMemory);
      return new CsvFile(file, [], maxMemory);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  get storedBytes(): number {
    return this.file.storedBytes;
  }

  get stamp(): string {
    return this.file.stamp;
  }

  async close(): Promise<void> {
    await this.#cursor?.rows.return();
    await this.file.close();
  }

  async index(format: RolloutFormat, signal: AbortSignal | undefined): Promise<LogPart[]> {
    const { stepField, runField } = format;
    const parts = new Map<string, LogPart & { ranges: LoggedRange[] }>();
    if (stepField !== undefined || runField !== undefined) {
      const room = new RangeRoom(this.file.path, this.maxMemory, !this.file.isPlain);
      let silent = 0;
      for await (const { values, row } of rowsOf(this.file, signal)) {
        const fields = new CsvFields(values);
        let step: number | undefined;
        try {
          step = stepField === undefined ? undefined : fields.count(stepField);
        } catch (error) {
          if (!(error instanceof LineProblem)) throw error;
        }
        const run = runField === undefined ? undefined : fields.id(runField);
        const key = `${step}\n${run}`;
        silent = step === undefined && run === undefined ? silent + 1 : 0;
        if (parts.size > 1) checkSilent(this.file.path, silent, 'rows', row + 1);
        const part = parts.get(key) ?? { step, run, ranges: [] };
        const last = part.ranges.at(-1);
        if (last?.end === row) {
          last.end++;
          last.lines++;
        } else {
          room.take(part.ranges.length === 0);
          part.ranges.push({ begin: row, end: row + 1, line: row, lines: 1 });
        }
        room.addRow();
        parts.set(key, part);
      }
    }
    return parts.size === 0 ? [WHOLE_FILE] : [...parts.values()];
  }

  /** Rows of these ranges. Going back starts over: where a row begins is known only from the one before. */
  async *read(
    ranges: readonly Range[],
    context: BlockContext,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<{ batch: RowBatch; line: number; offset: number }, void, undefined> {
    const format = formatOf(context.choice);
    const end = ranges.reduce((most, range) => Math.max(most, range.end), 0);
    let batch = new BatchBuilder();
    let [first, count, at] = [0, 0, 0];
    const taken = () => ({ batch: batch.finish(count), line: first, offset: Number.NaN });
    const cursor = await this.#cursorAt(ranges[0]?.begin ?? 0, signal);
    for (; cursor.next !== undefined; cursor.next = (await cursor.rows.next()).value ?? undefined) {
      const { values, row, problem } = cursor.next;
      if (row >= end) break;
      while ((ranges[at]?.end ?? end) <= row) at++;
      if (row < (ranges[at]?.begin ?? end)) continue;
      // Rows of a batch follow one another: their numbers are counted from its first.
      if (count > 0 && (row !== first + count || count === BATCH_ROWS)) {
        yield taken();
        batch = new BatchBuilder();
        count = 0;
      }
      if (count === 0) first = row;
      if (problem === undefined) addRow(batch, new CsvFields(values), count, format, context);
      else batch.fail({ line: count, problem });
      count++;
    }
    if (count > 0) yield taken();
  }

  async #cursorAt(row: number, signal: AbortSignal | undefined): Promise<Cursor> {
    if (this.#cursor?.next !== undefined && this.#cursor.next.row <= row) return this.#cursor;
    await this.#cursor?.rows.return();
    const rows = rowsOf(this.file, signal);
    this.#cursor = { rows, next: (await rows.next()).value ?? undefined };
    return this.#cursor;
  }
}

/** An empty field is absent; a list is written as JSON. */
class CsvFields extends ObjectFields {
  override value(name: string): unknown {
    const value = super.value(name) as string | undefined;
    if (value === undefined || value === '') return undefined;
    return value;
  }

  override tokens(name: string): Int32Array | undefined {
    return this.#decoded(name)?.tokens(name);
  }

  override floats(name: string): Float64Array | undefined {
    return this.#decoded(name)?.floats(name);
  }

  override outcome(name: string): number | undefined {
    const value = this.value(name);
    if (typeof value === 'string' && /^(true|false)$/i.test(value)) return value.toLowerCase() === 'true' ? 1 : 0;
    return super.outcome(name);
  }

  #decoded(name: string): ObjectFields | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    try {
      return new ObjectFields({ [name]: parseJsonLine(text) });
    } catch {
      // Numbers with spaces or commas between them.
      return new ObjectFields({
        [name]: text
          .replace(/[[\]]/g, '')
          .trim()
          .split(/[\s,]+/),
      });
    }
  }
}

/** @throws FileError naming the row that is not CSV, or not UTF-8 */
async function* rowsOf(file: LineFile, signal: AbortSignal | undefined): AsyncGenerator<CsvRow, void, undefined> {
  const { path } = file;
  let failure: FileError | undefined;
  async function* texts(): AsyncGenerator<Buffer> {
    const fields = new FieldCount(path);
    let line = 0;
    for await (const { bytes, tooLong } of file.blocks(0, Number.POSITIVE_INFINITY, signal)) {
      if (tooLong !== undefined) {
        throw new FileError(
          { path },
          `line ${line + 1} has ${tooLong} bytes, more than the ${file.longestLine} of the longest line of CSV that is read`,
        );
      }
      try {
        checkText(bytes);
      } catch (error) {
        if (!(error instanceof LineProblem)) throw error;
        throw badText(path, bytes, line);
      }
      // The parser gives all rows of a piece at once.
      for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
        const piece = bytes.subarray(at, at + PIECE_BYTES);
        const isOutside = !fields.isQuoted;
        line = fields.look(piece);
        // Megabytes of empty lines are passed over: the first may be the end of a row.
        yield isOutside && piece.every((byte) => byte === LINE_END) ? piece.subarray(0, 1) : piece;
      }
    }
  }
  // Loaded if a log is CSV: it would hold up every start otherwise.
  const { CsvError, parse } = await import('csv-parse');
  // Rows of another length are named one by one below.
  const parser = parse({
    bom: true,
    relax_column_count: true,
    skip_empty_lines: true,
    max_record_size: Math.min(LONGEST_ROW, file.longestLine),
  });
  const bytes = Readable.from(texts());
  bytes.on('error', (error) => {
    if (error instanceof FileError) failure = error;
    parser.destroy(error);
  });
  bytes.pipe(parser);
  let heading: string[] | undefined;
  let bad = 0;
  let row = 0;
  try {
    for await (const fields of parser as AsyncIterable<string[]>) {
      if (heading === undefined) heading = fields;
      else {
        const found = rowOf(heading, fields, row++);
        if (found.problem !== undefined) checkBad(path, ++bad, row);
        yield found;
      }
    }
  } catch (error) {
    if (failure !== undefined) throw failure;
    if (!(error instanceof CsvError)) throw error;
    throw new FileError({ path }, `is no CSV: ${error.message}`, { cause: error });
  } finally {
    bytes.destroy();
    parser.destroy();
  }
}

/** A table with more columns is not one of rollouts, and each takes memory in every row. */
const MOST_FIELDS = 2 ** 14;

const [QUOTE, SEPARATOR, LINE_END] = [0x22, 0x2c, 0x0a];

/** Counts fields before they are taken apart: each of a row of nothing but commas is a text. */
class FieldCount {
  #line = 0;
  #fields = 0;
  isQuoted = false;

  constructor(private readonly path: string) {}

  /** @returns the lines so far @throws {FileError} naming the line that has too many fields */
  look(bytes: Buffer): number {
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at];
      if (byte === QUOTE) this.isQuoted = !this.isQuoted;
      else if (byte === LINE_END) {
        this.#line++;
        if (!this.isQuoted) this.#fields = 0;
      } else if (byte === SEPARATOR && !this.isQuoted && ++this.#fields >= MOST_FIELDS) {
        const problem = `line ${this.#line + 1} has more than ${MOST_FIELDS} fields, the most that are read: is it CSV?`;
        throw new FileError({ path: this.path }, problem);
      }
    }
    return this.#line;
  }
}

function rowOf(heading: readonly string[], fields: readonly string[], row: number): CsvRow {
  const values = Object.fromEntries(heading.map((name, at) => [name, fields[at] ?? '']));
  if (fields.length === heading.length) return { values, row };
  return { values, row, problem: `has ${fields.length} fields, the heading ${heading.length}` };
}

/** Names the line and byte within `bytes`, which begin with line `first`. */
function badText(path: string, bytes: Buffer, first: number): FileError {
  let line = first;
  for (let begin = 0; ; line++) {
    const found = bytes.indexOf(0x0a, begin);
    const end = found < 0 ? bytes.length : found;
    try {
      checkText(bytes.subarray(begin, end));
    } catch (error) {
      return new FileError({ path }, `line ${line + 1} ${(error as Error).message}`);
    }
    begin = end + 1;
  }
}
