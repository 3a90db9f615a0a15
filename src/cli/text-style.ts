// Colours, where there is a terminal that shows them.
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
