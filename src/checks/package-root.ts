// Locates the installed package: its version, the addon built in it, and its other files are there.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/**
 * This module's place. A bundle in CommonJS (esbuild's) has no URL of its own: then the folder it is started in has to
 * do.
 */
export const moduleUrl: string = import.meta.url ?? pathToFileURL(join(process.cwd(), 'bundle.js')).href;

/**
 * The folder of package.json: this module may lie at any depth, in src/, in dist/, or as part of the command's bundle.
 */
export const packageRoot: string = (() => {
  for (let folder = new URL('.', moduleUrl); ; folder = new URL('..', folder)) {
    const path = fileURLToPath(folder);
    if (existsSync(join(path, 'package.json')) || path === '/') return path;
  }
})();
