// Error of an operation that could not read a file itself.
import { FileError } from '../../checks/errors.js';

/** Knows no path but the descriptor's number: who opened the file makes an error with its path of it. */
export class FileReadError extends FileError {
  override readonly offset: number;
  /** Name of the system's error, such as EIO; undefined if the file ends too early. */
  readonly system: string | undefined;

  /** @param offset position of the first byte that did not come */
  constructor(fd: number, offset: number, system: string | undefined) {
    const problem = system === undefined ? 'the file ends here, before its scores do' : `cannot be read: ${system}`;
    super({ path: `file descriptor ${fd}`, offset }, problem);
    this.offset = offset;
    this.system = system;
  }
}
