// The tarball that is published: npm pack, with what only a release can say in its package.json.
//   npm run release:pack [folder]        build/release/ by default
// The packages of prebuilt files become optional dependencies, which npm ci in a clone could not find in a registry
// before they are published; and there is no install script, which package managers ask their users about.
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { platforms } from './prebuild.mjs';
import { root, run } from './stage.mjs';

/** Makes package.json of a release from that of a clone. */
export function releaseManifest(manifest) {
  const { version } = manifest;
  const { install: _, prepare: __, ...scripts } = manifest.scripts;
  const names = Object.keys(platforms).map((name) => `@collapsar/${name}`);
  const cuda = names.filter((name) => name.endsWith('-cuda'));
  const versions = (some) => Object.fromEntries(some.map((name) => [name, version]));
  return {
    ...manifest,
    scripts,
    optionalDependencies: versions(names.filter((name) => !cuda.includes(name))),
    // Chosen by hand: tens of megabytes that few machines can use.
    peerDependencies: { ...manifest.peerDependencies, ...versions(cuda) },
    peerDependenciesMeta: {
      ...manifest.peerDependenciesMeta,
      ...Object.fromEntries(cuda.map((name) => [name, { optional: true }])),
    },
  };
}

/** Packs into a folder; gives the tarball. */
export async function packRelease(folder) {
  mkdirSync(folder, { recursive: true });
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const plain = `collapsar-${manifest.version}.tgz`;
  const work = join(folder, 'unpacked');
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work);
  await run('npm', ['pack', '--pack-destination', work], { quiet: true });
  await run('tar', ['-xzf', join(work, plain), '-C', work], { quiet: true });
  const inside = join(work, 'package');
  // Package managers take one at the top for an install script; scripts/build-addon.mjs knows this place.
  renameSync(join(inside, 'binding.gyp'), join(inside, 'native', 'binding.gyp'));
  writeFileSync(join(inside, 'package.json'), `${JSON.stringify(releaseManifest(manifest), null, 2)}\n`);
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', folder], { cwd: inside, quiet: true });
  rmSync(work, { recursive: true });
  return join(folder, plain);
}

if (process.argv[1] === import.meta.filename) {
  console.log(await packRelease(resolve(process.argv[2] ?? join(root, 'build', 'release'))));
}
