// Lines -> a file with a checksum in its last line, that is whole or not there.
import { createHash } from 'node:crypto';
import { basename, dirname } from 'node:path';
import { AtomicFile, syncDirectory } from '../../logs/stores/atomic-file.js';
import { makeDirectory } from '../results/make-directory.js';
import { sealOf } from './checked-lines.js';
import { removeAbandoned, writerMark } from './unfinished-files.js';

export class StateWriter {
  readonly #hash = createHash('sha256');
  #bytes = 0;

  private constructor(
    private readonly directory: string,
    private readonly file: AtomicFile,
  ) {}

  /** @throws {FileError} when the directory cannot be made or written to */
  static async open(path: string): Promise<StateWriter> {
    const directory = dirname(path);
    await makeDirectory(directory, path);
    await removeAbandoned(path);
    return new StateWriter(directory, await AtomicFile.open(directory, basename(path), writerMark()));
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
