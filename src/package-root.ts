// Where the package is installed: its version, the addon built in it, and what else it ships lie there.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of package.json: this module may lie at any depth, in src/, in dist/, or as part of the command's bundle. */
export const packageRoot: string = (() => {
  for (let folder = new URL('.', import.meta.url); ; folder = new URL('..', folder)) {
    const path = fileURLToPath(folder);
    if (existsSync(join(path, 'package.json')) || path === '/') return path;
  }
})();
