// `collapsar monitor`: its options.
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { MonitorFlags } from '../commands/monitor.js';
import { afterOptions } from '../output/help-text.js';
import type { Streams } from '../output/streams.js';
import { nonEmpty, wholeNumber } from './option-values.js';
import { addSinkOptions } from './sink-options.js';

const HELP = `
One line of JSON is a request, { "id": 1, "op": "open", "options": { "everySteps": 5 } }, and one line is its answer:
open, step, score, finish, rollouts, save, restore, abort, close, ping. docs/reference/sidecar.md has them all. The process ends
when its input ends, or with the process that started it. A Python trainer needs none of this: from collapsar import Monitor.

Exit status: 0, however the client ends; 2 for wrong usage.`;

/** @param done takes the exit status */
export function addMonitorCommand(program: Command, streams: Streams, done: (status: number) => void): void {
  addSinkOptions(
    program.command('monitor').description('the monitor as a process beside a trainer: JSON lines on stdin and stdout'),
  )
    .option('--threads <n>', 'threads that compute', wholeNumber(1, 1024))
    .option('--listen <unix:PATH>', 'serve several clients at a Unix socket instead', socketPath)
    .addOption(
      new Option('--serve [port]', 'show the reports on a live page as well, as collapsar serve does; 0: any free port')
        .argParser(wholeNumber(0, 65535))
        .preset('7577'),
    )
    .option(
      '--host <address>',
      'with --serve: whom to listen to; others than this machine need a --token',
      nonEmpty,
      '127.0.0.1',
    )
    .option(
      '--token <text>',
      'with --serve: what every request must bring (default: COLLAPSAR_TOKEN; else one of its own where others use the machine)',
      nonEmpty,
    )
    .option('--parent <pid>', 'end with this process, too', wholeNumber(1))
    .showHelpAfterError('(see collapsar monitor --help)')
    .addHelpText('after', afterOptions(HELP))
    .action(async (flags: MonitorFlags) => {
      const { monitorCommand } = await import('../commands/monitor.js');
      done(await monitorCommand(flags, process.stdin, streams));
    });
}

function socketPath(text: string): string {
  if (/^unix:./.test(text)) return text.slice('unix:'.length);
  throw new InvalidArgumentError('Expected unix:PATH.');
}
