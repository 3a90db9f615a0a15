// Packs a step's rollouts for native code (texts one after the other, groups and prompts numbered), and holds the
// results.
import { types } from 'node:util';
import { checkArray, checkFields, checkObject, optionNames } from '../../../checks/argument-checks.js';
import { ArgumentError } from '../../../checks/errors.js';
import { counted, shown } from '../../../checks/words.js';
import { loadAddon } from '../../addon.js';
import { noteEngineMemory } from '../../memory.js';
import type { TextRowsArguments, TextsArguments } from '../../native.js';
import { integerArray } from '../../tensor/integers.js';
import type { Integers } from '../../tensor/tensor.js';

/** A text as a string, or its bytes in UTF-8. */
export type Text = string | Uint8Array;

/**
 * One step's rollouts, one entry a row, in any order. Rows are taken to be independent draws given their prompt: one
 * row a sample (docs/reference/text-figures.md).
 */
export interface TextRows {
  /** What was generated (reasoning, or all output): cut into words. Exactly one of `texts` and `tokens`. */
  readonly texts?: readonly Text[] | undefined;
  /** Token ids, 0 or more, of what was generated. */
  readonly tokens?: readonly Integers[] | undefined;
  /** Ids of prompts: integers or strings. Default: the prompt's own text or ids. */
  readonly groups?: Integers | readonly (number | bigint | string)[] | undefined;
  /**
   * Each row's prompt as text; undefined or null if it is not known. With `tokens` it only serves to distinguish
   * groups.
   */
  readonly prompts?: readonly (Text | undefined | null)[] | undefined;
  /** Each row's prompt as token ids, with `tokens`. */
  readonly promptTokens?: readonly (Integers | undefined | null)[] | undefined;
  /** Ids of samples: a row that repeats another's id, group and text was logged twice and is counted once. */
  readonly samples?: Integers | readonly (number | bigint | string)[] | undefined;
}

export const TEXT_COLUMNS = optionNames<TextRows>({
  texts: true,
  tokens: true,
  groups: true,
  prompts: true,
  promptTokens: true,
  samples: true,
});

type Id = number | bigint | string;

/** Rows on their way to native code. */
export interface PackedRows {
  readonly arguments: TextRowsArguments;
  /** Places of the rows among those given: repeated samples count once. */
  readonly kept: readonly number[];
  /** By the number that native code knows each by. */
  readonly groupIds: readonly string[];
}

/**
 * @param memory for the texts, to be released once native code is done with them
 * @throws ArgumentError naming the first entry that is not a text or an id, or the column that does not have one a row
 */
export function textRowsArguments(rows: TextRows, memory: TextMemory): PackedRows {
  checkObject(rows, 'rows');
  checkFields(rows, 'rows', TEXT_COLUMNS);
  const { texts, tokens } = rows;
  if ((texts === undefined) === (tokens === undefined)) {
    throw new ArgumentError(
      'rows',
      'give exactly one of `texts` (one text a row) and `tokens` (token ids, one array a row)',
    );
  }
  const given = (texts ?? tokens) as readonly unknown[];
  checkArray(given, texts === undefined ? 'rows.tokens' : 'rows.texts');
  for (const name of ['groups', 'prompts', 'promptTokens', 'samples'] as const) {
    const column = rows[name];
    if (column === undefined) continue;
    checkArray(column, `rows.${name}`);
    if (column.length === given.length) continue;
    throw new ArgumentError(
      `rows.${name}`,
      `got ${counted(column.length, 'entries')} for ${counted(given.length, 'rows')}`,
    );
  }
  if (texts !== undefined && rows.promptTokens !== undefined) {
    throw new ArgumentError('rows.promptTokens', 'the rows are texts: give their prompts as texts, in `prompts`');
  }
  const ids = groupIds(rows, given.length);
  const kept = withoutRepeats(rows, given, ids);
  const groups = numbered(kept.map((row) => ids[row] as string));
  const packed =
    texts === undefined
      ? packIds(
          kept.map((row) => tokens?.[row] as Integers),
          'rows.tokens',
          kept,
        )
      : packTexts(
          kept.map((row) => texts[row] as Text),
          'rows.texts',
          memory,
          kept,
        );
  const head = [...packed, groups.numbers, ...packTexts(groups.distinct, 'rows.groups', memory)] as const;
  const prompts = texts === undefined ? rows.promptTokens : rows.prompts;
  if (prompts === undefined) return { arguments: [...head, undefined], kept, groupIds: groups.distinct };
  const keyed = kept.map((row) => {
    const prompt = prompts[row];
    return prompt === undefined || prompt === null
      ? undefined
      : keyOf(prompt as Text | Integers, texts === undefined ? 'rows.promptTokens' : 'rows.prompts', row);
  });
  const known = numbered(keyed);
  const firsts = known.firsts.map((at) => prompts[kept[at] as number]);
  const promptTexts =
    texts === undefined
      ? packIds(firsts as Integers[], 'rows.promptTokens')
      : packTexts(firsts as Text[], 'rows.prompts', memory);
  return { arguments: [...head, known.numbers, ...promptTexts], kept, groupIds: groups.distinct };
}

/** Phrases, as `textFigures` gives them or as the caller writes them. */
export function phraseArguments(
  phrases: readonly (Text | Integers)[],
  rows: TextRows,
  memory: TextMemory,
): TextsArguments {
  checkArray(phrases, 'phrases');
  return rows.texts === undefined
    ? packIds(phrases as readonly Integers[], 'phrases')
    : packTexts(phrases as readonly Text[], 'phrases', memory);
}

/** Each row's group as text: integers in decimal, else the prompt's text, or its ids joined by a space. */
export function groupIds(rows: TextRows, count: number): string[] {
  const { groups, promptTokens, prompts } = rows;
  if (groups !== undefined) return Array.from({ length: count }, (_, row) => idText(groups[row], 'rows.groups', row));
  const given = promptTokens ?? prompts;
  if (given === undefined) {
    throw new ArgumentError(
      'rows.groups',
      'neither `groups` nor prompts are given: nothing tells which rows share a prompt',
    );
  }
  const argument = promptTokens === undefined ? 'rows.prompts' : 'rows.promptTokens';
  return Array.from({ length: count }, (_, row) => {
    const prompt = given[row];
    if (prompt === undefined || prompt === null) {
      throw new ArgumentError(argument, `row ${row}: its prompt is not known: give \`groups\``);
    }
    return keyOf(prompt, argument, row);
  });
}

function idText(id: unknown, argument: string, row: number): string {
  if (typeof id === 'string') return id;
  if (typeof id === 'bigint' || Number.isSafeInteger(id)) return String(id);
  throw new ArgumentError(argument, `row ${row}: got ${shown(id)}, expected an integer or a string`);
}

function keyOf(prompt: Text | Integers, argument: string, row: number): string {
  if (typeof prompt === 'string') return prompt;
  if (types.isUint8Array(prompt))
    return Buffer.from(prompt.buffer, prompt.byteOffset, prompt.byteLength).toString('utf8');
  return Array.prototype.join.call(integerArray(prompt as Integers, `${argument}[${row}]`), ' ');
}

/** The rows that repeat no other's sample, group and text. */
function withoutRepeats(rows: TextRows, given: readonly unknown[], ids: readonly string[]): number[] {
  const { samples } = rows;
  const all = Array.from(given, (_, row) => row);
  if (samples === undefined) return all;
  const argument = rows.texts === undefined ? 'rows.tokens' : 'rows.texts';
  const seen = new Set<string>();
  return all.filter((row) => {
    const sample = idText(samples[row], 'rows.samples', row);
    const key = JSON.stringify([sample, ids[row], keyOf(given[row] as Text | Integers, argument, row)]);
    return !seen.has(key) && seen.add(key);
  });
}

/** Equal keys get equal numbers, in the order in which they come; undefined gets −1. */
function numbered<Key extends Id | undefined>(
  keys: readonly Key[],
): { numbers: Int32Array; distinct: string[]; firsts: number[] } {
  const known = new Map<Key, number>();
  const firsts: number[] = [];
  const numbers = Int32Array.from(keys, (key, at) => {
    if (key === undefined) return -1;
    let number = known.get(key);
    if (number === undefined) {
      number = known.size;
      known.set(key, number);
      firsts.push(at);
    }
    return number;
  });
  return { numbers, distinct: firsts.map((at) => String(keys[at])), firsts };
}

/** @param rowOf what each entry is called in errors; default: its index */
function packTexts(
  texts: readonly Text[],
  argument: string,
  memory: TextMemory,
  rowOf?: readonly number[],
): TextsArguments {
  const offsets = new Float64Array(texts.length + 1);
  for (let at = 0; at < texts.length; at++) {
    const text = texts[at] as Text;
    if (typeof text !== 'string' && !types.isUint8Array(text)) {
      const problem = `entry ${rowOf?.[at] ?? at}: got ${shown(text)}, expected a string or a Uint8Array`;
      throw new ArgumentError(argument, problem);
    }
    const bytes = typeof text === 'string' ? Buffer.byteLength(text, 'utf8') : text.byteLength;
    offsets[at + 1] = (offsets[at] as number) + bytes;
  }
  const bytes = memory.take(offsets[texts.length] as number);
  const packed = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < texts.length; at++) {
    const text = texts[at] as Text;
    if (typeof text === 'string') packed.write(text, offsets[at] as number, 'utf8');
    else packed.set(text, offsets[at] as number);
  }
  return [bytes, undefined, offsets];
}

function packIds(rows: readonly Integers[], argument: string, rowOf?: readonly number[]): TextsArguments {
  const offsets = new Float64Array(rows.length + 1);
  const checked = rows.map((row, at) => {
    const ids = integerArray(row, `${argument}[${rowOf?.[at] ?? at}]`);
    offsets[at + 1] = (offsets[at] as number) + ids.length;
    return ids;
  });
  const total = offsets[rows.length] as number;
  const isNarrow = checked.every((ids) => types.isInt32Array(ids));
  const packed = isNarrow ? new Int32Array(total) : new Float64Array(total);
  checked.forEach((ids, at) => {
    packed.set(types.isBigInt64Array(ids) ? Float64Array.from(ids, Number) : (ids as Int32Array), offsets[at]);
  });
  return [undefined, packed, offsets];
}

/** What is smaller is not worth keeping; larger sizes are rounded up to it, so that what one step leaves fits the next. */
const ROOM = 2 ** 20;
/** Kept between steps, all together. */
const MOST_SPARE = 2 ** 25;

const spare: Uint8Array[] = [];
let spareBytes = 0;

/**
 * What a job was given, to be taken back once it has ended: the next step takes it again, so that no new pages are
 * cleared for it, nor the collector called to find the old ones.
 */
export class TextMemory {
  readonly #taken: Uint8Array[] = [];

  /** @returns `bytes` bytes with arbitrary content */
  take(bytes: number): Uint8Array {
    if (bytes < ROOM) return new Uint8Array(bytes);
    const at = spare.findIndex(({ byteLength }) => byteLength >= bytes && byteLength <= 2 * bytes);
    const [kept] = at < 0 ? [] : spare.splice(at, 1);
    if (kept !== undefined) spareBytes -= kept.byteLength;
    const memory = kept ?? noteEngineMemory(new Uint8Array(loadAddon().alloc(Math.ceil(bytes / ROOM) * ROOM)));
    this.#taken.push(memory);
    return memory.subarray(0, bytes);
  }

  /** The job has ended. */
  release(): void {
    for (const memory of this.#taken.splice(0)) {
      spare.push(memory);
      spareBytes += memory.byteLength;
    }
    while (spareBytes > MOST_SPARE) spareBytes -= (spare.shift() as Uint8Array).byteLength;
  }
}
