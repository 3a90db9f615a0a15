// Paths as a user types them -> the files of rollout logs in them, each with the reader that knows it.
import type { Dirent } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { basename, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { ArgumentError, FileError } from '../../checks/errors.js';
import { nearestName } from '../../checks/nearest-name.js';
import { printable } from '../../checks/words.js';
import { isAddress } from '../stores/address.js';
import type { FileChoice } from '../stores/file-choice.js';
import { isLink, missingProblem } from '../stores/missing-file.js';
import { naturalOrder } from '../stores/natural-order.js';
import { NothingFoundError } from '../stores/nothing-found.js';
import { findObjects } from '../stores/s3/listing.js';
import { isRemote, isSearched, UNKNOWN_STORE } from '../stores/store.js';
import { errorCode, NOT_A_FILE, systemProblem } from '../stores/system-problem.js';
import { type Container, PICKLED, PICKLED_ADVICE, type Place, type RolloutFormat } from './format.js';
import { FORMATS } from './formats/index.js';
import { LineFile } from './json-lines/line-blocks.js';
import { type FormatChoice, formatOf, MAPPED } from './json-lines/parse-lines.js';
import { headOf } from './rows/file-head.js';

export interface LogFile {
  readonly path: string;
  readonly choice: FormatChoice;
  readonly container: Container;
  readonly place: Place;
  readonly bytes: number;
  /** Tells one content of the file from another. */
  readonly stamp: string;
}

export interface FoundLogs {
  /** In natural order. */
  readonly files: readonly LogFile[];
  readonly problems: readonly FileError[];
  /** What was passed over, and why. */
  readonly notes: readonly string[];
}

const CONTAINERS: readonly { readonly ending: RegExp; readonly container: Container }[] = [
  { ending: /\.(jsonl|ndjson|json)(\.gz|\.zst)?$/, container: 'json-lines' },
  { ending: /\.parquet$/, container: 'parquet' },
  { ending: /\.csv(\.gz|\.zst)?$/, container: 'csv' },
];

const ENDINGS = '*.jsonl, *.ndjson, *.json, *.parquet or *.csv file (text also as .gz or .zst)';

/** Every trainer leaves some beside its log, of which nothing need be said. */
const SETTINGS = /\.json$/;

const MAX_DEPTH = 64;

/** Files looked at side by side. */
const OPEN_AT_ONCE = 16;

/** Files of no format that a message names. */
const MOST_NAMED = 5;

/**
 * Finds the logs at `source`. A file is taken whatever its name; a folder is searched for the endings of logs, and what
 * no reader knows in it is passed over with a note. Never rejects because of a path.
 * @param choice reader that is forced, or what is known of its columns
 * @param wanted of the files found in folders
 * @param seen files as an earlier look had them, which is filled: those that have not changed are not read again
 */
export async function findLogs(
  source: string | readonly string[],
  choice: Partial<FormatChoice> | undefined,
  signal: AbortSignal | undefined,
  wanted: FileChoice,
  seen?: Map<string, LogFile> | undefined,
): Promise<FoundLogs> {
  const search = new Search(signal, wanted, choice?.name !== undefined);
  for (const path of typeof source === 'string' ? [source] : source) await search.argument(path);
  const candidates = [...search.files.values()].sort((a, b) => naturalOrder(a.path, b.path));
  const { problems, notes } = search;
  const outcomes: (LogFile | FileError | string | undefined)[] = new Array(candidates.length);
  const queue = candidates.entries();
  const lookAtSome = async () => {
    for (const [index, candidate] of queue) {
      signal?.throwIfAborted();
      const before = seen?.get(candidate.path);
      const isSame = before !== undefined && before.stamp === (await stampOf(candidate.path, signal));
      const outcome = isSame ? before : await lookAt(candidate, choice, signal);
      if (typeof outcome === 'object' && !(outcome instanceof FileError)) seen?.set(candidate.path, outcome);
      outcomes[index] = outcome;
    }
  };
  await Promise.all(Array.from({ length: OPEN_AT_ONCE }, lookAtSome));
  const files: LogFile[] = [];
  const unknown: string[] = [];
  const passed: string[] = [];
  for (const [index, outcome] of outcomes.entries()) {
    if (outcome instanceof FileError) problems.push(outcome);
    else if (typeof outcome === 'string') {
      unknown.push(outcome);
      if (!SETTINGS.test(candidates[index]?.path ?? '')) passed.push(outcome);
    } else if (outcome !== undefined) files.push(outcome);
  }
  search.reportEmpty(files, unknown);
  if (passed.length > 0) {
    const more = passed.length > MOST_NAMED ? `, and ${passed.length - MOST_NAMED} more` : '';
    notes.push(`passed over, of no format that is read: ${passed.slice(0, MOST_NAMED).join('; ')}${more}`);
  }
  if (search.pickled.length > 0) {
    const [first] = search.pickled as [string];
    const others = search.pickled.length > 1 ? ` and ${search.pickled.length - 1} more` : '';
    notes.push(`passed over: ${first}${others}: ${PICKLED_ADVICE}`);
  }
  return { files, problems, notes };
}

interface Candidate {
  readonly path: string;
  /** Named by the user, or found in this folder. */
  readonly root: string | undefined;
}

class Search {
  /** By real path: a file that is reached in two ways comes once. */
  readonly files = new Map<string, Candidate>();
  readonly problems: FileError[] = [];
  readonly notes: string[] = [];
  readonly pickled: string[] = [];
  readonly #roots: string[] = [];
  readonly #searched = new Set<string>();

  constructor(
    private readonly signal: AbortSignal | undefined,
    private readonly wanted: FileChoice,
    private readonly isForced: boolean,
  ) {}

  async argument(path: string): Promise<void> {
    if (isSearched(path)) return this.#objects(path);
    if (isRemote(path)) return this.#add({ path, root: undefined }, path);
    if (isAddress(path)) return this.#problem(path, UNKNOWN_STORE);
    if (path === '')
      return this.#problem('""', 'an empty path, as of a variable that is not set: name files or folders');
    try {
      const found = await stat(path);
      if (found.isDirectory()) {
        this.#roots.push(path);
        await this.#directory(path, path, 0);
      } else if (found.isFile()) this.#add({ path, root: undefined }, await realpath(path));
      else this.#problem(path, NOT_A_FILE);
    } catch (error) {
      this.signal?.throwIfAborted();
      if (errorCode(error) === 'ENOENT' && !(await isLink(path)) && (await this.#glob(path))) return;
      this.#problem(path, await missingProblem(path, error), error);
    }
  }

  /** Of a store: one, those below a prefix, or those that a pattern matches. */
  async #objects(path: string): Promise<void> {
    const { signal, wanted: choice, isForced: takesAnyName } = this;
    const kind = { isName: isLogName, endings: ENDINGS, what: 'rollouts', takesAnyName };
    const { paths, problems, isNamed = false } = await findObjects(path, { signal, choice, kind });
    this.problems.push(...problems);
    const prefix = path.replace(/\/+$/, '');
    for (const found of paths) {
      // What a pattern matches is named by it, as on a disk.
      const root = !isNamed && found.startsWith(`${prefix}/`) ? prefix : undefined;
      if (root !== undefined && PICKLED.test(found)) this.pickled.push(found);
      else this.#add({ path: found, root }, found);
    }
  }

  /** Folders that the user named and in which no reader knows a file. */
  reportEmpty(files: readonly LogFile[], unknown: readonly string[]): void {
    for (const root of this.#roots) {
      const inside = resolve(root) + sep;
      if (files.some(({ path }) => resolve(path).startsWith(inside))) continue;
      if (this.problems.some(({ path }) => resolve(path).startsWith(inside) || path === root)) continue;
      const pickled = this.pickled.find((path) => resolve(path).startsWith(inside));
      if (pickled !== undefined) {
        this.problems.push(
          new NothingFoundError(
            { path: root },
            `holds ${printable(basename(pickled))} and the like: ${PICKLED_ADVICE}`,
          ),
        );
        continue;
      }
      const seen = unknown.slice(0, MOST_NAMED).join('; ');
      const problem =
        unknown.length === 0
          ? `neither this directory nor those below it hold a ${ENDINGS}: name the folder that the trainer writes its rollouts to`
          : `holds no rollouts that a reader knows: ${seen}. ${whatIsRead()}`;
      this.problems.push(new NothingFoundError({ path: root }, problem));
    }
  }

  async #glob(pattern: string): Promise<boolean> {
    const { glob, isDynamicPattern } = await import('tinyglobby');
    if (!isDynamicPattern(pattern)) return false;
    const matches = await glob(pattern, { absolute: isAbsolute(pattern), onlyFiles: false, expandDirectories: false });
    const usable = matches.filter((match) => match.endsWith('/') || containerOf(match) !== undefined);
    if (usable.length === 0) {
      const problem = `no such file, and as a pattern it matches no directory and no ${ENDINGS}`;
      this.problems.push(new NothingFoundError({ path: pattern }, problem));
    }
    for (const match of usable.sort(naturalOrder)) await this.argument(match.replace(/(?<=.)\/+$/, ''));
    return true;
  }

  async #directory(path: string, root: string, depth: number): Promise<void> {
    this.signal?.throwIfAborted();
    let entries: Dirent[];
    let real: string;
    try {
      real = await realpath(path);
      if (this.#searched.has(real)) return;
      this.#searched.add(real);
      entries = await readdir(path, { withFileTypes: true });
    } catch (error) {
      return this.#problem(path, systemProblem(error), error);
    }
    if (depth > MAX_DEPTH)
      return this.#problem(path, `directories nested deeper than ${MAX_DEPTH}: name one further down`);
    for (const entry of entries) {
      if (entry.name.startsWith('.')) continue;
      const inside = join(path, entry.name);
      if (this.wanted.leavesOut(slashed(relative(root, inside)))) continue;
      if (entry.isDirectory()) await this.#directory(inside, root, depth + 1);
      else if (entry.isSymbolicLink()) await this.#link(inside, root, depth + 1);
      else this.#file(inside, join(real, entry.name), root);
    }
  }

  async #link(path: string, root: string, depth: number): Promise<void> {
    try {
      if ((await stat(path)).isDirectory()) await this.#directory(path, root, depth);
      else this.#file(path, await realpath(path), root);
    } catch (error) {
      if (containerOf(path) !== undefined) this.#problem(path, await missingProblem(path, error), error);
    }
  }

  #file(path: string, real: string, root: string): void {
    if (!this.wanted.takes(slashed(relative(root, path)))) return;
    if (PICKLED.test(path)) this.pickled.push(path);
    else if (containerOf(path) !== undefined) this.#add({ path, root }, real);
  }

  #add(candidate: Candidate, real: string): void {
    if (!this.files.has(real)) this.files.set(real, candidate);
  }

  #problem(path: string, problem: string, cause?: unknown): void {
    this.problems.push(new FileError({ path }, problem, cause === undefined ? {} : { cause }));
  }
}

const slashed = (path: string): string => path.split(sep).join('/');

/** Whether a file of this name can be a log, or is a pickle, of which something is said. */
export function isLogName(path: string): boolean {
  return containerOf(path) !== undefined || PICKLED.test(path);
}

function containerOf(path: string): Container | undefined {
  return CONTAINERS.find(({ ending }) => ending.test(path))?.container;
}

/** Undefined for a file that cannot be opened. */
async function stampOf(path: string, signal: AbortSignal | undefined): Promise<string | undefined> {
  const file = await LineFile.open(path, signal).catch(() => undefined);
  await file?.close();
  return file?.stamp;
}

/**
 * @returns a log, what is wrong with it, the words for one that no reader knows, or undefined for what lies beside a
 *   log
 */
async function lookAt(
  { path, root }: Candidate,
  { name: forced, columns }: Partial<FormatChoice> = {},
  signal: AbortSignal | undefined,
): Promise<LogFile | FileError | string | undefined> {
  const isNamed = root === undefined;
  const name = printable(isNamed ? path : relative(root, path));
  if (PICKLED.test(path)) return new FileError({ path }, PICKLED_ADVICE);
  const beside = isNamed ? '' : join('/', relative(root, path));
  if (
    !isNamed &&
    FORMATS.some((format) => format.passesOver?.(beside) && (forced === undefined || forced === format.name))
  ) {
    return undefined;
  }
  const container = containerOf(path) ?? 'json-lines';
  try {
    const mapped = Object.values(columns ?? {}).filter((column) => column !== undefined);
    const { rows, missing, bytes, stamp } = await headOf(path, container, mapped, signal);
    if (rows.length === 0)
      return isNamed ? new FileError({ path }, 'is empty: nothing has been written to it yet') : undefined;
    const keys = new Set(rows.flatMap((row) => [...row]));
    const format = forced === undefined ? recognised(path, container, rows) : formatOf({ name: forced, columns });
    if (format === undefined || !format.containers.includes(container)) {
      const found = `${name} (${printable([...keys].join(', ')) || 'no JSON objects'})`;
      return isNamed ? new FileError({ path }, `no reader knows it: it has ${found}. ${whatIsRead()}`) : found;
    }
    const problem = missing.length > 0 ? missingColumns(missing, keys) : unfitting(format, container, rows, path);
    if (problem !== undefined) {
      // In a folder other files may lie beside the log.
      const isOther = forced !== MAPPED || missing.length === mapped.length;
      return isNamed || !isOther ? new FileError({ path }, problem) : `${name} (${problem})`;
    }
    const place = format.place(path, root);
    const runDirectory = isRemote(path) ? place.runDirectory : resolve(place.runDirectory);
    return {
      path,
      choice: { name: format.name, ...(columns !== undefined && { columns }) },
      container,
      place: { ...place, runDirectory },
      bytes,
      stamp,
    };
  } catch (error) {
    if (error instanceof FileError && error !== signal?.reason) return error;
    throw error;
  }
}

/**
 * By the first row that a reader knows: a heading may stand before it.
 * @throws FileError where several readers know it
 */
function recognised(
  path: string,
  container: Container,
  rows: readonly ReadonlySet<string>[],
): RolloutFormat | undefined {
  const knowing = (keys: ReadonlySet<string>): RolloutFormat[] =>
    FORMATS.filter((format) => format.containers.includes(container) && format.recognises(keys, path));
  const keys = rows.find((row) => knowing(row).length > 0);
  if (keys === undefined) return undefined;
  const fitting = knowing(keys);
  if (fitting.length < 2) return fitting[0];
  const names = fitting.map(({ name }) => name);
  const problem = `its fields (${printable([...keys].join(', '))}) are those of ${names.join(' and ')}: say which it is (--format ${names[0]})`;
  throw new FileError({ path }, problem);
}

/** Of columns that the user names and no row has. */
function missingColumns(missing: readonly string[], keys: ReadonlySet<string>): string {
  const meant = missing.map((name) => nearestName(name, keys)).filter((name) => name !== undefined);
  const there = printable([...keys].join(', ')) || 'no fields';
  const advice = meant.length > 0 ? ` (did you mean ${printable(meant.join(', '))}?)` : '';
  return `no column ${printable(missing.join(', '))}; the file has ${there}${advice}`;
}

/** What is wrong with a reader that the user names and that finds nothing of its own. */
function unfitting(
  { name, fields, needs, stepField, runField, columnsOf, recognises }: RolloutFormat,
  container: Container,
  rows: readonly ReadonlySet<string>[],
  path: string,
): string | undefined {
  const own = fields.filter((field) => field !== stepField && field !== runField);
  if (columnsOf !== undefined && rows.some((row) => recognises(row, path))) return undefined;
  if (rows.some((row) => own.some((field) => row.has(field)))) return undefined;
  const there = printable([...new Set(rows.flatMap((row) => [...row]))].join(', ')) || 'no fields';
  let other: RolloutFormat | undefined;
  try {
    other = recognised(path, container, rows);
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
  }
  const advice = other === undefined ? '' : `; ${other.name} reads it (--format ${other.name})`;
  return `is no log of ${name}, which has ${needs}; the file has ${there}${advice}`;
}

/** For messages: what each reader wants, and the way out. */
function whatIsRead(): string {
  const formats = FORMATS.map(({ name, needs }) => `${name} (${needs})`).join('; ');
  return `Read are ${formats}; or name the columns yourself: --columns step=…,group=…,output=…,reward=…`;
}

/** @throws {ArgumentError} for the name of no format */
export function checkFormat(name: unknown): asserts name is string {
  if (FORMATS.some((format) => format.name === name)) return;
  const names = FORMATS.map((format) => format.name);
  const meant = typeof name === 'string' ? nearestName(name, names) : undefined;
  const advice = meant === undefined ? '' : ` (did you mean ${meant}?)`;
  throw new ArgumentError(
    'options.format',
    `got ${JSON.stringify(name)}, expected one of ${names.join(', ')}${advice}`,
  );
}
