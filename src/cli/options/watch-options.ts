// `collapsar watch`: its options.
import { type Command, Option } from 'commander';
import type { WatchFlags } from '../commands/watch.js';
import { afterOptions } from '../output/help-text.js';
import type { Streams } from '../output/streams.js';
import { addMeasuringOptions } from './measuring-options.js';
import { anyNumber, byteCount, nonEmpty, outputPath, wholeNumber } from './option-values.js';
import { addSinkOptions } from './sink-options.js';

const HELP = `
Follows the rollout logs and step files in DIR while the trainer writes them: files that appear, grow and are rotated away. A step
is taken when nothing has been added to it for --settle seconds and a later one has begun, or for six times as long.
What was told is kept in --state: the same command goes on from there, with the same verdicts, and tells no step twice.
--exec runs CMD in a shell on every new warning or critical verdict, with COLLAPSAR_RUN, _STEP, _FILE, _VERDICT, _SEVERITY and
_SENTENCE in its environment and the verdict as JSON on its stdin.

Examples:
  collapsar watch outputs/rollouts
  collapsar watch outputs/rollouts --exec 'scancel $JOB' --exec-on critical
  collapsar watch outputs/rollouts --once            (what is there now, as from cron)

Exit status: with --once 0, or 1 when something could not be used; 2 for wrong usage; 130 or 143 when interrupted.`;

/** @param done takes the exit status */
export function addWatchCommand(program: Command, streams: Streams, done: (status: number) => void): void {
  addSinkOptions(
    addMeasuringOptions(
      program
        .command('watch')
        .description("follow a trainer's logs while they grow: a line a step, and every new verdict")
        .argument('<DIR...>', 'directories that the trainer writes to'),
    ),
  )
    .option('--state <dir>', 'where it is kept what was told (default: .collapsar-watch in the first DIR)', outputPath)
    .option('--exec <command>', 'what to run on an alarm, as a shell reads it', nonEmpty)
    .addOption(
      new Option('--exec-on <severity>', 'the least that is an alarm')
        .choices(['warning', 'critical'])
        .default('warning'),
    )
    .option('--settle <seconds>', 'how long a step has to stay as it is to be taken', anyNumber, 10)
    .option('--interval <seconds>', 'how often to look, where the system does not tell of changes', anyNumber, 5)
    .option('--poll', 'only look at intervals')
    .option('--once', 'take all that is there, complete or not, and end')
    .option('--jsonl', 'print one JSON record a step instead of a line')
    .option('--threads <n>', 'threads to compute with (default: one per core)', wholeNumber(1, 1024))
    .option('--max-memory <bytes>', 'approximate memory to use, such as 2GiB or 512MB (default: 300MB)', byteCount)
    .showHelpAfterError('(see collapsar watch --help)')
    .addHelpText('after', afterOptions(HELP))
    .action(async (paths: string[], flags: WatchFlags) => {
      const { watchCommand } = await import('../commands/watch.js');
      done(await watchCommand(paths, flags, streams));
    });
}
