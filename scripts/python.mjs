// `npm run python`: the wheel of the Python package, with the command as one file of JavaScript and the addon of this
// platform inside, so that `pip install` of it needs Node on the PATH and nothing else. Run `npm run compile` first.
//   node scripts/python.mjs [--out FOLDER]      default: build/python
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { rolldown } from 'rolldown';
import { check, root } from './stage.mjs';

const { out } = parseArgs({ options: { out: { type: 'string', default: join(root, 'build', 'python') } } }).values;
const command = join(root, 'dist', 'cli', 'main.js');
const addons = ['cmake/Release', 'Release'].map((folder) => join(root, 'build', folder, 'collapsar.node'));
const addon = addons.find((path) => existsSync(path));
check(existsSync(command) && addon !== undefined, 'there is no dist/ or no addon: run npm run compile');

const engine = join(root, 'build', 'python-engine');
rmSync(engine, { recursive: true, force: true });

const { peerDependencies, name, version, license } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

// Packages of the registry go into the files; what a user may add (S3's client) stays outside. A thread's module is a
// file of its own.
for (const input of ['cli/main.js', 'logs/rollouts/json-lines/parse-worker.js']) {
  await bundled(join(root, 'dist', input), join(engine, 'dist', input), 'esm');
}
// The page and the charts are files already.
mkdirSync(join(engine, 'dist', 'report'), { recursive: true });
for (const file of ['page.html', 'draw-figure.js']) {
  cpSync(join(root, 'dist', 'report', file), join(engine, 'dist', 'report', file));
}
// What is loaded by a `require` that is made by hand stays outside of the files: it stands where that looks.
const code = readFileSync(join(engine, 'dist', 'cli', 'main.js'), 'utf8');
for (const [, needed] of code.matchAll(/createRequire\([^)]*\)\(['"]([^'"]+)['"]\)/g)) {
  const folder = join(engine, 'node_modules', needed);
  await bundled(createRequire(import.meta.url).resolve(needed), join(folder, 'index.js'), 'cjs');
  cpSync(join(root, 'node_modules', needed, 'LICENSE'), join(folder, 'LICENSE'));
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify({ name: needed, type: 'commonjs' })}\n`);
}
const described = { name, version, license, private: true, type: 'module' };
writeFileSync(join(engine, 'package.json'), `${JSON.stringify(described, null, 2)}\n`);
cpSync(join(root, 'engines'), join(engine, 'engines'), { recursive: true });

const release = join(engine, 'build', 'cmake', 'Release');
mkdirSync(release, { recursive: true });
for (const file of ['collapsar.node', 'collapsar_cuda.so']) {
  const source = join(addon, '..', file);
  if (!existsSync(source)) continue;
  cpSync(source, join(release, file));
  // Symbols for debuggers are most of the file; without strip it is as it is.
  spawnSync('strip', ['--strip-unneeded', join(release, file)]);
}

const python = process.env.PYTHON ?? 'python3';
const { status } = spawnSync(python, [join(root, 'python', 'wheel.py'), engine, resolve(out)], { stdio: 'inherit' });
check(status === 0, `${python} could not make the wheel: it needs Python 3.11 or later (PYTHON names another)`);

/** One file of a module and all that it imports. */
async function bundled(input, file, format) {
  const external = Object.keys(peerDependencies);
  const bundle = await rolldown({ input, platform: 'node', external, logLevel: 'warn' });
  const { output } = await bundle.generate({ format, codeSplitting: false, comments: { legal: true } });
  await bundle.close();
  check(output.length === 1, `${input} became ${output.length} files, expected one`);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, output[0].code);
}
