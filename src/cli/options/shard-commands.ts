// plan, map, merge and finalize: one analysis over many processes, as commands.
import type { Command } from 'commander';
import type { FinalizeFlags } from '../commands/shards/finalize.js';
import type { MapFlags } from '../commands/shards/map.js';
import type { MergeFlags } from '../commands/shards/merge.js';
import type { PlanFlags } from '../commands/shards/plan.js';
import { afterOptions } from '../output/help-text.js';
import type { Streams } from '../output/streams.js';
import { byteCount, nameList, notEmpty, outputPath, wholeNumber } from './option-values.js';
import { addPlanningOptions } from './planning-options.js';
import { addTableOptions } from './table-options.js';

const PLAN_HELP = `
Finds the steps as analyze does, reads their headers, and writes which steps make which shard. Each shard is then measured by
collapsar map, on any machine that sees the files under the same paths.

Examples:
  collapsar plan runs/ --out manifest.json --target-bytes 2GiB
  collapsar plan runs/a runs/b --shards 64 --profile ragen --out manifest.json

Exit status: 0, also when some files could not be planned (all are listed; with --strict 1); 1 when there is no step at all;
2 for wrong usage.`;

const MAP_HELP = `
Writes DIR/shards/NNNNN.state and then the marker DIR/completions/NNNNN, each whole or not at all. A shard that is complete is
left as it is. Without --index the shard is taken from SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX, AWS_BATCH_JOB_ARRAY_INDEX or
OMPI_COMM_WORLD_RANK, plus COLLAPSAR_INDEX_OFFSET where that is set.

Examples:
  collapsar map --manifest manifest.json --out state --index 3
  srun collapsar map --manifest manifest.json --out state

Exit status: 0, also when some files could not be used (all are listed, and recorded in the state; with --strict 1); 1 when the
manifest or the state cannot be used, a file is out of reach (a mount, a store; map again), or the state cannot be written; 2 for
wrong usage, such as an index beyond the last shard.`;

const MERGE_HELP = `
STATE is a state, or a directory: the states in it, or in its shards. The result is the same to the byte whichever states are
merged first, and can be merged again. A step that is in two of them is refused.

Examples:
  collapsar merge state/shards/* --out merged.state
  collapsar merge state --out so-far.state --json

Exit status: 0; 1 when a state cannot be used or the result cannot be written; 2 for wrong usage.`;

const FINALIZE_HELP = `
Puts all measured steps in order and gives what collapsar analyze gives for the same files: the same output, the same files in
--out, the same exit status.

Examples:
  collapsar finalize --manifest manifest.json --state merged.state --out results
  collapsar finalize --manifest manifest.json --state state --jsonl > metrics.jsonl

Exit status: that of analyze; 1 also when steps are missing (their shards are named).`;

/** @param done takes the exit status */
export function addShardCommands(program: Command, streams: Streams, done: (status: number) => void): void {
  const manifest = '--manifest <file>';
  addPlanningOptions(
    program
      .command('plan')
      .description('cut an analysis into shards that any machine can measure on its own')
      .argument('<PATH...>', 'step files, directories of them, or globs')
      .requiredOption('--out <file>', 'manifest to write', outputPath),
  )
    .option('--strict', 'exit status 1 when some files could not be planned')
    .option('--json', 'print one JSON object: manifest, digest, shards, steps, bytes, failures')
    .option('--quiet', 'no progress on stderr')
    .showHelpAfterError('(see collapsar plan --help)')
    .addHelpText('after', afterOptions(PLAN_HELP))
    .action(async (paths: string[], flags: PlanFlags) => {
      const { planCommand } = await import('../commands/shards/plan.js');
      done(await planCommand(paths, flags, streams));
    });

  program
    .command('map')
    .description('measure one shard of a plan')
    .requiredOption(manifest, 'what collapsar plan wrote', notEmpty)
    .requiredOption('--out <dir>', 'directory of states, the same for all shards', outputPath)
    .option('--index <i>', 'which shard, from 0 on', wholeNumber(0))
    .option('--strict', 'exit status 1 when some files could not be used')
    .option('--redo', 'measure the shard again, complete or not')
    .option('--threads <n>', 'threads to compute with (default: one per core)', wholeNumber(1, 1024))
    .option('--max-memory <bytes>', 'approximate memory to use, such as 2GiB or 512MB (default: 300MB)', byteCount)
    .option('--quiet', 'no progress on stderr')
    .showHelpAfterError('(see collapsar map --help)')
    .addHelpText('after', afterOptions(MAP_HELP))
    .action(async (flags: MapFlags) => {
      const { mapCommand } = await import('../commands/shards/map.js');
      done(await mapCommand(flags, streams));
    });

  program
    .command('merge')
    .description('combine the states of shards into one')
    .argument('<STATE...>', 'states, or directories of them')
    .requiredOption('--out <file>', 'state to write', outputPath)
    .option('--fan-in <n>', 'states to have open at a time (default: 32)', wholeNumber(2, 4096))
    .option('--json', 'print one JSON object: counts, and mean, extremes and quantiles of every metric so far')
    .option('--quiet', 'no progress on stderr')
    .showHelpAfterError('(see collapsar merge --help)')
    .addHelpText('after', afterOptions(MERGE_HELP))
    .action(async (paths: string[], flags: MergeFlags) => {
      const { mergeCommand } = await import('../commands/shards/merge.js');
      done(await mergeCommand(paths, flags, streams));
    });

  addTableOptions(
    program
      .command('finalize')
      .description('give the results of a plan whose shards have been measured, as analyze would')
      .requiredOption(manifest, 'what collapsar plan wrote', notEmpty)
      .requiredOption(
        '--state <path>',
        'what collapsar merge wrote, or the directory that collapsar map wrote to',
        notEmpty,
      ),
  )
    .option('--metrics <names>', "metrics to give (default: the plan's)", nameList)
    .option('--out <dir>', 'also write metrics.jsonl, metrics.parquet and summary.json to this directory', outputPath)
    .option('--quiet', 'no progress on stderr')
    .showHelpAfterError('(see collapsar finalize --help)')
    .addHelpText('after', afterOptions(FINALIZE_HELP))
    .action(async (flags: FinalizeFlags) => {
      const { finalizeCommand } = await import('../commands/shards/finalize.js');
      done(await finalizeCommand(flags, streams));
    });
}
