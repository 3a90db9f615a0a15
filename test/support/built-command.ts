// The command as it is in dist/, which must be what the sources say.
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** What node runs. */
export const builtCommand = join(root, 'dist', 'cli', 'main.js');

/**
 * Compiles where dist/ is older than a source; for beforeAll. One file of tests after the other: each would begin by
 * emptying dist/.
 */
export function buildIfStale(): void {
  const lock = join(root, 'build', 'compile.lock');
  mkdirSync(join(root, 'build'), { recursive: true });
  while (!takeLock(lock)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
  try {
    const { status, stdout, stderr } = spawnSync(process.execPath, [join('scripts', 'compile.mjs')], { cwd: root });
    if (status !== 0) throw new Error(`dist/ cannot be built: ${stdout}${stderr}`);
  } finally {
    rmSync(lock, { recursive: true, force: true });
  }
}

/** Whether this process has taken the lock; one that is left of a process that was killed goes after a minute. */
function takeLock(lock: string): boolean {
  try {
    mkdirSync(lock);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    const since = statSync(lock, { throwIfNoEntry: false })?.mtimeMs;
    if (since !== undefined && Date.now() - since > 60_000) rmSync(lock, { recursive: true, force: true });
    return false;
  }
}
