// `collapsar plan`: step files in, a manifest out, and on stdout what is in it.
import { plan } from '../analysis/plan.js';
import { shellWord } from '../analysis/submit/shell-words.js';
import { counted } from '../engine/counted.js';
import type { FileError } from '../errors.js';
import type { Profile } from '../metrics/step-metrics.js';
import { EXIT } from './exit-codes.js';
import { failedFiles } from './failure-list.js';
import { impossibleMetrics } from './metric-check.js';
import { shortBytes } from './number-format.js';
import { packageVersion } from './package-version.js';
import { Progress } from './progress.js';
import { isUnicode } from './sparkline.js';
import type { Streams } from './streams.js';

export interface PlanFlags {
  out: string;
  targetBytes?: number;
  shards?: number;
  profile: Profile;
  metrics?: string[];
  permutations: number;
  seed: number;
  samples: number;
  nonFinite: 'error' | 'exclude';
  strict?: true;
  json?: true;
  quiet?: true;
}

/** @returns exit status */
export async function planCommand(paths: readonly string[], flags: PlanFlags, streams: Streams): Promise<number> {
  const { out, err, environment, signal } = streams;
  const impossible = impossibleMetrics(flags.metrics, flags.profile);
  if (impossible !== undefined) {
    await err.write(impossible);
    return EXIT.usage;
  }
  const failures: FileError[] = [];
  const { strict, json, quiet, out: path, ...options } = flags;
  const onFailure = (failure: FileError) => failures.push(failure);
  const progress = new Progress(quiet ? undefined : err, isUnicode(environment));
  const onListing = progress.listing.bind(progress);
  const planned = await plan(paths, {
    ...options,
    out: path,
    version: packageVersion(),
    signal,
    onListing,
    onFailure,
  }).finally(() => progress.clear());
  const steps = planned?.steps ?? 0;
  if (failures.length > 0)
    await err.write(failedFiles(failures, `${counted(steps, 'steps')} ${are(steps)} in the plan`));
  if (planned === undefined) return EXIT.failures;
  const { bytes, shards } = planned;
  if (json) {
    const facts = {
      manifest: path,
      digest: planned.digest,
      shards: shards.length,
      steps,
      bytes,
      failures: failures.length,
    };
    await out.write(`${JSON.stringify(facts)}\n`);
  } else {
    await out.write(
      `${path}: ${counted(steps, 'steps')}, ${shortBytes(bytes)}, ${counted(shards.length, 'shards')}. Next` +
        `${shards.length > 1 ? `, for each --index from 0 to ${shards.length - 1}` : ''}:\n` +
        `  collapsar map --manifest ${shellWord(path)} --out DIR --index 0\n`,
    );
  }
  // What could be planned can be mapped; what could not is listed again, with exit status 1, by finalize.
  return failures.length > 0 && strict ? EXIT.failures : EXIT.ok;
}

const are = (count: number): string => (count === 1 ? 'is' : 'are');
