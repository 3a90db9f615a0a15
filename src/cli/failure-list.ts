// Files and paths that could not be used -> the list of them that a user reads, at the end, on stderr.
import type { FileError } from '../errors.js';
import { escaped } from '../logs/printable.js';

/** @param rest what became of the others, in words */
export function failedFiles(failures: readonly FileError[], rest: string): string {
  const what = failures.length === 1 ? '1 file or path' : `${failures.length} files or paths`;
  return `${what} could not be used; ${rest}.\n${failures.map(({ message }) => `  ${escaped(message)}\n`).join('')}`;
}
