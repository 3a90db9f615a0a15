// Writes a script that does what submitting would do: for --dry-run.
import { join } from 'node:path';
import { shellWord } from '../checks/shell-words.js';
import type { Submission, SubmissionFile } from './submission.js';

/** @param commands that start it, as a shell would run them */
export function submissionScript(
  { directory }: Submission,
  files: readonly SubmissionFile[],
  commands: readonly string[],
): string {
  const lines = ['#!/bin/sh', 'set -e', `mkdir -p ${shellWord(join(directory, 'logs'))}`];
  for (const { path, text, isProgram } of files) {
    // Whatever the text is, it does not end before its end: a path in it may have lines of its own.
    let end = 'END_OF_FILE';
    while (text.includes(end)) end += '_';
    lines.push('', `cat >${shellWord(path)} <<'${end}'`, `${text}${end}`);
    if (isProgram) lines.push(`chmod +x ${shellWord(path)}`);
  }
  return `${[...lines, '', ...commands].join('\n')}\n`;
}
