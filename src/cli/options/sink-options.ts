// Where figures go besides, as options of the commands that measure.
import { type Command, InvalidArgumentError, Option } from 'commander';
import { isSinkAddress, SINK_NAMES } from '../../sinks/open-sink.js';
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
  if (!isSinkAddress(text)) {
    throw new InvalidArgumentError(`Expected NAME:WHERE, where NAME is ${SINK_NAMES.join(', ')}.`);
  }
  return [...(before ?? []), text];
}
