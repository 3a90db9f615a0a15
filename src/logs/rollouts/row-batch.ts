// Rollouts as columns: what parsing makes of a piece of a log, in the form in which it goes from a thread to another.
import type { Rollout } from './rollout.js';

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
  /** The first of those in `bad`. */
  readonly problems: readonly RowProblem[];
  readonly bad: number;
  /** What stands after the last line's end and is no whole line: the log is being written, or was cut. */
  readonly cut: boolean;
}

/** A flood of bad lines is named by its first: the others are counted. */
const MOST_PROBLEMS = 20;

export class BatchBuilder {
  readonly #columns: Record<string, unknown[]> = {};
  readonly #problems: RowProblem[] = [];
  #rows = 0;
  #bad = 0;

  add(row: Rollout & { line?: number }): void {
    for (const name in row) {
      const column = this.#columns[name] ?? [];
      this.#columns[name] = column;
      // Holes would make a slow array of it.
      while (column.length < this.#rows) column.push(undefined);
      column.push(row[name as keyof Rollout]);
    }
    this.#rows++;
  }

  fail(problem: RowProblem): void {
    this.#bad++;
    if (this.#problems.length < MOST_PROBLEMS) this.#problems.push(problem);
  }

  finish(lines: number, cut = false): RowBatch {
    return { rows: this.#rows, lines, columns: this.#columns, problems: this.#problems, bad: this.#bad, cut };
  }
}
