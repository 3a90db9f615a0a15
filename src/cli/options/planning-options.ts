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
        'most bytes of step files in a shard (default: a 64th of all, within 2GiB to 64GiB)',
      )
        .argParser(byteCount)
        .conflicts('shards'),
    )
    .option('--shards <n>', 'cut into n shards of about the same size instead', wholeNumber(1, 1e7));
  return addMeasuringOptions(command);
}
