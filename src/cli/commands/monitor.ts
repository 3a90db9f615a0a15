// `collapsar monitor`: the sidecar of a trainer. JSON lines on stdin and stdout, or at a Unix socket
// (docs/reference/sidecar.md).
import type { Readable } from 'node:stream';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { ArgumentError } from '../../checks/errors.js';
import { packageVersion } from '../../checks/package-version.js';
import { escaped } from '../../checks/words.js';
import type { Sink } from '../../monitor/sinks/sink.js';
import { Engines } from '../../serve/engines.js';
import { listen } from '../../serve/listen.js';
import type { PageServer } from '../../serve/page/page-server.js';
import { watchParent } from '../../serve/parent-watch.js';
import { serveLines } from '../../serve/serve-lines.js';
import type { Outlets } from '../../serve/session.js';
import { openSink } from '../../sinks/open-sink.js';
import { nonEmpty, wholeNumber } from '../options/option-values.js';
import type { SinkFlags } from '../options/sink-options.js';
import { addSinkOptions } from '../options/sink-options.js';
import { EXIT } from '../output/exit-codes.js';
import { afterOptions } from '../output/help-text.js';
import { Interrupted, type Streams } from '../output/streams.js';

const HELP = `
One line of JSON is a request, { "id": 1, "op": "open", "options": { "everySteps": 5 } }, and one line is its answer:
open, step, score, finish, rollouts, save, restore, abort, close, ping. docs/reference/sidecar.md has them all. The process ends
when its input ends, or with the process that started it. A Python trainer needs none of this: from collapsar import Monitor.

Exit status: 0, however the client ends; 2 for wrong usage.`;

/** @param done takes the exit status */
export function define(command: Command, streams: Streams, done: (status: number) => void): void {
  addSinkOptions(command)
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
    .addHelpText('after', afterOptions(HELP))
    .action(async (flags: MonitorFlags) => {
      done(await monitorCommand(flags, process.stdin, streams));
    });
}

function socketPath(text: string): string {
  if (/^unix:./.test(text)) return text.slice('unix:'.length);
  throw new InvalidArgumentError('Expected unix:PATH.');
}

export interface MonitorFlags extends SinkFlags {
  threads?: number;
  /** A process that must live on. */
  parent?: number;
  /** Path of a socket. */
  listen?: string;
  /** Port of the live page. */
  serve?: number;
  host: string;
  token?: string;
}

/**
 * @param input what clients write, if there is no socket
 * @returns exit status: 0 however the client ends
 */
export async function monitorCommand(flags: MonitorFlags, input: Readable, streams: Streams): Promise<number> {
  const { threads, parent, listen: path, to = [], toMetrics } = flags;
  const { out, err } = streams;
  const page = await openPage(flags, streams);
  if (page === 'refused') return EXIT.usage;
  const orphaned = new AbortController();
  const stopWatching = watchParent(parent, () => {
    orphaned.abort();
    // Whatever still waits, for a reader that is not there or for an engine, waits for nobody.
    setTimeout(() => process.exit(EXIT.ok), 1000).unref();
  });
  const engines = new Engines(threads);
  const sinks = to.map((address) => openSink(address, toMetrics));
  if (page.sink !== undefined) sinks.push(page.sink);
  const outlets: Outlets = { sinks, introduction: page.introduction };
  const onDefect = (error: unknown): void => {
    void err.write(`collapsar monitor: ${error instanceof Error ? error.stack : String(error)}\n`);
  };
  keepStdoutForAnswers();
  try {
    if (path === undefined) {
      const signal = AbortSignal.any([streams.signal, orphaned.signal, out.closed]);
      const write = (line: string): Promise<void> => out.write(line);
      await serveLines({ input, write, signal, onDefect }, engines, outlets);
    } else {
      const signal = AbortSignal.any([streams.signal, orphaned.signal]);
      await listen(path, engines, signal, () => void err.write(`listening at unix:${path}\n`), onDefect, outlets);
    }
  } finally {
    stopWatching();
    // A pipe that its writer keeps open would keep the process.
    input.destroy();
    await page.server?.close();
  }
  if (streams.signal.reason instanceof Interrupted && path === undefined) throw streams.signal.reason;
  // Threads that are at work end before they are let go of: a parent that is gone does not wait for that.
  if (orphaned.signal.aborted || out.closed.aborted) process.exit(EXIT.ok);
  await engines.dispose();
  return EXIT.ok;
}

interface Page {
  /** Missing if none was asked for, or nobody may listen there. */
  readonly server?: PageServer;
  readonly sink?: Sink;
  /** The address that clients get. */
  readonly introduction: { readonly page?: string; readonly pageProblem?: string };
}

/**
 * Opens the page. A port that another run has already, or a page that cannot be made, must not stop a trainer: it is
 * reported, and the run continues without a page.
 */
async function openPage({ serve, host, token }: MonitorFlags, streams: Streams): Promise<Page | 'refused'> {
  if (serve === undefined) return { introduction: {} };
  const { err, environment } = streams;
  // A trainer that shows no page loads none.
  const [{ LiveReport }, { PageServer }, { PageSink }, { pageToken }] = await Promise.all([
    import('../../serve/page/live-report.js'),
    import('../../serve/page/page-server.js'),
    import('../../serve/page/page-sink.js'),
    import('../../serve/page/page-token.js'),
  ]);
  const live = new LiveReport({ version: packageVersion(), settings: {}, command: 'collapsar monitor --serve' });
  try {
    const needed = await pageToken(token ?? environment.COLLAPSAR_TOKEN, host, environment);
    const server = await PageServer.listen(live, { host, port: serve, token: needed });
    await err.write(`${server.address}\n`);
    return { server, sink: new PageSink(server), introduction: { page: server.address } };
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    const isUsage = error instanceof ArgumentError && error.argument === '--host';
    await err.write(`${isUsage ? 'error' : 'note: no page'}: ${escaped(problem)}\n`);
    return isUsage ? 'refused' : { introduction: { pageProblem: problem } };
  }
}

/** A library that prints would break the protocol: what it says goes to stderr. */
function keepStdoutForAnswers(): void {
  for (const name of ['log', 'info', 'debug', 'dir', 'table'] as const) console[name] = console.error;
}
