// `collapsar report`: logs, or the results of an analysis, in; a page and figures out.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { ArgumentError } from '../../checks/errors.js';
import { shortBytes } from '../../checks/numbers.js';
import { shellLine } from '../../checks/shell-words.js';
import { counted, escaped } from '../../checks/words.js';
import { writeWhole } from '../../logs/stores/atomic-file.js';
import { pageHtml } from '../../report/page-html.js';
import { hasResults, readResults } from '../../report/read-results.js';
import type { Report } from '../../report/report.js';
import { writeFigures } from '../../report/write-figures.js';
import type { MeasuringFlags } from '../options/measuring-options.js';
import { EXIT } from '../output/exit-codes.js';
import type { Streams, TextStream } from '../output/streams.js';
import { analyzeCommand } from './analyze.js';

/** The options of the command line, checked. */
export interface ReportCommandFlags extends MeasuringFlags {
  output?: string;
  figures?: string;
  png?: true;
  threads?: number;
  maxMemory?: number;
  quiet?: true;
}

/** @returns exit status */
export async function reportCommand(
  paths: readonly string[],
  flags: ReportCommandFlags,
  streams: Streams,
): Promise<number> {
  const results = await Promise.all(paths.map(hasResults));
  if (results.includes(true) && paths.length > 1) {
    const folder = escaped(paths[results.indexOf(true)] as string);
    await streams.err.write(
      `error: ${folder} has the results of an analysis: report it alone, or name the logs of all runs instead\n`,
    );
    return EXIT.usage;
  }
  const command = shellLine(['collapsar', 'report', ...paths]);
  if (results[0] === true) return write(await readResults(paths[0] as string, command), EXIT.ok, flags, streams);

  const folder = await mkdtemp(join(tmpdir(), 'collapsar-report-'));
  try {
    const { output: _, figures: __, png: ___, ...measuring } = flags;
    const rows = { rows: 12, jsonl: true } as const;
    const status = await analyzeCommand(paths, { ...measuring, ...rows, out: folder }, { ...streams, out: nowhere });
    if (!(await hasResults(folder))) return status;
    return await write(await readResults(folder, command), status, flags, streams);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** What an analysis prints is not what was asked for. */
const nowhere: TextStream = {
  isTTY: false,
  columns: undefined,
  closed: new AbortController().signal,
  write: async () => {},
};

async function write(
  report: Report,
  status: number,
  { output, figures, png }: ReportCommandFlags,
  { out, err }: Streams,
): Promise<number> {
  const steps = report.runs.reduce((sum, { head }) => sum + head.count, 0);
  const counts = `${counted(report.runs.length, 'runs')}, ${counted(steps, 'steps')}`;
  if (output !== undefined || figures === undefined) {
    const path = output ?? 'report.html';
    const html = await pageHtml(report);
    await writeWhole(resolve(path), html);
    await out.write(`${escaped(path)}: ${counts}, ${shortBytes(Buffer.byteLength(html))}\n`);
  }
  if (figures !== undefined) {
    try {
      const names = await writeFigures(report, figures, png === true);
      await out.write(`${escaped(figures)}: ${counts}, ${counted(names.length, 'figures')}\n`);
    } catch (error) {
      if (!(error instanceof ArgumentError)) throw error;
      await err.write(`error: ${escaped(error.message)}\n`);
      return EXIT.usage;
    }
  }
  return status;
}
