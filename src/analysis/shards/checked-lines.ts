// A text file of lines that carries its own checksum, read in constant memory. The last line ends with the SHA-256 of
// every byte before it: a file that lacks a byte, or has another one, is never taken for what it was.
import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { FileError, StateError } from '../../checks/errors.js';
import { DamagedPart } from '../../checks/saved.js';
import { systemProblem } from '../../logs/stores/system-problem.js';
import { openToRead } from '../results/regular-file.js';

const READ_BYTES = 256 * 1024;
/** No step's figures take more; a file without line ends must not fill the memory. */
const MAX_LINE_BYTES = 2 ** 28;
const NEWLINE = 0x0a;

const SEAL = /"sha256":"([0-9a-f]{64})"\}\n$/;
/** Bytes of a line's end that hold the checksum. */
const SEAL_BYTES = '"sha256":"'.length + 64 + '"}\n'.length;

export function sealOf(digest: string): string {
  return `"sha256":"${digest}"}\n`;
}

/** What a line is about stands at its start. */
const ABOUT_BYTES = 64;

export interface CheckedLine {
  /** Without the newline; valid until the next line is asked for. */
  readonly bytes: Buffer;
  /** Its first characters. */
  readonly start: string;
}

export class CheckedLines {
  readonly #handle: FileHandle;
  readonly #hash = createHash('sha256');
  #held = Buffer.alloc(0);
  #begin = 0;
  #ended = false;
  #digest: string | undefined;

  private constructor(
    readonly path: string,
    handle: FileHandle,
    /** What to do about a file that is damaged. */
    private readonly advice: string,
  ) {
    this.#handle = handle;
  }

  /** @throws {FileError} when it cannot be opened */
  static async open(path: string, advice: string): Promise<CheckedLines> {
    try {
      return new CheckedLines(path, await openToRead(path), advice);
    } catch (error) {
      throw new FileError({ path }, systemProblem(error), { cause: error });
    }
  }

  /** The SHA-256 that the file's last line states, and that its bytes have; undefined before its end was reached. */
  get digest(): string | undefined {
    return this.#digest;
  }

  /**
   * What the first line says: an object, or one that the lines after it go on with; nothing where it is not. A file of
   * another kind has no checksum: to call it damaged would mislead.
   */
  async head(): Promise<Partial<Record<string, unknown>>> {
    try {
      return JSON.parse(`${(await this.next())?.bytes}`.replace(/,$/, '}')) ?? {};
    } catch (error) {
      if (error instanceof StateError || error instanceof SyntaxError) return {};
      throw error;
    }
  }

  /**
   * The next line, the last one included (its `bytes` without the checksum); undefined after it.
   * @throws {StateError} when the file is cut, damaged or goes on after its last line
   */
  async next(): Promise<CheckedLine | undefined> {
    const line = await this.#line();
    if (line === undefined) {
      if (this.#digest === undefined) throw this.damaged('it ends before its last line');
      return undefined;
    }
    if (this.#digest !== undefined) throw this.damaged('it goes on after its last line');
    const start = line.toString('latin1', 0, Math.min(ABOUT_BYTES, line.length - 1));
    const seal = SEAL.exec(line.toString('latin1', Math.max(0, line.length - SEAL_BYTES)));
    if (seal === null) {
      this.#hash.update(line);
      return { bytes: line.subarray(0, -1), start };
    }
    const rest = line.subarray(0, -SEAL_BYTES);
    const digest = this.#hash.update(rest).digest('hex');
    if (digest !== seal[1]) throw this.damaged('its bytes do not match its checksum');
    this.#digest = digest;
    return { bytes: rest, start };
  }

  damaged(problem: string): StateError {
    return new StateError(`${this.path}: damaged: ${problem}; ${this.advice}`);
  }

  /** Reads a part of what a line holds. @throws {StateError} naming what in it is damaged */
  read<T>(name: string, part: () => T): T {
    try {
      return part();
    } catch (error) {
      throw error instanceof DamagedPart ? this.damaged(`${name}: ${error.message}`) : error;
    }
  }

  async close(): Promise<void> {
    // Nothing was written: a failure to close loses nothing.
    await this.#handle.close().catch(() => undefined);
  }

  /** With its newline; undefined at the end of the file. */
  async #line(): Promise<Buffer | undefined> {
    let searched = this.#begin;
    for (;;) {
      const at = this.#held.indexOf(NEWLINE, searched);
      if (at >= 0) {
        const line = this.#held.subarray(this.#begin, at + 1);
        this.#begin = at + 1;
        return line;
      }
      const rest = this.#held.length - this.#begin;
      if (this.#ended) {
        if (rest > 0) throw this.damaged('it ends within a line');
        return undefined;
      }
      if (rest > MAX_LINE_BYTES) throw this.damaged(`a line of more than ${MAX_LINE_BYTES} bytes`);
      // What is held grows as fast as a long line does, so that each byte is copied a few times at most.
      const piece = Buffer.allocUnsafe(Math.max(READ_BYTES, rest));
      const { bytesRead } = await this.#handle.read(piece, 0, piece.length).catch((error: unknown) => {
        throw new FileError({ path: this.path }, systemProblem(error), { cause: error });
      });
      if (bytesRead === 0) this.#ended = true;
      this.#held = Buffer.concat([this.#held.subarray(this.#begin), piece.subarray(0, bytesRead)]);
      this.#begin = 0;
      searched = rest;
    }
  }
}
