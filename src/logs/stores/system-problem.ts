// Explains what a failed system call means to the user, and what to do about it.

const ADVICE: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or directory: check the path',
  ENOTDIR: 'a part of the path is a file, not a directory: check the path',
  EEXIST: 'a file is where a directory is needed: name another one, or move the file away',
  EISDIR: 'this is a directory: name a file',
  EACCES: 'no permission: give this user rights to it and to the directories above it (chmod u+rwX)',
  EPERM: 'the operation is not permitted to this user',
  ENXIO: 'this is a socket or a device, not a file',
  ELOOP: 'the link leads back to itself: point it to a file',
  ENAMETOOLONG: 'the path is too long for the file system',
  EMFILE: 'this process has too many files open: raise the limit (ulimit -n)',
  ENFILE: 'the system has too many files open: close some programs',
  ENOSPC: 'the disk is full: free some space and try again',
  EDQUOT: 'the disk quota is used up: free some space and try again',
  EROFS: 'the file system is read-only: write to another folder',
  EIO: 'the device failed to read or write: check the disk or the network mount',
  ESTALE: 'the network file system has lost this file: mount it again',
};

/** What to say of a path that is there, and neither a file nor a directory. */
export const NOT_A_FILE =
  'this is not a regular file (a pipe, a socket or a device), and a step is read at several places at a time: write it ' +
  'to a file, and name that';

/** One sentence for an error thrown by node:fs. */
export function systemProblem(error: unknown): string {
  const code = errorCode(error);
  // Node gives this character for bytes that are not UTF-8, and cannot open the file by the name it gave.
  if (code === 'ENOENT' && String((error as NodeJS.ErrnoException).path).includes('\ufffd')) {
    return 'the name is not UTF-8, so that the file cannot be opened: rename it (ENOENT)';
  }
  const advice = code === undefined ? undefined : ADVICE[code];
  if (advice !== undefined) return `${advice} (${code})`;
  return error instanceof Error ? error.message : String(error);
}

/** The errno name of an error thrown by node:fs, such as ENOENT. */
export function errorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}
