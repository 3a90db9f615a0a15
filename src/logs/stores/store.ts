// A path in, its bytes out, whichever store it names: the one place that knows the schemes.
import { basename, dirname, resolve } from 'node:path';
import { FileError } from '../../checks/errors.js';
import { isAddress } from './address.js';
import { type ByteSource, type OpenOptions, openSource } from './byte-source.js';
import { isLink, missingProblem } from './missing-file.js';
import { isMissing } from './s3/client.js';
import { openObject } from './s3/object.js';
import { errorCode } from './system-problem.js';

/** A store beside the local files: how its paths begin, and what opens them. */
export interface Store {
  readonly scheme: string;
  readonly open: (path: string, options: OpenOptions) => Promise<ByteSource>;
  /** Whether a path may be a prefix or a pattern; else it is one object. */
  readonly isSearched: boolean;
}

export const STORES: Store[] = [{ scheme: 's3://', open: openObject, isSearched: true }];

/** What an address says that no store opens. */
export const UNKNOWN_STORE =
  'step files and rollouts are read from local paths and from s3:// (any S3-compatible store: AWS_ENDPOINT_URL), and from nowhere else: mount the store, or copy them';

/**
 * Opens a local file or an object of a store.
 * @throws FileError when it is not there, cannot be read, or has another revision
 */
export async function openBytes(path: string, options: OpenOptions = {}): Promise<ByteSource> {
  const store = storeOf(path);
  if (store === undefined && isAddress(path)) throw new FileError({ path }, UNKNOWN_STORE);
  return store === undefined ? openSource(path, options.expected) : store.open(path, options);
}

/**
 * Undefined if there is no such file.
 * @throws FileError when it is there and cannot be read, or is a link to what is not there
 */
export async function openIfThere(path: string, options: OpenOptions = {}): Promise<ByteSource | undefined> {
  try {
    return await openBytes(path, options);
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    const { cause } = error;
    if (isMissing(cause)) return undefined;
    if (errorCode(cause) !== 'ENOENT') throw error;
    if (!(await isLink(path))) return undefined;
    throw new FileError({ path }, await missingProblem(path, cause), { cause });
  }
}

/** True for paths of such a store. */
export function isRemote(path: string): boolean {
  return storeOf(path) !== undefined;
}

/** True for paths of a store that may be prefixes or patterns. */
export function isSearched(path: string): boolean {
  return storeOf(path)?.isSearched ?? false;
}

function storeOf(path: string): Store | undefined {
  return STORES.find(({ scheme }) => path.startsWith(scheme));
}

/** What holds the file: the absolute directory, or a store's prefix without the slash at its end. */
export function directoryOf(path: string): string {
  return isRemote(path) ? path.slice(0, path.lastIndexOf('/')) : dirname(resolve(path));
}

/** The last name in `path`. */
export function nameOf(path: string): string {
  return isRemote(path) ? path.slice(path.lastIndexOf('/') + 1) : basename(path);
}
