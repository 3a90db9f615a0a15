// The package as its users get it: packed, checked by publint and attw, and installed into an empty folder with an
// empty npm config and nothing reachable but the registry: compiled without CMake; released, with a prebuilt package
// and no compiler; without that package, by `collapsar build`; and without the tools for any.
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism, loadavg, tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { registryOnly, unreachable } from './offline.mjs';
import { packRelease } from './pack-release.mjs';
import { prebuild } from './prebuild.mjs';
import { check, root, run, skip, start, tool, versionOf } from './stage.mjs';

const work = realpathSync(mkdtempSync(join(tmpdir(), 'collapsar-package-')));
process.on('exit', () => rmSync(work, { recursive: true, force: true }));

/** A PATH on which everything is found but the named tools. */
function pathWithout(...tools) {
  const folder = mkdtempSync(join(work, 'path-'));
  for (const source of (process.env.PATH ?? '').split(delimiter)) {
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
const contents = JSON.parse(packed.output.slice(packed.output.indexOf('[\n')))[0];
const tarball = join(work, contents.filename);
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

console.log('\nnpm install of a tarball that is no release, without CMake: binding.gyp');
const verbose = ['--foreground-scripts', '--no-audit', '--no-fund'];
const withoutCMake = { ...registryOnly(), PATH: pathWithout('cmake', 'ctest'), npm_config_loglevel: 'notice' };
const installed = await run('npm', ['install', ...verbose, tarball], { cwd: consumer, env: withoutCMake });
check(installed.output.includes('built with node-gyp'), 'the addon was not built with node-gyp');
// Same instruction sets (none was left out of binding.gyp), and the same bits for three whole runs.
const packageFolder = join(consumer, 'node_modules', 'collapsar');
const withGyp = await use('collapsar', ['npx', '--no-install', 'collapsar']);
// This folder's addon is from CMake.
const withCMake = await use(join(root, 'dist', 'index.js'), ['node', join(root, 'dist', 'cli', 'main.js')]);
check(withGyp.isa === withCMake.isa, 'the two builds know different instruction sets');
check(withGyp.metrics === withCMake.metrics, 'the addon of node-gyp gives other metrics than that of CMake');
const { exports } = JSON.parse(readFileSync(join(packageFolder, 'package.json'), 'utf8'));
const subpaths = Object.keys(exports).filter((subpath) => !subpath.endsWith('.json'));
const names = subpaths.map((subpath) => `collapsar${subpath.slice(1)}`);
const imports = names.map((name) => `if (Object.keys(await import('${name}')).length === 0) throw '${name} is empty';`);
await run('node', ['--input-type=module', '-e', imports.join('\n')], { cwd: consumer });
const left = readdirSync(join(packageFolder, 'build'), { recursive: true });
check(!left.some((name) => /\.(o|a|cxx)$/.test(name)), `objects are left in the package: ${left.join(', ')}`);

console.log('\na release and its prebuilt package, without a compiler or CMake');
const name = `${process.platform}-${process.arch}${process.platform === 'linux' ? '-gnu' : ''}`;
const isDebian = process.platform === 'linux' && versionOf('dpkg-deb') !== null && versionOf('apt-get') !== null;
const released = await packRelease(join(work, 'release'));
const { output: inRelease } = await run('tar', ['-tzf', released], { quiet: true });
check(!inRelease.includes('package/binding.gyp\n'), 'the release has a binding.gyp, which package managers would run');
const empty = join(work, 'empty');
const toolless = ['cmake', 'ctest', 'make', 'gmake', 'ninja', 'gcc', 'g++', 'cc', 'c++', 'clang', 'clang++'];
if (!isDebian) {
  skip(`the prebuilt package of ${name}: run on Debian, which brings an older glibc to link with`);
} else {
  const { tarball: prebuilt } = await prebuild(name);
  mkdirSync(empty);
  writeFileSync(join(empty, 'package.json'), '{ "name": "empty", "private": true }\n');
  cpSync(join(root, 'examples', 'data'), join(empty, 'runs'), { recursive: true });
  const env = { ...registryOnly(), PATH: pathWithout(...toolless) };
  // The other packages of the release are in no registry: an optional one that is not found is left out.
  const options = { cwd: empty, env, quiet: true };
  const seconds = async (job) => {
    const from = performance.now();
    const result = await job();
    return { ...result, took: (performance.now() - from) / 1000 };
  };
  const isBusy = loadavg()[0] > availableParallelism();
  const install = ['install', '--no-audit', '--no-fund'];
  const installing = await seconds(() => run('npm', [...install, released, prebuilt], options));
  const analyze = ['--no-install', 'collapsar', 'analyze', 'runs', '--json', '--quiet'];
  const offline = { ...options, env: { ...unreachable(), PATH: env.PATH } };
  const first = await seconds(() => run('npx', analyze, offline));
  const again = await seconds(() => run('npx', analyze, offline));
  check(first.output === withCMake.metrics, 'the prebuilt addon gives other metrics than that of CMake');
  const [installed, analysed] = [installing.took, Math.min(first.took, again.took)];
  console.log(`installed in ${installed.toFixed(1)} s, analysed in ${analysed.toFixed(1)} s`);
  if (isBusy) {
    skip('installing in 30 s and analysing in 2 s (a machine that does nothing else would tell)');
  } else {
    check(installed < 30, 'installing took 30 s or more');
    check(analysed < 2, 'analysing took 2 s or more');
  }
  // A tarball that is not a release has an install script, which leaves the addon to the package beside it.
  const plain = await run('npm', [...install, '--foreground-scripts', tarball, prebuilt], options);
  check(plain.output.includes('nothing to compile'), 'an addon was compiled beside the prebuilt one');
}

console.log('\na release without a prebuilt package, with a compiler: collapsar build');
const bare = join(work, 'bare');
mkdirSync(bare);
writeFileSync(join(bare, 'package.json'), '{ "name": "bare", "private": true }\n');
await run('npm', ['install', '--no-audit', '--no-fund', '--omit=optional', released], {
  cwd: bare,
  env: registryOnly(),
  quiet: true,
});
const doctor = () =>
  start('npx', ['--no-install', 'collapsar', 'doctor'], { cwd: bare, env: unreachable(), quiet: true });
const before = await doctor();
check(before.status === 1 && before.output.includes('npx collapsar build'), 'doctor does not say how to build');
await run('npx', ['--no-install', 'collapsar', 'build'], { cwd: bare, env: unreachable() });
check((await doctor()).status === 0, 'collapsar build left no addon that works');

/** Without these tools the build must fail, and say the words. */
async function mustFail(tools, ...words) {
  console.log(`\nwithout ${tools.join(', ')}: must fail`);
  rmSync(join(packageFolder, 'build'), { recursive: true, force: true });
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
