// Options for showing results on stdout, for the commands that give them.
import { type Command, InvalidArgumentError, Option } from 'commander';
import { wholeNumber } from './option-values.js';

/** What they give. */
export interface TableFlags {
  json?: true;
  jsonl?: true;
  markdown?: true;
  rows?: number;
  failOn?: 'critical' | 'warning';
}

export function addTableOptions(command: Command): Command {
  return command
    .addOption(new Option('--json', 'print one JSON array of records').conflicts(['jsonl', 'markdown']))
    .addOption(
      new Option('--jsonl', 'print one JSON record a line, each as soon as its step is finished').conflicts('markdown'),
    )
    .option('--markdown', 'print tables that an issue or a pull request shows')
    .option(
      '--rows <n>',
      "rows of a run's table, or all (default: 12 around what changes; of several runs a comparison)",
      rowCount,
    )
    .addOption(
      new Option(
        '--fail-on <severity>',
        'exit status 3 when such a verdict, or a graver one, holds at the end of a run',
      ).choices(['critical', 'warning']),
    );
}

/** Two at least: the first and the last. */
function rowCount(text: string): number {
  if (text === 'all') return Number.POSITIVE_INFINITY;
  try {
    return wholeNumber(2)(text);
  } catch {
    throw new InvalidArgumentError('Expected all, or a whole number from 2 on.');
  }
}
