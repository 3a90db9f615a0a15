// Rollouts as columns: what parsing makes of a piece of a log, in the form in which it goes from a thread to another.
import { FileError } from '../../../checks/errors.js';
import type { LoggedRollout } from '../rollout.js';

/** A line or row that could not be used. */
export interface RowProblem {
  /** Within the piece, from 0. */
  readonly line: number;
  /** Of its first byte within the piece, where there are bytes. */
  readonly offset?: number;
  readonly problem: string;
}

export interface RowBatch {
  readonly rows: number;
  /** Lines of the piece, blank ones among them. */
  readonly lines: number;
  /** Of `rows` entries each, or fewer: undefined, and what is missing at the end, is absent. */
  readonly columns: Readonly<Record<string, readonly unknown[]>>;
  /** Long texts, as bytes in UTF-8. */
  readonly texts?: BatchTexts;
  /** The first of those in `bad`. */
  readonly problems: readonly RowProblem[];
  readonly bad: number;
  /** Bytes after the last line's end are not a whole line: the log is being written, or was cut. */
  readonly cut: boolean;
}

/** Their positions: one by one they would cost a thread more to hand over than to find. */
export interface BatchTexts {
  readonly memory: ArrayBuffer;
  /** Of each column, for each row where its text begins and ends; −1 if `columns` has what there is. */
  readonly places: Readonly<Record<string, Int32Array>>;
}

/** A flood of bad lines is named by its first: the others are counted. */
const MOST_PROBLEMS = 20;

/** Lines that are not rollouts, beside those that are: a file with more is not read to its end. */
const MOST_BAD = 2 ** 15;
const MOST_BAD_TIMES = 64;

/** @throws {FileError} if almost nothing is a rollout */
export function checkBad(path: string, bad: number, of: number): void {
  if (bad <= MOST_BAD + MOST_BAD_TIMES * (of - bad)) return;
  const problem = `${bad} of ${of} lines are no rollouts: the file is damaged, or something else than a log of rollouts`;
  throw new FileError({ path }, problem);
}

export class BatchBuilder {
  readonly #columns: Record<string, unknown[]> = {};
  readonly #problems: RowProblem[] = [];
  #rows = 0;
  #bad = 0;

  add(row: LoggedRollout & { line?: number; annotated?: unknown }): void {
    for (const name in row) {
      const value = row[name as keyof LoggedRollout];
      if (value === undefined) continue;
      const column = this.#columns[name] ?? [];
      this.#columns[name] = column;
      // Holes would make a slow array of it.
      while (column.length < this.#rows) column.push(undefined);
      column.push(value);
    }
    this.#rows++;
  }

  fail(problem: RowProblem): void {
    this.#bad++;
    if (this.#problems.length < MOST_PROBLEMS) this.#problems.push(problem);
  }

  /** @param room that bytes among the rows are views into */
  finish(lines: number, cut = false, room?: Buffer): RowBatch {
    const texts = room && { texts: { memory: room.buffer as ArrayBuffer, places: this.#takePlaces() } };
    const columns = this.#columns;
    return { rows: this.#rows, lines, columns, ...texts, problems: this.#problems, bad: this.#bad, cut };
  }

  #takePlaces(): Record<string, Int32Array> {
    const found: Record<string, Int32Array> = {};
    for (const name of ['prompt', 'output', 'reasoning']) {
      const column = this.#columns[name];
      if (!column?.some((value) => value instanceof Uint8Array)) continue;
      const places = new Int32Array(2 * this.#rows).fill(-1);
      for (let row = 0; row < column.length; row++) {
        const text = column[row];
        if (!(text instanceof Uint8Array)) continue;
        places[2 * row] = text.byteOffset;
        places[2 * row + 1] = text.byteOffset + text.byteLength;
        column[row] = undefined;
      }
      found[name] = places;
      if (!column.some((value) => value !== undefined)) this.#columns[name] = [];
    }
    return found;
  }
}
