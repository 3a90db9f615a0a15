// Reads a file in large pieces at any position, and checks that it stays what it was at first. Readers of step files
// use only the interface, so that another store can replace the local disk.
import { type BigIntStats, closeSync, constants, fstat, fstatSync, open, read } from 'node:fs';
import { promisify } from 'node:util';
import { FileError } from '../../checks/errors.js';
import { NOT_A_FILE, systemProblem } from './system-problem.js';

export interface ReadOptions {
  /** Named in errors. */
  tensor?: string | undefined;
  signal?: AbortSignal | undefined;
}

export interface OpenOptions {
  /** Revision that the content must still have. */
  expected?: string | undefined;
  signal?: AbortSignal | undefined;
}

export interface ByteSource {
  readonly path: string;
  readonly bytes: number;
  /** Differs when the content may have changed. */
  readonly revision: string;
  /** The same as seen from any machine: no inode, which some network mounts number on their own. */
  readonly stamp: string;
  /**
   * Fills `target` with the bytes from `position` on.
   * @throws FileError when the file ends before, or cannot be read; the signal's reason when it is aborted
   */
  read(target: Uint8Array, position: number, options?: ReadOptions): Promise<void>;
  /**
   * Where a position lies, for sources made of several files or of a part of one. Without it: there, in the file
   * itself.
   */
  placeOf?(position: number): { path: string; offset: number };
  /**
   * Which local file is open, and the offset of a position in it; missing if no file holds the bytes as they are.
   */
  openFile?(position: number): { fd: number; offset: number } | undefined;
  /** @throws FileError when the content may have changed since it was opened */
  checkUnchanged(): Promise<void>;
  close(): Promise<void>;
}

/** The same source, which stays open when it is closed: for readers that did not open it. */
export function withoutClose(source: ByteSource): ByteSource {
  const { path, bytes, revision, stamp, placeOf, openFile } = source;
  return {
    path,
    bytes,
    revision,
    stamp,
    read: (target, position, options) => source.read(target, position, options),
    ...(placeOf && { placeOf: (position) => placeOf.call(source, position) }),
    ...(openFile && { openFile: (position) => openFile.call(source, position) }),
    checkUnchanged: () => source.checkUnchanged(),
    close: async () => undefined,
  };
}

/** Reads of more than this are split, so that an abort is noticed within milliseconds. */
const READ_BYTES = 16 * 2 ** 20;

/** Without O_NONBLOCK (Windows has none) opening a pipe would wait for its writer. */
const READ_ONLY = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

/**
 * Opens a local file.
 * @param expected revision that the file must still have
 * @throws FileError when there is no such file, it is not a regular file, cannot be opened, or has another revision
 */
export async function openSource(path: string, expected?: string): Promise<ByteSource> {
  let file: OpenFile | undefined;
  try {
    file = new OpenFile(await openAsync(path, READ_ONLY));
    const source = LocalFile.of(path, file);
    if (expected !== undefined && source.revision !== expected) {
      throw new FileError({ path }, 'the file changed after its header was read: analyse it again when it is complete');
    }
    return source;
  } catch (error) {
    file?.close();
    if (error instanceof FileError) throw error;
    throw new FileError({ path }, systemProblem(error), { cause: error });
  }
}

const openAsync = promisify(open);
const fstatAsync = promisify(fstat) as (fd: number, options: { bigint: true }) => Promise<BigIntStats>;

/**
 * A descriptor, which costs less than a FileHandle of Node: every wait on a thread of its pool takes a small step file
 * as long as half of its figures. What opening or reading has just brought into memory is therefore asked for without
 * waiting.
 */
class OpenFile {
  #reading = 0;
  #closed = false;

  constructor(readonly fd: number) {}

  /** What it is, right after it was opened: the system has that at hand. */
  statNow(): BigIntStats {
    return fstatSync(this.fd, { bigint: true });
  }

  stat(): Promise<BigIntStats> {
    return this.#use((fd) => fstatAsync(fd, { bigint: true }));
  }

  /** @returns how many bytes came */
  read(target: Uint8Array, position: number): Promise<number> {
    return this.#use(
      (fd) =>
        new Promise((resolve, reject) => {
          read(fd, target, 0, target.length, position, (error, bytes) => {
            if (error) reject(error);
            else resolve(bytes);
          });
        }),
    );
  }

  /** Closes when what is under way has ended: its number may be another file's by then. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#reading === 0) this.#closeNow();
  }

  async #use<T>(work: (fd: number) => Promise<T>): Promise<T> {
    if (this.#closed) throw new TypeError('the file is closed');
    this.#reading++;
    try {
      return await work(this.fd);
    } finally {
      this.#reading--;
      if (this.#closed && this.#reading === 0) this.#closeNow();
    }
  }

  #closeNow(): void {
    try {
      closeSync(this.fd);
    } catch {
      // Nothing was written: a failure to close loses nothing.
    }
  }
}

class LocalFile implements ByteSource {
  private constructor(
    readonly path: string,
    readonly bytes: number,
    readonly revision: string,
    readonly stamp: string,
    private readonly file: OpenFile,
  ) {}

  static of(path: string, file: OpenFile): LocalFile {
    const found = file.statNow();
    if (found.isDirectory()) throw new FileError({ path }, 'this is a directory, not a file');
    if (!found.isFile()) throw new FileError({ path }, NOT_A_FILE);
    return new LocalFile(path, Number(found.size), revisionOf(found), stampOf(found), file);
  }

  async read(target: Uint8Array, position: number, options: ReadOptions = {}): Promise<void> {
    let done = 0;
    while (done < target.length) {
      options.signal?.throwIfAborted();
      const count = Math.min(READ_BYTES, target.length - done);
      const got = await this.readPiece(target.subarray(done, done + count), position + done, options.tensor);
      if (got === 0) {
        throw new FileError(this.where(options.tensor, position + done), cutShort(target.length - done));
      }
      done += got;
    }
    options.signal?.throwIfAborted();
  }

  openFile(position: number): { fd: number; offset: number } {
    return { fd: this.file.fd, offset: position };
  }

  async checkUnchanged(): Promise<void> {
    const found = await this.file.stat().catch((error: unknown) => {
      throw new FileError({ path: this.path }, systemProblem(error), { cause: error });
    });
    if (revisionOf(found) !== this.revision) {
      throw new FileError(
        { path: this.path },
        'the file changed while it was read: analyse it again when it is complete',
      );
    }
  }

  async close(): Promise<void> {
    this.file.close();
  }

  private async readPiece(target: Uint8Array, position: number, tensor: string | undefined): Promise<number> {
    try {
      return await this.file.read(target, position);
    } catch (error) {
      throw new FileError(this.where(tensor, position), systemProblem(error), { cause: error });
    }
  }

  private where(tensor: string | undefined, offset: number) {
    return tensor === undefined ? { path: this.path, offset } : { path: this.path, tensor, offset };
  }
}

export function cutShort(missing: number): string {
  return `the file ends here, ${missing} bytes short of what its header promised: it was cut while it was read`;
}

/** Size, and what changes with the content: a rewrite moves the time, a replacement the inode. */
function revisionOf(found: BigIntStats): string {
  return `${found.ino}-${stampOf(found)}`;
}

function stampOf({ size, mtimeNs }: BigIntStats): string {
  return `${size}-${mtimeNs}`;
}

/** Where a position lies for the user: in which file, and where there. */
export function placeOf(source: ByteSource, position: number): { path: string; offset: number } {
  return source.placeOf?.(position) ?? { path: source.path, offset: position };
}
