// One shard of a manifest in, its state on disk out. Which machine measures it, how often and when cannot be seen in
// the state.

import { ArgumentError, FileError, StateError } from '../../checks/errors.js';
import { checkOptions, is, OPERATION, type OptionTable } from '../../checks/options.js';
import { packageVersion } from '../../checks/package-version.js';
import type { Engine } from '../../engine/engine.js';
import { openEngine } from '../../engine/open-engine.js';
import { logReading } from '../../logs/rollouts/log-options.js';
import { readStepHeader } from '../../logs/steps/step-file.js';
import { isUnreachable } from '../../logs/stores/is-unreachable.js';
import { errorCode } from '../../logs/stores/system-problem.js';
import type { StepMeasurement } from '../../step/step-measurement.js';
import { Aggregates, orderFreeMetrics } from '../aggregates/aggregates.js';
import { type AnalysisProgress, ProgressCount } from '../analysis-progress.js';
import { MOST_TRIED } from '../measuring/first-steps.js';
import { mapAhead } from '../measuring/map-ahead.js';
import { MeasuredSteps } from '../measuring/measured-steps.js';
import { bytesHeld, logMemory, memoryPlan } from '../measuring/memory-plan.js';
import { badRow, measureOptions } from '../measuring/step-measurement.js';
import type { Journal } from '../store/journal.js';
import {
  completeState,
  hasMarker,
  journalPath,
  markerPath,
  type ShardCounts,
  statePath,
  writeMarker,
} from './completion.js';
import { checkVersion, type Manifest, type PlannedStep } from './manifest.js';
import { readManifest } from './manifest-reader.js';
import { failedPath, problemAt, savedProblem, sidecarOf } from './saved-problem.js';
import { removeShardJournal, ShardJournal } from './shard-journal.js';
import { aggregatesLine, failedLine, headerLine, lastLineStart, measuredLine, NO_STEPS } from './state-file.js';
import { StateWriter } from './state-writer.js';
import { removeUnfinished } from './unfinished-files.js';

/** Options of `mapShard`. */
export interface MapOptions {
  /** Path of the manifest. */
  readonly manifest: string;
  /** Which shard, from 0 on. */
  readonly index: number;
  /** Directory of states; the same for all shards. */
  readonly out: string;
  /** Version of the package, which must be the one that planned. Default: this one's. */
  readonly version?: string | undefined;
  /** Measures again what is complete: after a file that could not be read can be. Default false. */
  readonly redo?: boolean | undefined;
  /** Where to compute. Default: an engine on the CPU, opened for this call with `threads`, and disposed at its end. */
  readonly engine?: Engine | undefined;
  readonly threads?: number | undefined;
  /** Bytes that the process may take, about. Default 300 MB. */
  readonly maxMemory?: number | undefined;
  /** Aborting makes the call reject with `signal.reason`; what was there before stays. */
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: AnalysisProgress) => void) | undefined;
  /** Called with each file that cannot be used, and that the state therefore has as failed. */
  readonly onFailure?: ((failure: FileError) => void) | undefined;
}

const OPTIONS: OptionTable<MapOptions> = {
  ...OPERATION,
  manifest: is.needed(is.path),
  index: is.needed(is.number('the number of a shard', Number.isSafeInteger)),
  out: is.needed(is.path),
  version: is.any,
  redo: is.flag,
  engine: is.engine,
  threads: is.any,
  maxMemory: is.any,
  onFailure: is.callback,
};

/** What became of one shard. */
export interface MappedShard extends ShardCounts {
  /** Path of the state. */
  readonly state: string;
  /** The state was there before, whole, and is as it was. */
  readonly wasComplete: boolean;
  /** Why a state that was there was not used. */
  readonly replaced: string | undefined;
}

/** As in analyze.ts. */
const STEPS_AHEAD = 3;

/**
 * Measures the steps of one shard and writes `shards/NNNNN.state` and then `completions/NNNNN`, each whole or not at
 * all. A shard that is complete is left as it is.
 * @throws {ArgumentError} when the manifest has no such shard; {StateError} for a manifest or state that does not
 *   belong here; {FileError} when the state cannot be written, or a file is out of reach for a reason that is not its
 *   own (a mount, a store); `signal.reason` when aborted
 */
export async function mapShard(options: MapOptions): Promise<MappedShard> {
  checkOptions(options, OPTIONS);
  const { index, out, signal, redo } = options;
  const steps: PlannedStep[] = [];
  /** First steps of the shard's runs, also those that another shard measures. */
  const firsts: PlannedStep[] = [];
  let ofRun: PlannedStep[] = [];
  const manifest = await readManifest(options.manifest, (step, shards) => {
    const { first = 0, steps: count = 0 } = shards[index] ?? {};
    if (step.runNumber !== ofRun[0]?.runNumber) ofRun = [];
    if (ofRun.length < MOST_TRIED) ofRun.push(step);
    if (step.index < first || step.index >= first + count) return;
    if (step.runNumber !== firsts.at(-1)?.runNumber) firsts.push(...ofRun);
    else if (ofRun.at(-1) === step) firsts.push(step);
    steps.push(step);
  });
  checkVersion(manifest, options.version ?? packageVersion());
  const count = manifest.shards.length;
  if (manifest.shards[index] === undefined) {
    throw new ArgumentError(
      'index',
      `${index}, but ${manifest.path} has ${count === 1 ? '1 shard: 0' : `${count} shards: 0 to ${count - 1}`}`,
    );
  }
  signal?.throwIfAborted();
  const state = statePath(out, index);
  const found = await completeState(out, manifest, index);
  const done = async (counts: ShardCounts, wasComplete: boolean): Promise<MappedShard> => {
    if (!wasComplete || !(await hasMarker(out, manifest, index))) await writeMarker(out, manifest, index, counts);
    for (const path of [state, markerPath(out, index)]) await removeUnfinished(path);
    await removeShardJournal(journalPath(out, index));
    const { steps: total, failures } = counts;
    const replaced = found instanceof StateError ? found.message : undefined;
    return { state, steps: total, failures, wasComplete, replaced };
  };
  if (found !== undefined && !(found instanceof StateError) && redo !== true) return done(found, true);
  return done(await measureShard(manifest, steps, firsts, options), false);
}

async function measureShard(
  manifest: Manifest,
  steps: readonly PlannedStep[],
  firsts: readonly PlannedStep[],
  options: MapOptions,
): Promise<ShardCounts> {
  const writer = await StateWriter.open(statePath(options.out, options.index));
  let engine: Engine | undefined;
  let journal: ShardJournal | undefined;
  let isComplete = false;
  try {
    // Where it cannot be opened, the state that was begun goes, too.
    if (steps.length > 0) engine = options.engine ?? (await openStepEngine(options));
    await writer.line(headerLine({ manifest: manifest.digest, ...extentOf(steps) }));
    const counts = { steps: steps.length, failures: 0, runs: 0 };
    if (engine !== undefined) {
      journal = await journalOf(manifest, options);
      await writeSteps(engine, manifest, { steps, firsts }, { ...options, journal: journal?.journal }, writer, counts);
    }
    await writer.complete(lastLineStart(counts));
    isComplete = true;
    return counts;
  } catch (error) {
    await writer.discard();
    // Another process mapped the same shard, and cleared up when it was done: the bytes are the same.
    const found = errorCode((error as Error).cause) === 'ENOENT' ? await whole(manifest, options) : undefined;
    if (found !== undefined) return found;
    throw error;
  } finally {
    await journal?.close({ isComplete });
    if (options.engine === undefined) await engine?.dispose();
  }
}

/** Looks for no GPU: nothing of a step file is on one. */
function openStepEngine({ threads, signal }: MapOptions): Promise<Engine> {
  return openEngine({ device: 'cpu', threads, signal });
}

function journalOf({ settings }: Manifest, options: MapOptions): Promise<ShardJournal | undefined> {
  return ShardJournal.open(options.out, options.index, {
    resume: options.redo !== true,
    version: options.version ?? packageVersion(),
    measuring: measureOptions(settings),
  });
}

async function whole(manifest: Manifest, { out, index }: MapOptions): Promise<ShardCounts | undefined> {
  const found = await completeState(out, manifest, index);
  return found instanceof StateError ? undefined : found;
}

function extentOf(steps: readonly PlannedStep[]) {
  const [first, last] = [steps[0], steps.at(-1)];
  if (first === undefined || last === undefined) return NO_STEPS;
  return { steps: steps.length, first: first.index, last: last.index, firstRun: first.runNumber };
}

interface Outcome {
  readonly step: PlannedStep;
  readonly outcome: StepMeasurement | FileError;
  /** By a process that did not come to the end of the shard. */
  readonly wasMeasured: boolean;
}

async function writeSteps(
  engine: Engine,
  { settings }: Manifest,
  { steps, firsts }: { readonly steps: readonly PlannedStep[]; readonly firsts: readonly PlannedStep[] },
  options: MapOptions & { readonly journal: Journal | undefined },
  writer: StateWriter,
  counts: { failures: number; runs: number },
): Promise<void> {
  const ending = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, ending.signal]) : ending.signal;
  const progress = new ProgressCount(options.onProgress);
  const { journal } = options;
  const keyOf = (step: PlannedStep) => ({ key: `${step.path}\n${step.run}\n${step.step}`, identity: step.identity });
  const measured = new MeasuredSteps(
    { ...logReading(settings), threads: options.threads, maxMemory: logMemory(options) },
    signal,
  );
  for (const first of firsts) measured.note(first);
  for (const step of steps) {
    progress.expect(step, journal?.has(keyOf(step)) === true);
    if (step.rollouts !== undefined) measured.logs.expect(step.rollouts);
  }
  const plan = memoryPlan(options);
  const measure = async (step: PlannedStep): Promise<Outcome> => {
    const known = await journal?.find(keyOf(step));
    if (known !== undefined) {
      await measured.skip(step);
      return { step, outcome: known, wasMeasured: true };
    }
    const onBytes = (bytes: number): void => progress.advance(step, bytes);
    let outcome: StepMeasurement;
    try {
      if (step.rollouts !== undefined) await measured.logs.checkUnchanged(step.rollouts);
      const context = { engine, measuring: settings, blockBytes: plan.blockBytes, signal };
      outcome = await measured.measure(step, step.path, context, { identity: step.identity, onBytes });
    } catch (error) {
      // What the map was aborted with may be a FileError, and is not this step's.
      if (!(error instanceof FileError) || error === signal.reason) throw error;
      if (await isUnreachable(error, step.path)) throw unreachable(error, step);
      return { step, outcome: await explained(error, step), wasMeasured: false };
    }
    // The step is not at fault where the journal cannot be written.
    await journal?.keep(keyOf(step), outcome);
    return { step, outcome, wasMeasured: false };
  };
  let run: RunSoFar | undefined;
  const closeRun = async (): Promise<void> => {
    if (run === undefined) return;
    await writer.line(aggregatesLine(run.number, run));
    counts.runs++;
  };
  const limits = { ahead: STEPS_AHEAD, weight: (step: PlannedStep) => bytesHeld(step, plan), capacity: plan.capacity };
  const outcomes = mapAhead(steps, limits, measure, () => ending.abort());
  for await (const { step, outcome, wasMeasured } of closingAfter(outcomes, measured)) {
    if (run?.number !== step.runNumber) {
      await closeRun();
      run = new RunSoFar(step);
    }
    progress.finish(step, wasMeasured);
    if (outcome instanceof FileError) {
      options.onFailure?.(outcome);
      counts.failures++;
      run.failures++;
      await writer.line(failedLine(step, outcome));
    } else {
      for (const bad of outcome.badRows ?? []) options.onFailure?.(badRow(bad));
      run.steps++;
      run.aggregates.add(orderFreeMetrics(outcome));
      await writer.line(measuredLine(step, outcome));
    }
  }
  await closeRun();
}

/** The logs stay open as long as steps are measured. */
async function* closingAfter<T>(source: AsyncGenerator<T, void, undefined>, steps: MeasuredSteps): AsyncGenerator<T> {
  try {
    yield* source;
  } finally {
    await steps.close();
  }
}

/** Not the file is at fault: a state without it would be taken for all that there is of the shard. */
function unreachable(failure: FileError, step: PlannedStep): FileError {
  const advice =
    'Mount what it lies on, or see to its store, and map the shard again: steps measured so far are kept. ' +
    'If it is gone for good, plan again without it';
  const { problem, ...where } = savedProblem(failure);
  const path = failedPath(step, sidecarOf(failure, step));
  return new FileError({ path, ...where }, `out of reach from here: ${problem}. ${advice}`, { cause: failure });
}

class RunSoFar {
  readonly number: number;
  readonly name: string;
  readonly directory: string;
  readonly aggregates = new Aggregates();
  steps = 0;
  failures = 0;

  constructor({ runNumber, run, runDirectory }: PlannedStep) {
    this.number = runNumber;
    this.name = run;
    this.directory = runDirectory;
  }
}

/** The failure under the path that the user gave; where the file is not the planned one any more, it says so. */
async function explained(failure: FileError, step: PlannedStep): Promise<FileError> {
  const header = step.isLog ? undefined : await readStepHeader(step.path).catch(() => undefined);
  if (header !== undefined && step.rollouts === undefined && header.identity !== step.identity) {
    const problem =
      'the file was replaced or changed after it was planned: run collapsar plan again when it is complete';
    return new FileError({ path: step.file }, problem, { cause: failure });
  }
  return problemAt(failedPath(step, sidecarOf(failure, step)), savedProblem(failure)) as FileError;
}
