// The rows of one step in one file of a log.

/** Bytes of a text file, rows of a table: [begin, end). */
export interface Range {
  readonly begin: number;
  end: number;
  /** Number of the line that it begins with, from 0. */
  readonly line: number;
}

export interface LogPart {
  /** Undefined where neither path nor rows say it. */
  readonly step?: number | undefined;
  readonly run?: string | undefined;
  readonly ranges: readonly Range[];
  /** Of the bytes in them, where they stand in a file that may grow. */
  readonly digest?: string | undefined;
}
