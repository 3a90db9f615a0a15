// Where the parts of a mapped manifest lie in their directory, and which of them are complete. A marker is written when
// a shard's state is on disk: waiting for all shards means counting markers, and opens no state.
import { stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { FileError, StateError } from '../../checks/errors.js';
import { errorCode } from '../../logs/stores/system-problem.js';
import { textOfFile } from '../results/regular-file.js';
import type { Manifest, Shard } from './manifest.js';
import { StateReader } from './state-file.js';
import { StateWriter } from './state-writer.js';

const FORMAT = 'collapsar/completion';
const VERSION = 1;
const DIGITS = 5;

/** What a complete state holds. */
export interface ShardCounts {
  /** Failed ones included. */
  readonly steps: number;
  readonly failures: number;
}

export function shardName(index: number): string {
  return String(index).padStart(DIGITS, '0');
}

/** `S/shards/00003.state` */
export function statePath(directory: string, index: number): string {
  return join(directory, STATES, `${shardName(index)}${STATE_EXTENSION}`);
}

/** `S/shards/.00003.journal`, while the shard is measured. */
export function journalPath(directory: string, index: number): string {
  return join(directory, STATES, `.${shardName(index)}.journal`);
}

/** `S/completions/00003` */
export function markerPath(directory: string, index: number): string {
  return join(directory, MARKERS, shardName(index));
}

export const STATES = 'shards';
export const STATE_EXTENSION = '.state';
const MARKERS = 'completions';

/** Whether this is the directory of markers beside states: what `S/*` names, too. */
export async function holdsMarkers(path: string): Promise<boolean> {
  if (basename(resolve(path)) !== MARKERS) return false;
  return stat(join(resolve(path), '..', STATES)).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

/** The same shard of the same manifest has the same marker, to the byte. */
export async function writeMarker(
  directory: string,
  manifest: Manifest,
  index: number,
  counts: ShardCounts,
): Promise<void> {
  const { steps, failures } = counts;
  const marker = { format: FORMAT, version: VERSION, manifest: manifest.digest, index, steps, failures };
  const writer = await StateWriter.open(markerPath(directory, index));
  try {
    await writer.complete(`${JSON.stringify(marker).slice(0, -1)},`);
  } catch (error) {
    await writer.discard();
    // Another process mapped the same shard, and cleared up when it was done: the bytes are the same.
    const isGone = errorCode((error as Error).cause) === 'ENOENT';
    if (!isGone || !(await hasMarker(directory, manifest, index))) throw error;
  }
}

export async function hasMarker(directory: string, manifest: Manifest, index: number): Promise<boolean> {
  try {
    const marker = JSON.parse(await textOfFile(markerPath(directory, index)));
    return marker?.format === FORMAT && marker.version === VERSION && marker.manifest === manifest.digest;
  } catch {
    // Unreadable, cut or of something else: the state itself decides.
    return false;
  }
}

/**
 * Reads the state of a shard through.
 * @returns what it holds; a StateError where it is damaged; undefined where there is none
 * @throws {StateError} when it is of another manifest: it is not ours to write over
 */
export async function completeState(
  directory: string,
  manifest: Manifest,
  index: number,
): Promise<ShardCounts | StateError | undefined> {
  const path = statePath(directory, index);
  let state: StateReader;
  try {
    state = await StateReader.open(path);
  } catch (error) {
    if (error instanceof StateError) return error;
    if (error instanceof FileError && errorCode(error.cause) === 'ENOENT') return undefined;
    throw error;
  }
  try {
    if (state.header.manifest !== manifest.digest) {
      throw new StateError(
        `${path}: a state of another manifest than ${manifest.path}: map into another directory, or remove this one`,
      );
    }
    const { first, steps } = manifest.shards[index] as Shard;
    const holdsShard = state.header.steps === steps && (steps === 0 || state.header.first === first);
    return holdsShard ? await countsOf(state) : state.damaged(`it does not hold shard ${index}`);
  } finally {
    await state.close();
  }
}

async function countsOf(state: StateReader): Promise<ShardCounts | StateError> {
  try {
    while ((await state.next()) !== undefined);
    return state.counts;
  } catch (error) {
    if (error instanceof StateError) return error;
    throw error;
  }
}
