// `collapsar map`: a manifest in, the state of one shard in a directory out.
import { mapShard } from '../../../analysis/shards/map.js';
import { ArgumentError, type FileError } from '../../../checks/errors.js';
import { escaped } from '../../../checks/words.js';
import { shardIndex } from '../../input/shard-index.js';
import { EXIT } from '../../output/exit-codes.js';
import { failedFiles } from '../../output/failure-list.js';
import { Progress } from '../../output/progress.js';
import type { Streams } from '../../output/streams.js';

export interface MapFlags {
  manifest: string;
  out: string;
  index?: number;
  strict?: true;
  redo?: true;
  threads?: number;
  maxMemory?: number;
  quiet?: true;
}

/** @returns exit status */
export async function mapCommand(flags: MapFlags, streams: Streams): Promise<number> {
  const { out, err, environment, signal } = streams;
  const { manifest, out: directory, strict, redo, threads, maxMemory, quiet } = flags;
  const index = shardIndex(flags.index, environment);
  if (typeof index === 'string') return usage(err, index);
  const progress = Progress.of(streams, quiet);
  const failures: FileError[] = [];
  try {
    const mapped = await mapShard({
      manifest,
      index,
      out: directory,
      redo,
      threads,
      maxMemory,
      signal,
      onProgress: (state) => progress.update(state),
      onFailure: (failure) => failures.push(failure),
    });
    progress.clear();
    const { state, steps, wasComplete, replaced } = mapped;
    if (replaced !== undefined) await err.write(`${escaped(replaced)} (it has been mapped again)\n`);
    if (failures.length > 0)
      await err.write(failedFiles(failures, `the state has ${steps - failures.length} of ${steps} steps`));
    const failed = mapped.failures === 0 ? '' : `, ${mapped.failures} of them failed`;
    const note = wasComplete ? ', complete before (--redo measures it again)' : '';
    await out.write(`${escaped(state)}: ${steps} ${steps === 1 ? 'step' : 'steps'}${failed}${note}\n`);
    // Engines try a task again that does not end with 0; a file that cannot be used would fail for ever.
    return mapped.failures > 0 && strict ? EXIT.failures : EXIT.ok;
  } catch (error) {
    progress.clear();
    if (error instanceof ArgumentError && error.argument === 'index') return usage(err, error.message);
    throw error;
  }
}

async function usage(err: Streams['err'], problem: string): Promise<number> {
  await err.write(`error: ${escaped(problem)}\n(see collapsar map --help)\n`);
  return EXIT.usage;
}
