// Abilities of a terminal: colours, and characters beyond ASCII.
import { styleText } from 'node:util';
import type { Streams, TextStream } from './streams.js';

export type Style = 'bold' | 'dim' | 'red' | 'yellow' | 'green';
export type Paint = (style: Style, text: string) => string;

/** How text has to look where it is written. */
export interface Look {
  readonly unicode: boolean;
  /** Most characters in a line. */
  readonly width: number;
  readonly paint: Paint;
}

/**
 * Colours for `stream`: on a terminal, unless NO_COLOR is set (no-color.org) or the terminal is dumb. FORCE_COLOR
 * decides before these, as Node reads it: 0 or false for none, anything else for colours, also into a pipe.
 */
export function painter(stream: TextStream, environment: Streams['environment']): Paint {
  const { NO_COLOR: no, FORCE_COLOR: force, TERM: term } = environment;
  const byItself = stream.isTTY && (no === undefined || no === '') && term !== 'dumb';
  const coloured = force === undefined || force === '' ? byItself : force !== '0' && force !== 'false';
  // The stream was looked at here; by itself styleText would look at the process's own stdout.
  return coloured ? (style, text) => styleText(style, text, { validateStream: false }) : (_, text) => text;
}

/**
 * Whether the locale of the environment can show more than ASCII: LC_ALL before LC_CTYPE before LANG, as POSIX has it.
 */
export function isUnicode(environment: Streams['environment']): boolean {
  const locale = environment.LC_ALL || environment.LC_CTYPE || environment.LANG;
  // Without a locale it is POSIX, but a terminal of today still reads UTF-8; only a locale that says otherwise is
  // believed.
  return locale === undefined || locale === '' || /utf-?8/i.test(locale);
}

/** The same in ASCII, of the few other characters that the output itself is made of. */
export function plain(text: string): string {
  return text.replace(/[—·→≤…]/g, (character) => ASCII[character] as string);
}

const ASCII: Readonly<Record<string, string>> = { '—': '-', '·': '|', '→': '->', '≤': '<=', '…': '...' };
