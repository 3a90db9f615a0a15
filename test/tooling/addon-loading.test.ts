// What is said where Node loads no addon at all, and where the package was bundled away from its addon.
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { rolldown } from 'rolldown';
import { beforeAll, describe, expect, it } from 'vitest';
import { addonPath } from '../../src/engine/addon.js';
import { prebuiltPackage } from '../../src/engine/prebuilt.js';
import { buildIfStale } from '../support/built-command.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const library = fileURLToPath(new URL('../../dist/index.js', import.meta.url));
const folder = temporaryDirectory();

beforeAll(buildIfStale);

/** What opening an engine throws in a process of its own. */
function messageOf(module: string, cwd = '.', ...options: string[]): string {
  const script = `import { openEngine } from ${JSON.stringify(pathToFileURL(module).href)};
    await openEngine().catch(({ code, message }) => console.log(code, message));`;
  const env = { ...process.env };
  delete env.COLLAPSAR_ADDON;
  return spawnSync(process.execPath, [...options, '--input-type=module', '-e', script], { encoding: 'utf8', env, cwd })
    .stdout;
}

it('says how Node is to be started where it loads no addons', () => {
  const message = messageOf(library, '.', '--no-addons');
  expect(message).toMatch(/^ERR_ADDON .*\nStart Node with --allow-addons .* without --no-addons\n$/s);
  expect(message).not.toContain('collapsar build');
});

describe('an installed package without an addon', () => {
  const installed = join(folder, 'node_modules/collapsar');
  const entry = join(installed, 'dist', 'index.js');
  const prebuilt = join(folder, 'node_modules', prebuiltPackage());

  beforeAll(() => {
    mkdirSync(installed, { recursive: true });
    for (const name of ['dist', 'package.json'])
      cpSync(join(library, '..', '..', name), join(installed, name), { recursive: true });
    const modules = fileURLToPath(new URL('../../node_modules', import.meta.url));
    for (const name of readdirSync(modules).filter((name) => !/^[.@]/.test(name)))
      symlinkSync(join(modules, name), join(installed, '..', name));
  });

  it('says how to compile one', () => {
    expect(messageOf(entry)).toMatch(/^ERR_ADDON .*\nCompile it: npx collapsar build/s);
  });

  it('says how to install the prebuilt one of a release', () => {
    const manifest = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
    manifest.optionalDependencies = { [prebuiltPackage()]: manifest.version };
    writeFileSync(join(installed, 'package.json'), JSON.stringify(manifest));
    expect(messageOf(entry)).toContain(`npm install ${prebuiltPackage()}. Or compile it: npx collapsar build`);
  });

  it('loads the prebuilt one of this platform', () => {
    mkdirSync(prebuilt, { recursive: true });
    copyFileSync(addonPath(), join(prebuilt, 'collapsar.node'));
    writeFileSync(join(prebuilt, 'package.json'), '{ "main": "collapsar.node" }\n');
    expect(messageOf(entry)).toBe('');
    rmSync(prebuilt, { recursive: true });
  });
});

// esbuild leaves a module in CommonJS no URL of its own, where rolldown makes one up: so it is taken away here.
it.each([
  ['bundle.mjs', {}],
  ['bundle.cjs', { 'import.meta.url': 'undefined' }],
])('says that it was bundled, as %s', async (name, define) => {
  const entry = join(folder, 'entry.mjs');
  writeFileSync(entry, `export { openEngine } from ${JSON.stringify(library)};\n`);
  writeFileSync(join(folder, 'package.json'), '{ "name": "an-application" }\n');
  const bundle = await rolldown({ input: entry, platform: 'node', transform: { define } });
  await bundle.write({ file: join(folder, name), format: name.endsWith('cjs') ? 'cjs' : 'esm', codeSplitting: false });
  await bundle.close();
  const message = messageOf(join(folder, name), folder);
  expect(message).toMatch(/^ERR_ADDON .*\ncollapsar is part of a bundle here/s);
  expect(message).toContain('external');
});
