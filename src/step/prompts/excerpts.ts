// Cuts a few rollouts of a step to readable length, as plain data for journals, the states of shards and texts.parquet.
import type { RowReading } from '../../engine/operations/texts/row-readings.js';
import { float16Bits } from '../../engine/tensor/float16-array.js';

/** Of a step: the most generic rows and the most specific ones, half each, and of each row its first tokens. */
export const READINGS = { rows: 16, tokens: 1000 } as const;

/** Characters of a reasoning, from its beginning. */
const MOST_REASONING = 4096;
/** Characters of a prompt: its beginning and its end, which is often what tells it from others. */
const PROMPT_BEGIN = 384;
const PROMPT_END = 640;
const LEFT_OUT = ' […] ';

/** Some rollouts of a step. */
export interface StepExcerpts {
  /** Rows that they were chosen from: those that text figures are made of. */
  readonly rows: number;
  /** Rising by `specificity`; if there are no text figures, the first ones. */
  readonly rollouts: readonly Excerpt[];
}

/** One rollout, cut to what one reads. A character is a code point; lone surrogates are U+FFFD. */
export interface Excerpt {
  /** Its number in the log's step, from 0; the log's own where it has one. */
  readonly row: number;
  /** Id of its group, as the log has it. */
  readonly group: string;
  /** Null if the log has neither text nor tokens of it. Ids of tokens are joined by spaces. */
  readonly prompt: string | null;
  /** Characters of the whole prompt. */
  readonly promptLength: number;
  readonly reasoning: string;
  /** Characters of the whole reasoning. */
  readonly length: number;
  readonly reward: number | null;
  /**
   * Log of how likely its features are under its own prompt, less the mean of that under the others: nats a feature.
   * Null if there are no text figures.
   */
  readonly specificity: number | null;
  /** Tokens of the whole reasoning; 0 if they were not counted. */
  readonly tokens: number;
  /** Of the n first tokens: where each begins and ends in `reasoning`, [2n] little-endian uint16 in base64. */
  readonly places: string;
  /** [n] little-endian float16 in base64: each one's part of the row's log-ratio, nats. */
  readonly nats: string;
}

/** What rows say, by their number in the step. */
export interface RowTexts {
  /** Id of its group. */
  group(row: number): string;
  reasoning(row: number): string;
  /** Undefined if it is not known. */
  prompt(row: number): string | undefined;
  reward(row: number): number | undefined;
  /** Its own number, where the log has one. */
  number(row: number): number | undefined;
}

/**
 * @param rows numbers in the step of the rows that the readings are of
 * @param readings undefined if there are no text figures
 */
export function excerptsOf(
  rows: readonly number[],
  readings: readonly RowReading[] | undefined,
  texts: RowTexts,
): StepExcerpts {
  const excerpt = (row: number, reading: RowReading | undefined): Excerpt => {
    const whole = texts.reasoning(row);
    const { text, length } = cut(whole, MOST_REASONING);
    const places = reading === undefined ? [] : placesIn(text, whole, reading);
    return {
      row: finiteOrNull(texts.number(row)) ?? row,
      group: texts.group(row),
      ...promptParts(texts.prompt(row)),
      reasoning: text,
      length,
      reward: finiteOrNull(texts.reward(row)),
      specificity: reading?.specificity ?? null,
      tokens: reading?.tokens ?? 0,
      places: base64Of(new Uint16Array(places)),
      nats: base64Of(float16Of(reading?.nats, places.length / 2)),
    };
  };
  const rollouts =
    readings === undefined
      ? rows.slice(0, READINGS.rows).map((row) => excerpt(row, undefined))
      : readings.map((reading) => excerpt(rows[reading.row] as number, reading));
  return { rows: rows.length, rollouts };
}

/** Token ids as a text. */
export const joinedIds = (ids: ArrayLike<number | bigint> | undefined): string =>
  ids === undefined ? '' : Array.prototype.join.call(ids, ' ');

const SURROGATE = /[\ud800-\udfff]/;

/** The first characters. */
function cut(text: string, most: number): { readonly text: string; readonly length: number } {
  // Most texts, and the longest, have none: then nothing need be counted.
  if (!SURROGATE.test(text)) return { text: text.slice(0, most), length: text.length };
  const wellFormed = text.toWellFormed();
  const length = charactersIn(wellFormed);
  if (length <= most) return { text: wellFormed, length };
  return { text: wellFormed.slice(0, unitsOf(wellFormed, most)), length };
}

function charactersIn(text: string): number {
  let pairs = 0;
  for (let at = 0; at < text.length; at++) if ((text.charCodeAt(at) & 0xfc00) === 0xd800) pairs++;
  return text.length - pairs;
}

/** Length in UTF-16 units of the first `characters` characters. */
function unitsOf(text: string, characters: number): number {
  let unit = 0;
  for (let at = 0; at < characters; at++) unit += (text.codePointAt(unit) as number) > 0xffff ? 2 : 1;
  return unit;
}

function promptParts(prompt: string | undefined): Pick<Excerpt, 'prompt' | 'promptLength'> {
  if (prompt === undefined) return { prompt: null, promptLength: 0 };
  const { text, length } = cut(prompt, PROMPT_BEGIN + PROMPT_END);
  if (text.length === prompt.length) return { prompt: text, promptLength: length };
  const begin = text.slice(0, unitsOf(text, PROMPT_BEGIN));
  // The cut may split a surrogate pair; half of one is not a character.
  const end = prompt
    .slice(-PROMPT_END)
    .replace(/^[\udc00-\udfff]/, '')
    .toWellFormed();
  return { prompt: begin + LEFT_OUT + end, promptLength: length };
}

/** Of the tokens that are whole in `text`, which is the beginning of `whole` (well-formed). */
function placesIn(text: string, whole: string, { nats, places }: RowReading): number[] {
  const found: number[] = [];
  const hasPairs = SURROGATE.test(text);
  let [unit, character] = [0, 0];
  const inCharacters = (place: number): number => {
    if (!hasPairs) return place;
    for (; unit < place; character++) unit += (text.codePointAt(unit) as number) > 0xffff ? 2 : 1;
    return character;
  };
  let end = -1;
  for (let token = 0; token < nats.length; token++) {
    // Ids are one space apart.
    const begin = places === undefined ? end + 1 : (places[2 * token] as number);
    end = places === undefined ? idEnd(whole, begin) : (places[2 * token + 1] as number);
    if (end > text.length) break;
    found.push(inCharacters(begin), inCharacters(end));
  }
  return found;
}

function idEnd(text: string, begin: number): number {
  const end = text.indexOf(' ', begin);
  return end < 0 ? text.length : end;
}

/** The first `count` of them. */
function float16Of(values: Float64Array | undefined, count: number): Uint16Array {
  const halves = new Uint16Array(count);
  for (let at = 0; at < count; at++) halves[at] = float16Bits(values?.[at] as number);
  return halves;
}

const finiteOrNull = (value: number | undefined): number | null =>
  value !== undefined && Number.isFinite(value) ? value : null;

function base64Of(values: Uint16Array): string {
  const bytes = Buffer.from(values.buffer, values.byteOffset, values.byteLength);
  return (isBigEndian ? bytes.swap16() : bytes).toString('base64');
}

const isBigEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 0;
