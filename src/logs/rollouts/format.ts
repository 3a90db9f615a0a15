// What a reader of one trainer's log is: how it knows its files, and what a line or a row of them says.
import { basename, dirname } from 'node:path';
import type { Fields } from './fields.js';
import type { LoggedRollout, RolloutColumn } from './rollout.js';

export type Container = 'json-lines' | 'parquet' | 'csv';

/** Where a file stands in the log of a run, as its path says. */
export interface Place {
  /** Folder that is the run's. */
  readonly runDirectory: string;
  /** Added to the run's name, for what is no training: eval, val. */
  readonly split?: string | undefined;
  /** The step of all rows. Without it rows say theirs. */
  readonly step?: number | undefined;
}

/** What is known beside a line's fields. */
export interface RowContext {
  readonly path: string;
  readonly place: Place;
  /** Column that the user says to name the environment. */
  readonly environment?: string | undefined;
}

export interface RolloutFormat {
  readonly name: string;
  readonly containers: readonly Container[];
  /** What its files have, for messages and `collapsar formats`. */
  readonly needs: string;
  /** What makes the trainer write it. */
  readonly setting: string;
  /** @param keys of the first line, or the columns of the table */
  recognises(keys: ReadonlySet<string>, path: string): boolean;
  /**
   * Fields that are read: others are stepped over. Of Parquet with columns of any name, those that `columnsOf` picks.
   */
  readonly fields: readonly string[];
  /** Columns of a table to read beside `fields`. */
  columnsOf?(columns: readonly TableColumn[]): readonly string[];
  /** Field that holds the step, where paths do not. */
  readonly stepField?: string;
  readonly runField?: string;
  place(path: string): Place;
  /** Rollouts of one line. @throws {LineProblem} naming the field that is not as expected */
  rows(line: Fields, context: RowContext): readonly LoggedRollout[];
  /** A line is a group: rows get its number as group id. */
  readonly groupIsLine?: boolean;
  /**
   * Why a step may be the step before once more, of trainers that write their last rows whenever they log. Without it
   * equal rows are another step's.
   */
  readonly byClock?: string;
  /** Why columns are never there. */
  readonly absent: Readonly<Partial<Record<RolloutColumn, string>>>;
  /** What whoever reads the figures should know of every step. */
  readonly notes: readonly string[];
  /** Other files that the trainer puts beside its log: passed over without a word. */
  passesOver?(path: string): boolean;
}

/** Name and physical type of a column of a table. */
export interface TableColumn {
  readonly name: string;
  readonly type: string;
}

/** The last number in the file's name, and its folder. */
export function placeByName(path: string, pattern: RegExp): Place {
  const step = pattern.exec(plainName(path))?.[1];
  return { runDirectory: dirname(path), ...(step !== undefined && { step: Number(step) }) };
}

/** The file's name without what compression adds. */
export function plainName(path: string): string {
  return basename(path).replace(/\.(gz|zst)$/, '');
}

/** Folders of a path, the innermost first. */
export function foldersOf(path: string): { readonly name: string; readonly path: string }[] {
  const found: { name: string; path: string }[] = [];
  for (let folder = dirname(path); found.length < 8; folder = dirname(folder)) {
    found.push({ name: basename(folder), path: folder });
    if (folder === dirname(folder)) break;
  }
  return found;
}

/** Whether all of `names` are among `keys`. */
export function hasAll(keys: ReadonlySet<string>, ...names: string[]): boolean {
  return names.every((name) => keys.has(name));
}

/** Absent and undefined are the same to whoever reads it. */
export function rollout(values: { [Column in RolloutColumn]?: LoggedRollout[Column] | undefined }): LoggedRollout {
  return values as LoggedRollout;
}
