// Work that test files, which run side by side, must do one after the other.
import { mkdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const build = fileURLToPath(new URL('../../build/', import.meta.url));

/** What `work` returns, which no other process does at the same time; it takes at most so many seconds. */
export function whileLocked<T>(name: string, seconds: number, work: () => T): T {
  const lock = join(build, `${name}.lock`);
  mkdirSync(build, { recursive: true });
  while (!takeLock(lock, seconds)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
  try {
    return work();
  } finally {
    rmSync(lock, { recursive: true, force: true });
  }
}

/** Whether this process has taken the lock; one that is left of a process that was killed goes after its time. */
function takeLock(lock: string, seconds: number): boolean {
  try {
    mkdirSync(lock);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    const since = statSync(lock, { throwIfNoEntry: false })?.mtimeMs;
    if (since !== undefined && Date.now() - since > seconds * 1000) rmSync(lock, { recursive: true, force: true });
    return false;
  }
}
