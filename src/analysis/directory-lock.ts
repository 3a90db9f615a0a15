// One process at a time writes to a directory of results. Node has none of the kernel's file locks, so a claim is an empty file
// whose name says who holds it; that of a process that is gone, killed or on a machine that went down, does not count.
import { randomBytes } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { type FileHandle, open, readdir, rm, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { FileError } from '../errors.js';
import { errorCode } from '../logs/system-problem.js';
import { writeError } from './whole-file.js';

const PREFIX = '.collapsar-lock-';

/** A holder gives a sign of life this often… */
const SIGN_EVERY_MS = 5000;
/** …and where its process cannot be looked up, because it runs on another machine, it counts as gone after so long without. */
const GONE_AFTER_MS = 60_000;

/** Two that come at the same moment both step back, and try again after times that differ. */
const ATTEMPTS = 6;
const STEP_BACK_MS = 120;

interface Holder {
  readonly pid: number;
  /** Clock ticks from the machine's start to the process's: ids are given again. Empty where not known. */
  readonly started: string;
  /** Where process ids mean the same: this start of this machine, and the container in it. Empty where not known. */
  readonly world: string;
  readonly host: string;
}

export class DirectoryLock {
  readonly #path: string;
  readonly #handle: FileHandle;
  readonly #signs: NodeJS.Timeout;

  private constructor(path: string, handle: FileHandle) {
    this.#path = path;
    this.#handle = handle;
    // A write, not a time of our own: the file system's clock is the same for all that mount it. One that fails is made up for
    // by the next.
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
async function otherHolder(directory: string, own: string): Promise<Holder | undefined> {
  for (const name of await readdir(directory)) {
    if (name === own) continue;
    const holder = holderOf(name);
    if (holder === undefined) continue;
    const path = join(directory, name);
    if (looksAlive(holder) ?? (await givesSigns(path, join(directory, own)))) return holder;
    await rm(path, { force: true });
  }
  return undefined;
}

function nameOf({ pid, started, world, host }: Holder): string {
  const parts = [pid, started, world, randomBytes(4).toString('hex'), host.replace(/[^A-Za-z0-9.-]/g, '_')];
  return PREFIX + parts.join('~');
}

function holderOf(name: string): Holder | undefined {
  if (!name.startsWith(PREFIX)) return undefined;
  const [pid, started = '', world = '', , host = ''] = name.slice(PREFIX.length).split('~');
  return { pid: Number(pid), started, world, host };
}

/** @returns undefined where it cannot be known from here */
function looksAlive({ pid, started, world, host }: Holder): boolean | undefined {
  const here = thisProcess();
  if (world !== here.world || (world === '' && host !== here.host)) return undefined;
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: there is one, of another user.
    if (errorCode(error) === 'ESRCH') return false;
  }
  const present = startOf(pid);
  return present === '' || started === '' || present === started;
}

async function givesSigns(path: string, own: string): Promise<boolean> {
  const [theirs, ours] = await Promise.all([stat(path).catch(() => undefined), stat(own)]);
  return theirs !== undefined && ours.mtimeMs - theirs.mtimeMs < GONE_AFTER_MS;
}

function thisProcess(): Holder {
  return { pid: process.pid, started: startOf(process.pid), world: worldOf(), host: hostname() };
}

function worldOf(): string {
  try {
    const machine = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${machine}.${readlinkSync('/proc/self/ns/pid').replace(/[^0-9]/g, '')}`;
  } catch {
    return '';
  }
}

/** From /proc/PID/stat, where there is one. */
function startOf(pid: number): string {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The second field, the name, may hold blanks and parentheses. State is the third field, the start the 22nd.
    const fields = line.slice(line.lastIndexOf(')') + 2).split(' ');
    // A zombie has ended; only its parent has not asked yet.
    return fields[0] === 'Z' || fields[0] === 'X' ? 'ended' : (fields[19] ?? '');
  } catch {
    return '';
  }
}

function inUse(directory: string, { host, pid }: Holder): FileError {
  const where = host === hostname() ? '' : ` on ${host}`;
  const problem = `process ${pid}${where} is writing its results here: wait for it to end, or name another directory`;
  return new FileError({ path: directory }, problem);
}
