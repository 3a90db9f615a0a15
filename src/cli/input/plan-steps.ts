// Planning as `collapsar plan` and `submit` do it: with progress, and with what could not be planned on stderr.
import { type PlanOptions, plan } from '../../analysis/shards/plan.js';
import type { FileError } from '../../checks/errors.js';
import { counted } from '../../checks/words.js';
import { failedFiles, remarks, skippedFiles } from '../output/failure-list.js';
import { Progress } from '../output/progress.js';
import type { Streams } from '../output/streams.js';
import { widthOf } from '../output/table.js';

/** @returns what was planned, undefined where there is no step; and how many files were left out */
export async function planSteps(
  paths: readonly string[],
  options: Omit<PlanOptions, 'version' | 'signal' | 'onListing' | 'onSkipped' | 'onNote' | 'onFailure'>,
  quiet: boolean | undefined,
  streams: Streams,
): Promise<{ planned: Awaited<ReturnType<typeof plan>>; failures: number }> {
  const failures: FileError[] = [];
  const skipped: FileError[] = [];
  const notes: string[] = [];
  const { err, signal } = streams;
  const progress = Progress.of(streams, quiet);
  const planned = await plan(paths, {
    ...options,
    signal,
    onListing: (state) => progress.listing(state),
    onSkipped: (file) => skipped.push(file),
    onNote: (note) => notes.push(note),
    onFailure: (failure) => failures.push(failure),
  }).finally(() => progress.clear());
  if (notes.length > 0) await err.write(remarks(notes, widthOf(err)));
  if (skipped.length > 0) await err.write(skippedFiles(skipped, widthOf(err)));
  if (failures.length > 0) {
    const steps = planned?.steps ?? 0;
    await err.write(failedFiles(failures, `${counted(steps, 'steps')} ${steps === 1 ? 'is' : 'are'} in the plan`));
  }
  return { planned, failures: failures.length };
}
