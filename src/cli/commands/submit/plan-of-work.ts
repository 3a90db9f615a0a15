// PATHS, --manifest or what --work has -> the manifest whose shards are to run; planned now where there is none yet.
import { constants } from 'node:fs';
import { access, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Manifest } from '../../../analysis/shards/manifest.js';
import { readManifest } from '../../../analysis/shards/manifest-reader.js';
import { FileError, StateError } from '../../../checks/errors.js';
import { systemProblem } from '../../../logs/stores/system-problem.js';
import { planSteps } from '../../input/plan-steps.js';
import { figureFlags } from '../../options/measuring-options.js';
import type { Streams } from '../../output/streams.js';
import type { SubmitFlags } from './flags.js';
import { Usage } from './usage.js';

export interface PlannedManifest {
  readonly manifest: Manifest;
  /** Where tasks find it. */
  readonly path: string;
  /** It is not there yet: a dry run writes nothing. */
  readonly isNew: boolean;
}

/** @returns undefined where there is nothing to analyse, which has been said then */
export async function manifestOf(
  paths: readonly string[],
  flags: SubmitFlags,
  work: string,
  streams: Streams,
): Promise<PlannedManifest | undefined> {
  if (flags.manifest !== undefined) {
    const path = resolve(flags.manifest);
    return { manifest: await readManifest(path), path, isNew: false };
  }
  const path = join(work, 'manifest.json');
  const isThere = await access(path, constants.F_OK).then(
    () => true,
    () => false,
  );
  if (paths.length === 0) {
    if (!isThere) throw new Usage(`${path} is not there: give PATHS, or --manifest`);
    return { manifest: await readManifest(path), path, isNew: false };
  }
  if (!isThere && !flags.dryRun) return planned(paths, flags, path, streams);
  const temporary = await mkdtemp(join(tmpdir(), 'collapsar-plan-')).catch((error: unknown) => {
    const problem = `no temporary directory can be made in it (TMPDIR): ${systemProblem(error)}`;
    throw new FileError({ path: tmpdir() }, problem, { cause: error });
  });
  try {
    const fresh = await planned(paths, flags, join(temporary, 'manifest.json'), streams);
    if (fresh === undefined || !isThere) return fresh && { ...fresh, path, isNew: true };
    const manifest = await readManifest(path);
    if (manifest.digest === fresh.manifest.digest) return { manifest, path, isNew: false };
    throw new StateError(
      `${path}: made of other files, options or versions of files, or in another directory (${manifest.directory}). ` +
        'Leave out PATHS and the options of the plan to continue with it, or give another --work',
    );
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

async function planned(
  paths: readonly string[],
  flags: SubmitFlags,
  path: string,
  streams: Streams,
): Promise<PlannedManifest | undefined> {
  const { targetBytes, shards, metrics, include, exclude } = flags;
  const options = { targetBytes, shards, metrics, include, exclude, ...figureFlags(flags) };
  const { planned: made } = await planSteps(paths, { ...options, out: path }, flags.quiet, streams);
  return made && { manifest: await readManifest(path), path, isNew: false };
}
