// What a terminal shows: colours, and characters beyond ASCII.
import { styleText } from 'node:util';
import type { Streams, TextStream } from './streams.js';

export type Style = 'bold' | 'dim' | 'red' | 'yellow' | 'green';
export type Paint = (style: Style, text: string) => string;

/** Colours for `stream`: only on a terminal, and not where NO_COLOR is set (no-color.org) or the terminal is dumb. */
export function painter(stream: TextStream, environment: Streams['environment']): Paint {
  const { NO_COLOR: no, TERM: term } = environment;
  const coloured = stream.isTTY && (no === undefined || no === '') && term !== 'dumb';
  // The stream was looked at here; by itself styleText would look at the process's own stdout.
  return coloured ? (style, text) => styleText(style, text, { validateStream: false }) : (_, text) => text;
}

/** Whether the locale of the environment can show more than ASCII: LC_ALL before LC_CTYPE before LANG, as POSIX has it. */
export function isUnicode(environment: Streams['environment']): boolean {
  const locale = environment.LC_ALL || environment.LC_CTYPE || environment.LANG;
  // Without a locale it is POSIX, but a terminal of today still reads UTF-8; only a locale that says otherwise is believed.
  return locale === undefined || locale === '' || /utf-?8/i.test(locale);
}
