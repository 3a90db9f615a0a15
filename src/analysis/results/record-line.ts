// A step's record -> its line of JSON, the very text of JSON.stringify.

import type { StepRecord } from '../../step/step-record.js';
import { keyQuoter } from './quoted-keys.js';

const quoted = keyQuoter();

/** With the line's end. */
export function recordLine(record: StepRecord): string {
  let text = '';
  for (const key of Object.keys(record)) {
    const value = record[key];
    if (value === undefined) continue;
    const isPlain = typeof value === 'number' && value - value === 0;
    const written = isPlain ? `${value}` : JSON.stringify(value);
    text += text === '' ? quoted(key) + written : `,${quoted(key)}${written}`;
  }
  return `{${text}}\n`;
}
