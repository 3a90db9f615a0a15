// Functions that a trainer needs late or never: each of them loads its room when it is first called.
import type { AnalyzeOptions } from './analysis/analyze.js';
import type { StepSource } from './analysis/measuring/step-source.js';
import type { MeasuredShard, ShardOptions } from './analysis/store/shard.js';
import type { ReadStepsOptions } from './logs/steps/read-steps.js';
import type { StepData } from './logs/steps/step-data.js';
import type { StepToWrite, WriteStepOptions } from './logs/steps/write-step.js';
import type { StepReport } from './step/step-report.js';

/**
 * Collapse metrics of every step of `source`: step files, rollout logs of trainers, directories and globs, where
 * directories are runs, or steps from anywhere as they come. The moving averages of a run are carried from step to
 * step. Little is measured ahead of the reader: of a stream no more than three steps beyond the one that the reader
 * waits for are asked for.
 * @returns reports by run, then step; of a stream in its order
 * @throws {ArgumentError} for a bad option, or a stream that gives something else than steps; `signal.reason` when
 *   aborted; {FileError} only without `onFailure`, or when a journal cannot be read or written; what a stream throws
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
  yield* (await import('./analysis/analyze.js')).analyze(source, options);
}

/**
 * Measures the steps of one shard. Called again, after a kill or for files that have changed, it measures only what its
 * journal lacks.
 * @throws {ArgumentError} for a bad option; {StateError} if a journal of other options or another version is in its
 *   place; {FileError} when it cannot be written, there is no step at all, or a file is out of reach for a reason
 *   that is not its own (a mount, a store): what was measured stays; `signal.reason` when aborted
 * @example
 * import { analyze, measureShard } from 'collapsar';
 *
 * for (let index = 0; index < 4; index++) {
 *   await measureShard('runs/', { shard: { index, count: 4 }, out: 'work' }); // in any order, on any machine
 * }
 * for await (const { record } of analyze('runs/', { journals: 'work' })) console.log(record);
 */
export async function measureShard(source: string | readonly string[], options: ShardOptions): Promise<MeasuredShard> {
  return (await import('./analysis/store/shard.js')).measureShard(source, options);
}

/**
 * Reads steps one after the other. Their scores are read only when they are asked for.
 * @param source paths of files and directories, or globs, read in the order of listSteps; or steps of another origin,
 *   which are passed on as they come
 * @throws FileError for the first path or file that cannot be used, unless `onError` takes them: before the first step
 *   for what the headers show, later for the rest
 * @example
 * import { readSteps } from 'collapsar';
 *
 * for await (const { step, lengths, rewards } of readSteps('runs/grpo-7b')) console.log(step, lengths.length, rewards);
 */
export async function* readSteps(
  source: string | readonly string[] | AsyncIterable<StepData>,
  options: ReadStepsOptions = {},
): AsyncGenerator<StepData, void, undefined> {
  yield* (await import('./logs/steps/read-steps.js')).readSteps(source, options);
}

/**
 * Writes `step` to `path`, in place of what is there. When the promise resolves the file is on disk, whole; when it
 * rejects, `path` is as it was. Do not change the arrays until then.
 * @throws ArgumentError for a step that the reader would refuse; FileError when the file cannot be written
 * @example
 * import { writeStep } from 'collapsar';
 *
 * const logprobs = { data, dtype: 'float32', shape: [P, R, T] } as const; // prompt after prompt, nats
 * await writeStep('run/step_00120.safetensors', { step: 120, logprobs, lengths, group: groups, rewards });
 */
export async function writeStep(path: string, step: StepToWrite, options: WriteStepOptions = {}): Promise<void> {
  return (await import('./logs/steps/write-step.js')).writeStep(path, step, options);
}
