// Shades a token by how specific it is to its prompt: one of a few shades, in words and numbers.
import { float16Value } from '../../../engine/tensor/float16-array.js';
import type { RunData, ShownText, StepTexts } from '../../report.js';

/** From what fits other prompts better to what only its own prompt explains. */
export interface Shade {
  readonly name: 'generic-2' | 'generic-1' | 'even' | 'specific-1' | 'specific-2' | 'specific-3';
  /** As a factor: how much likelier under the own prompt than under the others. */
  readonly words: string;
}

/** Each up to a factor, the next one from there on. */
const SHADES: readonly (Shade & { readonly below: number })[] = [
  { name: 'generic-2', words: '⅒ or less', below: 1 / 10 },
  { name: 'generic-1', words: '⅒ to ½', below: 1 / 2 },
  { name: 'even', words: '½ to 2', below: 2 },
  { name: 'specific-1', words: '2 to 10', below: 10 },
  { name: 'specific-2', words: '10 to 50', below: 50 },
  { name: 'specific-3', words: '50 and more', below: Number.POSITIVE_INFINITY },
];

export const LEGEND: readonly Shade[] = SHADES;

export function shadeOf(nats: number): Shade {
  const factor = Math.exp(nats);
  return SHADES.find(({ below }) => factor < below) ?? (SHADES.at(-1) as Shade);
}

/** A stretch of a reasoning: a token with its nats, or what is between tokens. */
export interface Piece {
  readonly text: string;
  readonly nats: number | undefined;
}

export function piecesOf({ reasoning, places, nats }: ShownText): Piece[] {
  const pieces: Piece[] = [];
  let [unit, character] = [0, 0];
  const upTo = (place: number): string => {
    const from = unit;
    for (; character < place && unit < reasoning.length; character++)
      unit += (reasoning.codePointAt(unit) as number) > 0xffff ? 2 : 1;
    return reasoning.slice(from, unit);
  };
  for (const [token, bits] of nats.entries()) {
    const between = upTo(places[2 * token] as number);
    if (between !== '') pieces.push({ text: between, nats: undefined });
    pieces.push({ text: upTo(places[2 * token + 1] as number), nats: float16Value(bits) });
  }
  pieces.push({ text: reasoning.slice(unit).trimEnd(), nats: undefined });
  // Before the first word and after the last one is only room.
  const [first] = pieces as [Piece];
  if (first.nats === undefined) pieces[0] = { text: first.text.trimStart(), nats: undefined };
  return pieces.filter(({ text }) => text !== '');
}

const CONTROLS = /[\p{Cc}\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/gu;

/**
 * What cannot be seen, or would turn around what is beside it, as a sign or its number; line ends and tabs stay.
 */
export function visible(text: string): string {
  return text.replace(/\r\n?/g, '\n').replace(CONTROLS, (character) => {
    const code = character.codePointAt(0) as number;
    if (character === '\n' || character === '\t') return character;
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (code === 0x7f) return '\u2421';
    return `⟨${code.toString(16).toUpperCase().padStart(4, '0')}⟩`;
  });
}

/** Name of the prompt: the group's id, or the prompt itself if groups are made of prompts. */
export function promptName({ group, prompt }: ShownText): string {
  return prompt !== null && isPrompt(group, prompt) ? prompt : group;
}

/** Whether a group is called as its prompt is. */
export function isPrompt(group: string, prompt: string | null): boolean {
  return prompt !== null && prompt.trim() !== '' && prompt.startsWith(group.replace(/… [0-9a-f]{8}$/, ''));
}

/** Of the step that is nearest to this one. */
export function textsAt({ texts }: RunData, step: number): StepTexts | undefined {
  return texts.toSorted((a, b) => Math.abs(a.step - step) - Math.abs(b.step - step) || a.step - b.step)[0];
}
