// Measured steps -> a file that survives the process, and back: what was measured before a kill is not measured again.
// A line a step, with a checksum of its own, so that a line cut off by the kill is known for what it is.
import { type FileHandle, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { FileError, StateError } from '../../checks/errors.js';
import { packageVersion } from '../../checks/package-version.js';
import { isAddress } from '../../logs/stores/address.js';
import { writeError } from '../../logs/stores/atomic-file.js';
import { systemProblem } from '../../logs/stores/system-problem.js';
import { measurementFrom } from '../measuring/measurement-from.js';
import { type MeasureOptions, measureOptions, type StepMeasurement } from '../measuring/step-measurement.js';
import {
  type FoundJournal,
  intact,
  type JournalEntry,
  type JournalStep,
  journalHead,
  journalLine,
  NOTHING,
  scanJournal,
} from './journal-lines.js';
import { parseLossless, stringifyLossless } from './lossless-json.js';
import { openToKeep } from './regular-file.js';

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

/** The measurements in one directory. Whoever opens it must hold the directory's lock. */
export class Journal {
  readonly #path: string;
  readonly #handle: FileHandle;
  /** By absolute path. */
  readonly #entries: ReadonlyMap<string, JournalEntry>;
  /** Lines go in one after the other. */
  #writing: Promise<void> = Promise.resolve();
  #end: number;
  #synced = performance.now();
  #syncTimer: NodeJS.Timeout | undefined;
  /** Lines that wait to be written together. */
  #lines: Buffer[] = [];
  #waiting = 0;
  #timer: NodeJS.Timeout | undefined;
  #failure: FileError | undefined;
  #kept = 0;
  #closed = false;

  /** Steps that an earlier analysis measured. */
  readonly resumed: number;
  /** Why nothing of an earlier analysis's journal is used; undefined where all of it is, or there was none. */
  readonly startedAnew: string | undefined;
  /** What its steps are measured with, and what it is given must be. */
  readonly measuring: MeasureOptions;

  private constructor(path: string, handle: FileHandle, found: FoundJournal, measuring: MeasureOptions) {
    this.measuring = measuring;
    this.#path = path;
    this.#handle = handle;
    this.#entries = found.entries;
    this.#end = found.end;
    this.resumed = found.entries.size;
    this.startedAnew = found.startedAnew;
  }

  /**
   * Opens the journal of a directory, and reads what an earlier analysis left in it.
   * @throws {FileError} when the directory cannot be written to
   */
  static async open(directory: string, options: JournalOptions): Promise<Journal> {
    const path = join(directory, NAME);
    const { version = packageVersion() } = options;
    const measuring = measureOptions(options.measuring ?? {});
    const head = journalHead(version, measuring);
    let handle: FileHandle | undefined;
    try {
      handle = await openToKeep(path);
      const found = options.resume === false ? NOTHING : await scanJournal(handle, head);
      await handle.truncate(found.end);
      const journal = new Journal(path, handle, found, measuring);
      if (found.end === 0) await journal.#write(journalLine(head));
      return journal;
    } catch (error) {
      await handle?.close().catch(() => undefined);
      throw error instanceof FileError ? error : writeError(path, error);
    }
  }

  /**
   * What was measured of this step when it had this very content; undefined where nothing was, or nothing that is of
   * use.
   * @param number of the step, which the measurement must be of
   */
  async find(step: JournalStep, number: number): Promise<StepMeasurement | undefined> {
    if (this.#entries.size === 0) return undefined;
    const entry = this.#entries.get(keyOf(step));
    if (entry === undefined || entry.identity !== step.identity) return undefined;
    const bytes = Buffer.allocUnsafe(entry.bytes);
    try {
      const { bytesRead } = await this.#handle.read(bytes, 0, entry.bytes, entry.position);
      if (bytesRead < entry.bytes) return undefined;
      const text = intact(bytes);
      return text === undefined
        ? undefined
        : measurementFrom(parseLossless(text.slice(text.indexOf('\t') + 1)), number);
    } catch (error) {
      // A step whose line cannot be read, or holds something else than a measurement, is measured again.
      if (error instanceof StateError) return undefined;
      throw new FileError({ path: this.#path }, systemProblem(error), { cause: error });
    }
  }

  /** Whether a step was measured before. */
  has(step: JournalStep): boolean {
    return this.#entries.size > 0 && this.#entries.get(keyOf(step))?.identity === step.identity;
  }

  /**
   * Writes a measurement within moments: lines of small steps go in together.
   * @throws {FileError} when a line could not be written, this one or one before it; those written before stay
   */
  async keep(step: JournalStep, measurement: StepMeasurement): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    const bytes = journalLine(
      JSON.stringify({ file: keyOf(step), identity: step.identity }),
      stringifyLossless(measurement),
    );
    this.#lines.push(bytes);
    this.#waiting += bytes.length;
    this.#kept++;
    if (this.#waiting >= PIECE_BYTES) await this.#flush();
    else this.#timer ??= setTimeout(() => void this.#flush().catch(() => undefined), PIECE_MS);
  }

  /** Leaves what was measured for a later analysis. */
  async close(): Promise<void> {
    if (this.#closed) return;
    await this.#flush().catch(() => undefined);
    this.#closed = true;
    clearTimeout(this.#syncTimer);
    await this.#handle.close().catch(() => undefined);
    if (this.#kept + this.resumed === 0) await rm(this.#path, { force: true });
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
        const { bytesWritten } = await this.#handle.write(bytes, done, bytes.length - done, this.#end + done);
        done += bytesWritten;
      }
      // Only now: a line that did not fit is written over by the next one.
      this.#end += bytes.length;
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

/**
 * Another folder of work, or another way to write the path, makes no other file of it. An address is taken as it is.
 */
function keyOf({ file, part }: JournalStep): string {
  const place = isAddress(file) ? file : resolve(file);
  return part === undefined ? place : `${place}\n${part}`;
}
