// `collapsar analyze`: step files and rollout logs in, tables or JSON on stdout, results in a directory, progress and
// failures on stderr.

import { type Command, Option } from 'commander';
import { analyze } from '../../analysis/analyze.js';
import { measureOptions } from '../../analysis/measuring/measure-options.js';
import type { Journal } from '../../analysis/store/journal.js';
import type { Shard } from '../../analysis/store/shard.js';
import { escaped } from '../../checks/words.js';
import { addMeasuringOptions, figureFlags } from '../options/measuring-options.js';
import { byteCount, notEmpty, outputPath, shardOfAll, wholeNumber } from '../options/option-values.js';
import { addSinkOptions } from '../options/sink-options.js';
import { addTableOptions } from '../options/table-options.js';
import { EXIT } from '../output/exit-codes.js';
import { afterOptions } from '../output/help-text.js';
import { type ReportFlags, reportSteps } from '../output/report-steps.js';
import type { Streams } from '../output/streams.js';

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
export function define(command: Command, streams: Streams, done: (status: number) => void): void {
  /** Which of `--resume` and `--no-resume` were given: commander keeps only the last. */
  const resuming = new Set<string>();
  addSinkOptions(
    addMeasuringOptions(
      addTableOptions(command.argument('<PATH...>', 'step files, rollout logs, directories of them, or globs')),
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
    .addHelpText('after', afterOptions(HELP))
    .on('option:resume', () => resuming.add('--resume'))
    .on('option:no-resume', () => resuming.add('--no-resume'))
    .action(async (paths: string[], flags: AnalyzeFlags) => {
      if (resuming.size > 1)
        command.error('error: --resume and --no-resume cannot be used together', { exitCode: EXIT.usage });
      const [lonely = flags.keepJournal && '--keep-journal'] = resuming;
      if (lonely !== undefined && flags.out === undefined) {
        command.error(`error: ${lonely} is about what is kept in the directory of --out: give --out, or leave it out`, {
          exitCode: EXIT.usage,
        });
      }
      if (flags.shard !== undefined && flags.out === undefined) {
        command.error('error: --shard needs --out: the directory of the journals, the same for all shards', {
          exitCode: EXIT.usage,
        });
      }
      done(await analyzeCommand(paths, flags, streams));
    });
}

/** The options of the command line, checked. */
export interface AnalyzeFlags extends ReportFlags {
  /** Continue from what an earlier analysis left in `out`; default true. */
  resume?: boolean;
  keepJournal?: true;
  /** Folders of journals that shards were measured into. */
  journals?: string[];
  shard?: Shard;
  threads?: number;
  maxMemory?: number;
}

/** @returns exit status */
export async function analyzeCommand(paths: readonly string[], flags: AnalyzeFlags, streams: Streams): Promise<number> {
  const { metrics, threads, maxMemory, include, exclude, journals, shard, out } = flags;
  if (shard !== undefined && out !== undefined) {
    const { shardCommand } = await import('./shard.js');
    return shardCommand(paths, shard, { ...flags, out }, streams);
  }
  const figures = figureFlags(flags);
  return reportSteps(flags, streams, async ({ directory, ...context }) => {
    const journal = await directory?.journal({
      resume: flags.resume,
      keep: flags.keepJournal,
      measuring: measureOptions(figures),
    });
    if (journal !== undefined && !flags.quiet)
      await streams.err.write(journalNote(escaped(flags.out as string), journal));
    return analyze(paths, { ...figures, metrics, threads, maxMemory, include, exclude, journal, journals, ...context });
  });
}

/** What becomes of an earlier analysis that did not come to its end; nothing if there was none. */
function journalNote(directory: string, { resumed, startedAnew }: Journal): string {
  if (startedAnew !== undefined) {
    return `${directory} has steps that an earlier analysis measured, but ${startedAnew}: all are measured anew.\n`;
  }
  const steps = resumed === 1 ? '1 step that an' : `${resumed} steps that an`;
  return resumed === 0
    ? ''
    : `continuing in ${directory}: ${steps} earlier analysis measured need not be read again.\n`;
}
