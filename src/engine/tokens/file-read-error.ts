// What an operation that reads a file itself could not read.

/** Knows no path: who opened the file does, and makes the error that users see. */
export class FileReadError extends Error {
  /** Name of the system's error, such as EIO; undefined where the file ends too early. */
  readonly code: string | undefined;
  /** Position of the first byte that did not come. */
  readonly offset: number;

  constructor(code: string | undefined, offset: number) {
    super(code === undefined ? `the file ends at byte ${offset}` : `cannot read at byte ${offset}: ${code}`);
    this.name = 'FileReadError';
    this.code = code;
    this.offset = offset;
  }
}
