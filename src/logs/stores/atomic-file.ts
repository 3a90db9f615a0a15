// Text or bytes -> a file that is whole or not there: written under another name, synced, renamed.
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { FileError } from '../../checks/errors.js';
import { checkReplaceable } from '../../logs/stores/check-replaceable.js';
import { errorCode, systemProblem } from '../../logs/stores/system-problem.js';
import { fileLines } from './file-lines.js';

/** What is written is collected to pieces of about this many bytes before it goes to the file. */
const PIECE_BYTES = 256 * 1024;

/** A file that appears under its name only when it is complete and on disk. */
export class WholeFile {
  #collected: Buffer[] = [];
  #collectedBytes = 0;
  #open = true;

  private constructor(
    private readonly path: string,
    private readonly temporary: string,
    private readonly handle: FileHandle,
  ) {}

  /**
   * @param mark tells this writer's unfinished file from those of others
   * @param mode what the umask takes from: 0o777 for programs
   */
  static async open(directory: string, name: string, mark = String(process.pid), mode = 0o666): Promise<WholeFile> {
    const path = join(directory, name);
    await checkReplaceable(path).catch((error: unknown) => {
      throw writeError(path, error);
    });
    const temporary = join(directory, `.${name}.${mark}.tmp`);
    try {
      return new WholeFile(path, temporary, await openNew(temporary, mode));
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
    try {
      await this.handle.writeFile(bytes);
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

/**
 * A file that was not there. What stands under its name goes first: what a process of this number left that was killed,
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
