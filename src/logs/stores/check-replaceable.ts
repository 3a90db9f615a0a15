// A path that a whole file is to be renamed to -> refused where the rename would take away a device, a pipe or a
// socket: run by root, /dev/null among them.
import { stat } from 'node:fs/promises';

/** @throws {Error} that says what is there */
export async function checkReplaceable(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined || found.isFile()) return;
  // Rename refuses it too, but when all is written, and other files may have been renamed by then.
  if (found.isDirectory()) throw Object.assign(new Error('this is a directory'), { code: 'EISDIR' });
  throw new Error('this is a device, a pipe or a socket, and a file would take its place: name a file');
}
