// How an analysis is cut into shards and what they are measured with, as options of the commands that plan.
import { type Command, Option } from 'commander';
import { addMeasuringOptions, type MeasuringFlags } from './measuring-options.js';
import { byteCount, wholeNumber } from './option-values.js';

/** What they give. */
export interface PlanningFlags extends MeasuringFlags {
  targetBytes?: number;
  shards?: number;
}

export function addPlanningOptions(command: Command): Command {
  command
    .addOption(
      new Option(
        '--target-bytes <bytes>',
        'size of the step files of a shard, at most (default: a 64th of all, but 2GiB to 64GiB)',
      )
        .argParser(byteCount)
        .conflicts('shards'),
    )
    .option('--shards <n>', 'make so many shards of about the same size instead', wholeNumber(1, 1e7));
  return addMeasuringOptions(command);
}
