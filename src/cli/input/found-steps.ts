// Looks for the steps at some paths, with progress and with what cannot be used on stderr.
import { hasTexts, isForced, measureOptions } from '../../analysis/measuring/measure-options.js';
import { stepFiles } from '../../analysis/measuring/step-source.js';
import type { FileError } from '../../checks/errors.js';
import { counted } from '../../checks/words.js';
import { logReading } from '../../logs/rollouts/log-options.js';
import { RolloutLogs } from '../../logs/rollouts/rollout-logs.js';
import { figureFlags, type MeasuringFlags } from '../options/measuring-options.js';
import { failedFiles, remarks, skippedFiles } from '../output/failure-list.js';
import { Progress } from '../output/progress.js';
import type { Streams } from '../output/streams.js';
import { widthOf } from '../output/table.js';

/** @returns bytes of all steps; undefined if there is none */
export async function foundBytes(
  paths: readonly string[],
  flags: MeasuringFlags & { readonly quiet?: true },
  streams: Streams,
): Promise<number | undefined> {
  const failures: FileError[] = [];
  const skipped: FileError[] = [];
  const notes: string[] = [];
  const { err, signal } = streams;
  const { include, exclude, quiet } = flags;
  const progress = Progress.of(streams, quiet);
  const measuring = measureOptions(figureFlags(flags));
  const logs = new RolloutLogs(logReading(measuring), signal);
  const listing = {
    onError: (failure: FileError) => failures.push(failure),
    onListing: progress.listing.bind(progress),
    onSkipped: (file: FileError) => skipped.push(file),
    onNote: (note: string) => notes.push(note),
    ...{ include, exclude, signal },
  };
  const steps = await stepFiles(paths, listing, hasTexts(measuring) ? logs : undefined, isForced(measuring)).finally(
    async () => {
      await logs.close();
      progress.clear();
    },
  );
  if (notes.length > 0) await err.write(remarks(notes, widthOf(err)));
  if (skipped.length > 0) await err.write(skippedFiles(skipped, widthOf(err)));
  if (failures.length > 0) await err.write(failedFiles(failures, `${counted(steps.length, 'steps')} can be measured`));
  return steps.length === 0 ? undefined : steps.reduce((sum, { bytes }) => sum + bytes, 0);
}
