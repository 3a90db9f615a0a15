// Decides whether a file that could not be read is at fault itself, or a machine, a network or a store, so that it can
// be read elsewhere or later.
import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isStoreFault } from './s3/client.js';
import { errorCode } from './system-problem.js';

/** Failures of a disk, a mount, a network or the machine rather than of a file. */
const MACHINE_FAULTS: ReadonlySet<string> = new Set([
  'EIO',
  'ESTALE',
  'EMFILE',
  'ENFILE',
  'ENOMEM',
  'ENOTCONN',
  'ENOTFOUND',
  'EPIPE',
  'EPROTO',
  'ETIMEDOUT',
  'EHOSTDOWN',
  'EHOSTUNREACH',
  'ENETDOWN',
  'ENETUNREACH',
  // The client of a store is not installed here.
  'ERR_MODULE_NOT_FOUND',
]);

/**
 * @param failure what reading the file ended with
 * @param path of the file. One that is gone is out of reach where its directory is gone, too: a mount that is missing,
 *   above all
 */
export async function isUnreachable(failure: Error, path: string): Promise<boolean> {
  for (let error: unknown = failure.cause; error instanceof Error; error = error.cause) {
    const code = errorCode(error) ?? '';
    if (MACHINE_FAULTS.has(code) || /^(ECONN|EAI_)/.test(code) || isStoreFault(error)) return true;
    if (code === 'ENOENT') return !(await isThere(dirname(path)));
  }
  return false;
}

function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
