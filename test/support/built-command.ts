// The command as it is in dist/, which must be what the sources say.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { whileLocked } from '../../scripts/while-locked.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** What node runs. */
export const builtCommand = join(root, 'dist', 'cli', 'main.js');

/**
 * Compiles where dist/ is older than a source; for beforeAll. One file of tests after the other: each would begin by
 * emptying dist/.
 */
export function buildIfStale(): void {
  whileLocked('compile', 60, () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [join('scripts', 'compile.mjs')], { cwd: root });
    if (status !== 0) throw new Error(`dist/ cannot be built: ${stdout}${stderr}`);
  });
}
