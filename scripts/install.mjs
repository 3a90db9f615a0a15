// What npm runs after it has installed the package in a clone, or from a tarball that is not a release (those have no
// install script): compiles the addon, unless a prebuilt one fits.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const isClone = existsSync(join(root, 'src'));

/** The optional package of this platform, as src/engine/prebuilt.ts names it, if it is there and loads. */
async function findPrebuilt() {
  try {
    const { prebuiltPackage } = await import(join(root, 'dist', 'engine', 'prebuilt.js'));
    const name = prebuiltPackage();
    const load = 'require(process.argv[1])';
    const file = createRequire(import.meta.url).resolve(name);
    return spawnSync(process.execPath, ['-e', load, file]).status === 0 ? name : undefined;
  } catch {
    return undefined; // not installed
  }
}

// npx installs a clone as a package once more, in whose folder nobody asked for a build.
const isNpxInClone = isClone && process.env.npm_command === 'exec';
const asks = process.env.COLLAPSAR_BUILD || process.env.COLLAPSAR_CUDA === 'on';
const prebuilt = isClone || asks ? undefined : await findPrebuilt();
if (prebuilt !== undefined) console.log(`collapsar: ${prebuilt} has the addon for this machine; nothing to compile`);
else if (!isNpxInClone) await import('./build-addon.mjs');
