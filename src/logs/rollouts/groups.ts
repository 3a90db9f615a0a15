// Finds the rows of a step that share a prompt.
import { createHash } from 'node:crypto';
import { FileError } from '../../checks/errors.js';
import { counted } from '../../checks/words.js';
import type { RolloutColumn } from './columns.js';
import { bufferOver } from './logged-text.js';
import type { GroupSource } from './rollout.js';

/** Rows of a step, as columns. */
interface Rows {
  readonly rows: number;
  column<T>(name: RolloutColumn): (T | undefined)[] | undefined;
}

export interface Groups {
  readonly group: Int32Array;
  readonly ids: string[];
  readonly source: GroupSource;
}

/**
 * By runs of a length that the user says; else by ids, else by the prompts' texts, else by their tokens.
 * @returns undefined if nothing shows them
 * @throws FileError if the rows cannot be split into runs
 */
export function groupsOf(
  rows: Rows,
  files: readonly string[],
  groupSize: number | undefined,
  notes: string[],
): Groups | undefined {
  const ids = rows.column<string>('group');
  if (groupSize !== undefined) return inRuns(rows, files, groupSize, ids ?? promptKeys(rows, inMemory), notes);
  if (ids !== undefined && isFull(ids)) {
    return numbered(withPrompts(rows, ids, promptKeys(rows, inMemory), notes), 'id');
  }
  const prompts = promptKeys(rows, (tokens) => tokens.join(' '));
  if (prompts === undefined || !isFull(prompts)) return undefined;
  const marked = prompts.filter((prompt) => PLACEHOLDER.test(prompt)).length;
  if (marked > 0) {
    notes.push(
      `the prompts of ${counted(marked, 'rows')} have a placeholder of what is no text, such as an image: prompts that differ in that alone are one group, which --group-size can tell apart`,
    );
  }
  return numbered(prompts, 'prompt');
}

/** What a prompt has in place of an image, a video or a sound that is not in the log. */
const PLACEHOLDER = /<\|?(?:image|img|video|audio)(?:_(?:url|pad|placeholder))?\|?>|\[(?:image|img|video|audio)\]/i;

/** Key of a row's prompt: its text, else its tokens. */
function promptKeys(rows: Rows, keyOf: (tokens: Int32Array) => string): (string | undefined)[] | undefined {
  const texts = rows.column<string>('prompt');
  const tokens = rows.column<Int32Array>('promptTokens');
  if (tokens === undefined || (texts !== undefined && isFull(texts))) return texts;
  return tokens.map((list) => list && keyOf(list));
}

/** If keys are only compared: digits take a while to write. */
const inMemory = (tokens: Int32Array): string =>
  bufferOver(new Uint8Array(tokens.buffer, tokens.byteOffset, tokens.byteLength)).toString('latin1');

function inRuns(
  { rows }: Rows,
  files: readonly string[],
  groupSize: number,
  labels: readonly (string | undefined)[] | undefined,
  notes: string[],
): Groups {
  if (rows % groupSize !== 0) {
    const problem = `${counted(rows, 'rows')} cannot be split into groups of ${groupSize}`;
    throw new FileError({ path: files[0] ?? '' }, problem);
  }
  const run = (row: number): number => Math.floor(row / groupSize);
  const odd = new Set<number>();
  labels?.forEach((label, row) => {
    if (label !== labels[run(row) * groupSize]) odd.add(run(row));
  });
  if (odd.size > 0) {
    notes.push(
      `of ${counted(rows / groupSize, 'groups')} of ${groupSize} rows, as --group-size has it, ${odd.size} have rows of several ids or prompts, as the log has it`,
    );
  }
  return numbered(
    Array.from({ length: rows }, (_, row) => String(run(row))),
    'run length',
  );
}

/**
 * Ids count within a data set: where rows of an id have several prompts, and those mostly have several rows, each is a
 * group. Prompts of about a row each are one prompt with a part that changes per row, such as a time.
 */
function withPrompts(
  rows: Rows,
  ids: readonly string[],
  prompts: readonly (string | undefined)[] | undefined,
  notes: string[],
): readonly string[] {
  const units = responsesOf(rows, ids);
  if (units === undefined || prompts === undefined || !isFull(prompts)) return ids;
  const own = firstPrompts(rows, units, prompts);
  const promptsOf = new Map<string, Set<string>>();
  for (const [row, id] of ids.entries()) {
    const known = promptsOf.get(id) ?? new Set();
    promptsOf.set(id, known.add(own[row] as string));
  }
  const shared = new Set([...promptsOf].filter(([, known]) => known.size > 1).map(([id]) => id));
  if (shared.size === 0) return ids;
  const count = [...shared].reduce((sum, id) => sum + (promptsOf.get(id)?.size ?? 0), 0);
  const responses = new Set(units.filter((_, row) => shared.has(ids[row] as string))).size;
  const what = `${counted(shared.size, 'group ids')} ${shared.size === 1 ? 'has' : 'have'} rows of ${count} prompts`;
  if (responses < 2 * count) {
    notes.push(`${what}, about one a response: the rows of an id are taken to be of one prompt that is drawn with it`);
    return ids;
  }
  notes.push(`${what}: rows of one id and one prompt are a group`);
  const marks = new Map<string, string>();
  return ids.map((id, row) => {
    if (!shared.has(id)) return id;
    const prompt = own[row] as string;
    const mark = marks.get(prompt) ?? createHash('sha256').update(prompt).digest('hex').slice(0, 12);
    marks.set(prompt, mark);
    return `${id}#${mark}`;
  });
}

/**
 * Of each row its response: an episode, whose rows are turns or branches with contexts of their own, or the row by
 * itself. Undefined if rows are turns of no episode.
 */
function responsesOf(rows: Rows, ids: readonly string[]): string[] | undefined {
  const [episodes, turns] = [rows.column<string>('episode'), rows.column<number>('turn')];
  if (turns?.some((turn, row) => turn !== undefined && episodes?.[row] === undefined)) return undefined;
  return ids.map((id, row) => (episodes?.[row] === undefined ? String(row) : `${id}\n${episodes[row]}`));
}

/** Of each row the prompt that its response began with. */
function firstPrompts(rows: Rows, units: readonly string[], prompts: readonly string[]): readonly string[] {
  const turns = rows.column<number>('turn');
  if (rows.column('episode') === undefined) return prompts;
  const first = new Map<string, { turn: number; prompt: string }>();
  for (const [row, unit] of units.entries()) {
    const [turn, prompt] = [turns?.[row] ?? 0, prompts[row] as string];
    const before = first.get(unit);
    // Branches have no order: that of rows must not matter.
    const isFirst = before === undefined || turn < before.turn || (turn === before.turn && prompt < before.prompt);
    if (isFirst) first.set(unit, { turn, prompt });
  }
  return units.map((unit) => first.get(unit)?.prompt ?? '');
}

function isFull<T>(column: readonly (T | undefined)[]): column is T[] {
  return column.every((value) => value !== undefined);
}

function numbered(labels: readonly string[], source: GroupSource): Groups {
  const known = new Map<string, number>();
  const group = new Int32Array(labels.length);
  for (const [row, label] of labels.entries()) {
    const id = known.get(label) ?? known.size;
    if (id === known.size) known.set(label, id);
    group[row] = id;
  }
  return { group, ids: [...known.keys()], source };
}
