// The package as its users get it: packed, checked by publint and attw, and installed into an empty folder with an
// empty npm config and nothing reachable but the registry; without CMake, with it (npm ci has built the same sources by
// it: here it is seen that the package has them all), and without the tools for either.
import { cpSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { registryOnly, unreachable } from './offline.mjs';
import { check, root, run, start, tool } from './stage.mjs';

const work = realpathSync(mkdtempSync(join(tmpdir(), 'collapsar-package-')));
process.on('exit', () => rmSync(work, { recursive: true, force: true }));

/** A PATH on which everything is found but the named tools. */
function pathWithout(...tools) {
  const folder = mkdtempSync(join(work, 'path-'));
  for (const source of process.env.PATH.split(delimiter)) {
    let names = [];
    try {
      names = readdirSync(source);
    } catch {
      continue; // PATH may name folders that do not exist
    }
    for (const name of names) {
      if (tools.some((tool) => name === tool || name.startsWith(`${tool}-`))) continue;
      try {
        symlinkSync(join(source, name), join(folder, name));
      } catch (error) {
        if (error.code !== 'EEXIST') throw error; // an earlier folder of PATH has it
      }
    }
  }
  return folder;
}

const packed = await run('npm', ['pack', '--json', '--pack-destination', work], { env: registryOnly(), quiet: true });
const tarball = join(
  work,
  readdirSync(work).find((name) => name.endsWith('.tgz')),
);
const contents = JSON.parse(packed.output.slice(packed.output.indexOf('[\n')))[0];
console.log(`${contents.filename}: ${contents.files.length} files, ${(contents.size / 1e3).toFixed(0)} kB`);
const strangers = contents.files
  .map((file) => file.path)
  .filter((path) => /(^|\/)(test|build|node_modules)\/|\.node$/.test(path));
check(strangers.length === 0, `the package holds ${strangers.join(', ')}`);
await run(tool('publint'), ['run', tarball, '--strict']);
await run(tool('attw'), [tarball, '--profile', 'esm-only', '--no-emoji']);

const consumer = join(work, 'consumer');
mkdirSync(consumer);
writeFileSync(join(consumer, 'package.json'), '{ "name": "consumer", "private": true }\n');
cpSync(join(root, 'examples', 'data'), join(consumer, 'runs'), { recursive: true });

/** Uses a build as a program would and as a person would; gives its instruction sets and what `analyze` printed. */
async function use(module, [command, ...args]) {
  const script =
    `import { openEngine } from ${JSON.stringify(module)}; const engine = await openEngine();` +
    'console.log(JSON.stringify(engine.info)); await engine.dispose()';
  const info = await run('node', ['--input-type=module', '-e', script], { cwd: consumer });
  const options = { cwd: consumer, env: unreachable(), quiet: true };
  const { output } = await run(command, [...args, 'analyze', 'runs', '--json', '--quiet'], options);
  return { isa: JSON.parse(info.output).isaAvailable.join(), metrics: output };
}

console.log('\nnpm install, without CMake: binding.gyp');
const verbose = ['--foreground-scripts', '--no-audit', '--no-fund'];
const withoutCMake = { ...registryOnly(), PATH: pathWithout('cmake', 'ctest') };
const installed = await run('npm', ['install', ...verbose, tarball], { cwd: consumer, env: withoutCMake });
check(installed.output.includes('built with node-gyp'), 'the addon was not built with node-gyp');
// Same instruction sets (none was left out of binding.gyp), and the same bits for three whole runs.
const withGyp = await use('collapsar', ['npx', '--no-install', 'collapsar']);
// This folder's addon is from cmake-js.
const withCMake = await use(join(root, 'dist', 'index.js'), ['node', join(root, 'dist', 'cli', 'main.js')]);
check(withGyp.isa === withCMake.isa, 'the two builds know different instruction sets');
check(withGyp.metrics === withCMake.metrics, 'the addon of node-gyp gives other metrics than that of cmake-js');

console.log('\nwith CMake: every source that CMakeLists.txt names is in the package');
const packageFolder = join(consumer, 'node_modules', 'collapsar');
const cmakeJs = join(consumer, 'node_modules', 'cmake-js', 'bin', 'cmake-js');
await run('node', [cmakeJs, 'configure', '--out', join(packageFolder, 'build', 'cmake')], {
  cwd: packageFolder,
  env: unreachable(),
});
const forget = () => rmSync(join(packageFolder, 'build'), { recursive: true, force: true });

/** Without these tools the build must fail, and say the words. */
async function mustFail(tools, ...words) {
  console.log(`\nwithout ${tools.join(', ')}: must fail`);
  forget();
  const env = { ...unreachable(), PATH: pathWithout(...tools) };
  const { status, output } = await start('npm', ['rebuild', '--foreground-scripts', 'collapsar'], {
    cwd: consumer,
    env,
  });
  check(status !== 0, 'the build succeeded');
  for (const word of words) check(output.includes(word), `the message does not say "${word}"`);
}

await mustFail(
  ['cmake', 'make', 'gmake', 'ninja'],
  'Missing: make',
  'apt-get install -y make',
  'dnf install -y make',
  'xcode-select',
);
await mustFail(['cmake', 'python3'], 'Missing: CMake', 'apt-get install -y cmake', 'brew install cmake');
await mustFail(['g++', 'c++', 'clang++'], 'a C++20 compiler', 'apt-get install -y g++', 'dnf install -y gcc-c++');
