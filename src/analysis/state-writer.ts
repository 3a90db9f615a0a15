// Lines -> a file with a checksum in its last line, that is whole or not there.
import { createHash, randomBytes } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { errorCode } from '../logs/system-problem.js';
import { sealOf } from './state-lines.js';
import { syncDirectory, writeError } from './whole-file.js';

const PIECE_BYTES = 256 * 1024;

/** Begins the names of what is not complete. */
const unfinished = (name: string): string => `.${name}.`;
const UNFINISHED_END = '.tmp';

export class StateWriter {
  readonly #hash = createHash('sha256');
  #collected: Buffer[] = [];
  #collectedBytes = 0;
  #bytes = 0;
  #open = true;

  private constructor(
    private readonly path: string,
    private readonly temporary: string,
    private readonly handle: FileHandle,
  ) {}

  /** @throws {FileError} when the directory cannot be made or written to */
  static async open(path: string): Promise<StateWriter> {
    const directory = dirname(path);
    // Two machines that share the directory may write the same file, under the same process id.
    const host = hostname().replace(/[^A-Za-z0-9-]/g, '_');
    const unique = `${host}.${process.pid}.${randomBytes(4).toString('hex')}`;
    const temporary = join(directory, `${unfinished(basename(path))}${unique}${UNFINISHED_END}`);
    try {
      await mkdir(directory, { recursive: true });
      return new StateWriter(path, temporary, await open(temporary, 'wx'));
    } catch (error) {
      throw writeError(path, error);
    }
  }

  /** @param line without newline */
  async line(line: string | Buffer): Promise<void> {
    const bytes = typeof line === 'string' ? Buffer.from(`${line}\n`) : Buffer.concat([line, NEWLINE]);
    this.#hash.update(bytes);
    await this.#put(bytes);
  }

  /**
   * Writes the last line and puts the file into place.
   * @param start of the last line, an object that the checksum is put into: `{` or `{"a":1,`
   * @returns size and SHA-256 (of all but itself)
   */
  async complete(start: string): Promise<{ bytes: number; digest: string }> {
    const digest = this.#hash.update(start).digest('hex');
    await this.#put(Buffer.from(start + sealOf(digest)));
    await this.#flush();
    try {
      await this.handle.sync();
      await this.#close();
      await rename(this.temporary, this.path);
    } catch (error) {
      throw writeError(this.path, error);
    }
    await syncDirectory(dirname(this.path));
    return { bytes: this.#bytes, digest };
  }

  async discard(): Promise<void> {
    // Best effort: there is already an error to report, or the user wants to get out.
    await this.#close().catch(() => undefined);
    await rm(this.temporary, { force: true }).catch(() => undefined);
  }

  async #put(bytes: Buffer): Promise<void> {
    this.#bytes += bytes.length;
    this.#collected.push(bytes);
    this.#collectedBytes += bytes.length;
    if (this.#collectedBytes >= PIECE_BYTES) await this.#flush();
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

const NEWLINE = Buffer.from('\n');

/** Removes what processes that were killed left of this file: call it when the file itself is complete. */
export async function removeUnfinished(path: string): Promise<void> {
  const start = unfinished(basename(path));
  try {
    for (const name of await readdir(dirname(path))) {
      if (name.startsWith(start) && name.endsWith(UNFINISHED_END)) await rm(join(dirname(path), name), { force: true });
    }
  } catch (error) {
    // Leftovers do no harm.
    if (errorCode(error) === undefined) throw error;
  }
}
