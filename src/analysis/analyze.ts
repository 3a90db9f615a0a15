// Step files in, one report a step out: in step order, however the work overlaps. What belongs to one file goes wrong for
// that file alone.
import { type Engine, openEngine } from '../engine/engine.js';
import { ArgumentError, FileError } from '../errors.js';
import { type ListedStep, listSteps } from '../logs/read-steps.js';
import type { Profile } from '../metrics/step-metrics.js';
import { mapAhead } from './map-ahead.js';
import { MetricChoice } from './metric-choice.js';
import { RunSequence } from './run-sequence.js';
import { type MeasureOptions, measureOptions, measureStep, type StepMeasurement } from './step-measurement.js';
import type { StepReport } from './step-report.js';

export interface AnalysisProgress {
  /** Steps that are through, failed ones included, of how many. */
  readonly done: number;
  readonly total: number;
  /** Bytes of the files that are through, of how many. */
  readonly bytes: number;
  readonly totalBytes: number;
  /** The file that has just been finished. */
  readonly file: string;
}

export interface AnalyzeOptions {
  /** Default `strict`. */
  profile?: Profile | undefined;
  /** Where to compute. Default: an engine opened for this call, with `threads`, and disposed at its end. */
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
   * A used score that is NaN or +inf makes its file fail (`error`, default), or its row be left out, counted and named
   * (`exclude`). Only under `strict`: `ragen` lets it propagate, as the reference does.
   */
  nonFinite?: 'error' | 'exclude' | undefined;
  /** Bytes of scores to hold of each step that is being read. Default 16 MiB. */
  blockBytes?: number | undefined;
  /** Aborting makes the iteration throw `signal.reason`. */
  signal?: AbortSignal | undefined;
  onProgress?: ((progress: AnalysisProgress) => void) | undefined;
  /** Called with each file or path that cannot be used; the others go on. Default: the first one ends the iteration by throwing. */
  onFailure?: ((failure: FileError) => void) | undefined;
}

/** Steps being read and summed while an earlier one is finished: hides the latency of disks, and holds so many blocks. */
const STEPS_AHEAD = 3;
const BLOCK_BYTES = 16 * 2 ** 20;

/**
 * Collapse metrics of every step file at `source` (files, directories, globs). Directories are runs; the moving averages
 * of a run are carried from step to step.
 * @returns reports by run, then step
 * @throws {ArgumentError} for a bad option; `signal.reason` when aborted; {FileError} only without `onFailure`
 */
export async function* analyze(
  source: string | readonly string[],
  options: AnalyzeOptions = {},
): AsyncGenerator<StepReport, void, undefined> {
  check(source, options);
  const measuring = measureOptions(options);
  const fail = (failure: FileError): void => {
    if (options.onFailure === undefined) throw failure;
    options.onFailure(failure);
  };
  const ending = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, ending.signal]) : ending.signal;
  options.signal?.throwIfAborted();
  const steps = await listSteps(source, { onError: fail, signal });
  const engine = options.engine ?? (await openEngine({ threads: options.threads, signal: options.signal }));
  try {
    const choice = new MetricChoice(options.metrics);
    const totalBytes = steps.reduce((total, { bytes }) => total + bytes, 0);
    let done = 0;
    let bytes = 0;
    const work = (step: ListedStep) => outcomeOf(engine, step, measuring, options.blockBytes ?? BLOCK_BYTES, signal);
    const runs = new RunSequence(measuring);
    for await (const { step, outcome } of mapAhead(steps, STEPS_AHEAD, work, () => ending.abort())) {
      done++;
      bytes += step.bytes;
      if (outcome instanceof FileError) fail(outcome);
      options.onProgress?.({ done, total: steps.length, bytes, totalBytes, file: step.file });
      if (!(outcome instanceof FileError)) yield runs.report(step, outcome, choice);
    }
  } finally {
    if (options.engine === undefined) await engine.dispose();
  }
}

function check(source: string | readonly string[], options: AnalyzeOptions): void {
  if (typeof source !== 'string' && source.length === 0) {
    throw new ArgumentError('source', 'no path given: name step files, directories of them, or globs');
  }
  const { profile, nonFinite } = options;
  if (profile !== undefined && profile !== 'strict' && profile !== 'ragen') {
    throw new ArgumentError('options.profile', `expected "strict" or "ragen", got ${JSON.stringify(profile)}`);
  }
  if (nonFinite !== undefined && nonFinite !== 'error' && nonFinite !== 'exclude') {
    throw new ArgumentError('options.nonFinite', `expected "error" or "exclude", got ${JSON.stringify(nonFinite)}`);
  }
  for (const [name, least] of [
    ['permutations', 0],
    ['seed', 0],
    ['samples', 1],
    ['threads', 1],
  ] as const) {
    const value = options[name];
    if (value !== undefined && !(Number.isSafeInteger(value) && value >= least)) {
      throw new ArgumentError(`options.${name}`, `expected a whole number from ${least} on, got ${value}`);
    }
  }
}

async function outcomeOf(
  engine: Engine,
  step: ListedStep,
  options: MeasureOptions,
  blockBytes: number,
  signal: AbortSignal,
): Promise<{ step: ListedStep; outcome: StepMeasurement | FileError }> {
  try {
    return { step, outcome: await measureStep(engine, step.file, options, blockBytes, signal) };
  } catch (error) {
    if (error instanceof FileError) return { step, outcome: error };
    throw error;
  }
}
