// Lists files and paths that could not be used for the user, at the end, on stderr.

import type { FileError } from '../../checks/errors.js';
import { counted, escaped, escapedLines } from '../../checks/words.js';
import { wrap } from './text-wrap.js';

/** Named in a note at most. */
const NAMED = 8;

/** Other files found among steps, as one note. */
export function skippedFiles(skipped: readonly FileError[], width: number): string {
  const named = skipped.slice(0, NAMED).map(({ path }) => path);
  const more = skipped.length > NAMED ? ` and ${skipped.length - NAMED} more` : '';
  const [were, have] = skipped.length === 1 ? ['was', 'it has'] : ['were', 'they have'];
  const note =
    `${counted(skipped.length, 'files')} found beside step files ${were} left out: ${have} neither a step's tensors nor the ` +
    `number of a step: ${named.join(', ')}${more}`;
  return `${wrap(escaped(note), width, 'note: ')}\n`;
}

/** What was passed over, a note each. */
export function remarks(notes: readonly string[], width: number): string {
  return notes.map((note) => `${wrap(escaped(note), width, 'note: ')}\n`).join('');
}

/** The problem may have lines of its own; what names the file has none. */
function failureLines({ message, problem }: FileError): string {
  const at = message.endsWith(problem) ? message.length - problem.length : message.length;
  return escaped(message.slice(0, at)) + escapedLines(message.slice(at));
}

/** @param rest what became of the others, in words */
export function failedFiles(failures: readonly FileError[], rest: string): string {
  const what = failures.length === 1 ? '1 file or path' : `${failures.length} files or paths`;
  return `${what} could not be used; ${rest}.\n${failures.map((failure) => `  ${failureLines(failure)}\n`).join('')}`;
}
