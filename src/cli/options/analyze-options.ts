// `collapsar analyze`: its options.
import { type Command, Option } from 'commander';
import type { AnalyzeFlags } from '../commands/analyze.js';
import { EXIT } from '../output/exit-codes.js';
import { afterOptions } from '../output/help-text.js';
import type { Streams } from '../output/streams.js';
import { addMeasuringOptions } from './measuring-options.js';
import { byteCount, notEmpty, outputPath, shardOfAll, wholeNumber } from './option-values.js';
import { addSinkOptions } from './sink-options.js';
import { addTableOptions } from './table-options.js';

const HELP = `
Each PATH is a step file (.safetensors, .safetensors.gz, .npz, .npy), a trainer's rollout log (.jsonl,
.parquet, .csv; see collapsar formats), a directory of them (searched recursively), s3://bucket/prefix, or a glob in quotes.

Examples:
  collapsar analyze runs/grpo-7b
  collapsar analyze runs/a runs/b --jsonl > metrics.jsonl
  collapsar analyze outputs/rollouts
  collapsar analyze runs/grpo-7b --to tensorboard:tb
  collapsar analyze runs/ --shard 3/64 --out work       (on any machine, for each of 0/64 to 63/64; then)
  collapsar analyze runs/ --journals work --out results
  collapsar analyze runs/grpo-7b --fail-on critical --quiet || scancel $JOB
  collapsar analyze 'runs/*/step_0*.safetensors' --profile ragen --metrics 'mi_*,retrieval_accuracy'

Exit status: 0; 1 when some files could not be used (all are listed, the rest is reported); 2 for wrong usage; 3 when --fail-on
says so.`;

function each(text: string, before: string[] | undefined): string[] {
  return [...(before ?? []), notEmpty(text)];
}

/** @param done takes the exit status */
export function addAnalyzeCommand(program: Command, streams: Streams, done: (status: number) => void): void {
  /** Which of `--resume` and `--no-resume` were given: commander keeps only the last. */
  const resuming = new Set<string>();
  const analyze = addSinkOptions(
    addMeasuringOptions(
      addTableOptions(
        program
          .command('analyze')
          .description('collapse metrics of every training step in logs')
          .argument('<PATH...>', 'step files, rollout logs, directories of them, or globs'),
      ),
    ),
  )
    .option('--out <dir>', 'also write metrics.jsonl, metrics.parquet and summary.json to this directory', outputPath)
    .option('--resume', 'with --out: continue after the steps that a killed analysis had measured (default)')
    .option('--no-resume', 'with --out: measure all steps anew')
    .option(
      '--keep-journal',
      'with --out: keep what was measured, so that a later analysis measures only files that changed',
    )
    .addOption(
      new Option('--shard <i/n>', 'with --out: only measure the i-th (from 0 on) of n shares, into OUT/journals')
        .argParser(shardOfAll)
        .conflicts(['journals', 'keepJournal', 'metrics', 'json', 'jsonl', 'markdown', 'rows', 'failOn', 'to']),
    )
    .option('--journals <dir>', 'take measured steps from what --shard wrote to this directory; may be repeated', each)
    .option('--threads <n>', 'threads to compute with (default: one per core)', wholeNumber(1, 1024))
    .option('--max-memory <bytes>', 'approximate memory to use, such as 2GiB or 512MB (default: 300MB)', byteCount)
    .option('--quiet', 'no progress on stderr')
    .showHelpAfterError('(see collapsar analyze --help)')
    .addHelpText('after', afterOptions(HELP))
    .on('option:resume', () => resuming.add('--resume'))
    .on('option:no-resume', () => resuming.add('--no-resume'))
    .action(async (paths: string[], flags: AnalyzeFlags) => {
      if (resuming.size > 1)
        analyze.error('error: --resume and --no-resume cannot be used together', { exitCode: EXIT.usage });
      const [lonely = flags.keepJournal && '--keep-journal'] = resuming;
      if (lonely !== undefined && flags.out === undefined) {
        analyze.error(`error: ${lonely} is about what is kept in the directory of --out: give --out, or leave it out`, {
          exitCode: EXIT.usage,
        });
      }
      if (flags.shard !== undefined && flags.out === undefined) {
        analyze.error('error: --shard needs --out: the directory of the journals, the same for all shards', {
          exitCode: EXIT.usage,
        });
      }
      const { analyzeCommand } = await import('../commands/analyze.js');
      done(await analyzeCommand(paths, flags, streams));
    });
}
