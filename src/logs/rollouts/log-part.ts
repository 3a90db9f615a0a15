// The rows of one step in one file of a log.
import { FileError } from '../../checks/errors.js';

/** Bytes of a text file, rows of a table: [begin, end). */
export interface Range {
  readonly begin: number;
  end: number;
  /** Number of the line that it begins with, from 0. */
  readonly line: number;
}

/** A range of a file that was looked through. */
export interface LoggedRange extends Range {
  /** Lines or rows in it. */
  lines: number;
  /** Of its bytes, if the file may grow. */
  checksum?: number;
}

export interface LogPart {
  /** Undefined if neither path nor rows say it. */
  readonly step?: number | undefined;
  readonly run?: string | undefined;
  /** What rows say of it, beside or against the path. */
  readonly split?: string | undefined;
  readonly ranges: readonly LoggedRange[];
}

/** All of a file. */
export const WHOLE_FILE: LogPart = {
  ranges: [{ begin: 0, end: Number.POSITIVE_INFINITY, line: 0, lines: Number.NaN }],
};

/** What a row takes beside its texts, in the columns and in what is made of them until they are measured. */
export const ROW_BYTES = 1024;

/** Of a range, and of a step, in all the forms in which they are held while steps are listed. */
const RANGE_BYTES = 512;
const STEP_BYTES = 2048;

/** Bounds the index of rows that is held: a few packed bytes may say another step in each row. */
export class RangeRoom {
  #held = 0;
  #rows = 0;
  readonly #mostRows: number;

  /** @param maxMemory bytes that reading may take, about; undefined: no bound */
  constructor(
    private readonly path: string,
    private readonly maxMemory: number | undefined,
    isPacked = false,
  ) {
    this.#mostRows = isPacked ? (maxMemory ?? Number.POSITIVE_INFINITY) / ROW_BYTES : Number.POSITIVE_INFINITY;
  }

  /** @throws {FileError} if there is no room for another range */
  take(isNewStep: boolean): void {
    this.#rows = 0;
    this.#held += RANGE_BYTES + (isNewStep ? STEP_BYTES : 0);
    if (this.maxMemory === undefined || this.#held <= this.maxMemory) return;
    const problem = `its rows change their step so often that where they stand takes ${this.#held} bytes, --max-memory has room for ${this.maxMemory}: give more, or write a step's rows together, or a file a step`;
    throw new FileError({ path: this.path }, problem);
  }

  /** Counts a row of the range. @throws {FileError} if its step has more than there is room for, if they are packed */
  addRow(): void {
    if (++this.#rows <= this.#mostRows) return;
    const problem = `a step in it has more than ${Math.floor(this.#mostRows)} rows, for which --max-memory ${this.maxMemory} has no room: give more, or write fewer rows a step`;
    throw new FileError({ path: this.path }, problem);
  }
}

/** Most rows in a row that say no step, in a file of which others do: no log has this many. */
const MOST_SILENT = 2 ** 18;

/** @throws {FileError} after MOST_SILENT successive rows that say no step */
export function checkSilent(path: string, silent: number, what: 'lines' | 'rows', last: number): void {
  if (silent < MOST_SILENT) return;
  const problem = `${silent} ${what} in a row, up to ${what.slice(0, -1)} ${last}, say no step, though others do: the file is damaged, or no log of rollouts`;
  throw new FileError({ path }, problem);
}
