// Interface of a reader of one trainer's log: how it recognises its files, and what a line or a row of them says.
import { basename, dirname } from 'node:path';
import { type NamedPlace, placeByNames } from '../place-names.js';
import type { RolloutColumn } from './columns.js';
import type { Fields } from './fields.js';
import type { LoggedRollout } from './rollout.js';

export type Container = 'json-lines' | 'parquet' | 'csv';

/** Place of a file in the log of a run, by its path. A split is added to the run's name. */
export interface Place extends Omit<NamedPlace, 'step'> {
  /** The step of all rows. Without it rows say theirs. */
  readonly step?: number | undefined;
  /** The step of rows that say none. */
  readonly stepElse?: number | undefined;
}

/** What is known beside a line's fields. */
export interface RowContext {
  readonly path: string;
  readonly place: Place;
  /** Column that the user says to name the environment. */
  readonly environment?: string | undefined;
}

export interface RolloutFormat {
  /** That of its folder. */
  readonly name: string;
  /** What its files are, the usual one first. */
  readonly containers: readonly [Container, ...Container[]];
  /** What its files have, for messages and `collapsar formats`. */
  readonly needs: string;
  /** What makes the trainer write it; names of options and files in backticks, as in the two fields below. */
  readonly setting: string;
  /** What a reading of it gives. */
  readonly gives: string;
  /** Where the name of a row's environment is taken from. */
  readonly environment?: string;
  /**
   * @param keys of a line, or the columns of the table
   * @param root the folder that was searched: names above it say nothing
   */
  recognises(keys: ReadonlySet<string>, path: string, root?: string): boolean;
  /**
   * Fields that are read: others are stepped over. Of Parquet with columns of any name, those that `columnsOf` picks.
   */
  readonly fields: readonly string[];
  /** Rows of JSON have fields of any name, all of which are read. */
  readonly hasOtherFields?: boolean;
  /** Columns of a table to read beside `fields`. */
  columnsOf?(columns: readonly TableColumn[]): readonly string[];
  /** Field that holds the step, if paths do not; it may be a path into an object. */
  readonly stepField?: string;
  /** Fields that say what is not training, if paths do not: the first that says something counts. */
  readonly splits?: readonly RowSplit[];
  readonly runField?: string;
  /** Its trainer's layout of files, if names that others use do not say it (place-names.ts). */
  place?(path: string): Place;
  /** Rollouts of one line. @throws {LineProblem} naming the field that is not as expected */
  rows(line: Fields, context: RowContext): readonly LoggedRollout[];
  /** A line is a group: rows get its number as group id. */
  readonly groupIsLine?: boolean;
  /**
   * Column of advantages, where `rewards` of a row are columns of numbers of which some make up its reward: which, with
   * what weights, they tell.
   */
  readonly advantageField?: string;
  /**
   * Why a step may be the step before once more, of trainers that write their last rows whenever they log. Without it
   * equal rows are another step's.
   */
  readonly byClock?: string;
  /** Why columns are never there. */
  readonly absent: Readonly<Partial<Record<RolloutColumn, string>>>;
  /** Remarks for a reader of the figures, the same for every step. */
  readonly notes: readonly string[];
  /** Folder of a log's later remarks about its rows, and how it is opened. */
  readonly annotations?: {
    readonly folder: (path: string) => string | undefined;
    readonly open: (folder: string, maxMemory: number | undefined, signal?: AbortSignal) => Promise<Annotations>;
  };
  /** Other files that the trainer puts beside its log: passed over without a word. */
  passesOver?(path: string): boolean;
}

/** What to say of a pickle (logs/input-names.ts). */
export const PICKLED_ADVICE =
  'a pickle runs code when it is loaded, so it is not read here: the Python package writes it as Parquet (collapsar export)';

/** What the trainer says of rows after it has logged them, in other files. */
export interface Annotations {
  /** Remarks for a reader of the figures. */
  readonly notes: readonly string[];
  /** Puts it into the rows of a step. @throws {FileError} when a file cannot be read */
  fold(rows: AnnotatedRows, signal: AbortSignal | undefined): Promise<void>;
  close(): Promise<void>;
}

/** The rows of a step, to which columns are added. */
export interface AnnotatedRows {
  /** @param name of a column, or `annotated`: what the reader needs to know of the row */
  column<T>(name: RolloutColumn | 'annotated'): readonly (T | undefined)[] | undefined;
  put(name: RolloutColumn, values: readonly unknown[]): void;
}

/** A field of which each row's split is read. */
export interface RowSplit {
  readonly field: string;
  /** @returns `train`, or the name of what is not training: eval, val */
  of(line: Fields): string | undefined;
}

/** Name and physical type of a column of a table. */
export interface TableColumn {
  readonly name: string;
  readonly type: string;
}

/**
 * A trainer's place of a file that is named after its step.
 * @param pattern of the file's name; its first group is the step
 * @param own the trainer's folder below that of the run
 */
export function placeByName(path: string, pattern: RegExp, own?: RegExp): Place {
  return placeIn(foldersOf(path), pattern.exec(plainName(path))?.[1], own);
}

/**
 * A trainer's place of a file in a folder that is named after its step; without such a folder, its own is the run's.
 * @param pattern of the folder's name; its first group is the step
 * @param own the trainer's folder between that of the run and those of steps
 * @param split of what is in such a folder
 * @param depth folders that are looked at, the innermost first
 */
export function placeByFolder(
  path: string,
  pattern: RegExp,
  { own, split, depth = 1 }: { own?: RegExp; split?: string; depth?: number } = {},
): Place {
  const folders = foldersOf(path);
  const at = folders.slice(0, depth).findIndex(({ name }) => pattern.test(name));
  if (at < 0) return placeIn(folders);
  return { ...placeIn(folders.slice(at + 1), pattern.exec(folders[at]?.name ?? '')?.[1], own), split };
}

function placeIn([folder, above]: readonly Folder[], step?: string, own?: RegExp): Place {
  const run = folder !== undefined && own?.test(folder.name) ? above : folder;
  return { runDirectory: run?.path ?? '.', ...(step !== undefined && { step: Number(step) }) };
}

/** Place of a file: by its trainer's layout, or else by the one rule of names. */
export function placeOf(format: RolloutFormat, path: string, root: string | undefined): Place {
  const own = format.place?.(path);
  const { step, ...names } = placeByNames(path, root, own);
  return {
    ...names,
    ...(own?.partOf !== undefined && { partOf: own.partOf }),
    ...(own?.step === undefined ? { stepElse: step } : { step }),
  };
}

const COMPRESSED = /\.(gz|zst|zip)$/;

/** Inspect's log is a zip file as well. */
const ZIPPED = /\.(zip|eval)$/;

/** Whether a file of lines is compressed. */
export function isCompressed(path: string): boolean {
  return COMPRESSED.test(path) || ZIPPED.test(path);
}

/** Which members of a zip file are read; undefined for a file of another kind. */
export function zippedMembers(path: string): ((name: string) => boolean) | undefined {
  if (!ZIPPED.test(path)) return undefined;
  const wanted = path.endsWith('.eval') ? /^samples\/[^/]+\.json$/ : /\.(jsonl|ndjson|json)$/;
  return (name) => wanted.test(name);
}

/** The file's name without what compression adds. */
export function plainName(path: string): string {
  return basename(path).replace(COMPRESSED, '');
}

interface Folder {
  readonly name: string;
  readonly path: string;
}

/** Folders of a path, the innermost first. */
export function foldersOf(path: string): Folder[] {
  const found: Folder[] = [];
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

/** Builds a rollout; readers of it treat absent and undefined alike. */
export function rollout(values: { [Column in RolloutColumn]?: LoggedRollout[Column] | undefined }): LoggedRollout {
  return values as LoggedRollout;
}
