// The command as it is in dist/, which must be what the sources say.
import { spawnSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../', import.meta.url));

/** What node runs. */
export const builtCommand = join(root, 'dist', 'cli', 'main.js');

function newest(folder: string): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Math.max(0, ...files.map((file) => statSync(join(file.parentPath, file.name)).mtimeMs));
}

/** Compiles where dist/ is older than a source; for beforeAll. */
export function buildIfStale(): void {
  const built = statSync(builtCommand, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (built >= newest(join(root, 'src'))) return;
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const { status, stdout } = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.build.json'], { cwd: root });
  if (status !== 0) throw new Error(`dist/ cannot be built: ${stdout}`);
}
