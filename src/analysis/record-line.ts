// A step's record -> its line of JSON, the very text of JSON.stringify.
import type { StepRecord } from './step-report.js';

/** The same keys come with every step: each is quoted once, which is most of what JSON.stringify does. */
const quotedKeys = new Map<string, string>();
const MOST_QUOTED_KEYS = 4096;

function quoted(key: string): string {
  let text = quotedKeys.get(key);
  if (text === undefined) {
    text = `${JSON.stringify(key)}:`;
    if (quotedKeys.size < MOST_QUOTED_KEYS) quotedKeys.set(key, text);
  }
  return text;
}

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
