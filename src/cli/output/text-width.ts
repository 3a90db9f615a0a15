// Measures the columns that a text takes on a terminal, and cuts text to fit. An ideograph takes two, a combining mark
// none.
import { stripVTControlCharacters } from 'node:util';

const GRAPHEMES = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** East Asian Wide and Fullwidth (UAX #11), in blocks, and emoji. */
const WIDE = new RegExp(
  '^[\\u1100-\\u115f\\u2e80-\\u303e\\u3041-\\ua4cf\\uac00-\\ud7a3\\uf900-\\ufaff\\ufe30-\\ufe6f\\uff00-\\uff60\\uffe0-\\uffe6' +
    '\\u{1f300}-\\u{1f64f}\\u{1f680}-\\u{1f6ff}\\u{1f900}-\\u{1faff}\\u{20000}-\\u{3fffd}]|^\\p{Emoji_Presentation}',
  'u',
);

/** Colours take none. */
export function textWidth(text: string): number {
  // Nearly all of it.
  if (/^[ -~]*$/.test(text)) return text.length;
  let width = 0;
  for (const { segment } of GRAPHEMES.segment(stripVTControlCharacters(text))) width += WIDE.test(segment) ? 2 : 1;
  return width;
}

/** `text` without colours, or its beginning with `more` behind it where it is wider than `width`. */
export function fitted(text: string, width: number, more: string): string {
  if (textWidth(text) <= width) return text;
  let kept = '';
  let left = width - more.length;
  for (const { segment } of GRAPHEMES.segment(text)) {
    left -= textWidth(segment);
    if (left < 0) break;
    kept += segment;
  }
  return kept + more;
}
