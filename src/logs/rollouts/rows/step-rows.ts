// The rows of one step as they come, piece by piece, as columns.

import type { RolloutColumn } from '../columns.js';
import { giveBack } from '../json-lines/line-blocks.js';
import { ROW_BYTES } from '../log-part.js';
import { bufferOver, type LoggedText } from '../logged-text.js';
import type { BatchTexts, RowBatch } from './row-batch.js';

/** An array, beside its elements. */
const ARRAY_BYTES = 128;

/** Rows as they come, in the order of files and lines. */
export class StepRows {
  rows = 0;
  bad = 0;
  /** What is held of them, about. */
  bytes = 0;
  isCut = false;
  /** Group ids are numbers of lines: not the log's. */
  groupIsLine = false;
  readonly #columns = new Map<string, unknown[]>();
  readonly #memory: ArrayBuffer[] = [];

  /** @param firstLine number of the batch's first line in its file */
  add({ rows, columns, texts, bad, cut }: RowBatch, firstLine: number): void {
    if (texts !== undefined) this.#memory.push(texts.memory);
    this.bytes += rows * ROW_BYTES + (texts?.memory.byteLength ?? 0);
    for (const [name, values] of Object.entries(columns)) {
      if (name === 'line') {
        this.groupIsLine = true;
        this.#append(
          'group',
          values.map((line) => String(firstLine + (line as number) + 1)),
        );
      } else this.#append(name, values);
      this.bytes += bytesOf(values, name === 'prompt');
    }
    for (const [name, places] of Object.entries(texts?.places ?? {})) {
      const column = this.#append(name, []);
      const { memory } = texts as BatchTexts;
      while (column.length < this.rows + rows) column.push(undefined);
      for (let row = 0; row < rows; row++) {
        const begin = places[2 * row] as number;
        if (begin < 0) continue;
        // Undefined if the batch has a string for it.
        column[this.rows + row] = new Uint8Array(memory, begin, (places[2 * row + 1] as number) - begin);
      }
    }
    this.rows += rows;
    this.bad += bad;
    this.isCut ||= cut;
  }

  get names(): RolloutColumn[] {
    return [...this.#columns.keys()] as RolloutColumn[];
  }

  column<T>(name: RolloutColumn | 'annotated'): (T | undefined)[] | undefined {
    const column = this.#columns.get(name) as (T | undefined)[] | undefined;
    while (column !== undefined && column.length < this.rows) column.push(undefined);
    return column;
  }

  /** Adds a column, or replaces it. @param values one a row */
  put(name: RolloutColumn, values: readonly unknown[]): void {
    this.#columns.set(name, [...values]);
  }

  /** Makes strings of a column's texts. Rows of a prompt are mostly adjacent: theirs are one string. */
  readTexts(name: RolloutColumn): void {
    const column = this.#columns.get(name) as (LoggedText | undefined)[] | undefined;
    if (column === undefined) return;
    let last: Buffer | undefined;
    let text = '';
    for (let row = 0; row < column.length; row++) {
      const logged = column[row];
      if (logged === undefined || typeof logged === 'string') continue;
      const bytes = bufferOver(logged);
      if (last === undefined || !last.equals(bytes)) text = bytes.toString('utf8');
      last = bytes;
      column[row] = text;
    }
  }

  /** Leaves out all rows but these. */
  keep(rows: readonly number[]): void {
    for (const name of this.#columns.keys()) {
      const column = this.column(name as RolloutColumn) as unknown[];
      this.#columns.set(
        name,
        rows.map((row) => column[row]),
      );
    }
    this.rows = rows.length;
  }

  /** The texts are not read any more: their memory serves others. */
  release(): void {
    for (const memory of this.#memory.splice(0)) giveBack(memory);
  }

  #append(name: string, values: readonly unknown[]): unknown[] {
    const column = this.#columns.get(name) ?? [];
    this.#columns.set(name, column);
    while (column.length < this.rows) column.push(undefined);
    for (const value of values) column.push(value);
    return column;
  }
}

/** @param isShared rows of a prompt are mostly adjacent, and have one text */
function bytesOf(values: readonly unknown[], isShared: boolean): number {
  let bytes = 0;
  let last: unknown;
  for (const value of values) {
    if (isShared && value === last) continue;
    last = value;
    if (typeof value === 'string') bytes += value.length;
    else if (ArrayBuffer.isView(value)) bytes += ARRAY_BYTES + value.byteLength;
    else if (typeof value === 'object' && value !== null) bytes += bytesOf(Object.values(value), false);
  }
  return bytes;
}
