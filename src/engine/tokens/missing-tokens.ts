// What has not come of a step, and how an error says it.
import { counted } from '../../checks/counted.js';

/** What has not come of one prompt (native/engine/tokens/step_tokens.h). */
export interface MissingTokens {
  readonly prompt: number;
  /** Rows that are not complete. */
  readonly rows: number;
  /** The first of them, and the first tokens [from, to) that it lacks. */
  readonly row: number;
  readonly from: number;
  readonly to: number;
  /** No token of any row has come. */
  readonly untouched: boolean;
}

export function missingSentence(missing: readonly MissingTokens[]): string {
  const named = missing.slice(0, 8).map(({ prompt, rows, row, from, to, untouched }) => {
    const all = untouched ? ', none of which has come' : '';
    return `prompt ${prompt} lacks ${counted(rows, 'rows')}${all} (row ${row}: tokens ${from} to ${to - 1})`;
  });
  const more = missing.length > 8 ? `; and ${missing.length - 8} more prompts` : '';
  return `not all has come: ${named.join('; ')}${more}. Add it, then call finish() again`;
}
