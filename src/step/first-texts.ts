// The texts of a run's first step that had figures, as the run carries them: what a template's phrases covered there.

import { fields, integer, list, reject, type Shape, text } from '../checks/saved.js';
import type { TextRows } from '../engine/operations/texts/text-rows.js';

/** Plain JSON, one entry a row: token ids or texts. */
export type FirstTexts = { readonly groups: readonly string[] } & (
  | { readonly tokens: readonly (readonly number[])[] }
  | { readonly texts: readonly string[] }
);

/** Tokens, or characters, that a state carries. */
const MOST = { tokens: 2 ** 18, texts: 2 ** 20 } as const;

/** What a state keeps; where all would be too much, the first rows of each prompt. */
export function firstTexts({ tokens, texts = [], groups = [] }: TextRows): FirstTexts {
  const names = Array.from(groups as ArrayLike<unknown>, String);
  const written = tokens ?? texts.map((text) => (typeof text === 'string' ? text : Buffer.from(text).toString()));
  const rows = chosen(names, written, tokens === undefined ? MOST.texts : MOST.tokens);
  const of = { groups: rows.map((row) => names[row] as string) };
  if (tokens === undefined) return { ...of, texts: rows.map((row) => written[row] as string) };
  return { ...of, tokens: rows.map((row) => Array.from(tokens[row] as ArrayLike<number | bigint>, Number)) };
}

/** Every row, or the first ones of each prompt: as many as have at most `most` tokens together. */
function chosen(groups: readonly string[], written: readonly { readonly length: number }[], most: number): number[] {
  const rows = written.map((_, row) => row);
  const places = new Map<string, number>();
  const place = groups.map((group) => {
    const at = places.get(group) ?? 0;
    places.set(group, at + 1);
    return at;
  });
  for (let each = Math.max(0, ...places.values()); ; each = Math.floor(each / 2)) {
    const some = rows.filter((row) => (place[row] as number) < each);
    if (each === 0 || some.reduce((sum, row) => sum + (written[row]?.length ?? 0), 0) <= most) return some;
  }
}

const ofTexts = fields({ groups: list(text), texts: list(text) });
const ofTokens = fields({ groups: list(text), tokens: list(list(integer)) });

export const firstTextsShape: Shape<FirstTexts | null> = (value) => {
  if (value === null) return null;
  const saved: FirstTexts = Object.hasOwn(Object(value), 'tokens') ? ofTokens(value) : ofTexts(value);
  const rows = 'tokens' in saved ? saved.tokens : saved.texts;
  return rows.length === saved.groups.length ? saved : reject(value, 'as many rows as groups');
};
