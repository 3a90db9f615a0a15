// Logs of JSON lines: which lines are of which step, and the rows of those lines, parsed on threads where there are
// many.
import { crc32 } from 'node:zlib';
import { LineProblem } from '../fields.js';
import type { RolloutFormat } from '../format.js';
import type { LogPart, Range } from '../log-part.js';
import type { RowBatch } from '../row-batch.js';
import { JsonFields } from './json-fields.js';
import { giveBack, type LineFile } from './line-blocks.js';
import type { BlockContext } from './parse-lines.js';
import type { ParsePool } from './parse-pool.js';

const LINE_END = 0x0a;

/** Where the lines of each step stand; one part, without a step, where no line says one. */
export async function indexLines(
  file: LineFile,
  format: RolloutFormat,
  signal: AbortSignal | undefined,
): Promise<LogPart[]> {
  const names = [format.stepField, format.runField].filter((name) => name !== undefined);
  if (names.length === 0) return [{ ranges: [wholeFile()] }];
  const parts = new Map<string, LogPart & { ranges: Range[]; checksum: number }>();
  const fields = new JsonFields(names, true);
  let number = 0;
  let range: Range | undefined;
  let part: (LogPart & { ranges: Range[]; checksum: number }) | undefined;
  let key: string | undefined;
  for await (const { bytes, offset, tooLong } of file.blocks(0, Number.POSITIVE_INFINITY, signal)) {
    if (tooLong !== undefined) number++;
    // Lines of one step mostly come together: their bytes are taken into its checksum in one go.
    let unchecked = 0;
    for (let begin = 0; begin < bytes.length; ) {
      const found = bytes.indexOf(LINE_END, begin);
      const end = found < 0 ? bytes.length : found;
      const said = stepIn(fields, bytes, begin, end, format);
      // A line that says nothing goes with those before it, and is named when they are read.
      if (said !== undefined && said.key !== key) {
        const first = range === undefined;
        if (part !== undefined) part.checksum = crc32(bytes.subarray(unchecked, begin), part.checksum);
        unchecked = first ? 0 : begin;
        range = { begin: first ? 0 : offset + begin, end: offset + end + 1, line: first ? 0 : number };
        key = said.key;
        part = parts.get(key) ?? { step: said.step, run: said.run, ranges: [], checksum: 0 };
        part.ranges.push(range);
        parts.set(key, part);
      } else if (range !== undefined) {
        range.end = offset + end + 1;
      }
      begin = end + 1;
      number++;
    }
    if (part !== undefined) part.checksum = crc32(bytes.subarray(unchecked), part.checksum);
    giveBack(bytes);
  }
  if (parts.size === 0) return [{ ranges: [wholeFile()] }];
  return [...parts.values()].map(({ checksum, ...found }) => ({ ...found, digest: digestOf(found.ranges, checksum) }));
}

export function wholeFile(): Range {
  return { begin: 0, end: Number.POSITIVE_INFINITY, line: 0 };
}

function stepIn(
  fields: JsonFields,
  bytes: Buffer,
  begin: number,
  end: number,
  { stepField, runField }: RolloutFormat,
): { key: string; step: number | undefined; run: string | undefined } | undefined {
  try {
    fields.read(bytes, begin, end);
    const step = stepField === undefined ? undefined : stepOf(fields, stepField);
    const run = runField === undefined ? undefined : fields.id(runField);
    return step === undefined && run === undefined ? undefined : { key: `${step}\n${run}`, step, run };
  } catch (error) {
    if (error instanceof LineProblem) return undefined;
    throw error;
  }
}

/** A step for each line, or a column of them that are all the same. */
function stepOf(fields: JsonFields, name: string): number | undefined {
  const value = fields.value(name);
  return Array.isArray(value) ? (fields.single(name).count(name) ?? firstOf(value)) : fields.count(name);
}

function firstOf(values: readonly unknown[]): number | undefined {
  const [first] = values;
  return typeof first === 'number' && Number.isSafeInteger(first) && first >= 0 ? first : undefined;
}

/**
 * The digest that `indexLines` gives these ranges while they have this content. @throws FileError when the file cannot
 * be read
 */
export async function rangesDigest(
  file: LineFile,
  ranges: readonly Range[],
  signal: AbortSignal | undefined,
): Promise<string> {
  let checksum = 0;
  for (const { begin, end } of ranges) {
    for await (const { bytes } of file.blocks(begin, end, signal)) {
      checksum = crc32(bytes, checksum);
      giveBack(bytes);
    }
  }
  return digestOf(ranges, checksum);
}

function digestOf(ranges: readonly Range[], checksum: number): string {
  const bytes = ranges.reduce((sum, { begin, end }) => sum + end - begin, 0);
  return `${bytes}-${checksum.toString(16)}`;
}

/** Rows of these ranges, in the order of the file. @throws FileError when the file cannot be read */
export async function* readLines(
  file: LineFile,
  ranges: readonly Range[],
  context: BlockContext,
  pool: ParsePool,
  signal: AbortSignal | undefined,
): AsyncGenerator<{ batch: RowBatch; line: number; offset: number }, void, undefined> {
  const coming: { parsing: Promise<RowBatch>; offset: number; first: number | undefined }[] = [];
  let line = 0;
  const next = async () => {
    const { parsing, offset, first } = coming.shift() as (typeof coming)[number];
    const batch = await parsing;
    if (first !== undefined) line = first;
    const place = { batch, line, offset };
    line += batch.lines;
    return place;
  };
  try {
    for (const { begin, end, line: first } of ranges) {
      let isFirst = true;
      for await (const block of file.blocks(begin, end, signal)) {
        const { bytes, isLast, tooLong } = block;
        const parsing = tooLong === undefined ? pool.parse(bytes, context, isLast) : skipped(tooLong);
        // Its failure is told when it is asked for.
        parsing.catch(() => undefined);
        coming.push({ parsing, offset: block.offset, first: isFirst ? first : undefined });
        isFirst = false;
        while (coming.length > pool.threads) yield await next();
      }
    }
    while (coming.length > 0) yield await next();
  } finally {
    await Promise.allSettled(coming.map(({ parsing }) => parsing));
  }
}

async function skipped(bytes: number): Promise<RowBatch> {
  const problem = `has ${bytes} bytes, more than the 2^30 of the longest line that is read`;
  return { rows: 0, lines: 1, columns: {}, problems: [{ line: 0, problem }], bad: 1, cut: false };
}
