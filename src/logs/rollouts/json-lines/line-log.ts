// Rows of a log of JSON lines, parsed on threads where there are many.
import type { Range } from '../log-part.js';
import type { RowBatch } from '../rows/row-batch.js';
import type { LineFile } from './line-blocks.js';
import type { BlockContext } from './parse-lines.js';
import type { ParsePool } from './parse-pool.js';

/** Rows of these ranges, in the order of the file. @throws FileError when the file cannot be read */
export async function* readLogLines(
  file: LineFile,
  ranges: readonly Range[],
  context: BlockContext,
  pool: ParsePool,
  signal: AbortSignal | undefined,
): AsyncGenerator<{ batch: RowBatch; line: number; offset: number }, void, undefined> {
  const coming: { parsing: Promise<RowBatch>; offset: number; first: number | undefined; bytes: number }[] = [];
  let line = 0;
  /** Bytes that are being parsed. */
  let held = 0;
  const next = async () => {
    const { parsing, offset, first, bytes } = coming.shift() as (typeof coming)[number];
    const batch = await parsing;
    held -= bytes;
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
        const { length } = bytes;
        while (coming.length > 0 && held + length > file.longestLine) yield await next();
        const parsing = tooLong === undefined ? pool.parse(bytes, context, isLast) : skipped(tooLong, file.longestLine);
        // Its failure is reported when its result is asked for.
        parsing.catch(() => undefined);
        coming.push({ parsing, offset: block.offset, first: isFirst ? first : undefined, bytes: length });
        held += length;
        isFirst = false;
        while (coming.length > pool.threads) yield await next();
      }
    }
    while (coming.length > 0) yield await next();
  } finally {
    await Promise.allSettled(coming.map(({ parsing }) => parsing));
  }
}

async function skipped(bytes: number, longest: number): Promise<RowBatch> {
  const problem = `has ${bytes} bytes, more than the ${longest} of the longest line that is read: give more memory (--max-memory), or write a line a rollout`;
  return { rows: 0, lines: 1, columns: {}, problems: [{ line: 0, problem }], bad: 1, cut: false };
}
