// Looks at the files that a search found: which of them are rollout logs, and which reader knows each.
import { join, relative } from 'node:path';
import { ArgumentError, FileError } from '../../checks/errors.js';
import { nearestName } from '../../checks/nearest-name.js';
import { printable } from '../../checks/words.js';
import { type FoundInputs, type Hit, isWithin, type Searched, withoutLogs } from '../find-inputs.js';
import { containerOf, isPickleName } from '../input-names.js';
import { naturalOrder } from '../stores/natural-order.js';
import { nameOf } from '../stores/store.js';
import { type Container, PICKLED_ADVICE, type Place, placeOf, type RolloutFormat } from './format.js';
import { FORMATS } from './formats/index.js';
import type { ColumnNames } from './formats/rollouts/reader.js';
import { LineFile } from './json-lines/line-blocks.js';
import { type FormatChoice, formatOf, MAPPED } from './json-lines/parse-lines.js';
import { headOf } from './rows/file-head.js';
import { guessOf, unreadFile } from './rows/unread-file.js';

export interface LogFile {
  readonly path: string;
  readonly choice: FormatChoice;
  readonly container: Container;
  readonly place: Place;
  readonly bytes: number;
  /** Identifies the content of the file. */
  readonly stamp: string;
}

/** For columns: those guessed from their names, of each file. */
export const AUTO = 'auto';

/** The reader that is forced, or what is known of the columns. */
export interface LogChoice {
  readonly name?: string | undefined;
  readonly columns?: ColumnNames | typeof AUTO | undefined;
}

export interface FoundLogs {
  /** In natural order. */
  readonly files: readonly LogFile[];
  readonly problems: readonly FileError[];
  /** What was passed over, and why. */
  readonly notes: readonly string[];
  /** What was searched and has no log, and why. */
  readonly empty: ReadonlyMap<Searched, string>;
}

/** Every trainer leaves some beside its log, of which nothing need be said. */
const SETTINGS = /\.json$/;

/** Files looked at side by side. */
const OPEN_AT_ONCE = 16;

/** Files of no format that a message names. */
const MOST_NAMED = 5;

/**
 * Finds the logs among `found`. A file that is named is a log or an error; what no reader knows in a folder is passed
 * over with a note. Never rejects because of a file.
 * @param choice reader that is forced, or what is known of its columns
 * @param seen files as an earlier look had them, which is filled: those that have not changed are not read again
 */
export async function findLogs(
  found: FoundInputs,
  choice: LogChoice | undefined,
  signal: AbortSignal | undefined,
  seen?: Map<string, LogFile> | undefined,
): Promise<FoundLogs> {
  const candidates = found.hits.filter(({ kind }) => kind === 'log').sort((a, b) => naturalOrder(a.path, b.path));
  const outcomes = new Map<Hit, Outcome>();
  const queue = candidates.values();
  const lookAtSome = async () => {
    for (const candidate of queue) {
      signal?.throwIfAborted();
      const before = seen?.get(candidate.path);
      const isSame = before !== undefined && before.stamp === (await stampOf(candidate.path, signal));
      const outcome = isSame ? before : await lookAt(candidate, choice, signal);
      if (outcome !== undefined && 'choice' in outcome) seen?.set(candidate.path, outcome);
      outcomes.set(candidate, outcome);
    }
  };
  await Promise.all(Array.from({ length: OPEN_AT_ONCE }, lookAtSome));
  const files: LogFile[] = [];
  const problems: FileError[] = [];
  const passed: string[] = [];
  for (const candidate of candidates) {
    const outcome = outcomes.get(candidate);
    if (outcome instanceof FileError) problems.push(outcome);
    else if (isUnread(outcome)) {
      if (!SETTINGS.test(candidate.path)) passed.push(outcome.words);
    } else if (outcome !== undefined) files.push(outcome);
  }
  const notes: string[] = [];
  if (passed.length > 0) {
    const more = passed.length > MOST_NAMED ? `, and ${passed.length - MOST_NAMED} more` : '';
    notes.push(`passed over, of no format that is read: ${passed.slice(0, MOST_NAMED).join('; ')}${more}`);
  }
  const [pickle, ...pickles] = found.hits.filter(({ kind }) => kind === 'pickle');
  if (pickle !== undefined) {
    const others = pickles.length > 0 ? ` and ${pickles.length} more` : '';
    notes.push(`passed over: ${pickle.path}${others}: ${PICKLED_ADVICE}`);
  }
  const empty = new Map<Searched, string>();
  for (const searched of found.searched) {
    const problem = reasonOfNone(searched, found, outcomes);
    if (problem !== undefined) empty.set(searched, problem);
  }
  return { files, problems, notes, empty };
}

/** A log, what is wrong with it, the remark about a file that no reader knows, or undefined for a file beside a log. */
type Outcome = LogFile | FileError | Unread | undefined;

interface Unread {
  readonly path: string;
  /** Its name, and what it has. */
  readonly words: string;
  /** What can be done about it, in lines. */
  readonly advice: string;
}

const isUnread = (outcome: Outcome): outcome is Unread => outcome !== undefined && 'words' in outcome;

/** @returns undefined if there is a log, or a problem is reported */
function reasonOfNone(searched: Searched, found: FoundInputs, outcomes: ReadonlyMap<Hit, Outcome>): string | undefined {
  const unknown: Unread[] = [];
  let pickle: string | undefined;
  for (const hit of searched.hits()) {
    const outcome = outcomes.get(hit);
    if (isUnread(outcome)) unknown.push(outcome);
    else if (outcome !== undefined) return undefined;
    if (hit.kind === 'pickle') pickle ??= hit.path;
  }
  if (found.problems.some(({ path }) => isWithin(path, searched))) return undefined;
  if (pickle !== undefined) return `holds ${printable(nameOf(pickle))} and the like: ${PICKLED_ADVICE}`;
  // Settings lie beside a log: another file is what is meant.
  const [first] = unknown.sort((a, b) => Number(SETTINGS.test(a.path)) - Number(SETTINGS.test(b.path)));
  if (first === undefined) return withoutLogs(searched, found);
  return `holds no rollouts that a reader knows; of ${first.words.split(' (')[0]}: ${first.advice}`;
}

/** Undefined for a file that cannot be opened. */
async function stampOf(path: string, signal: AbortSignal | undefined): Promise<string | undefined> {
  const file = await LineFile.open(path, signal).catch(() => undefined);
  await file?.close();
  return file?.stamp;
}

async function lookAt(
  { path, root, from }: Hit,
  { name: forced, columns: given }: LogChoice = {},
  signal: AbortSignal | undefined,
): Promise<Outcome> {
  // What a glob matches is named by it.
  const within = from === 'folder' && root !== undefined ? relative(root, path) : undefined;
  const isNamed = within === undefined;
  const name = printable(within ?? path);
  if (isPickleName(path)) return new FileError({ path }, PICKLED_ADVICE);
  const beside = isNamed ? '' : join('/', within);
  if (
    !isNamed &&
    FORMATS.some((format) => format.passesOver?.(beside) && (forced === undefined || forced === format.name))
  ) {
    return undefined;
  }
  const container = containerOf(path) ?? 'json-lines';
  try {
    const isGuessed = given === AUTO;
    const mapped = Object.values(isGuessed ? {} : (given ?? {})).filter((column) => column !== undefined);
    const head = await headOf(path, container, mapped, STEP_FIELDS, signal);
    const { rows, missing, steps, bytes, stamp } = head;
    if (rows.length === 0) {
      const what = bytes === 0 ? 'is empty' : 'has no rows';
      return isNamed ? new FileError({ path }, `${what}: nothing has been written to it yet`) : undefined;
    }
    const keys = new Set(rows.flatMap((row) => [...row]));
    const columns = isGuessed ? guessOf(path, container, head) : given;
    const isUnguessed = isGuessed && columns === undefined;
    const named = forced === undefined || isUnguessed ? undefined : formatOf({ name: forced, columns });
    const format = forced === undefined ? recognised(path, root, container, rows) : named;
    if (format === undefined || !format.containers.includes(container)) {
      const error = unreadFile(root ?? path, path, container, head);
      const words = `${name} (${printable([...keys].join(', ')) || 'no JSON objects'})`;
      return isNamed ? error : { path, words, advice: error.problem };
    }
    const problem = missing.length > 0 ? missingColumns(missing, keys) : unfitting(format, container, rows, path, root);
    if (problem !== undefined) {
      // In a folder other files may lie beside the log.
      const isOther = forced !== MAPPED || missing.length === mapped.length;
      if (isNamed || !isOther) return new FileError({ path }, problem);
      return { path, words: `${name} (${problem})`, advice: problem };
    }
    return {
      path,
      choice: { name: format.name, ...(columns !== undefined && { columns }) },
      container,
      place: asRowsSay(placeOf(format, path, root), steps.get(format.stepField ?? '')),
      bytes,
      stamp,
    };
  } catch (error) {
    if (error instanceof FileError && error !== signal?.reason) return error;
    throw error;
  }
}

const STEP_FIELDS = [...new Set(FORMATS.flatMap(({ stepField }) => stepField ?? []))];

/** Rows count before the path, as of a file that was renamed: where all of the first say other steps. */
function asRowsSay(place: Place, said: ReadonlySet<number> = new Set()): Place {
  const { step, ...others } = place;
  return step === undefined || said.size === 0 || said.has(step) ? place : { ...others, stepElse: step };
}

/**
 * By the first row that a reader knows: a heading may precede it.
 * @throws FileError if several readers know it
 */
function recognised(
  path: string,
  root: string | undefined,
  container: Container,
  rows: readonly ReadonlySet<string>[],
): RolloutFormat | undefined {
  const knowing = (keys: ReadonlySet<string>): RolloutFormat[] =>
    FORMATS.filter((format) => format.containers.includes(container) && format.recognises(keys, path, root));
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
  root: string | undefined,
): string | undefined {
  const own = fields.filter((field) => field !== stepField && field !== runField);
  if (columnsOf !== undefined && rows.some((row) => recognises(row, path, root))) return undefined;
  if (rows.some((row) => own.some((field) => row.has(field)))) return undefined;
  const there = printable([...new Set(rows.flatMap((row) => [...row]))].join(', ')) || 'no fields';
  let other: RolloutFormat | undefined;
  try {
    other = recognised(path, root, container, rows);
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
  }
  const advice = other === undefined ? '' : `; ${other.name} reads it (--format ${other.name})`;
  return `is no log of ${name}, which has ${needs}; the file has ${there}${advice}`;
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
