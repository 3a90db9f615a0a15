// A directory in which a file was put into place -> its entries on disk, so that the rename survives a power cut.
import { open } from 'node:fs/promises';
import { FileError } from '../../checks/errors.js';
import { errorCode, systemProblem } from './system-problem.js';

/**
 * That of systems that cannot open or sync a directory, or let this user only write to it: there the rename is all
 * there is.
 */
const UNABLE: ReadonlySet<string | undefined> = new Set(['EACCES', 'EINVAL', 'EISDIR', 'ENOTSUP', 'EPERM']);

/** @throws {FileError} when what was written may not last */
export async function syncDirectory(directory: string): Promise<void> {
  try {
    const handle = await open(directory, 'r');
    await handle.sync().finally(() => handle.close());
  } catch (error) {
    if (UNABLE.has(errorCode(error))) return;
    const problem = `written, but the directory could not be synced: ${systemProblem(error)}`;
    throw new FileError({ path: directory }, problem, { cause: error });
  }
}
