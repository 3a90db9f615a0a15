// Finds out, as far as this machine can know, why tasks on other machines could not use a directory. Each task checks
// again, on its node.
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { errorCode } from '../logs/stores/system-problem.js';

/** Magic numbers of file systems that belong to one machine (linux/magic.h). A server may still export them. */
const LOCAL: ReadonlyMap<number, string> = new Map([
  [0xef53, 'ext4'],
  [0x58465342, 'xfs'],
  [0x9123683e, 'btrfs'],
  [0x2fc12fc1, 'zfs'],
  [0x01021994, 'tmpfs'],
  [0x794c7630, 'overlayfs'],
]);

/** @returns name of the file system where it is one of this machine only; undefined if it may be shared */
export async function localFileSystem(path: string): Promise<string | undefined> {
  if (process.platform !== 'linux') return undefined;
  try {
    return LOCAL.get((await statfs(path)).type);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT' || dirname(path) === path) return undefined;
    return localFileSystem(dirname(path));
  }
}
