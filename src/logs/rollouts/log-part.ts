// The rows of one step in one file of a log.

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
  /** Of its bytes, where they stand in a file that may grow. */
  checksum?: number;
}

export interface LogPart {
  /** Undefined where neither path nor rows say it. */
  readonly step?: number | undefined;
  readonly run?: string | undefined;
  readonly ranges: readonly LoggedRange[];
}

/** All of a file. */
export const WHOLE_FILE: LogPart = {
  ranges: [{ begin: 0, end: Number.POSITIVE_INFINITY, line: 0, lines: Number.NaN }],
};
