// What a reader of one trainer's log is: how it knows its files, and what a line or a row of them says.
import { basename, dirname } from 'node:path';
import type { RolloutColumn } from './columns.js';
import type { Fields } from './fields.js';
import type { LoggedRollout } from './rollout.js';

export type Container = 'json-lines' | 'parquet' | 'csv';

/** Where a file stands in the log of a run, as its path says. */
export interface Place {
  /** Folder that is the run's. */
  readonly runDirectory: string;
  /** Added to the run's name, for what is no training: eval, val. */
  readonly split?: string | undefined;
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
  /** @param keys of a line, or the columns of the table */
  recognises(keys: ReadonlySet<string>, path: string): boolean;
  /**
   * Fields that are read: others are stepped over. Of Parquet with columns of any name, those that `columnsOf` picks.
   */
  readonly fields: readonly string[];
  /** Columns of a table to read beside `fields`. */
  columnsOf?(columns: readonly TableColumn[]): readonly string[];
  /** Field that holds the step, where paths do not; it may be a path into an object. */
  readonly stepField?: string;
  /** Fields that say what is no training, where paths do not: the first that says something counts. */
  readonly splits?: readonly RowSplit[];
  readonly runField?: string;
  /** @param root the folder that was searched: names above it say nothing */
  place(path: string, root?: string): Place;
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
  /** What whoever reads the figures should know of every step. */
  readonly notes: readonly string[];
  /** Other files that the trainer puts beside its log: passed over without a word. */
  passesOver?(path: string): boolean;
}

/** What to say of a pickle (logs/input-names.ts). */
export const PICKLED_ADVICE =
  'a pickle runs code when it is loaded, so it is not read here: the Python package writes it as Parquet (collapsar export)';

/** A field of which each row's split is read. */
export interface RowSplit {
  readonly field: string;
  /** @returns `train`, or what is no training: eval, val */
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

const STEP = '(?:global[._-]?)?(?:step|iteration|iter|checkpoint)[._-]?(\\d+)';
const STEP_FOLDER = new RegExp(`^${STEP}$`, 'i');
const STEP_IN_NAME = new RegExp(`(?:^|[._-])${STEP}(?=[._-]|$)`, 'i');
/** Of a step that several processes write. */
const PART_FOLDER = /^(?:rank|shard|part|worker)[._-]?\d+$/i;
const SPLIT_FOLDER = /^(train|eval|val|valid|validation|test)$/i;
const SPLIT_IN_NAME = /(?:^|[._-])(train|eval|val|valid|validation|test)(?=[._-]|$)/i;

/**
 * By the names of a file and its folders, whoever wrote them: a step and its number, parts of a step, and what is no
 * training. The run is the folder above those.
 * @param root names above it say nothing; without it only the innermost folder counts
 */
export function placeByNames(path: string, root?: string): Place & { readonly step?: number } {
  const folders = foldersOf(path);
  const from = root?.replace(/(?<=.)\/+$/, '');
  const counting = folders.filter(({ path: at }, depth) =>
    from === undefined ? depth === 0 : at.length >= from.length && (at.startsWith(from) || from === '.'),
  );
  const stem = plainName(path).replace(/\.(jsonl|ndjson|json|parquet|csv)$/, '');
  const inside = counting.findIndex(({ name }) => STEP_FOLDER.test(name));
  let above = inside + 1;
  const isOver = ({ name }: { name: string }): boolean => PART_FOLDER.test(name) || SPLIT_FOLDER.test(name);
  while (counting[above] !== undefined && isOver(counting[above] as { name: string })) above++;
  const step = STEP_IN_NAME.exec(stem)?.[1] ?? STEP_FOLDER.exec(counting[inside]?.name ?? '')?.[1];
  const split = [
    SPLIT_IN_NAME.exec(stem)?.[1],
    ...counting.slice(0, above).map(({ name }) => SPLIT_FOLDER.exec(name)?.[1]),
  ].find((found) => found !== undefined);
  const word = split?.toLowerCase().replace(/^valid(ation)?$/, 'val');
  return {
    runDirectory: folders[above]?.path ?? dirname(path),
    ...(word !== undefined && word !== 'train' && { split: word }),
    ...(step !== undefined && { step: Number(step) }),
  };
}

const COMPRESSED = /\.(gz|zst)$/;

/** Whether a file of lines is compressed. */
export function isCompressed(path: string): boolean {
  return COMPRESSED.test(path);
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

/** Absent and undefined are the same to whoever reads it. */
export function rollout(values: { [Column in RolloutColumn]?: LoggedRollout[Column] | undefined }): LoggedRollout {
  return values as LoggedRollout;
}
