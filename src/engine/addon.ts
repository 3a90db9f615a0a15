// Finds and loads the native addon in the package's own folder, and types its exports.
import { accessSync, constants, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';
import { AddonError } from '../checks/errors.js';
import { moduleUrl, packageRoot } from '../checks/package-root.js';
import type { NativeAddon } from './native.js';
import { isPublished, prebuiltPackage } from './prebuilt.js';

function onPath(program: string): boolean {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** What a build needs and this machine does not seem to have, in words; empty if nothing is missing. */
function missingTools(): string[] {
  const missing: string[] = [];
  if (process.env.CXX === undefined && !['c++', 'g++', 'clang++'].some(onPath)) {
    missing.push('a C++20 compiler (g++ 11 or clang++ 14, or newer)');
  }
  if (!onPath('cmake')) missing.push('CMake 3.19 or newer');
  if (!onPath('make') && !onPath('ninja')) missing.push('make or ninja');
  return missing;
}

/** Whether this module was bundled into other code, away from the package that the addon is built in. */
function isBundledElsewhere(): boolean {
  try {
    return JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')).name !== 'collapsar';
  } catch {
    return true;
  }
}

/** What to do when no candidate loads. `isRefused`: Node was started so that it loads no addon, whichever. */
function advise(isRefused: boolean): string {
  if (isRefused) return 'Start Node with --allow-addons where it has --permission, and without --no-addons';
  if (process.env.COLLAPSAR_ADDON) {
    return "The environment variable COLLAPSAR_ADDON names it: correct it, or unset it to load the package's own";
  }
  if (isBundledElsewhere()) {
    return "collapsar is part of a bundle here, without its addon: name it an external package in the bundler's options";
  }
  const prebuilt = prebuiltPackage();
  const install = isPublished(prebuilt)
    ? `Install the prebuilt one, which npm leaves out with --omit=optional: npm install ${prebuilt}. Or compile it`
    : 'Compile it';
  const missing = missingTools();
  const first = missing.length === 0 ? '' : ` (first install what seems to be missing: ${missing.join('; ')})`;
  return `${install}: npx collapsar build${first}`;
}

/** A local build first, then the optional package of this platform. */
function* places(): Generator<string> {
  if (process.env.COLLAPSAR_ADDON) {
    yield process.env.COLLAPSAR_ADDON;
    return;
  }
  yield join(packageRoot, 'build', 'cmake', 'Release', 'collapsar.node');
  yield join(packageRoot, 'build', 'Release', 'collapsar.node');
  yield prebuiltPackage();
}

let loaded: { addon: NativeAddon; path: string } | undefined;

/**
 * The addon: a local build first, then the optional package of this platform. The environment variable COLLAPSAR_ADDON
 * names another file to load instead of these, such as a build with sanitizers.
 * @throws AddonError naming every place that was tried, and how to build it.
 */
export function loadAddon(): NativeAddon {
  if (loaded !== undefined) return loaded.addon;
  const require = createRequire(moduleUrl);
  const tried: string[] = [];
  let isRefused = false;
  for (const candidate of places()) {
    try {
      loaded = { addon: require(candidate) as NativeAddon, path: require.resolve(candidate) };
      return loaded.addon;
    } catch (error) {
      const { code } = error as { code?: string };
      const absent = code === 'MODULE_NOT_FOUND';
      isRefused ||= code === 'ERR_DLOPEN_DISABLED';
      tried.push(`  ${candidate}: ${absent ? 'not there' : (error as Error).message}`);
    }
  }
  throw new AddonError(
    `cannot load the native addon for ${process.platform}-${process.arch}. Tried:\n${tried.join('\n')}\n${advise(isRefused)}`,
  );
}

/** The file that loadAddon() loads. */
export function addonPath(): string {
  loadAddon();
  return (loaded as { path: string }).path;
}
