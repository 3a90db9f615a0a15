// `collapsar serve`: its options.
import type { Command } from 'commander';
import type { ServeFlags } from '../commands/serve.js';
import { afterOptions } from '../output/help-text.js';
import type { Streams } from '../output/streams.js';
import { addMeasuringOptions } from './measuring-options.js';
import { anyNumber, byteCount, nonEmpty, wholeNumber } from './option-values.js';
import { addSinkOptions } from './sink-options.js';

const HELP = `
Shows the page of collapsar report while a run goes on, in a browser on this machine: what collapsar watch would tell of is on the
page as soon as it is measured. Everything in DIR is measured when it starts.
  /         the page
  /metrics  what Prometheus scrapes

Examples:
  collapsar serve outputs/rollouts
  ssh -L 7577:localhost:7577 trainer collapsar serve runs     (on another machine: then open localhost:7577 here)
  collapsar serve runs --host 0.0.0.0 --token SECRET

Exit status: 2 for wrong usage; 130 or 143 when interrupted.`;

/** @param done takes the exit status */
export function addServeCommand(program: Command, streams: Streams, done: (status: number) => void): void {
  addSinkOptions(
    addMeasuringOptions(
      program
        .command('serve')
        .description('the report as a page that is alive while a trainer writes its logs')
        .argument('<DIR...>', 'directories that the trainer writes to'),
    ),
  )
    .option('--port <n>', 'where to listen; 0 for any that is free', wholeNumber(0, 65535), 7577)
    .option('--host <address>', 'whom to listen to; others than this machine need a --token', nonEmpty, '127.0.0.1')
    .option(
      '--token <text>',
      'what every request must bring (default: COLLAPSAR_TOKEN; else one of its own where others use the machine)',
      nonEmpty,
    )
    .option('--settle <seconds>', 'how long a step has to stay as it is to be taken', anyNumber, 2)
    .option('--interval <seconds>', 'how often to look, where the system does not tell of changes', anyNumber, 5)
    .option('--poll', 'only look at intervals')
    .option('--threads <n>', 'threads to compute with (default: one per core)', wholeNumber(1, 1024))
    .option('--max-memory <bytes>', 'approximate memory to use, such as 2GiB or 512MB (default: 300MB)', byteCount)
    .showHelpAfterError('(see collapsar serve --help)')
    .addHelpText('after', afterOptions(HELP))
    .action(async (paths: string[], flags: ServeFlags) => {
      const { serveCommand } = await import('../commands/serve.js');
      done(await serveCommand(paths, flags, streams));
    });
}
