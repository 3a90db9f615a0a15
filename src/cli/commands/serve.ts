// `collapsar serve`: folders that a trainer writes to, in; a live page out.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { watch } from '../../analysis/watching/watch.js';
import { ArgumentError } from '../../checks/errors.js';
import { packageVersion } from '../../checks/package-version.js';
import { shellLine } from '../../checks/shell-words.js';
import { escaped } from '../../checks/words.js';
import { LiveReport } from '../../serve/page/live-report.js';
import { PageServer } from '../../serve/page/page-server.js';
import { pageToken } from '../../serve/page/page-token.js';
import { figureFlags, type MeasuringFlags } from '../options/measuring-options.js';
import type { SinkFlags } from '../options/sink-options.js';
import { EXIT } from '../output/exit-codes.js';
import { SinkOutputs } from '../output/sink-outputs.js';
import type { Streams } from '../output/streams.js';
import { widthOf } from '../output/table.js';
import { wrap } from '../output/text-wrap.js';
import { impossibleMetrics } from './metric-check.js';

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
  // The page shows the whole run: what an earlier one was told is measured again.
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
