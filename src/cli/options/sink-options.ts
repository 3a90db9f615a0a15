// Options of the commands that measure for further destinations of figures.
import { type Command, InvalidArgumentError, Option } from 'commander';
import { ArgumentError } from '../../checks/errors.js';
import { argumentProblem } from '../../checks/words.js';
import { openSink, SINK_NAMES } from '../../sinks/open-sink.js';
import type { SinkMetrics } from '../../sinks/page-keys.js';

/** What they give. */
export interface SinkFlags {
  to?: string[];
  toMetrics?: SinkMetrics;
}

export function addSinkOptions(command: Command): Command {
  return command
    .option(
      '--to <name:where>',
      `also send figures and verdicts to ${SINK_NAMES.join(', ')}; may be repeated`,
      sinkList,
    )
    .addOption(
      new Option('--to-metrics <which>', 'with --to: the figures of the page, or all')
        .choices(['page', 'all'])
        .default('page'),
    );
}

function sinkList(text: string, before: string[] | undefined): string[] {
  try {
    openSink(text);
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error;
    throw new InvalidArgumentError(`It ${argumentProblem(error)}.`);
  }
  return [...(before ?? []), text];
}
