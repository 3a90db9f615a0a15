// `collapsar monitor`: the sidecar of a trainer. JSON lines on stdin and stdout, or at a Unix socket
// (docs/reference/sidecar.md).
import type { Readable } from 'node:stream';
import { Engines } from '../../serve/engines.js';
import { listen } from '../../serve/listen.js';
import { watchParent } from '../../serve/parent-watch.js';
import { serveLines } from '../../serve/serve-lines.js';
import { openSink } from '../../sinks/open-sink.js';
import type { SinkFlags } from '../options/sink-options.js';
import { EXIT } from '../output/exit-codes.js';
import { Interrupted, type Streams } from '../output/streams.js';

export interface MonitorFlags extends SinkFlags {
  threads?: number;
  /** A process that must live on. */
  parent?: number;
  /** Path of a socket. */
  listen?: string;
}

/**
 * @param input what clients write, where there is no socket
 * @returns exit status: 0 however the client ends
 */
export async function monitorCommand(
  { threads, parent, listen: path, to = [], toMetrics }: MonitorFlags,
  input: Readable,
  streams: Streams,
): Promise<number> {
  const { out, err } = streams;
  const orphaned = new AbortController();
  const stopWatching = watchParent(parent, () => {
    orphaned.abort();
    // Whatever still waits, for a reader that is not there or for an engine, waits for nobody.
    setTimeout(() => process.exit(EXIT.ok), 1000).unref();
  });
  const engines = new Engines(threads);
  const sinks = to.map((address) => openSink(address, toMetrics));
  const onDefect = (error: unknown): void => {
    void err.write(`collapsar monitor: ${error instanceof Error ? error.stack : String(error)}\n`);
  };
  keepStdoutForAnswers();
  try {
    if (path === undefined) {
      const signal = AbortSignal.any([streams.signal, orphaned.signal, out.closed]);
      const write = (line: string): Promise<void> => out.write(line);
      await serveLines({ input, write, signal, onDefect }, engines, sinks);
    } else {
      const signal = AbortSignal.any([streams.signal, orphaned.signal]);
      await listen(path, engines, signal, () => void err.write(`listening at unix:${path}\n`), onDefect, sinks);
    }
  } finally {
    stopWatching();
    // A pipe that its writer keeps open would keep the process.
    input.destroy();
  }
  if (streams.signal.reason instanceof Interrupted && path === undefined) throw streams.signal.reason;
  // Threads that are at work end before they are let go of: a parent that is gone does not wait for that.
  if (orphaned.signal.aborted || out.closed.aborted) process.exit(EXIT.ok);
  await engines.dispose();
  return EXIT.ok;
}

/** A library that prints would break the protocol: what it says goes to stderr. */
function keepStdoutForAnswers(): void {
  for (const name of ['log', 'info', 'debug', 'dir', 'table'] as const) console[name] = console.error;
}
