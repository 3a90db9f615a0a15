// Runs `collapsar report`: makes a page and figures from logs or from the results of an analysis.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
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
import { addMeasuringOptions } from '../options/measuring-options.js';
import { byteCount, outputPath, wholeNumber } from '../options/option-values.js';
import { EXIT } from '../output/exit-codes.js';
import { afterOptions } from '../output/help-text.js';
import type { Streams, TextStream } from '../output/streams.js';
import { analyzeCommand } from './analyze.js';

const HELP = `
PATH is what analyze takes, or one directory that analyze --out has written: then nothing is measured again, and options that say
how to measure change nothing. The page is one file that loads nothing: it opens from disk, without a network.

Examples:
  collapsar report runs/grpo-7b -o report.html
  collapsar analyze runs/grpo-7b --out results && collapsar report results
  collapsar report results --figures figures     (each chart as SVG, for a paper)

Exit status: 0; 1 when some files could not be used (all are listed, the rest is reported), or there was no step; 2 for wrong usage.`;

/** @param done takes the exit status */
export function define(command: Command, streams: Streams, done: (status: number) => void): void {
  addMeasuringOptions(
    command.argument('<PATH...>', 'step files, rollout logs, directories of them, or the results of analyze --out'),
  )
    .option(
      '-o, --output <file>',
      'where to write the page (default: report.html, unless --figures is given)',
      outputPath,
    )
    .option('--figures <dir>', 'write the charts as SVG to this directory', outputPath)
    .option('--png', 'with --figures: each chart as PNG, too (npm install @resvg/resvg-wasm dejavu-fonts-ttf)')
    .option('--threads <n>', 'threads to compute with (default: one per core)', wholeNumber(1, 1024))
    .option('--max-memory <bytes>', 'approximate memory to use, such as 2GiB or 512MB (default: 300MB)', byteCount)
    .option('--quiet', 'no progress on stderr')
    .addHelpText('after', afterOptions(HELP))
    .action(async (paths: string[], flags: ReportCommandFlags) => {
      done(await reportCommand(paths, flags, streams));
    });
}

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
