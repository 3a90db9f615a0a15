// `collapsar analyze`: step files and rollout logs in, tables or JSON on stdout, results in a directory, progress and
// failures on stderr.
import { analyze } from '../../analysis/analyze.js';
import { measureOptions } from '../../analysis/measuring/measure-options.js';
import type { Journal } from '../../analysis/store/journal.js';
import type { Shard } from '../../analysis/store/shard.js';
import { escaped } from '../../checks/words.js';
import { figureFlags } from '../options/measuring-options.js';
import { type ReportFlags, reportSteps } from '../output/report-steps.js';
import type { Streams } from '../output/streams.js';

/** The options of the command line, checked. */
export interface AnalyzeFlags extends ReportFlags {
  /** Continue from what an earlier analysis left in `out`; default true. */
  resume?: boolean;
  keepJournal?: true;
  /** Folders of journals that shards were measured into. */
  journals?: string[];
  shard?: Shard;
  threads?: number;
  maxMemory?: number;
}

/** @returns exit status */
export async function analyzeCommand(paths: readonly string[], flags: AnalyzeFlags, streams: Streams): Promise<number> {
  const { metrics, threads, maxMemory, include, exclude, journals, shard, out } = flags;
  if (shard !== undefined && out !== undefined) {
    const { shardCommand } = await import('./shard.js');
    return shardCommand(paths, shard, { ...flags, out }, streams);
  }
  const figures = figureFlags(flags);
  return reportSteps(flags, streams, async ({ directory, ...context }) => {
    const journal = await directory?.journal({
      resume: flags.resume,
      keep: flags.keepJournal,
      measuring: measureOptions(figures),
    });
    if (journal !== undefined && !flags.quiet)
      await streams.err.write(journalNote(escaped(flags.out as string), journal));
    return analyze(paths, { ...figures, metrics, threads, maxMemory, include, exclude, journal, journals, ...context });
  });
}

/** What becomes of an earlier analysis that did not come to its end; nothing where there was none. */
function journalNote(directory: string, { resumed, startedAnew }: Journal): string {
  if (startedAnew !== undefined) {
    return `${directory} has steps that an earlier analysis measured, but ${startedAnew}: all are measured anew.\n`;
  }
  const steps = resumed === 1 ? '1 step that an' : `${resumed} steps that an`;
  return resumed === 0
    ? ''
    : `continuing in ${directory}: ${steps} earlier analysis measured need not be read again.\n`;
}
