// `npm run python`: the wheel of the Python package, with the command as one file of JavaScript and the addon of this
// platform inside, so that `pip install` of it needs Node on the PATH and nothing else. Run `npm run compile` first.
//   node scripts/python.mjs [--out FOLDER]      default: build/python
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
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

// Packages of the registry go into the file; what a user may add (S3's client) stays outside.
const { peerDependencies, name, version, license } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const bundle = await rolldown({
  input: command,
  platform: 'node',
  external: Object.keys(peerDependencies),
  logLevel: 'warn',
});
const { output } = await bundle.generate({ format: 'esm', codeSplitting: false, comments: { legal: true } });
await bundle.close();
mkdirSync(join(engine, 'dist', 'cli'), { recursive: true });
for (const { fileName, code } of output) writeFileSync(join(engine, 'dist', 'cli', fileName), code);
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
