// What was measured of one shard so far, kept until its state is complete: a map that is killed goes on where it was,
// on this machine or another.
import { rm, rmdir } from 'node:fs/promises';
import { FileError } from '../../checks/errors.js';
import { DirectoryLock } from '../results/directory-lock.js';
import { makeDirectory } from '../results/make-directory.js';
import { Journal, type JournalOptions } from '../store/journal.js';
import { journalPath } from './completion.js';

export class ShardJournal {
  private constructor(
    private readonly directory: string,
    private readonly lock: DirectoryLock,
    readonly journal: Journal,
  ) {}

  /**
   * @param out directory of states
   * @returns undefined while another process maps the same shard: only one can write here, and both give the same state
   * @throws {FileError} when the directory cannot be written to
   */
  static async open(out: string, index: number, options: JournalOptions): Promise<ShardJournal | undefined> {
    const directory = journalPath(out, index);
    await makeDirectory(directory);
    let lock: DirectoryLock;
    try {
      lock = await DirectoryLock.take(directory);
    } catch (error) {
      // The other process may also have been done meanwhile, and have taken the directory away.
      if (error instanceof FileError) return undefined;
      throw error;
    }
    try {
      return new ShardJournal(directory, lock, await Journal.open(directory, options));
    } catch (error) {
      await lock.release();
      throw error;
    }
  }

  /** Ends the journal: removed where the state is complete, else kept for the next attempt. */
  async close({ isComplete }: { readonly isComplete: boolean }): Promise<void> {
    await this.journal.close();
    await this.lock.release();
    if (isComplete) await removeShardJournal(this.directory);
    // Where nothing was measured there is nothing to find.
    else await rmdir(this.directory).catch(() => undefined);
  }
}

/** Best effort: what is left takes room, and does no other harm. */
export async function removeShardJournal(directory: string): Promise<void> {
  await rm(directory, { recursive: true, force: true }).catch(() => undefined);
}
