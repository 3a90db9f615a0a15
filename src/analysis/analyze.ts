// Analyzes steps and yields one report per step, in step order, however the work overlaps. A failure of one step
// affects only that step.
import { ArgumentError, FileError } from '../checks/errors.js';
import { checkOptions, is, type Kind, type OptionTable } from '../checks/options.js';
import { shown } from '../checks/words.js';
import { logReading } from '../logs/rollouts/log-options.js';
import { FileChoice } from '../logs/stores/file-choice.js';
import type { StepReport } from '../step/step-report.js';
import { measuredSource, SOURCE_OPTIONS, type SourceOptions } from './measured-source.js';
import { type MeasureOptions, measureOptions } from './measuring/measure-options.js';
import { badRow } from './measuring/measure-step-data.js';
import { METRICS, MetricChoice } from './measuring/metric-choice.js';
import { checkSource, isStream, type StepSource } from './measuring/step-source.js';
import { RunSequence } from './run-sequence.js';
import { Journal } from './store/journal.js';
import { journalHead } from './store/journal-lines.js';
import { JournalSet } from './store/journal-set.js';

/** Options of `analyze`: what is computed, in how much memory, and where failures go. */
export interface AnalyzeOptions extends SourceOptions {
  /** Metrics to put into the record: logged keys, unprefixed names or globs. Default all. */
  metrics?: readonly string[] | undefined;
  /**
   * Whether reports have `prompts`, `matrix` and `excerpts` (strict), which what is written into a result directory is
   * made of: false saves the time that they take. Default true; with a journal, which keeps them, always true.
   */
  perPrompt?: boolean | undefined;
  /**
   * Where measured steps are kept, and found when their files have not changed since: what `ResultDirectory.journal`
   * gives. Step files only; it must have been opened with the same options as are given here.
   */
  journal?: Journal | undefined;
  /**
   * Folders that `measureShard` wrote to: what it measured, with these options, is not measured again. A step that none
   * of them has is measured.
   */
  journals?: string | readonly string[] | undefined;
}

/** Options of every analysis of whole runs. */
export const ANALYSIS_OPTIONS = { ...SOURCE_OPTIONS, metrics: METRICS, perPrompt: is.flag };

const OPTIONS: OptionTable<AnalyzeOptions> = {
  ...ANALYSIS_OPTIONS,
  journal: is.any,
  journals: is.any,
  onProgress: is.callback,
  onListing: is.callback,
  onSkipped: is.callback,
};

/** As `analyze` of src/on-demand.ts says. */
export async function* analyze(
  source: StepSource,
  options: AnalyzeOptions = {},
): AsyncGenerator<StepReport, void, undefined> {
  checkAnalysis(source, options);
  const measuring = measureOptions(options);
  const { journal, onNote } = options;
  checkJournal(journal, measuring);
  const folders = journalFolders(options.journals);
  const fail = (failure: FileError): void => {
    if (options.onFailure === undefined) throw failure;
    options.onFailure(failure);
  };
  const choice = new MetricChoice(options.metrics);
  const unused = (path: string, problem: string) => onNote?.(`${path} is not used: ${problem}`);
  const others = folders && (await JournalSet.open(folders, journalHead(measuring), unused));
  try {
    const perPrompt = options.perPrompt !== false || journal !== undefined;
    const runs = new RunSequence(measuring, { interleaved: isStream(source) });
    const context = { measuring, perPrompt, journal, others, fail };
    for await (const { step, outcome } of measuredSource(source, options, context)) {
      if (outcome instanceof FileError) continue;
      for (const bad of outcome.badRows ?? []) fail(badRow(bad));
      yield runs.report(step, outcome, choice);
    }
  } finally {
    await others?.close();
  }
}

/** Measurements of other options would pass for these, now and whenever the journal is read again. */
function checkJournal(journal: Journal | undefined, measuring: MeasureOptions): void {
  if (journal === undefined) return;
  const [its, ours] = [journal.measuring, measuring].map((options) => JSON.stringify(options));
  if (its === ours) return;
  const problem = `was opened for steps that are measured with ${its}, but the options say ${ours}`;
  throw new ArgumentError('options.journal', `${problem}: give both the same`);
}

/** @throws {ArgumentError} unless they are paths */
function journalFolders(journals: AnalyzeOptions['journals']): readonly string[] | undefined {
  if (journals === undefined) return undefined;
  const folders: unknown = typeof journals === 'string' ? [journals] : journals;
  if (Array.isArray(folders) && folders.every((folder) => typeof folder === 'string' && folder !== '')) return folders;
  throw new ArgumentError('options.journals', `got ${shown(journals)}, expected paths of folders of journals`);
}

/** @throws {ArgumentError} naming the argument or option that is wrong */
export function checkAnalysis(
  source: StepSource,
  options: AnalyzeOptions,
  table: Readonly<Record<string, Kind>> = OPTIONS,
): void {
  checkSource(source);
  checkOptions(options, table);
  const { journal } = options;
  new FileChoice(options);
  logReading(options);
  if (journal !== undefined && !(journal instanceof Journal)) {
    throw new ArgumentError('options.journal', `expected what ResultDirectory.journal() gives, got ${shown(journal)}`);
  }
}
