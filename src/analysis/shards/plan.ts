// Step files in, a manifest out: the whole analysis cut into shards that any machine can measure on its own.

import { ArgumentError, type FileError } from '../../checks/errors.js';
import { is, type OptionTable } from '../../checks/options.js';
import { packageVersion } from '../../checks/package-version.js';
import { logReading } from '../../logs/rollouts/log-options.js';
import { RolloutLogs } from '../../logs/rollouts/rollout-logs.js';
import type { ListingProgress } from '../../logs/steps/read-steps.js';
import { FILE_CHOICE, type FileChoiceOptions } from '../../logs/stores/file-choice.js';
import { checkAnalysis } from '../analyze.js';
import { METRICS } from '../measuring/metric-choice.js';
import { hasTexts, isForced, MEASURE_OPTIONS, measureOptions } from '../measuring/step-measurement.js';
import { isStream, type StepFile, stepFiles } from '../measuring/step-source.js';
import type { Manifest, PlanSettings, Shard } from './manifest.js';
import { type Plan, writeManifest } from './manifest-writer.js';

/** Options of `planShards`. */
export interface PlanOptions extends Partial<PlanSettings>, FileChoiceOptions {
  /** Path of the manifest. */
  readonly out: string;
  /** Version of the package. Default: this one's. */
  readonly version?: string | undefined;
  /**
   * Size of the step files of a shard, at most, unless one alone is larger. Default: a 64th of all, but 2 GiB to 64
   * GiB.
   */
  readonly targetBytes?: number | undefined;
  /**
   * So many shards of about the same size instead, at most 10,000,000; some are without steps where there are fewer
   * steps.
   */
  readonly shards?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called after each header that is read. */
  readonly onListing?: ((progress: ListingProgress) => void) | undefined;
  /** Called with each other file found beside step files, such as weights (docs/reference/cli.md). */
  readonly onSkipped?: ((file: FileError) => void) | undefined;
  /** Called with what was passed over among rollout logs, and why. */
  readonly onNote?: ((note: string) => void) | undefined;
  /**
   * Called with each file or path that cannot be used; the others are planned. Default: the first one makes the call
   * reject.
   */
  readonly onFailure?: ((failure: FileError) => void) | undefined;
}

/** Each has a place in the manifest and in memory, with steps or without. */
const MOST_SHARDS = 1e7;

const OPTIONS: OptionTable<PlanOptions> = {
  ...MEASURE_OPTIONS,
  ...FILE_CHOICE,
  out: is.needed(is.path),
  version: is.any,
  metrics: METRICS,
  targetBytes: is.integer(1),
  shards: is.integer(1, MOST_SHARDS),
  signal: is.signal,
  onFailure: is.callback,
  onListing: is.callback,
  onSkipped: is.callback,
  onNote: is.callback,
};

/** Default number of shards: enough for the workers of most clusters. */
const SHARDS = 64;
/** A smaller one takes less time to read than its task takes to start… */
const LEAST_BYTES = 2 * 2 ** 30;
/** …and of a larger one a lost task loses much. */
const MOST_BYTES = 64 * 2 ** 30;

/**
 * Finds the steps at `source` (files, directories, globs), reads their headers and writes the manifest.
 * @returns what was planned; undefined, and no manifest, where there is no step at all
 * @throws {ArgumentError} for a bad option; {FileError} when the manifest cannot be written, and without `onFailure`
 * @example
 * import { finalizeShards, mapShard, planShards } from 'collapsar/shards';
 *
 * const manifest = 'manifest.json';
 * const plan = await planShards('runs/', { out: manifest, shards: 4 });
 * for (let index = 0; index < (plan?.shards.length ?? 0); index++) {
 *   await mapShard({ manifest, index, out: 'state' }); // in any order, in any process, on any machine
 * }
 * for await (const { record } of finalizeShards({ manifest, state: 'state' })) console.log(record);
 */
export async function plan(
  source: string | readonly string[],
  options: PlanOptions,
): Promise<Omit<Manifest, 'runs'> | undefined> {
  checkAnalysis(source, options, OPTIONS);
  const { out, version = packageVersion(), targetBytes, shards: count, metrics, signal, onListing } = options;
  const { onSkipped, onNote, include, exclude } = options;
  if (isStream(source)) throw new ArgumentError('source', 'a stream of steps cannot be planned: name their files');
  const failures: FileError[] = [];
  const onError = (failure: FileError): void => {
    if (options.onFailure === undefined) throw failure;
    options.onFailure(failure);
    failures.push(failure);
  };
  const measuring = measureOptions(options);
  const logs = new RolloutLogs(logReading(measuring), signal);
  const listing = { onError, onListing, onSkipped, onNote, include, exclude, signal };
  const steps = await stepFiles(source, listing, hasTexts(measuring) ? logs : undefined, isForced(measuring)).finally(
    () => logs.close(),
  );
  if (steps.length === 0) return undefined;
  const bytes = steps.reduce((total, step) => total + step.bytes, 0);
  const planned: Plan = {
    collapsar: version,
    settings: { ...measuring, ...(metrics !== undefined && { metrics }) },
    directory: process.cwd(),
    shards: count === undefined ? shardsOfSize(steps, targetBytes ?? usualBytes(bytes)) : shardsByNumber(steps, count),
    steps,
    failures,
  };
  const digest = await writeManifest(out, planned);
  return { ...planned, path: out, digest, steps: steps.length, bytes };
}

type Sized = Pick<StepFile, 'bytes'>;

/** Size of a shard where nobody says it, of steps of `totalBytes` together. */
export function usualBytes(totalBytes: number): number {
  return Math.min(MOST_BYTES, Math.max(LEAST_BYTES, Math.ceil(totalBytes / SHARDS)));
}

/** As many steps in each as fit. */
export function shardsOfSize(steps: readonly Sized[], targetBytes: number): Shard[] {
  const shards: Shard[] = [];
  let first = 0;
  let bytes = 0;
  for (const [index, step] of steps.entries()) {
    if (index > first && bytes + step.bytes > targetBytes) {
      shards.push({ first, steps: index - first, bytes });
      first = index;
      bytes = 0;
    }
    bytes += step.bytes;
  }
  if (steps.length > first) shards.push({ first, steps: steps.length - first, bytes });
  return shards;
}

/** A step belongs to the shard that the middle of its bytes falls into. */
export function shardsByNumber(steps: readonly Sized[], count: number): Shard[] {
  const total = steps.reduce((sum, { bytes }) => sum + bytes, 0);
  const shards: { first: number; steps: number; bytes: number }[] = [];
  let before = 0;
  for (const [index, { bytes }] of steps.entries()) {
    const number = Math.min(count - 1, Math.floor((count * (before + bytes / 2)) / total));
    while (shards.length <= number) shards.push({ first: index, steps: 0, bytes: 0 });
    const shard = shards[number] as (typeof shards)[number];
    shard.steps++;
    shard.bytes += bytes;
    before += bytes;
  }
  while (shards.length < count) shards.push({ first: steps.length, steps: 0, bytes: 0 });
  return shards;
}
