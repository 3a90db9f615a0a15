// Makes a directory and its parents. Does not use fs.mkdir's `recursive`, which retries for ever, out of reach of
// signals, below a directory such as /proc that takes no entries and calls them missing.
import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { writeError } from '../../logs/stores/atomic-file.js';
import { errorCode } from '../../logs/stores/system-problem.js';

/**
 * @param wanted what will be written, for the error. Default: the directory itself
 * @throws {FileError} when it is not there and cannot be made
 */
export async function makeDirectory(directory: string, wanted = directory): Promise<void> {
  try {
    await make(directory);
  } catch (error) {
    throw writeError(wanted, error);
  }
}

async function make(directory: string, isRetry = false): Promise<void> {
  if (await isDirectory(directory)) return;
  try {
    await mkdir(directory);
  } catch (error) {
    const parent = dirname(directory);
    // Another process may have made it meanwhile, or only the one above it: whether that takes entries, the second try
    // tells.
    if (await isDirectory(directory)) return;
    if (errorCode(error) !== 'ENOENT' || parent === directory || isRetry) throw error;
    await make(parent);
    await make(directory, true);
  }
}

function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
