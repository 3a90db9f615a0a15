// Step files in, one report a step out: in step order, however the work overlaps. What belongs to one file goes wrong for
// that file alone.
import { type Engine, openEngine } from '../engine/engine.js';
import type { Tensor } from '../engine/tensor.js';
import { ArgumentError, DeviceError, FileError } from '../errors.js';
import { type ListedStep, listSteps } from '../logs/read-steps.js';
import type { StepData } from '../logs/step-data.js';
import { readStepFile } from '../logs/step-file.js';
import { crossScoreMetrics } from '../metrics/cross-score-metrics.js';
import type { MetricOptions } from '../metrics/cross-scores.js';
import type { RunningState } from '../metrics/running-state.js';
import type { SamplerOptions } from '../metrics/samplers.js';
import type { Profile, StepMetrics } from '../metrics/step-metrics.js';
import type { RunSummary } from '../monitor/verdicts/index.js';
import { mapAhead } from './map-ahead.js';
import { MetricChoice } from './metric-choice.js';
import { RunHistory } from './run-history.js';
import { type StepFindings, type StepReport, stepRecord } from './step-report.js';
import { stepVerdicts } from './step-verdicts.js';
import { type NonFinitePolicy, refuseInvalidSums, tokenSums } from './token-sums.js';

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

/** The reference's number of draws (metrics.md §3, repair 5). */
const DEFAULT_SAMPLES = 64;

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
    const histories = new Map<string, RunHistory>();
    const work = (step: ListedStep) => stepOutcome(engine, step, historyOf(step, histories, options), options, signal);
    for await (const { step, outcome, summary } of mapAhead(steps, STEPS_AHEAD, work, () => ending.abort())) {
      done++;
      bytes += step.bytes;
      if (outcome instanceof FileError) fail(outcome);
      options.onProgress?.({ done, total: steps.length, bytes, totalBytes, file: step.file });
      if (outcome instanceof FileError) continue;
      yield {
        file: step.file,
        step: step.step,
        run: step.run,
        directory: step.runDirectory,
        bytes: step.bytes,
        ...outcome,
        ...(outcome.judgement && { summary }),
        record: stepRecord(step, outcome, choice),
      };
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

function historyOf(step: ListedStep, histories: Map<string, RunHistory>, options: AnalyzeOptions): RunHistory {
  const key = JSON.stringify([step.runDirectory, step.run]);
  let history = histories.get(key);
  if (history === undefined) {
    // Runs come one after the other: of those before the last, no step will be asked for again.
    history = new RunHistory(options.profile ?? 'strict', options.seed ?? 0);
    histories.clear();
    histories.set(key, history);
  }
  return history;
}

interface StepOutcome {
  readonly step: ListedStep;
  readonly outcome: StepFindings | FileError;
  readonly summary: () => RunSummary;
}

async function stepOutcome(
  engine: Engine,
  step: ListedStep,
  history: RunHistory,
  options: AnalyzeOptions,
  signal: AbortSignal,
): Promise<StepOutcome> {
  const policy: NonFinitePolicy = options.profile === 'ragen' ? 'propagate' : (options.nonFinite ?? 'error');
  const read = async (): Promise<{ data: StepData; sums: Tensor }> => {
    const data = await readStepFile(step.file, { blockBytes: options.blockBytes ?? BLOCK_BYTES, signal });
    return { data, sums: await tokenSums(engine, data, policy, signal) };
  };
  const summary = () => history.judge.summary();
  try {
    const outcome = await history.inTurn(read(), async ({ data, sums }, state): Promise<StepFindings> => {
      const metrics = await sampleMetrics(engine, data, sums, state, options, signal);
      if (policy === 'error') for (const { rows } of metrics) refuseInvalidSums(data, sums, rows.nonFinite);
      // `ragen` gives what the reference logs and nothing else.
      if (options.profile === 'ragen') return { metrics };
      const { judgement, filter, notes } = await stepVerdicts(engine, data, metrics[0], history.judge, signal);
      // One value a row was for the judge alone: reports of a long run are held together.
      const reported = metrics.map(({ perRow, ...rest }) => rest);
      return { metrics: reported, ...(judgement && { judgement }), ...(filter && { filter }), notes };
    });
    return { step, outcome, summary };
  } catch (error) {
    if (error instanceof FileError) return { step, outcome: error, summary };
    // Options were checked before: an argument that is wrong now, or memory that is short, is this file's affair.
    if (error instanceof ArgumentError || error instanceof DeviceError || error instanceof RangeError) {
      return { step, outcome: new FileError({ path: step.file }, error.message, { cause: error }), summary };
    }
    throw error;
  }
}

/** The metrics of each sample that the file allows. */
async function sampleMetrics(
  engine: Engine,
  data: StepData,
  sums: Tensor,
  state: RunningState,
  options: AnalyzeOptions,
  signal: AbortSignal,
): Promise<StepMetrics[]> {
  const { profile, permutations, seed = 0, samples = DEFAULT_SAMPLES } = options;
  const scores = {
    sums,
    lengths: data.lengths,
    groups: data.group,
    columnGroups: data.columnGroup,
    promptTokens: data.prompts,
    episodes: data.episode,
    turns: data.turn,
  };
  const perRow = profile !== 'ragen';
  const common: MetricOptions = { profile, permutations, seed, step: data.step, state, signal, perRow };
  if (data.episode === undefined || data.turn === undefined) return [await crossScoreMetrics(engine, scores, common)];
  const samplers: SamplerOptions[] = [
    { kind: 'first_turn', seed },
    { kind: 'trajectory', n: samples, seed },
    { kind: 'turn', n: samples, seed },
  ];
  const found: StepMetrics[] = [];
  for (const sampler of samplers) found.push(await crossScoreMetrics(engine, scores, { ...common, sampler }));
  return found;
}
