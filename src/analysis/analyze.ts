// Steps in, one report a step out: in step order, however the work overlaps. What belongs to one step goes wrong for
// that step alone.

import { abortableSource } from '../checks/abortable-source.js';
import { ArgumentError, FileError } from '../checks/errors.js';
import { checkOptions, is, type Kind, type OptionTable } from '../checks/options.js';
import { shown } from '../checks/words.js';
import type { Engine } from '../engine/engine.js';
import { openEngine } from '../engine/open-engine.js';
import type { TurnRewards } from '../filter/input/filter-options.js';
import { type LogOptions, logReading } from '../logs/rollouts/log-options.js';
import { type ListingProgress, orFileError } from '../logs/steps/read-steps.js';
import type { StepData } from '../logs/steps/step-data.js';
import { FILE_CHOICE, FileChoice, type FileChoiceOptions } from '../logs/stores/file-choice.js';
import type { Profile } from '../metrics/step-metrics.js';
import { type AnalysisProgress, ProgressCount } from './analysis-progress.js';
import { mapAhead } from './measuring/map-ahead.js';
import { journalStep, MeasuredSteps } from './measuring/measured-steps.js';
import { bytesHeld, logMemory, type MemoryPlan, memoryPlan } from './measuring/memory-plan.js';
import { METRICS, MetricChoice } from './measuring/metric-choice.js';
import {
  badRow,
  hasTexts,
  isForced,
  MEASURE_OPTIONS,
  type MeasureOptions,
  measureOptions,
  measureStepData,
  type StepMeasurement,
} from './measuring/step-measurement.js';
import {
  checkSource,
  checkStepData,
  isStream,
  type StepFile,
  type StepOfRun,
  type StepSource,
  stepFiles,
  stepOfRun,
} from './measuring/step-source.js';
import { Journal } from './results/journal.js';
import { RunSequence } from './run-sequence.js';
import type { StepReport } from './step-report.js';

/** Options of `analyze`: what is computed, in how much memory, and where failures go. */
export interface AnalyzeOptions extends FileChoiceOptions, LogOptions {
  /** Default `strict`. */
  profile?: Profile | undefined;
  /** Where to compute. Default: an engine on the CPU, opened for this call with `threads`, and disposed at its end. */
  engine?: Engine | undefined;
  /** Threads of an engine opened for this call. Default: the engine's. */
  threads?: number | undefined;
  /** Label permutations behind each p-value (strict); 0 for none. Default 999. */
  permutations?: number | undefined;
  /** Seed of permutations and samplers. Default 0. */
  seed?: number | undefined;
  /** Draws of the trajectory and turn samplers, in files with `episode` and `turn`. Default 64. */
  samples?: number | undefined;
  /** Metrics to put into the record: logged keys, unprefixed names or globs. Default all. */
  metrics?: readonly string[] | undefined;
  /**
   * Whether reports have `prompts`, `matrix` and `excerpts` (strict), which what is written into a result directory is
   * made of: false saves the time that they take. Default true; with a journal, which keeps them, always true.
   */
  perPrompt?: boolean | undefined;
  /**
   * A used score that is NaN or +inf makes its file fail (`error`, default), or its row be left out, counted and named
   * (`exclude`). Only under `strict`: `ragen` lets it propagate, as the reference does.
   */
  nonFinite?: 'error' | 'exclude' | undefined;
  /**
   * A row whose score is the same under every prompt, which no log-probs are, is left out, counted and named
   * (`exclude`, default), or makes its file fail (`error`). Only under `strict`.
   */
  placeholders?: 'error' | 'exclude' | undefined;
  /**
   * What the rewards of an episode's turns make the episode's (docs/reference/filter.md). Default `same`: where they
   * differ, the step has neither filter nor what verdicts make of rewards, and a note says so.
   */
  turnRewards?: TurnRewards | undefined;
  /**
   * Bytes of scores to hold of each step file that is being read. Default 16 MiB, less where `maxMemory` asks for it.
   */
  blockBytes?: number | undefined;
  /**
   * Bytes that the process may take, about: how large blocks are and how many step files are read at a time follows
   * from it. A step needs at least one prompt's scores and its sums, which may be more. Default: 300 MB.
   */
  maxMemory?: number | undefined;
  /**
   * Where measured steps are kept, and found when their files have not changed since: what `ResultDirectory.journal`
   * gives. Step files only; it must have been opened with the same options as are given here.
   */
  journal?: Journal | undefined;
  /** Aborting makes the iteration throw `signal.reason`. */
  signal?: AbortSignal | undefined;
  onProgress?: ((progress: AnalysisProgress) => void) | undefined;
  /** Called before that, of files, after each header that is read. */
  onListing?: ((progress: ListingProgress) => void) | undefined;
  /** Called with each other file found beside step files, such as weights (docs/reference/cli.md). */
  onSkipped?: ((file: FileError) => void) | undefined;
  /** Called with what was passed over among rollout logs, and why, before the first report. */
  onNote?: ((note: string) => void) | undefined;
  /**
   * Called with each file or path that cannot be used, and each line of a log; the others go on. Default: the first one
   * ends the iteration by throwing.
   */
  onFailure?: ((failure: FileError) => void) | undefined;
}

/** Options of every analysis of whole runs. */
export const ANALYSIS_OPTIONS = {
  ...MEASURE_OPTIONS,
  ...FILE_CHOICE,
  engine: is.engine,
  threads: is.integer(1),
  metrics: METRICS,
  perPrompt: is.flag,
  blockBytes: is.integer(1),
  maxMemory: is.integer(1),
  signal: is.signal,
  onNote: is.callback,
  onFailure: is.callback,
};

const OPTIONS: OptionTable<AnalyzeOptions> = {
  ...ANALYSIS_OPTIONS,
  journal: is.any,
  onProgress: is.callback,
  onListing: is.callback,
  onSkipped: is.callback,
};

/**
 * Steps being measured while an earlier one is waited for. Of files as many as hide the latency of disks and stores, if
 * memory allows; of steps that someone hands out, and holds, fewer.
 */
const FILES_AHEAD = 7;
const STEPS_AHEAD = 3;

/**
 * Collapse metrics of every step of `source`: step files, rollout logs of trainers, directories and globs, where
 * directories are runs, or steps from anywhere as they come. The moving averages of a run are carried from step to
 * step. Little is measured ahead of the reader: of a stream no more than three steps beyond the one that the reader
 * waits for are asked for.
 * @returns reports by run, then step; of a stream in its order
 * @throws {ArgumentError} for a bad option, or a stream that gives something else than steps; `signal.reason` when
 *   aborted; {FileError} only without `onFailure`, or when the journal cannot be written; what a stream throws
 * @example
 * import { analyze } from 'collapsar';
 *
 * for await (const report of analyze('runs/', { onFailure: (error) => console.error(error.message) })) {
 *   console.log(report.run, report.step, report.record);
 * }
 */
export async function* analyze(
  source: StepSource,
  options: AnalyzeOptions = {},
): AsyncGenerator<StepReport, void, undefined> {
  checkAnalysis(source, options);
  const measuring = measureOptions(options);
  checkJournal(options.journal, measuring);
  const fail = (failure: FileError): void => {
    if (options.onFailure === undefined) throw failure;
    options.onFailure(failure);
  };
  const ending = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, ending.signal]) : ending.signal;
  options.signal?.throwIfAborted();
  const progress = new ProgressCount(options.onProgress);
  const { journal, onListing, onSkipped, onNote, include, exclude, threads } = options;
  const steps = new MeasuredSteps({ ...logReading(measuring), threads, maxMemory: logMemory(options) }, signal);
  let engine: Engine | undefined;
  try {
    const listing = { onError: fail, onListing, onSkipped, onNote, include, exclude, signal };
    const files = isStream(source)
      ? undefined
      : await stepFiles(source, listing, hasTexts(measuring) ? steps.logs : undefined, isForced(measuring));
    for (const file of files ?? []) {
      progress.expect(file, journal?.has(journalStep(file)) === true);
      steps.note(file);
    }
    engine = options.engine ?? (await openEngine({ device: 'cpu', threads, signal: options.signal }));
    const choice = new MetricChoice(options.metrics);
    const plan = memoryPlan(options);
    const perPrompt = options.perPrompt !== false || journal !== undefined;
    const context: Context = { engine, measuring, perPrompt, plan, steps, journal, progress, signal };
    let asked = 0;
    const outcomes = isStream(source)
      ? mapAhead(
          abortableSource(source, signal),
          STEPS_AHEAD,
          (data) => ofData(data, asked++, context),
          () => ending.abort(),
        )
      : mapAhead(
          files as StepFile[],
          { ahead: FILES_AHEAD, weight: (file) => bytesHeld(file, plan), capacity: plan.capacity },
          (file) => ofFile(file, context),
          () => ending.abort(),
        );
    const runs = new RunSequence(measuring, { interleaved: files === undefined });
    for await (const { step, outcome, wasMeasured } of outcomes) {
      // What was measured ahead, or stands in a journal, is not reported after an abort either.
      options.signal?.throwIfAborted();
      if (outcome instanceof FileError) fail(outcome);
      progress.finish(step, wasMeasured);
      if (outcome instanceof FileError) continue;
      for (const bad of outcome.badRows ?? []) fail(badRow(bad));
      yield runs.report(step, outcome, choice);
    }
  } finally {
    await steps.close();
    if (options.engine === undefined) await engine?.dispose();
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

interface Context {
  readonly engine: Engine;
  readonly measuring: MeasureOptions;
  readonly perPrompt: boolean;
  readonly plan: MemoryPlan;
  readonly steps: MeasuredSteps;
  readonly journal: Journal | undefined;
  readonly progress: ProgressCount;
  readonly signal: AbortSignal;
}

interface Outcome {
  readonly step: StepOfRun;
  readonly outcome: StepMeasurement | FileError;
  /** By an earlier analysis. */
  readonly wasMeasured: boolean;
}

async function ofFile(
  step: StepFile,
  { engine, measuring, perPrompt, plan, steps, journal, progress, signal }: Context,
): Promise<Outcome> {
  const known = journalStep(step);
  const wasMeasured = journal?.has(known) === true;
  const found = await journal?.find(known, step.step);
  if (found !== undefined) {
    await steps.skip(step);
    return { step, outcome: found, wasMeasured };
  }
  const outcome = await orFileError(
    steps.measure(
      step,
      step.file,
      { engine, measuring, perPrompt, blockBytes: plan.blockBytes, signal },
      { identity: step.identity, onBytes: (bytes) => progress.advance(step, bytes) },
    ),
    signal,
  );
  if (!(outcome instanceof FileError)) await journal?.keep(known, outcome);
  return { step, outcome, wasMeasured };
}

/** @param place of the step in the stream, from 0 on */
async function ofData(
  data: StepData,
  place: number,
  { engine, measuring, perPrompt, progress, signal }: Context,
): Promise<Outcome> {
  checkStepData(data, place);
  const step = stepOfRun(data);
  progress.expect(step, false);
  const onBytes = (bytes: number) => progress.advance(step, bytes);
  const outcome = await orFileError(measureStepData(engine, data, measuring, signal, { perPrompt, onBytes }), signal);
  return { step, outcome, wasMeasured: false };
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
