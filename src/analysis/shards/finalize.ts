// A manifest and its states in, one report a step out: what `analyze` gives for the same files, to the bit. Here, in
// the order of the steps, is where moving averages, regimes and verdicts come in.

import { FileError, StateError } from '../../checks/errors.js';
import { checkOptions, is, OPERATION, type OptionTable } from '../../checks/options.js';
import { packageVersion } from '../../checks/package-version.js';
import { shellWord } from '../../checks/shell-words.js';
import type { StepReport } from '../../step/step-report.js';
import type { AnalysisProgress } from '../analysis-progress.js';
import { METRICS, MetricChoice } from '../measuring/metric-choice.js';
import { badRow } from '../measuring/step-measurement.js';
import { RunSequence } from '../run-sequence.js';
import { checkManifest, checkVersion, type Manifest } from './manifest.js';
import { plannedSteps, readManifest } from './manifest-reader.js';
import { stepOutcome } from './state-file.js';
import { type MergedLine, StateMerge, statePaths } from './state-merge.js';

/** Options of `finalizeShards`. */
export interface FinalizeOptions {
  /** Path of the manifest, or what `readManifest` gave. */
  readonly manifest: string | Manifest;
  /** Path of a state that holds all steps, or of a directory of states. */
  readonly state: string;
  /** Version of the package, which must be the one that planned. Default: this one's. */
  readonly version?: string | undefined;
  /** Metrics to put into the record. Default: those that the plan names. */
  readonly metrics?: readonly string[] | undefined;
  /** Aborting makes the iteration throw `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: AnalysisProgress) => void) | undefined;
  /** Called with each file or path that could not be used. Default: the first one ends the iteration by throwing. */
  readonly onFailure?: ((failure: FileError) => void) | undefined;
}

const OPTIONS: OptionTable<FinalizeOptions> = {
  ...OPERATION,
  manifest: is.any,
  state: is.needed(is.path),
  version: is.any,
  metrics: METRICS,
  onFailure: is.callback,
};

/**
 * Reads all states through once before the first report: a step that is missing, comes twice or is damaged is found
 * before anything is given.
 * @returns reports by run, then step
 * @throws {StateError} when steps are missing, or a manifest or state is damaged or of another manifest or version;
 *   {FileError} when one cannot be read
 */
export async function* finalize(options: FinalizeOptions): AsyncGenerator<StepReport, void, undefined> {
  checkOptions(options, OPTIONS);
  if (typeof options.manifest !== 'string') checkManifest(options.manifest);
  const { signal, onProgress } = options;
  const fail = (failure: FileError): void => {
    if (options.onFailure === undefined) throw failure;
    options.onFailure(failure);
  };
  const manifest = typeof options.manifest === 'string' ? await readManifest(options.manifest) : options.manifest;
  checkVersion(manifest, options.version ?? packageVersion());
  const states = await statePaths(options.state);
  const merge = await StateMerge.open(states);
  if (merge.header.manifest !== manifest.digest) {
    throw new StateError(
      `${options.state} is of another manifest than ${manifest.path}: name the one that it was mapped with`,
    );
  }
  // A directory of states takes in what is mapped later; a merged state does not.
  const next = states[0] === options.state ? 'then merge again' : 'then finalize again';
  await checkComplete(manifest, merge, options.state, next, signal);

  manifest.failures.forEach(fail);
  const choice = new MetricChoice(options.metrics ?? manifest.settings.metrics);
  const runs = new RunSequence(manifest.settings);
  const lines = merge.lines();
  let bytes = 0;
  try {
    for await (const step of plannedSteps(manifest)) {
      signal?.throwIfAborted();
      const line = await nextStep(lines);
      if (line?.index !== step.index)
        throw new StateError(`${options.state} was changed while it was read: start again`);
      const outcome = stepOutcome(line, step, line.state);
      bytes += step.bytes;
      if (outcome instanceof FileError) fail(outcome);
      else for (const bad of outcome.badRows ?? []) fail(badRow(bad));
      const through = { done: step.index + 1, total: manifest.steps, bytes, totalBytes: manifest.bytes };
      onProgress?.({ ...through, resumed: 0, resumedBytes: 0, file: step.file });
      if (!(outcome instanceof FileError)) yield runs.report(step, outcome, choice);
    }
  } finally {
    await lines.return();
  }
}

type StepLine = Extract<MergedLine, { kind: 'step' }>;

/** Passes over aggregates, which readers of a state use; here they follow from the reports (result-directory.ts). */
async function nextStep(lines: AsyncGenerator<MergedLine, void, undefined>): Promise<StepLine | undefined> {
  for (let next = await lines.next(); !next.done; next = await lines.next()) {
    if (next.value.kind === 'step') return next.value;
  }
  return undefined;
}

/** @throws {StateError} naming the shards whose steps are missing, and what to run */
async function checkComplete(
  manifest: Manifest,
  merge: StateMerge,
  state: string,
  next: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const missing = new MissingSteps(manifest);
  for await (const line of merge.lines()) {
    signal?.throwIfAborted();
    if (line.kind === 'step') {
      missing.next(line.index);
      continue;
    }
    const run = manifest.runs[line.run];
    if (run?.name !== line.aggregates.name || run.directory !== line.aggregates.directory) {
      throw new StateError(
        `${state}: damaged: run ${line.run} is not the one of ${manifest.path}; map its steps again`,
      );
    }
  }
  missing.next(manifest.steps);
  const { steps, shards } = missing;
  if (steps === 0) return;
  const what = steps === 1 ? '1 step is' : `${steps} of ${manifest.steps} steps are`;
  const which = shards.length === 1 ? `shard ${shards[0]}` : `shards ${ranges(shards)}`;
  throw new StateError(
    `${state}: ${what} missing, all of ${which}: run collapsar map --manifest ${shellWord(manifest.path)} --out DIR --index ` +
      `${shards[0]}${shards.length > 1 ? ' and so on' : ''}, and ${next}`,
  );
}

/** Gaps between the indices that come. */
class MissingSteps {
  steps = 0;
  readonly shards: number[] = [];
  #expected = 0;
  #shard = 0;

  constructor(private readonly manifest: Manifest) {}

  /** @param index rising */
  next(index: number): void {
    if (index > this.manifest.steps) {
      throw new StateError(
        `entry ${index} of the manifest is in a state, but ${this.manifest.path} has only ${this.manifest.steps} of them`,
      );
    }
    for (; this.#expected < index; this.#expected++) {
      this.steps++;
      const shard = this.#shardOf(this.#expected);
      if (this.shards.at(-1) !== shard) this.shards.push(shard);
    }
    this.#expected = index + 1;
  }

  #shardOf(index: number): number {
    const { shards } = this.manifest;
    for (; ; this.#shard++) {
      const { first = 0, steps = 0 } = shards[this.#shard] ?? {};
      if (index < first + steps || this.#shard >= shards.length) return this.#shard;
    }
  }
}

/** 3, 7 to 9 */
function ranges(numbers: readonly number[]): string {
  const parts: [from: number, to: number][] = [];
  for (const number of numbers) {
    const last = parts.at(-1);
    if (last !== undefined && last[1] === number - 1) last[1] = number;
    else parts.push([number, number]);
  }
  const shown = parts.slice(0, 20).map(([from, to]) => (from === to ? `${from}` : `${from} to ${to}`));
  return shown.join(', ') + (parts.length > shown.length ? ' and others' : '');
}
