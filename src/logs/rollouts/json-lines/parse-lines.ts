// Parses whole lines of JSON into rollouts. Runs on any thread: it knows bytes and a format's name, nothing else.
import { isUtf8 } from 'node:buffer';
import { printable } from '../../../checks/words.js';
import { type Fields, fieldsOf, LineProblem } from '../fields.js';
import type { RolloutFormat, RowContext } from '../format.js';
import { FORMATS } from '../formats/index.js';
import { type ColumnNames, mappedColumns } from '../formats/rollouts/reader.js';
import { badByteIn } from '../not-utf8.js';
import type { LoggedRollout } from '../rollout.js';
import { withEnvironment } from '../rows/environments.js';
import { BatchBuilder, type RowBatch } from '../rows/row-batch.js';
import { JsonFields } from './json-fields.js';
import { parseJsonLine } from './json-line.js';
import { jsonSize } from './json-size.js';
import { isBlank } from './line-blocks.js';
import { ScannedLines } from './scanned-lines.js';

/** A reader, as one thread names it to another. */
export interface FormatChoice {
  readonly name: string;
  /** Of a format that is known by its name: only the environment. */
  readonly columns?: ColumnNames | undefined;
}

export interface BlockContext extends RowContext {
  readonly choice: FormatChoice;
  /** Rows must say this step; undefined if the path says it. */
  readonly step?: number | undefined;
  /** Bytes that reading may take, about. */
  readonly maxMemory?: number | undefined;
}

/** The reader of tables whose columns the user names. */
export const MAPPED = 'columns';

export function formatOf({ name, columns }: FormatChoice): RolloutFormat {
  if (columns !== undefined && name === MAPPED) return mappedColumns(columns);
  const format = FORMATS.find((known) => known.name === name);
  if (format === undefined) throw new TypeError(`no format ${name}`);
  return columns?.environment === undefined ? format : withEnvironment(format, columns.environment);
}

/**
 * @param isLast no bytes come after these: what has no line end is then a line as well, or one that was cut
 * @param room for the texts, as large as `bytes`; in use afterwards where the batch has it as its memory
 */
export function parseLines(bytes: Buffer, context: BlockContext, isLast: boolean, room: Buffer): RowBatch {
  const format = formatOf(context.choice);
  const fields = new JsonFields(format.fields);
  const batch = new BatchBuilder();
  const allText = isUtf8(bytes);
  let isCut = false;
  let hasTexts = false;
  let lines = 0;
  for (let from = 0; from < bytes.length; ) {
    // Scan results take more memory than a short line: lines are scanned in slices of this many bytes.
    const found = from + SLICE_BYTES >= bytes.length ? -1 : bytes.indexOf(0x0a, from + SLICE_BYTES);
    const to = found < 0 ? bytes.length : found + 1;
    const slice = bytes.subarray(from, to);
    const scanned = new ScannedLines(slice, format.fields, room.subarray(from));
    for (let line = 0; line < scanned.count; line++) {
      const { begin, end, isRead } = scanned.line(line);
      if (!isRead && isBlank(slice, begin, end)) continue;
      let isWhole = isRead;
      try {
        if (!allText) checkText(slice.subarray(begin, end));
        if (end - begin > LONG_LINE) checkSize(slice.subarray(begin, end), context.maxMemory);
        // What is unusual is read with all care, to say what is wrong where it is wrong.
        const known = isRead ? fields.take(scanned, line) : fields.read(slice, begin, end);
        isWhole = true;
        const read = format.hasOtherFields ? wholeLine(slice, begin, end) : known;
        for (const row of format.rows(read, context)) {
          checkRow(row, context, format);
          batch.add(format.groupIsLine ? { ...row, line: lines + line } : row);
        }
      } catch (error) {
        if (!(error instanceof LineProblem)) throw error;
        // The writer has not come to its end yet.
        if (from + end === bytes.length && isLast && !isWhole && !error.isWhole) isCut = true;
        else batch.fail({ line: lines + line, offset: from + begin, problem: error.message });
      }
    }
    hasTexts ||= scanned.hasTexts;
    lines += scanned.count;
    from = to;
  }
  return batch.finish(lines, isCut, hasTexts ? room : undefined);
}

/** All fields of a line that is known to be an object. @throws {LineProblem} if a value in it is not JSON */
function wholeLine(bytes: Buffer, begin: number, end: number): Fields {
  try {
    return fieldsOf(parseJsonLine(bytes.toString('utf8', begin, end).replace(/^\ufeff/, '')), 'the line');
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new LineProblem(`no JSON: ${printable(error.message)}`);
  }
}

/** Bytes of lines that are looked through at a time. */
const SLICE_BYTES = 2 ** 15;

/** Shorter lines take no memory that counts, whatever they hold. */
const LONG_LINE = 2 ** 20;

/** @throws {LineProblem} if there is no room for what the line holds */
function checkSize(line: Buffer, maxMemory = Number.POSITIVE_INFINITY): void {
  const needed = jsonSize(line);
  if (needed <= maxMemory) return;
  throw new LineProblem(
    `has ${line.length} bytes, which take ${needed} as lists and objects, --max-memory has room for ${maxMemory}: give more, or write a line a rollout`,
  );
}

/** Adds what a format makes of one row of a table, or what is wrong with it. @param line of the row within the batch */
export function addRow(
  batch: BatchBuilder,
  fields: Fields,
  line: number,
  format: RolloutFormat,
  context: BlockContext,
): void {
  try {
    for (const row of format.rows(fields, context)) {
      checkStep(row.step, context, format);
      batch.add(format.groupIsLine ? { ...row, line } : row);
    }
  } catch (error) {
    if (!(error instanceof LineProblem)) throw error;
    batch.fail({ line, problem: error.message });
  }
}

/** What a row says of a response, beside whose it is. */
const CONTENT = [
  ...['prompt', 'promptTokens', 'output', 'tokens', 'reasoning', 'action', 'reward', 'outcome', 'logprobs', 'entropy'],
  ...['truncated', 'length'],
] as readonly (keyof LoggedRollout)[];

/** @throws {LineProblem} for a heading or another line without a response, and as `checkStep` */
function checkRow(row: LoggedRollout, context: BlockContext, format: RolloutFormat): void {
  // A row of a table whose columns are named may say only its group: its reward is missing.
  const isNamed = format.name === MAPPED && row.group !== undefined;
  if (!isNamed && !CONTENT.some((name) => row[name] !== undefined)) {
    throw new LineProblem(`has no rollout: none of ${format.fields.join(', ')} says anything of a response`);
  }
  checkStep(row.step, context, format);
}

/** @throws {LineProblem} if rows have to say their step and this one does not, or says another */
export function checkStep(
  step: number | undefined,
  { step: expected, place }: BlockContext,
  format: RolloutFormat,
): void {
  if (expected === undefined || step === expected || place.step !== undefined) return;
  throw new LineProblem(step === undefined ? `has no ${format.stepField}` : `is of step ${step}`);
}

/** @throws {LineProblem} naming the first byte that is not UTF-8 */
export function checkText(bytes: Buffer): void {
  if (isUtf8(bytes)) return;
  const { place, byte } = badByteIn(bytes);
  throw new LineProblem(
    `is not UTF-8: byte ${place} of the line is ${byte}; write the log in UTF-8, or convert it (iconv -t UTF-8)`,
  );
}
