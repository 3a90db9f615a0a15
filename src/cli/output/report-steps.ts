// Writes reports of steps from any source: tables or JSON on stdout, results in a directory, progress and failures on
// stderr, and an exit status. The same reports give the same bytes in every command.
import type { AnalysisProgress } from '../../analysis/analysis-progress.js';
import { MetricChoice } from '../../analysis/measuring/metric-choice.js';
import { ResultDirectory } from '../../analysis/results/result-directory.js';
import type { FileError } from '../../checks/errors.js';
import { packageVersion } from '../../checks/package-version.js';
import { escaped } from '../../checks/words.js';
import { metricsOnce } from '../../filter/filter-metrics.js';
import type { ListingProgress } from '../../logs/steps/read-steps.js';
import { TEXT_PREFIX } from '../../metrics/text-metrics.js';
import { EMPTY_FILTER_KEYS } from '../../step/run.js';
import { RECORD_PARTS } from '../../step/step-record.js';
import type { StepReport } from '../../step/step-report.js';
import type { Severity } from '../../verdicts/index.js';
import { impossibleMetrics, unmatchedList } from '../commands/metric-check.js';
import { type LogFlags, logFlags, logFlagText } from '../options/log-options.js';
import type { MeasuringFlags } from '../options/measuring-options.js';
import type { SinkFlags } from '../options/sink-options.js';
import type { TableFlags } from '../options/table-options.js';
import { type AnalysisOutput, jsonArray, jsonLines, tables } from './analysis-output.js';
import { EXIT } from './exit-codes.js';
import { failedFiles, remarks, skippedFiles } from './failure-list.js';
import { Progress } from './progress.js';
import { SinkOutputs } from './sink-outputs.js';
import { ReaderGone, type Streams } from './streams.js';
import { widthOf } from './table.js';
import { isUnicode, painter } from './text-style.js';

/** What was measured, and the form of the results. */
export interface ReportFlags extends MeasuringFlags, TableFlags, SinkFlags {
  out?: string;
  quiet?: true;
}

/** What a source of reports gets to work with. */
export interface ReportContext {
  /** The directory of `--out`. */
  readonly directory: ResultDirectory | undefined;
  /** Whether something reads what there is to say of each prompt. */
  readonly perPrompt: boolean;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: AnalysisProgress) => void;
  readonly onListing: (progress: ListingProgress) => void;
  readonly onSkipped: (file: FileError) => void;
  readonly onNote: (note: string) => void;
  readonly onFailure: (failure: FileError) => void;
}

/**
 * @param begin gives the reports by run, then step; called when the directory is there
 * @returns exit status
 */
export async function reportSteps(
  flags: ReportFlags,
  streams: Streams,
  begin: (context: ReportContext) => Promise<AsyncIterable<StepReport>>,
): Promise<number> {
  const { out, err } = streams;
  const impossible = impossibleMetrics(flags.metrics, flags.profile);
  if (impossible !== undefined) {
    await err.write(impossible);
    return EXIT.usage;
  }
  if (flags.failOn !== undefined && flags.profile === 'ragen') {
    await err.write('error: --fail-on needs verdicts, which profile ragen has not: give --profile strict\n');
    return EXIT.usage;
  }
  const progress = Progress.of(streams, flags.quiet);
  const directory = flags.out === undefined ? undefined : await ResultDirectory.open(flags.out);
  // A reader that closes the pipe has read enough; but results for a directory are still wanted whole.
  const signal = directory === undefined ? AbortSignal.any([streams.signal, out.closed]) : streams.signal;
  const output = outputFor(flags, streams, progress);
  const choice = new MetricChoice(flags.metrics);
  const failures: FileError[] = [];
  const skipped: FileError[] = [];
  const notes: string[] = [];
  const alarms = new AlarmWatch(flags.failOn);
  const sinks = new SinkOutputs(flags, streams);
  let reported = 0;
  let keepsJournal = false;
  try {
    const reports = await begin({
      directory,
      perPrompt: directory !== undefined || sinks.readsPrompts,
      signal,
      onProgress: (state) => progress.update(state),
      onListing: (state) => progress.listing(state),
      onSkipped: (file) => skipped.push(file),
      onNote: (note) => notes.push(note),
      onFailure: (failure) => failures.push(failure),
    });
    for await (const report of reports) {
      note(report, choice);
      await directory?.add(report);
      await sinks.add(report);
      await output.report(report);
      alarms.add(report);
      reported++;
    }
    await output.end();
    progress.clear();
    // Of a path that is mistyped or not mounted there are no results, and no good ones of a metric that is: those of
    // before stay.
    if (reported > 0 && choice.unmatched.length === 0)
      keepsJournal = (await directory?.finish(settingsOf(flags), failures)) === true;
    else await directory?.discard();
  } catch (error) {
    progress.clear();
    await directory?.discard();
    if (error instanceof ReaderGone) return failures.length > 0 ? EXIT.failures : EXIT.ok;
    if (failures.length > 0) await err.write(failureList(failures, reported));
    throw error;
  } finally {
    await sinks.close();
  }
  if (notes.length > 0 && !flags.quiet) await err.write(remarks(notes, widthOf(err)));
  if (skipped.length > 0) await err.write(skippedFiles(skipped, widthOf(err)));
  if (failures.length > 0) {
    await err.write(failureList(failures, reported));
    if (keepsJournal && !flags.quiet) {
      await err.write(
        `${escaped(flags.out as string)} keeps what was measured. When these files are repaired, the same command measures only them.\n`,
      );
    }
  }
  if (out.closed.aborted && !(out.closed.reason instanceof ReaderGone)) throw out.closed.reason;
  if (reported > 0 && choice.unmatched.length > 0) {
    await err.write(unmatchedList(choice, 'no metric of these steps'));
    return EXIT.usage;
  }
  // What was found stays true if something else could not be read.
  if (alarms.rang()) return EXIT.alarm;
  return failures.length > 0 || reported === 0 ? EXIT.failures : EXIT.ok;
}

/** Whether a run ends with a verdict of `--fail-on`. Reports come run by run. */
class AlarmWatch {
  readonly #severities: readonly Severity[];
  #rang = false;
  #last: StepReport | undefined;

  constructor(least: TableFlags['failOn']) {
    this.#severities = least === undefined ? [] : least === 'warning' ? ['warning', 'critical'] : ['critical'];
  }

  add(report: StepReport): void {
    if (this.#last?.run !== report.run || this.#last.directory !== report.directory) this.rang();
    // One without a judgement (its number comes twice) says nothing of the run's end.
    if (report.judgement !== undefined) this.#last = report;
  }

  /** After the last report. */
  rang(): boolean {
    this.#rang ||= this.#last?.judgement?.verdicts.some(({ severity }) => this.#severities.includes(severity)) === true;
    return this.#rang;
  }
}

function outputFor(flags: ReportFlags, streams: Streams, progress: Progress): AnalysisOutput {
  const write = (text: string): Promise<void> => {
    // On a terminal both streams are the same screen.
    progress.clear();
    return streams.out.write(text);
  };
  if (flags.json) return jsonArray(write);
  if (flags.jsonl) return jsonLines(write);
  const { out, environment } = streams;
  const { profile, rows, permutations, metrics } = flags;
  const look = {
    unicode: isUnicode(environment),
    width: widthOf(out, environment),
    paint: painter(out, environment),
  };
  const options = { rows, permutations, chosen: metrics !== undefined, ...look };
  return tables(write, profile, options, flags.markdown ? 'markdown' : 'screen');
}

/** Looks at every key that the step has or could have had, to tell later which patterns of the user name none. */
function note({ samples, texts, filter, judgement }: StepReport, choice: MetricChoice): void {
  for (const key of [...Object.keys(texts?.values ?? {}), ...Object.keys(texts?.absent ?? {})])
    choice.has(TEXT_PREFIX + key);
  if (filter !== undefined)
    for (const key of [...Object.keys(metricsOnce(filter.metrics)), ...EMPTY_FILTER_KEYS]) choice.has(key);
  if (judgement !== undefined) for (const part of RECORD_PARTS) choice.has(part);
  for (const { logged, absent, label } of samples) {
    for (const key of Object.keys(logged)) choice.has(key);
    for (const key of Object.keys(absent)) choice.has(`${label}/${key}`);
  }
}

/** What the results depend on: not threads, not the form of stdout. */
function settingsOf(flags: ReportFlags) {
  const { profile, metrics, permutations, seed, samples, nonFinite, placeholders, turnRewards } = flags;
  const strict = { permutations, nonFinite, placeholders, turnRewards };
  const logs = settingsOfLogs(flags);
  return {
    collapsar: packageVersion(),
    profile,
    ...(profile === 'strict' ? strict : {}),
    seed,
    samples,
    metrics,
    ...logs,
  };
}

/** As they were typed. */
function settingsOfLogs(flags: LogFlags): Record<string, string> {
  return Object.fromEntries(Object.entries(logFlags(flags)).map(([name, value]) => [name, logFlagText(name, value)]));
}

function failureList(failures: readonly FileError[], reported: number): string {
  return failedFiles(failures, reported === 1 ? '1 step was reported' : `${reported} steps were reported`);
}
