// Lets one process at a time write to a directory of results. Node has no kernel file locks, so a claim is an empty
// file named after its holder; the claim of a process that is gone (also with its machine) does not count.
import { randomBytes } from 'node:crypto';
import { type FileHandle, open, readdir, rm, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { FileError } from '../../checks/errors.js';
import { writeError } from '../../logs/stores/atomic-file.js';
import { looksAlive, type RunningProcess, thisProcess } from './running-process.js';

const PREFIX = '.collapsar-lock-';

/** A holder gives a sign of life this often… */
const SIGN_EVERY_MS = 5000;
/**
 * …and if its process cannot be looked up, because it runs on another machine, it counts as gone after so long
 * without.
 */
const GONE_AFTER_MS = 60_000;

/** Two that come at the same moment both step back, and try again after times that differ. */
const ATTEMPTS = 6;
const STEP_BACK_MS = 120;

export class DirectoryLock {
  readonly #path: string;
  readonly #handle: FileHandle;
  readonly #signs: NodeJS.Timeout;

  private constructor(path: string, handle: FileHandle) {
    this.#path = path;
    this.#handle = handle;
    // A write, not a time of our own: the file system's clock is the same for all that mount it. One that fails is made
    // up for by the next.
    this.#signs = setInterval(() => void handle.write('.', 0).catch(() => undefined), SIGN_EVERY_MS);
    this.#signs.unref();
  }

  /** @throws {FileError} when another process holds the directory, or it cannot be written to */
  static async take(directory: string): Promise<DirectoryLock> {
    const name = nameOf(thisProcess());
    const path = join(directory, name);
    for (let attempt = 1; ; attempt++) {
      let handle: FileHandle | undefined;
      try {
        handle = await open(path, 'wx');
        const other = await otherHolder(directory, name);
        if (other === undefined) return new DirectoryLock(path, handle);
        if (attempt === ATTEMPTS) throw inUse(directory, other);
        await giveUp(path, handle);
      } catch (error) {
        if (handle !== undefined) await giveUp(path, handle);
        throw error instanceof FileError ? error : writeError(directory, error);
      }
      await sleep(STEP_BACK_MS * (0.2 + Math.random()));
    }
  }

  async release(): Promise<void> {
    clearInterval(this.#signs);
    await giveUp(this.#path, this.#handle);
  }
}

async function giveUp(path: string, handle: FileHandle): Promise<void> {
  await handle.close().catch(() => undefined);
  // Left behind it is the claim of a process that is gone, as soon as this one is.
  await rm(path, { force: true }).catch(() => undefined);
}

/** A claim is made before it looks for others: of two at least one sees the other. */
async function otherHolder(directory: string, own: string): Promise<RunningProcess | undefined> {
  for (const name of await readdir(directory)) {
    if (name === own) continue;
    const holder = holderOf(name);
    if (holder === undefined) continue;
    const path = join(directory, name);
    if (looksAlive(holder) ?? (await givesSigns(path, join(directory, own)))) return holder;
    // A claim that cannot be removed, such as another user's, does not count either.
    await rm(path, { force: true }).catch(() => undefined);
  }
  return undefined;
}

/** A process's four, and a number that distinguishes its claims. */
const CLAIM_PARTS = 5;

function nameOf({ pid, started, world, host }: RunningProcess): string {
  const parts = [pid, started, world, randomBytes(4).toString('hex'), host.replace(/[^A-Za-z0-9.-]/g, '_')];
  return PREFIX + parts.join('~');
}

/** @returns undefined for a name that `nameOf` does not give: that file is not a claim */
function holderOf(name: string): RunningProcess | undefined {
  const parts = name.startsWith(PREFIX) ? name.slice(PREFIX.length).split('~') : [];
  const [pid = '', started = '', world = '', , host = ''] = parts;
  if (parts.length !== CLAIM_PARTS || !/^[1-9][0-9]{0,9}$/.test(pid)) return undefined;
  return { pid: Number(pid), started, world, host };
}

async function givesSigns(path: string, own: string): Promise<boolean> {
  const [theirs, ours] = await Promise.all([stat(path).catch(() => undefined), stat(own)]);
  return theirs !== undefined && ours.mtimeMs - theirs.mtimeMs < GONE_AFTER_MS;
}

function inUse(directory: string, { host, pid }: RunningProcess): FileError {
  const where = host === hostname() ? '' : ` on ${host}`;
  const problem = `process ${pid}${where} is writing its results here: wait for it to end, or name another directory`;
  return new FileError({ path: directory }, problem);
}
