// Describes a file that no reader knows in three lines: its columns, the nearest reader, and the columns that can be
// guessed. Gives a command only if it reads the file's first rows.
import { FileError } from '../../../checks/errors.js';
import { printable } from '../../../checks/words.js';
import type { Container, RolloutFormat } from '../format.js';
import { FORMATS } from '../formats/index.js';
import type { ColumnNames } from '../formats/rollouts/reader.js';
import { type FormatChoice, MAPPED, parseLines } from '../json-lines/parse-lines.js';
import type { FileHead } from './file-head.js';
import { guessedColumns } from './guess-columns.js';

/** Columns that a message names. */
const MOST_COLUMNS = 40;

/** A file that no reader knows. */
export class UnreadFileError extends FileError {
  constructor(
    path: string,
    problem: string,
    readonly guess: ColumnNames | undefined,
  ) {
    super({ path }, problem);
  }
}

/** @param path to name in the commands: of the file, or of the folder that it was found in */
export function unreadFile(path: string, file: string, container: Container, head: FileHead): UnreadFileError {
  const keys = [...new Set(head.rows.flatMap((row) => [...row]))];
  const more = keys.length > MOST_COLUMNS ? ` and ${keys.length - MOST_COLUMNS} more` : '';
  const has =
    keys.length === 0 ? 'it has no JSON objects' : `its columns are ${keys.slice(0, MOST_COLUMNS).join(', ')}`;
  const command = `collapsar analyze ${inShell(path)}`;
  const near = nearestReader(new Set(keys), container);
  const guess = guessOf(file, container, head);
  const guessed = guess === undefined ? 0 : saidBy(file, container, head, { name: MAPPED, columns: guess });
  // A reader of another log may find less in it.
  const found = near === undefined ? 0 : saidBy(file, container, head, { name: near.name });
  const lines = [
    `no reader knows it: ${printable(has)}${more}`,
    ...(near === undefined
      ? []
      : [`${near.words}${found > 0 && found >= guessed ? `: ${command} --format ${near.name}` : ''}`]),
    guess === undefined
      ? 'name what they are, each with its name in the file: --columns step=…,group=…,output=…,reward=…'
      : `by their names: ${command} --columns ${columnsText(guess)}`,
  ];
  return new UnreadFileError(file, lines.join('\n  '), guess);
}

/** What the columns of a file are by their names; undefined if no rows come of it. */
export function guessOf(file: string, container: Container, head: FileHead): ColumnNames | undefined {
  const keys = [...new Set(head.rows.flatMap((row) => [...row]))];
  const paths = head.paths?.() ?? [];
  const isObject = (key: string): boolean =>
    paths.some((path) => path.startsWith(`${key}.`)) && !paths.some((path) => path.startsWith(`${key}.0`));
  let best: { columns: ColumnNames; said: number } | undefined;
  // Columns inside objects are taken only if they say more than the top-level columns.
  for (const names of [keys, [...keys.filter((key) => !isObject(key)), ...paths]]) {
    const columns = guessedColumns(names);
    if (columns === undefined) continue;
    const said = saidBy(file, container, head, { name: MAPPED, columns });
    if (said > (best?.said ?? 0)) best = { columns, said };
  }
  return best?.columns;
}

export function columnsText(columns: ColumnNames): string {
  return Object.entries(columns)
    .map(([own, column]) => `${own}=${column}`)
    .join(',');
}

/** What makes a log worth reading, in its columns. */
const SAID = [
  ['output', 'tokens', 'reasoning'],
  ['reward', 'rewards'],
  ['group', 'prompt', 'promptTokens'],
];

/** How much of that comes of the first lines; of a table only its columns are known. */
function saidBy(path: string, container: Container, { lines }: FileHead, choice: FormatChoice): number {
  if (container !== 'json-lines') return SAID.length;
  if (lines === undefined) return 0;
  const place = { runDirectory: path };
  const room = Buffer.allocUnsafeSlow(lines.length);
  const { columns, texts } = parseLines(lines, { path, place, choice }, false, room);
  const isThere = (name: string): boolean =>
    columns[name]?.some((value) => value !== undefined) || texts?.places[name] !== undefined;
  const [hasResponse, ...others] = SAID.map((names) => names.some(isThere));
  return hasResponse || others.every(Boolean) ? [hasResponse, ...others].filter(Boolean).length : 0;
}

/** The reader of which most of what it needs is there. */
function nearestReader(keys: ReadonlySet<string>, container: Container): { name: string; words: string } | undefined {
  const found = FORMATS.filter(({ containers }) => containers.includes(container))
    .map((format) => ({ format, ...needsOf(format, keys) }))
    .filter(({ met }) => met > 0)
    .sort((a, b) => a.lacks.length - b.lacks.length || b.met - a.met)[0];
  if (found === undefined) return undefined;
  const { name, needs } = found.format;
  const lacks = found.lacks.length === 0 ? `has ${needs}` : `needs ${found.lacks.join(', ')} as well`;
  return { name, words: `nearest is ${name}, which ${lacks}` };
}

/** How many of the things that a reader needs are there, and which are not: fields with "or" between them are one. */
function needsOf({ needs, fields }: RolloutFormat, keys: ReadonlySet<string>): { met: number; lacks: string[] } {
  const known = new Set(fields);
  const clauses = (needs.split(';')[0] as string)
    .split(',')
    .map((clause) => clause.split(/[^\w.]+/).filter((word) => known.has(word)))
    .filter((words) => words.length > 0);
  const lacks = clauses.filter((words) => !words.some((word) => keys.has(word)));
  return { met: clauses.length - lacks.length, lacks: lacks.map((words) => words.join(' or ')) };
}

/** As a shell takes it. */
function inShell(path: string): string {
  return /^[\w@%+=:,./~-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
