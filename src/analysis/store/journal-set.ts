// Finds measured steps in any number of journals, which are read and not written. In memory is only where each lies.
import type { FileHandle } from 'node:fs/promises';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { FileError } from '../../checks/errors.js';
import { errorCode, systemProblem } from '../../logs/stores/system-problem.js';
import type { StepMeasurement } from '../../step/step-measurement.js';
import { openToRead } from '../results/regular-file.js';
import { intact, type JournalStep, type ScannedJournal, scanJournal } from './journal-lines.js';
import { parseLossless } from './lossless-json.js';

/** Where the line of a measured step lies, and which content of the step it was measured from. */
interface Entry {
  readonly identity: string;
  readonly handle: FileHandle;
  readonly position: number;
  readonly bytes: number;
  /** Another content, which another journal has. */
  readonly other: Entry | undefined;
}

/** Folder of journals below the one that shards are written to. */
export const JOURNALS = 'journals';

export class JournalSet {
  readonly #entries = new Map<string, Entry>();
  readonly #opened: FileHandle[] = [];

  /**
   * Opens all journals in `folders`, or in their `journals`: whole ones, and what killed processes left.
   * @param onUnused called with the path of each file that is of no use, and why
   * @throws {FileError} when a folder cannot be read
   */
  static async open(
    folders: readonly string[],
    head: string,
    onUnused: (path: string, problem: string) => void,
  ): Promise<JournalSet> {
    const set = new JournalSet();
    try {
      for (const folder of folders) {
        for (const path of await journalPaths(folder)) {
          const problem = await set.#open(path, head);
          if (problem !== undefined) onUnused(path, problem);
        }
      }
      return set;
    } catch (error) {
      await set.close();
      throw error;
    }
  }

  async #open(path: string, head: string): Promise<string | undefined> {
    let handle: FileHandle;
    try {
      handle = await openToRead(path);
    } catch (error) {
      // A task may have given the journal that it finished another name meanwhile.
      if (errorCode(error) === 'ENOENT') return undefined;
      throw unreadable(path, error);
    }
    this.#opened.push(handle);
    const { end, startedAnew } = await this.read(handle, head).catch((error: unknown) => {
      throw unreadable(path, error);
    });
    return startedAnew ?? (end === 0 ? 'it is empty' : undefined);
  }

  /** Takes in what a journal has; of a step that it has twice the later line counts. */
  read(handle: FileHandle, head: string): Promise<ScannedJournal> {
    return scanJournal(handle, head, ({ key, identity }, position, bytes) => {
      const before = this.#entries.get(key);
      const other = before?.handle === handle ? before.other : before;
      this.#entries.set(key, { identity, handle, position, bytes, other });
    });
  }

  /** Steps, whatever their content. */
  get size(): number {
    return this.#entries.size;
  }

  has(step: JournalStep): boolean {
    return this.#entry(step) !== undefined;
  }

  /**
   * What was measured of this step when it had this very content; undefined if nothing was, or its line was damaged
   * since.
   * @throws {Error} of the system
   */
  async find(step: JournalStep): Promise<StepMeasurement | undefined> {
    const entry = this.#entry(step);
    if (entry === undefined) return undefined;
    const line = Buffer.allocUnsafe(entry.bytes);
    const { bytesRead } = await entry.handle.read(line, 0, entry.bytes, entry.position);
    const text = bytesRead < entry.bytes ? undefined : intact(line);
    return text === undefined ? undefined : (parseLossless(text.slice(text.indexOf('\t') + 1)) as StepMeasurement);
  }

  #entry({ key, identity }: JournalStep): Entry | undefined {
    let entry = this.#entries.get(key);
    while (entry !== undefined && entry.identity !== identity) entry = entry.other;
    return entry;
  }

  async close(): Promise<void> {
    for (const handle of this.#opened) await handle.close();
  }
}

async function journalPaths(folder: string): Promise<string[]> {
  const below = join(folder, JOURNALS);
  const names = await namesIn(below);
  if (names !== undefined) return names.map((name) => join(below, name));
  const own = await namesIn(folder);
  if (own !== undefined) return own.map((name) => join(folder, name));
  throw new FileError({ path: folder }, 'there is no such folder: name what collapsar analyze --shard wrote to');
}

/** Of files, sorted; undefined if there is no such folder. */
async function namesIn(folder: string): Promise<string[] | undefined> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    return entries
      .filter((entry) => !entry.isDirectory())
      .map(({ name }) => name)
      .sort();
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw unreadable(folder, error);
  }
}

function unreadable(path: string, error: unknown): FileError {
  return new FileError({ path }, `cannot be read: ${systemProblem(error)}`, { cause: error });
}
