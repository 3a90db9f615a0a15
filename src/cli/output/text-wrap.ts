// Wraps prose into lines that fit.
import { textWidth } from './text-width.js';

/** Longer lines are hard to read, however wide the terminal. */
const MOST = 100;

/** Breaks `text` at spaces into lines of at most `width` (and 100): the first led by `lead`, others indented as far. */
export function wrap(text: string, width: number, lead = ''): string {
  const indent = ' '.repeat(textWidth(lead));
  const room = Math.min(width, MOST) - indent.length;
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && textWidth(line) + 1 + textWidth(word) > room) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  lines.push(line);
  return lines.map((content, at) => (at === 0 ? lead : indent) + content).join('\n');
}
