// Writes text or bytes to a file that is whole or not there: under another name, synced, renamed.
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { FileError } from '../../checks/errors.js';
import { fileLines } from './file-lines.js';
import { errorCode, systemProblem } from './system-problem.js';

/** What is written is collected to pieces of about this many bytes before it goes to the file. */
const PIECE_BYTES = 256 * 1024;

/** A file that appears under its name only when it is complete and on disk. */
export class AtomicFile {
  #collected: Buffer[] = [];
  #collectedBytes = 0;
  #open = true;

  private constructor(
    private readonly path: string,
    private readonly temporary: string,
    private readonly handle: FileHandle,
  ) {}

  /**
   * @param mark distinguishes this writer's unfinished file from those of others
   * @param mode what the umask takes from: 0o777 for programs
   */
  static open(directory: string, name: string, mark = String(process.pid), mode = 0o666): Promise<AtomicFile> {
    return AtomicFile.at(join(directory, name), join(directory, `.${name}.${mark}.tmp`), mode);
  }

  /** @param temporary name of the unfinished file, in the same directory */
  static async at(path: string, temporary: string, mode = 0o666): Promise<AtomicFile> {
    await checkReplaceable(path).catch((error: unknown) => {
      throw writeError(path, error);
    });
    try {
      return new AtomicFile(path, temporary, await openNew(temporary, mode));
    } catch (error) {
      // Nobody asked for the temporary name.
      throw writeError(path, error);
    }
  }

  /** Appends text, or bytes that stay as they are. */
  async write(piece: string | Buffer): Promise<void> {
    const bytes = typeof piece === 'string' ? Buffer.from(piece) : piece;
    this.#collected.push(bytes);
    this.#collectedBytes += bytes.length;
    if (this.#collectedBytes >= PIECE_BYTES) await this.#flush();
  }

  /** Appends bytes that may change once this has resolved. */
  async writeBytes(bytes: Uint8Array): Promise<void> {
    await this.#flush();
    const { length } = bytes;
    try {
      for (let done = 0; done < length; ) done += (await this.handle.write(bytes, done)).bytesWritten;
    } catch (error) {
      throw writeError(this.path, error);
    }
  }

  /** The lines of text written so far, each with its end, in order and in little memory. */
  async *lines(): AsyncGenerator<string, void, undefined> {
    await this.#flush();
    // Node's readLines() takes as long as parsing what it gives.
    for await (const { bytes } of fileLines(this.handle, Number.POSITIVE_INFINITY)) yield bytes.toString();
  }

  /** Everything on disk, still under the other name. */
  async prepare(): Promise<void> {
    await this.#flush();
    try {
      await this.handle.sync();
      await this.#close();
    } catch (error) {
      throw writeError(this.path, error);
    }
  }

  /** Gives a prepared file its name. */
  async place(): Promise<void> {
    try {
      await rename(this.temporary, this.path);
    } catch (error) {
      throw writeError(this.path, error);
    }
  }

  async complete(): Promise<void> {
    await this.prepare();
    await this.place();
  }

  async discard(): Promise<void> {
    // Best effort: there is already an error to report, or the user wants to get out.
    await this.#close().catch(() => undefined);
    await rm(this.temporary, { force: true }).catch(() => undefined);
  }

  async #flush(): Promise<void> {
    if (this.#collectedBytes === 0) return;
    const bytes = Buffer.concat(this.#collected);
    this.#collected = [];
    this.#collectedBytes = 0;
    try {
      await this.handle.writeFile(bytes);
    } catch (error) {
      throw writeError(this.path, error);
    }
  }

  async #close(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    await this.handle.close();
  }
}

/** Writes a file, whole or not at all. @param mode as AtomicFile has it */
export async function writeWhole(path: string, text: string | Buffer, mode?: number): Promise<void> {
  const file = await AtomicFile.open(dirname(path), basename(path), undefined, mode);
  try {
    await file.write(text);
    await file.complete();
  } catch (error) {
    await file.discard();
    throw error;
  }
  await syncDirectory(dirname(path));
}

/**
 * A file that was not there. What has its name goes first: what a process of this number left that was killed,
 * or, in a directory that others write to, a link that would lead the bytes to another file of this user.
 */
async function openNew(path: string, mode: number): Promise<FileHandle> {
  try {
    return await open(path, 'wx+', mode);
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
  }
  await rm(path, { force: true });
  return open(path, 'wx+', mode);
}

export function writeError(path: string, error: unknown): FileError {
  return new FileError({ path }, `cannot write here: ${systemProblem(error)}`, { cause: error });
}

/**
 * Refuses a path where the rename would take away a device, a pipe or a socket: run by root, /dev/null among them.
 * @throws {Error} that says what is there
 */
export async function checkReplaceable(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined || found.isFile()) return;
  // Rename refuses it too, but when all is written, and other files may have been renamed by then.
  if (found.isDirectory()) throw Object.assign(new Error('this is a directory'), { code: 'EISDIR' });
  throw new Error('this is a device, a pipe or a socket, and a file would take its place: name a file');
}

/**
 * That of systems that cannot open or sync a directory, or let this user only write to it: there the rename is all
 * there is.
 */
const UNABLE: ReadonlySet<string | undefined> = new Set(['EACCES', 'EINVAL', 'EISDIR', 'ENOTSUP', 'EPERM']);

/**
 * Brings the entries of a directory to disk, so that a rename in it survives a power cut.
 * @throws {FileError} when what was written may not last
 */
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
