// Opens a regular file, or fails at once: opening a pipe would wait for its other end, out of reach of signals, and a
// device has no end.
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { errorCode } from '../../logs/stores/system-problem.js';

/** Windows has none, and no pipes in its directories. */
const NOT_WAITING = constants.O_NONBLOCK ?? 0;
const NOT_FOLLOWING = constants.O_NOFOLLOW ?? 0;

/** @throws {Error} of the system, or one that says what is there */
export function openToRead(path: string): Promise<FileHandle> {
  return openRegular(path, constants.O_RDONLY);
}

/**
 * All of its text.
 * @throws {Error} as `openToRead`
 */
export async function textOfFile(path: string): Promise<string> {
  const handle = await openToRead(path);
  try {
    return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
}

/**
 * To read, and to write at its end; what is in it stays. Makes a missing file. Follows no link: in a directory that
 * others write to it may lead to any file of this user.
 */
export async function openToKeep(path: string): Promise<FileHandle> {
  try {
    return await openRegular(path, constants.O_RDWR | constants.O_CREAT | constants.O_APPEND | NOT_FOLLOWING);
  } catch (error) {
    if (errorCode(error) !== 'ELOOP') throw error;
    throw new Error('this is a symbolic link, and a file is kept here: remove it', { cause: error });
  }
}

async function openRegular(path: string, flags: number): Promise<FileHandle> {
  const handle = await open(path, flags | NOT_WAITING);
  try {
    const found = await handle.stat();
    if (found.isFile()) return handle;
    throw new Error(
      found.isDirectory()
        ? 'this is a directory, not a file'
        : 'this is a pipe, a socket or a device, not a file: name a file, or move away what is in its place',
    );
  } catch (error) {
    await handle.close().catch(() => undefined);
    throw error;
  }
}
