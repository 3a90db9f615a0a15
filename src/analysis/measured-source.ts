// Measures the steps of a source, some at a time, and gives them in their order: what a step says on its own, or why it
// cannot be used.
import { abortableSource } from '../checks/abortable-source.js';
import { FileError } from '../checks/errors.js';
import { is } from '../checks/options.js';
import type { Engine } from '../engine/engine.js';
import { openEngine } from '../engine/open-engine.js';
import type { TurnRewards } from '../filter/input/filter-options.js';
import { type LogOptions, logReading } from '../logs/rollouts/log-options.js';
import { type ListingProgress, orFileError } from '../logs/steps/read-steps.js';
import type { StepData } from '../logs/steps/step-data.js';
import { FILE_CHOICE, type FileChoiceOptions } from '../logs/stores/file-choice.js';
import type { Profile } from '../metrics/step-metrics.js';
import type { StepMeasurement } from '../step/step-measurement.js';
import { type AnalysisProgress, ProgressCount } from './analysis-progress.js';
import { mapAhead } from './measuring/map-ahead.js';
import { hasTexts, isForced, MEASURE_OPTIONS, type MeasureOptions } from './measuring/measure-options.js';
import { measureStepData } from './measuring/measure-step-data.js';
import { MeasuredSteps } from './measuring/measured-steps.js';
import { bytesHeld, logMemory, type MemoryPlan, memoryPlan } from './measuring/memory-plan.js';
import {
  checkStepData,
  isStream,
  type StepFile,
  type StepOfRun,
  type StepSource,
  stepFiles,
  stepOfRun,
} from './measuring/step-source.js';
import type { Journal } from './store/journal.js';
import type { JournalSet } from './store/journal-set.js';
import { StepKeys } from './store/step-keys.js';

/** Options of `analyze` and `measureShard`: what is computed, in how much memory, and where failures go. */
export interface SourceOptions extends FileChoiceOptions, LogOptions {
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
  /** Aborting makes the call end by throwing `signal.reason`. */
  signal?: AbortSignal | undefined;
  onProgress?: ((progress: AnalysisProgress) => void) | undefined;
  /** Called before that, of files, after each header that is read. */
  onListing?: ((progress: ListingProgress) => void) | undefined;
  /** Called with each other file found beside step files, such as weights (docs/reference/cli.md). */
  onSkipped?: ((file: FileError) => void) | undefined;
  /** Called with what was passed over among rollout logs or journals, and why, before the first report. */
  onNote?: ((note: string) => void) | undefined;
  /**
   * Called with each file or path that cannot be used, and each such line of a log; the analysis continues with the
   * others. Default: the first one ends the call by throwing.
   */
  onFailure?: ((failure: FileError) => void) | undefined;
}

/** What every call that measures a source is checked for. */
export const SOURCE_OPTIONS = {
  ...MEASURE_OPTIONS,
  ...FILE_CHOICE,
  engine: is.engine,
  threads: is.integer(1),
  blockBytes: is.integer(1),
  maxMemory: is.integer(1),
  signal: is.signal,
  onNote: is.callback,
  onFailure: is.callback,
};

/** Of one call. */
export interface SourceContext {
  readonly measuring: MeasureOptions;
  /** Whether somebody reads what there is to say of each prompt. */
  readonly perPrompt: boolean;
  /** Where measurements are kept, and found. */
  readonly journal?: Journal | undefined;
  /** Where they are found besides. */
  readonly others?: JournalSet | undefined;
  /** Which of the steps are measured; default all. */
  readonly share?: ((steps: readonly StepFile[]) => readonly StepFile[]) | undefined;
  readonly fail: (failure: FileError) => void;
}

export interface Outcome {
  readonly step: StepOfRun;
  readonly outcome: StepMeasurement | FileError;
  /** By an earlier analysis. */
  readonly wasMeasured: boolean;
}

/**
 * Steps being measured while an earlier one is waited for. Of files as many as hide the latency of disks and stores, if
 * memory allows; of steps that someone hands out, and holds, fewer.
 */
const FILES_AHEAD = 7;
const STEPS_AHEAD = 3;

/**
 * @returns by run, then step; of a stream in its order
 * @throws `signal.reason` when aborted; what `fail` throws; {FileError} when the journal cannot be written
 */
export async function* measuredSource(
  source: StepSource,
  options: SourceOptions,
  { measuring, perPrompt, journal, others, share, fail }: SourceContext,
): AsyncGenerator<Outcome, void, undefined> {
  const ending = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, ending.signal]) : ending.signal;
  options.signal?.throwIfAborted();
  const progress = new ProgressCount(options.onProgress);
  const { onListing, onSkipped, onNote, include, exclude, threads } = options;
  const steps = new MeasuredSteps({ ...logReading(measuring), threads, maxMemory: logMemory(options) }, signal);
  let engine: Engine | undefined;
  try {
    const listing = { onError: fail, onListing, onSkipped, onNote, include, exclude, signal };
    const found = isStream(source)
      ? undefined
      : await stepFiles(source, listing, hasTexts(measuring) ? steps.logs : undefined, isForced(measuring));
    for (const file of found ?? []) steps.note(file);
    const files = share === undefined ? found : share(found ?? []);
    const store = new Store(await StepKeys.of(isStream(source) ? [] : [source].flat()), journal, others);
    for (const file of files ?? []) progress.expect(file, store.has(file));
    engine = options.engine ?? (await openEngine({ device: 'cpu', threads, signal: options.signal }));
    const plan = memoryPlan(options);
    const context: Context = { engine, measuring, perPrompt, plan, steps, store, progress, signal };
    let asked = 0;
    const outcomes = isStream(source)
      ? mapAhead(
          abortableSource(source, signal),
          STEPS_AHEAD,
          (data) => ofData(data, asked++, context),
          () => ending.abort(),
        )
      : mapAhead(
          files as readonly StepFile[],
          { ahead: FILES_AHEAD, weight: (file) => bytesHeld(file, plan), capacity: plan.capacity },
          (file) => ofFile(file, context),
          () => ending.abort(),
        );
    for await (const { step, outcome, wasMeasured } of outcomes) {
      // After an abort, steps measured ahead or kept in a journal are not yielded either.
      options.signal?.throwIfAborted();
      if (outcome instanceof FileError) fail(outcome);
      progress.finish(step, wasMeasured);
      yield { step, outcome, wasMeasured };
    }
  } finally {
    await steps.close();
    if (options.engine === undefined) await engine?.dispose();
  }
}

/** The journals of one call, asked for its steps. */
class Store {
  constructor(
    private readonly keys: StepKeys,
    private readonly journal: Journal | undefined,
    private readonly others: JournalSet | undefined,
  ) {}

  has(step: StepFile): boolean {
    if (this.journal === undefined && this.others === undefined) return false;
    const known = this.keys.of(step);
    return this.journal?.has(known) === true || this.others?.has(known) === true;
  }

  async find(step: StepFile): Promise<StepMeasurement | undefined> {
    if (this.journal === undefined && this.others === undefined) return undefined;
    const known = this.keys.of(step);
    const measurement = (await this.journal?.find(known)) ?? (await this.others?.find(known));
    return measurement && this.keys.found(measurement, step);
  }

  async keep(step: StepFile, measurement: StepMeasurement): Promise<void> {
    await this.journal?.keep(this.keys.of(step), this.keys.written(measurement));
  }
}

interface Context {
  readonly engine: Engine;
  readonly measuring: MeasureOptions;
  readonly perPrompt: boolean;
  readonly plan: MemoryPlan;
  readonly steps: MeasuredSteps;
  readonly store: Store;
  readonly progress: ProgressCount;
  readonly signal: AbortSignal;
}

async function ofFile(
  step: StepFile,
  { engine, measuring, perPrompt, plan, steps, store, progress, signal }: Context,
): Promise<Outcome> {
  const wasMeasured = store.has(step);
  const found = await store.find(step);
  if (found !== undefined) {
    await steps.skip(step);
    return { step, outcome: found, wasMeasured };
  }
  const outcome = await orFileError(
    steps.measure(
      step,
      { engine, measuring, perPrompt, blockBytes: plan.blockBytes, signal },
      { identity: step.identity, onBytes: (bytes) => progress.advance(step, bytes) },
    ),
    signal,
  );
  if (!(outcome instanceof FileError)) await store.keep(step, outcome);
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
