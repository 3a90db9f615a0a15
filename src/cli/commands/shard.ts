// `collapsar analyze --shard`: one share of the steps measured into a journal; on stdout its path.
import { type MeasuredShard, measureShard, type Shard } from '../../analysis/store/shard.js';
import type { FileError } from '../../checks/errors.js';
import { counted, escaped } from '../../checks/words.js';
import { figureFlags, type MeasuringFlags } from '../options/measuring-options.js';
import { EXIT } from '../output/exit-codes.js';
import { failedFiles, remarks, skippedFiles } from '../output/failure-list.js';
import { Progress } from '../output/progress.js';
import type { Streams } from '../output/streams.js';
import { widthOf } from '../output/table.js';

/** The options of the command line that a shard takes, checked. */
export interface ShardFlags extends MeasuringFlags {
  out: string;
  resume?: boolean;
  threads?: number;
  maxMemory?: number;
  quiet?: true;
}

/** @returns exit status */
export async function shardCommand(
  paths: readonly string[],
  shard: Shard,
  flags: ShardFlags,
  { out, err, signal, ...streams }: Streams,
): Promise<number> {
  const { resume, threads, maxMemory, include, exclude, quiet } = flags;
  const progress = Progress.of({ out, err, signal, ...streams }, quiet);
  const failures: FileError[] = [];
  const skipped: FileError[] = [];
  const notes: string[] = [];
  let measured: MeasuredShard | undefined;
  try {
    measured = await measureShard(paths, {
      ...figureFlags(flags),
      ...{ shard, out: flags.out, resume, threads, maxMemory, include, exclude, signal },
      onProgress: (state) => progress.update(state),
      onListing: (state) => progress.listing(state),
      onSkipped: (file) => skipped.push(file),
      onNote: (note) => notes.push(note),
      onFailure: (failure) => failures.push(failure),
    });
  } finally {
    progress.clear();
    if (notes.length > 0 && !quiet) await err.write(remarks(notes, widthOf(err)));
    if (skipped.length > 0) await err.write(skippedFiles(skipped, widthOf(err)));
    const kept = (measured?.steps ?? 0) - (measured?.failures ?? 0);
    if (failures.length > 0) {
      await err.write(failedFiles(failures, `${counted(kept, 'steps')} ${kept === 1 ? 'is' : 'are'} in the journal`));
    }
  }
  const { journal, steps, failures: failed, resumed } = measured;
  const besides = [failed > 0 && `${failed} of them failed`, resumed > 0 && `${resumed} of them measured before`];
  await out.write(`${[`${escaped(journal)}: ${counted(steps, 'steps')}`, ...besides.filter(Boolean)].join(', ')}\n`);
  // Engines try a task again that does not end with 0; a file that cannot be used is named by the analysis that finishes.
  return EXIT.ok;
}
