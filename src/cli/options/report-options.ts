// `collapsar report`: its options.
import type { Command } from 'commander';
import type { ReportCommandFlags } from '../commands/report.js';
import { afterOptions } from '../output/help-text.js';
import type { Streams } from '../output/streams.js';
import { addMeasuringOptions } from './measuring-options.js';
import { byteCount, outputPath, wholeNumber } from './option-values.js';

const HELP = `
PATH is what analyze takes, or one directory that analyze --out has written: then nothing is measured again, and options that say
how to measure change nothing. The page is one file that loads nothing: it opens from disk, without a network.

Examples:
  collapsar report runs/grpo-7b -o report.html
  collapsar analyze runs/grpo-7b --out results && collapsar report results
  collapsar report results --figures figures     (each chart as SVG, for a paper)

Exit status: 0; 1 when some files could not be used (all are listed, the rest is reported), or there was no step; 2 for wrong usage.`;

/** @param done takes the exit status */
export function addReportCommand(program: Command, streams: Streams, done: (status: number) => void): void {
  addMeasuringOptions(
    program
      .command('report')
      .description('all runs as one page to look at, in one HTML file')
      .argument('<PATH...>', 'step files, rollout logs, directories of them, or the results of analyze --out'),
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
    .showHelpAfterError('(see collapsar report --help)')
    .addHelpText('after', afterOptions(HELP))
    .action(async (paths: string[], flags: ReportCommandFlags) => {
      const { reportCommand } = await import('../commands/report.js');
      done(await reportCommand(paths, flags, streams));
    });
}
