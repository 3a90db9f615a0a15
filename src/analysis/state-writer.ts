// Lines -> a file with a checksum in its last line, that is whole or not there.
import { createHash, randomBytes } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { errorCode } from '../logs/system-problem.js';
import { makeDirectory } from './make-directory.js';
import { sealOf } from './state-lines.js';
import { syncDirectory, WholeFile } from './whole-file.js';

export class StateWriter {
  readonly #hash = createHash('sha256');
  #bytes = 0;

  private constructor(
    private readonly directory: string,
    private readonly file: WholeFile,
  ) {}

  /** @throws {FileError} when the directory cannot be made or written to */
  static async open(path: string): Promise<StateWriter> {
    const directory = dirname(path);
    // Two machines that share the directory may write the same file, under the same process id.
    const host = hostname().replace(/[^A-Za-z0-9-]/g, '_');
    const unique = `${host}.${process.pid}.${randomBytes(4).toString('hex')}`;
    await makeDirectory(directory, path);
    return new StateWriter(directory, await WholeFile.open(directory, basename(path), unique));
  }

  /** @param line without newline */
  async line(line: string | Buffer): Promise<void> {
    const bytes = typeof line === 'string' ? Buffer.from(`${line}\n`) : Buffer.concat([line, NEWLINE]);
    this.#hash.update(bytes);
    this.#bytes += bytes.length;
    await this.file.write(bytes);
  }

  /**
   * Writes the last line and puts the file into place.
   * @param start of the last line, an object that the checksum is put into: `{` or `{"a":1,`
   * @returns size and SHA-256 (of all but itself)
   */
  async complete(start: string): Promise<{ bytes: number; digest: string }> {
    const digest = this.#hash.update(start).digest('hex');
    const last = Buffer.from(start + sealOf(digest));
    await this.file.write(last);
    await this.file.complete();
    await syncDirectory(this.directory);
    return { bytes: this.#bytes + last.length, digest };
  }

  discard(): Promise<void> {
    return this.file.discard();
  }
}

const NEWLINE = Buffer.from('\n');

/** Removes what processes that were killed left of this file: call it when the file itself is complete. */
export async function removeUnfinished(path: string): Promise<void> {
  const start = `.${basename(path)}.`;
  try {
    for (const name of await readdir(dirname(path))) {
      if (name.startsWith(start) && name.endsWith('.tmp')) await rm(join(dirname(path), name), { force: true });
    }
  } catch (error) {
    // Leftovers do no harm.
    if (errorCode(error) === undefined) throw error;
  }
}
