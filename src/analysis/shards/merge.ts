// States in, one state of all their steps out: the same bytes whichever are merged first.

import { mkdir, realpath, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { checkArray, checkPath } from '../../checks/argument-checks.js';
import { ArgumentError, FileError } from '../../checks/errors.js';
import { checkOptions, is, OPERATION, type OptionTable } from '../../checks/options.js';
import { systemProblem } from '../../logs/stores/system-problem.js';
import type { AnalysisProgress } from '../analysis-progress.js';
import { makeDirectory } from '../results/make-directory.js';
import { holdsMarkers, type ShardCounts } from './completion.js';
import { aggregatesLine, headerLine, lastLineStart, type RunAggregates } from './state-file.js';
import { StateMerge, statePaths } from './state-merge.js';
import { StateWriter } from './state-writer.js';
import { partsPath, removeAbandoned } from './unfinished-files.js';

/** Options of `mergeStates`. */
export interface MergeOptions {
  /** Path of the merged state. */
  readonly out: string;
  /** States that are open at a time, at most. Default 32. */
  readonly fanIn?: number | undefined;
  /** Aborting makes the call reject with `signal.reason`, and writes nothing. */
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: AnalysisProgress) => void) | undefined;
  /** Called with the aggregates of each run, in order; valid during the call. */
  readonly onRun?: ((run: RunAggregates) => void) | undefined;
}

const OPTIONS: OptionTable<MergeOptions> = {
  ...OPERATION,
  out: is.needed(is.path),
  fanIn: is.integer(2),
  onRun: is.callback,
};

/** What a merged state holds. */
export interface MergedStates extends ShardCounts {
  readonly states: number;
  readonly runs: number;
}

const FAN_IN = 32;

/**
 * Merges the states at `paths` (files, or directories of them) into one that can itself be merged. Memory does not grow
 * with the number of steps.
 * @throws {ArgumentError} for a bad option; {StateError} for states that are damaged, of different manifests, or have a
 *   step in common; {FileError} when one cannot be read, or the result cannot be written
 */
export async function mergeStates(paths: readonly string[], options: MergeOptions): Promise<MergedStates> {
  checkArray(paths, 'paths');
  checkOptions(options, OPTIONS);
  const { out, fanIn = FAN_IN } = options;
  for (const [at, path] of Array.from(paths).entries()) checkPath(path, `paths[${at}]`);
  if (paths.length === 0) throw new ArgumentError('paths', 'no state given: name states, or directories of them');
  const areMarkers = await Promise.all(Array.from(paths, holdsMarkers));
  const named = paths.filter((_, at) => !areMarkers[at]);
  const states = (await Promise.all((named.length > 0 ? named : paths).map(statePaths))).flat();
  await refuseOwnInput(states, out);
  // Before anything is written: it may be what fills the disk.
  await removeAbandoned(out);
  const total = await totalBytes(states);
  let merge = await StateMerge.open(states);
  let work: string | undefined;
  try {
    // Shards follow one another; only states that have been merged out of order lie across each other.
    for (let round = 0; merge.overlap > fanIn; round++) {
      work ??= await workDirectory(out);
      const parts: string[] = [];
      for (let at = 0; at < merge.paths.length; at += fanIn) {
        const part = join(work, `${round}-${parts.length}`);
        const { signal } = options;
        await writeMerged(await StateMerge.open(merge.paths.slice(at, at + fanIn)), { out: part, signal }, 0);
        parts.push(part);
      }
      merge = await StateMerge.open(parts);
    }
    return { states: states.length, ...(await writeMerged(merge, options, total)) };
  } finally {
    if (work !== undefined) await rm(work, { recursive: true, force: true });
  }
}

async function writeMerged(
  merge: StateMerge,
  { out, signal, onProgress, onRun }: MergeOptions,
  totalBytes: number,
): Promise<ShardCounts & { readonly runs: number }> {
  const writer = await StateWriter.open(out);
  const counts = { steps: 0, failures: 0, runs: 0 };
  let bytes = 0;
  try {
    await writer.line(headerLine(merge.header));
    for await (const line of merge.lines()) {
      signal?.throwIfAborted();
      if (line.kind === 'run') {
        counts.runs++;
        onRun?.(line.aggregates);
        await writer.line(aggregatesLine(line.run, line.aggregates));
        continue;
      }
      counts.steps++;
      if (line.failed) counts.failures++;
      await writer.line(line.bytes);
      bytes += line.bytes.length;
      const progress = {
        done: counts.steps,
        total: merge.header.steps,
        bytes,
        totalBytes,
        resumed: 0,
        resumedBytes: 0,
      };
      onProgress?.({ ...progress, file: line.state.path });
    }
    await writer.complete(lastLineStart(counts));
    return counts;
  } catch (error) {
    await writer.discard();
    throw error;
  }
}

async function refuseOwnInput(states: readonly string[], out: string): Promise<void> {
  const seen = new Map<string, string>();
  const target = await realpath(out).catch(() => out);
  for (const path of states) {
    const real = await realpath(path).catch(() => path);
    const other = seen.get(real);
    if (other !== undefined) {
      const twice = other === path ? `${path} is given twice` : `${path} and ${other} are the same file`;
      throw new ArgumentError('paths', `${twice}: a step counts once, so leave out one of the two`);
    }
    if (real === target)
      throw new ArgumentError('options.out', `${out} is also one of the states to merge: name another file`);
    seen.set(real, path);
  }
}

async function totalBytes(states: readonly string[]): Promise<number> {
  const sizes = await Promise.all(
    states.map(async (path) =>
      stat(path).then(
        ({ size }) => size,
        (error: unknown) => {
          throw new FileError({ path }, systemProblem(error), { cause: error });
        },
      ),
    ),
  );
  return sizes.reduce((a, b) => a + b, 0);
}

async function workDirectory(out: string): Promise<string> {
  await makeDirectory(dirname(out), out);
  try {
    const path = partsPath(out);
    await mkdir(path, 0o700);
    return path;
  } catch (error) {
    throw new FileError({ path: out }, `cannot write here: ${systemProblem(error)}`, { cause: error });
  }
}
