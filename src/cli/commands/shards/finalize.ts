// `collapsar finalize`: a manifest and its states in, out what `collapsar analyze` gives for the same files: the same
// bytes on stdout and in the directory, and the same exit status.
import { finalize } from '../../../analysis/shards/finalize.js';
import { readManifest } from '../../../analysis/shards/manifest-reader.js';
import { type LogFlags, logFlags } from '../../options/log-options.js';
import type { TableFlags } from '../../options/table-options.js';
import { type ReportFlags, reportSteps } from '../../output/report-steps.js';
import type { Streams } from '../../output/streams.js';

export interface FinalizeFlags extends TableFlags, Pick<ReportFlags, 'metrics' | 'out' | 'quiet'> {
  manifest: string;
  state: string;
}

/** @returns exit status */
export async function finalizeCommand(flags: FinalizeFlags, streams: Streams): Promise<number> {
  const manifest = await readManifest(flags.manifest);
  const { profile, permutations = 999, seed, samples, nonFinite, placeholders, turnRewards } = manifest.settings;
  const metrics = flags.metrics ?? (manifest.settings.metrics as string[] | undefined);
  const logs = logFlags(manifest.settings as LogFlags);
  const figures = { profile, permutations, seed, samples, nonFinite, placeholders, turnRewards, ...logs };
  const measured = { ...figures, ...(metrics !== undefined && { metrics }) };
  const { state } = flags;
  return reportSteps({ ...flags, ...measured }, streams, async ({ signal, onProgress, onFailure }) =>
    finalize({ manifest, state, metrics, signal, onProgress, onFailure }),
  );
}
