// Keeps measured steps in a file that survives the process, so that a restart does not measure them again. Each line
// has its own checksum, so that a line cut off by a kill is recognised.
import { access, type FileHandle, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { FileError, StateError } from '../../checks/errors.js';
import { writeError } from '../../logs/stores/atomic-file.js';
import { errorCode, systemProblem } from '../../logs/stores/system-problem.js';
import type { StepMeasurement } from '../../step/step-measurement.js';
import { type MeasureOptions, measureOptions } from '../measuring/measure-options.js';
import { openToKeep } from '../results/regular-file.js';
import { type JournalStep, journalHead, journalLine, type ScannedJournal, stepLine } from './journal-lines.js';
import { JournalSet } from './journal-set.js';

const NOTHING: ScannedJournal = { end: 0 };

/** Begins with a dot: searching for step files passes it over. */
const NAME = '.collapsar-journal';

/** A kill loses nothing that was written; for a power cut it must be on disk, which is seen to this often. */
const SYNC_EVERY_MS = 2000;
/** Lines are written together: up to this size, and this long after the first. */
const PIECE_BYTES = 64 * 2 ** 10;
const PIECE_MS = 20;

/** Options of `Journal.open`. */
export interface JournalOptions {
  /** False forgets what an earlier analysis left. Default true. */
  readonly resume?: boolean | undefined;
  /** Version of the program: another one's figures may differ. Default: this package's. */
  readonly version?: string | undefined;
  /**
   * What the steps are measured with: of the options of `analyze` those that figures depend on. Default: its defaults.
   */
  readonly measuring?: { readonly [K in keyof MeasureOptions]?: MeasureOptions[K] | undefined } | undefined;
}

/**
 * The measurements in one file. Lines are put at its end: where two processes write one journal, as when a node that
 * was lost is not, the worst that comes of it are damaged lines, which are measured again.
 */
export class Journal {
  readonly #path: string;
  readonly #handle: FileHandle;
  readonly #earlier: JournalSet;
  /** Lines go in one after the other. */
  #writing: Promise<void> = Promise.resolve();
  #synced = performance.now();
  #syncTimer: NodeJS.Timeout | undefined;
  /** Lines that wait to be written together. */
  #lines: Buffer[] = [];
  #waiting = 0;
  #timer: NodeJS.Timeout | undefined;
  #failure: FileError | undefined;
  #closed = false;

  /** Steps that an earlier analysis measured. */
  readonly resumed: number;
  /** Why nothing of an earlier analysis's journal is used; undefined if all of it is, or there was none. */
  readonly startedAnew: string | undefined;
  /** What its steps are measured with, and what it is given must be. */
  readonly measuring: MeasureOptions;

  private constructor(
    path: string,
    handle: FileHandle,
    earlier: JournalSet,
    startedAnew: string | undefined,
    measuring: MeasureOptions,
    private readonly headBytes: number,
  ) {
    this.measuring = measuring;
    this.#path = path;
    this.#handle = handle;
    this.#earlier = earlier;
    this.resumed = earlier.size;
    this.startedAnew = startedAnew;
  }

  /**
   * Opens the journal of a directory, and reads what an earlier analysis left in it.
   * @param file its name, and whether it is shared without a lock: a journal of other options is then not replaced
   * @throws {FileError} when the directory cannot be written to; {StateError} for such a one
   */
  static async open(
    directory: string,
    options: JournalOptions,
    { name = NAME, isShared = false }: { readonly name?: string; readonly isShared?: boolean } = {},
  ): Promise<Journal> {
    const path = join(directory, name);
    const measuring = measureOptions(options.measuring ?? {});
    const head = journalHead(measuring, options.version);
    const earlier = new JournalSet();
    let handle: FileHandle | undefined;
    try {
      handle = await openToKeep(path);
      const { end, startedAnew, isOther } = options.resume === false ? NOTHING : await earlier.read(handle, head);
      if (isShared && isOther === true) {
        const advice = 'give another directory, or measure its steps anew (--no-resume)';
        throw new StateError(`${path}: another analysis wrote here: ${startedAnew}: ${advice}`);
      }
      await handle.truncate(end);
      const first = journalLine(head);
      const journal = new Journal(path, handle, earlier, startedAnew, measuring, first.length);
      if (end === 0) await journal.#write(first);
      return journal;
    } catch (error) {
      await handle?.close().catch(() => undefined);
      throw error instanceof FileError || error instanceof StateError ? error : writeError(path, error);
    }
  }

  /** What was measured of this step when it had this very content; undefined if nothing was. */
  async find(step: JournalStep): Promise<StepMeasurement | undefined> {
    try {
      return await this.#earlier.find(step);
    } catch (error) {
      throw new FileError({ path: this.#path }, systemProblem(error), { cause: error });
    }
  }

  /** Whether a step was measured before. */
  has(step: JournalStep): boolean {
    return this.#earlier.has(step);
  }

  /**
   * Writes a measurement within moments: lines of small steps go in together.
   * @throws {FileError} when a line could not be written, this one or one before it; those written before stay
   */
  async keep(step: JournalStep, measurement: StepMeasurement): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    const bytes = stepLine(step, measurement);
    this.#lines.push(bytes);
    this.#waiting += bytes.length;
    if (this.#waiting >= PIECE_BYTES) await this.#flush();
    else this.#timer ??= setTimeout(() => void this.#flush().catch(() => undefined), PIECE_MS);
  }

  /** Leaves what was measured for a later analysis. */
  async close(): Promise<void> {
    if (this.#closed) return;
    await this.#flush().catch(() => undefined);
    this.#closed = true;
    clearTimeout(this.#syncTimer);
    const size = await this.#handle.stat().then(
      (found) => found.size,
      () => undefined,
    );
    await this.#handle.close().catch(() => undefined);
    if (size !== undefined && size <= this.headBytes) await rm(this.#path, { force: true });
  }

  /**
   * Closes the journal, on disk and under another name.
   * @throws {FileError} when it cannot be written
   */
  async closeAs(path: string): Promise<void> {
    await this.#flush();
    if (this.#failure !== undefined) throw this.#failure;
    await this.#handle.sync().catch((error: unknown) => {
      throw this.#fail(error);
    });
    this.#closed = true;
    clearTimeout(this.#syncTimer);
    await this.#handle.close();
    await rename(this.#path, path).catch(async (error: unknown) => {
      // Another process wrote the same journal, and was done before.
      if (errorCode(error) === 'ENOENT' && (await isThere(path))) return;
      throw writeError(path, error);
    });
  }

  /** All is done: there is nothing to continue. */
  async remove(): Promise<void> {
    await this.close();
    await rm(this.#path, { force: true }).catch((error: unknown) => {
      throw writeError(this.#path, error);
    });
  }

  #flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const bytes = Buffer.concat(this.#lines);
    this.#lines = [];
    this.#waiting = 0;
    this.#writing = this.#writing.then(() => this.#write(bytes));
    // keep() throws it for the next step.
    this.#writing.catch(() => undefined);
    return this.#writing;
  }

  async #sync(): Promise<void> {
    clearTimeout(this.#syncTimer);
    this.#syncTimer = undefined;
    if (this.#closed) return;
    await this.#handle.datasync();
    this.#synced = performance.now();
  }

  async #write(bytes: Buffer): Promise<void> {
    try {
      for (let done = 0; done < bytes.length; ) {
        const { bytesWritten } = await this.#handle.write(bytes, done);
        done += bytesWritten;
      }
      const left = this.#synced + SYNC_EVERY_MS - performance.now();
      if (left <= 0) await this.#sync();
      else this.#syncTimer ??= setTimeout(() => void this.#sync().catch((error) => this.#fail(error)), left);
    } catch (error) {
      throw this.#fail(error);
    }
  }

  /** The first failure stays: what the system says of a disk it may say only once. */
  #fail(error: unknown): FileError {
    const problem = `cannot write here: ${systemProblem(error)}. The steps measured so far are kept: the same command continues after them`;
    this.#failure ??= new FileError({ path: this.#path }, problem, { cause: error });
    return this.#failure;
  }
}

function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
