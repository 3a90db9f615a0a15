// The plan of an analysis: every step with the content that it had, in order, and which of them make a shard.

import { ArgumentError, type FileError, StateError } from '../../checks/errors.js';
import { printable, shown } from '../../checks/words.js';
import type { MeasureOptions } from '../measuring/step-measurement.js';
import type { StepFile } from '../measuring/step-source.js';

/** What the analysis was asked for. */
export interface PlanSettings extends MeasureOptions {
  /** Metrics to put into records; default all. */
  readonly metrics?: readonly string[] | undefined;
}

/** A range of whole steps. */
export interface Shard {
  /** Index of its first step. */
  readonly first: number;
  /** How many; none in shards beyond the number of steps. */
  readonly steps: number;
  /** Size of their files. */
  readonly bytes: number;
}

/** A run of a manifest. */
export interface PlannedRun {
  readonly name: string;
  /** Absolute path, where the plan was made, of the directory whose files are this run. */
  readonly directory: string;
}

/** `file`: as the user gave it; `identity`: when it was planned. */
export interface PlannedStep extends StepFile {
  /** Position in the sorted list of steps: the step's key in states. */
  readonly index: number;
  /** Position of its run in the list of runs. */
  readonly runNumber: number;
  /** Where to open it, from any working directory. */
  readonly path: string;
}

/** A plan as it was read: settings, shards and failures; its steps stay in the file. */
export interface Manifest {
  readonly path: string;
  /** SHA-256: which manifest a state belongs to. */
  readonly digest: string;
  /** Version of the package that made it. */
  readonly collapsar: string;
  readonly settings: PlanSettings;
  /** What relative paths are relative to. */
  readonly directory: string;
  readonly shards: readonly Shard[];
  readonly runs: readonly PlannedRun[];
  readonly steps: number;
  readonly bytes: number;
  /** Files and paths that could not be planned. */
  readonly failures: readonly FileError[];
}

/** What files of manifests say of themselves. */
export const MANIFEST_FORMAT = 'collapsar/manifest';
export const MANIFEST_VERSION = 1;
/** What to do about one that is of no use. */
export const MANIFEST_ADVICE = 'make it again with collapsar plan';

/** @throws {ArgumentError} for what readManifest() did not give */
export function checkManifest(manifest: unknown): void {
  const { path, digest, shards, settings } = Object(manifest) as Partial<Manifest>;
  if (typeof path === 'string' && typeof digest === 'string' && Array.isArray(shards) && settings !== undefined) return;
  throw new ArgumentError('options.manifest', `got ${shown(manifest)}, expected a path, or what readManifest() gives`);
}

/** @throws {StateError} when figures of this version of the package would not fit the plan's */
export function checkVersion(manifest: Manifest, version: string): void {
  if (manifest.collapsar === version) return;
  throw new StateError(
    `${manifest.path}: planned by collapsar ${printable(manifest.collapsar)}, this is ${version}: ` +
      `use one version everywhere, or ${MANIFEST_ADVICE}`,
  );
}
