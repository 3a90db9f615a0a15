// What has not come of a step, and how an error says it.

import { counted } from '../../checks/words.js';
import type { MissingTokens } from '../native.js';

export function missingSentence(missing: readonly MissingTokens[]): string {
  const named = missing.slice(0, 8).map(({ prompt, rows, row, from, to, untouched }) => {
    const all = untouched ? ', none of which has come' : '';
    return `prompt ${prompt} lacks ${counted(rows, 'rows')}${all} (row ${row}: tokens ${from} to ${to - 1})`;
  });
  const more = missing.length > 8 ? `; and ${missing.length - 8} more prompts` : '';
  return `not all has come: ${named.join('; ')}${more}. Add it, then call finish() again`;
}
