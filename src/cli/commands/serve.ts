// Runs `collapsar serve`: shows folders that a trainer writes to as a live page.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { watch } from '../../analysis/watching/watch.js';
import { ArgumentError } from '../../checks/errors.js';
import { packageVersion } from '../../checks/package-version.js';
import { shellLine } from '../../checks/shell-words.js';
import { escaped } from '../../checks/words.js';
import { LiveReport } from '../../serve/page/live-report.js';
import { PageServer } from '../../serve/page/page-server.js';
import { pageToken } from '../../serve/page/page-token.js';
import { addMeasuringOptions, figureFlags, type MeasuringFlags } from '../options/measuring-options.js';
import { anyNumber, byteCount, nonEmpty, wholeNumber } from '../options/option-values.js';
import type { SinkFlags } from '../options/sink-options.js';
import { addSinkOptions } from '../options/sink-options.js';
import { EXIT } from '../output/exit-codes.js';
import { afterOptions } from '../output/help-text.js';
import { SinkOutputs } from '../output/sink-outputs.js';
import type { Streams } from '../output/streams.js';
import { widthOf } from '../output/table.js';
import { wrap } from '../output/text-wrap.js';
import { impossibleMetrics } from './metric-check.js';

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
export function define(command: Command, streams: Streams, done: (status: number) => void): void {
  addSinkOptions(addMeasuringOptions(command.argument('<DIR...>', 'directories that the trainer writes to')))
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
    .addHelpText('after', afterOptions(HELP))
    .action(async (paths: string[], flags: ServeFlags) => {
      done(await serveCommand(paths, flags, streams));
    });
}

/** The options of the command line, checked. */
export interface ServeFlags extends MeasuringFlags, SinkFlags {
  port: number;
  host: string;
  token?: string;
  settle: number;
  interval: number;
  poll?: true;
  threads?: number;
  maxMemory?: number;
}

/** @returns exit status; it ends only when it is interrupted */
export async function serveCommand(paths: readonly string[], flags: ServeFlags, streams: Streams): Promise<number> {
  const { err, environment, signal } = streams;
  const impossible = impossibleMetrics(flags.metrics, flags.profile);
  if (impossible !== undefined) {
    await err.write(impossible);
    return EXIT.usage;
  }
  const { profile, permutations, seed, samples, nonFinite, placeholders, turnRewards } = flags;
  const { metrics, host, port, settle, interval, poll, threads, maxMemory, include, exclude } = flags;
  const live = new LiveReport({
    version: packageVersion(),
    settings: { profile, permutations, seed, samples, nonFinite, placeholders, turnRewards },
    command: shellLine(['collapsar', 'report', ...paths]),
  });
  const token = await pageToken(flags.token ?? environment.COLLAPSAR_TOKEN, host, environment);
  let server: PageServer;
  try {
    server = await PageServer.listen(live, { host, port, token });
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error;
    await err.write(`error: ${escaped(error.message)}\n`);
    return EXIT.usage;
  }
  await err.write(`${server.address}\n`);
  const writing: Promise<void>[] = [];
  const remark = (text: string) =>
    writing.push(err.write(`${wrap(escaped(text), widthOf(err, environment), 'note: ')}\n`));
  const sinks = new SinkOutputs(flags, streams);
  // The page shows the whole run: steps that an earlier server reported are measured again.
  const state = await mkdtemp(join(tmpdir(), 'collapsar-serve-'));
  try {
    const reports = watch(paths, {
      state,
      ...figureFlags(flags),
      ...{ metrics, settle, interval, poll, threads, maxMemory, include, exclude, signal },
      onNote: remark,
      onFailure: ({ message }) => remark(message),
    });
    for await (const report of reports) {
      server.add(report);
      await sinks.add(report);
    }
    return EXIT.ok;
  } finally {
    await server.close();
    await sinks.close();
    await rm(state, { recursive: true, force: true });
    await Promise.all(writing);
  }
}
