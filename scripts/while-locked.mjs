// Work that processes side by side (files of tests, benchmarks) must do one after the other.
import { mkdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './stage.mjs';

/** What `work` returns, which no other process does at the same time; it takes at most `seconds` seconds. */
export function whileLocked(name, seconds, work) {
  const lock = join(root, 'build', `${name}.lock`);
  mkdirSync(join(root, 'build'), { recursive: true });
  while (!takeLock(lock, seconds)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
  try {
    return work();
  } finally {
    rmSync(lock, { recursive: true, force: true });
  }
}

/** Whether this process has taken the lock; one that is left of a process that was killed goes after its time. */
function takeLock(lock, seconds) {
  try {
    mkdirSync(lock);
    return true;
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
    const since = statSync(lock, { throwIfNoEntry: false })?.mtimeMs;
    if (since !== undefined && Date.now() - since > seconds * 1000) rmSync(lock, { recursive: true, force: true });
    return false;
  }
}
