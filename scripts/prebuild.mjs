// Makes the packages of prebuilt files that a release is published with: build/prebuilds/<name>/, a tarball beside it.
//   npm run prebuild                        @collapsar/linux-x64-gnu and @collapsar/linux-arm64-gnu, on Debian
//   npm run prebuild -- linux-x64-musl      one, by this machine's own compiler: .github/workflows/release.yml
// Those of glibc are linked with Debian 11's (2.31), whatever this machine has: apt brings it, from the mirror that is
// set up here. What was linked is read again: one symbol is exported, and none is newer than that.
// (So no script may be called "build": npm would run this one before it.)
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { check, configure, root, run, versionOf } from './stage.mjs';

const glibc = [2, 31];
const release = 'bullseye';
const folder = join(root, 'build', 'prebuilds');

/** `debian`: cross-built with that architecture's sysroot; the others by what compiles here. */
export const platforms = {
  'linux-x64-gnu': { os: 'linux', cpu: 'x64', libc: 'glibc', debian: 'amd64', compiler: 'x86_64-linux-gnu-g++' },
  'linux-arm64-gnu': { os: 'linux', cpu: 'arm64', libc: 'glibc', debian: 'arm64', compiler: 'aarch64-linux-gnu-g++' },
  'linux-x64-musl': { os: 'linux', cpu: 'x64', libc: 'musl' },
  'darwin-arm64': { os: 'darwin', cpu: 'arm64' },
  'linux-x64-cuda': { os: 'linux', cpu: 'x64', libc: 'glibc', file: 'collapsar_cuda.so' },
};

/** apt's package lists and packages of Debian 11, unpacked: what programs that are to run there are linked with. */
async function sysroot(architecture) {
  const out = join(folder, 'sysroot', architecture);
  const into = join(out, 'root');
  const done = join(out, 'done');
  if (existsSync(done)) return into;
  rmSync(out, { recursive: true, force: true });
  for (const name of ['state/lists/partial', 'cache/archives/partial', 'root'])
    mkdirSync(join(out, name), { recursive: true });
  const sites = spawnSync('apt-get', ['indextargets', '--format', '$(SITE)'], { encoding: 'utf8' }).stdout ?? '';
  const mirror = sites.split('\n').find((site) => /\/debian\/?$/.test(site));
  check(mirror !== undefined, 'apt knows no Debian mirror here: run this on Debian');
  const keys = '/usr/share/keyrings/debian-archive-keyring.gpg';
  writeFileSync(join(out, 'sources.list'), `deb [arch=${architecture} signed-by=${keys}] ${mirror} ${release} main\n`);
  writeFileSync(join(out, 'status'), '');
  const settings = {
    'Dir::State': join(out, 'state'),
    'Dir::State::status': join(out, 'status'),
    'Dir::Cache': join(out, 'cache'),
    'Dir::Etc::SourceList': join(out, 'sources.list'),
    'Dir::Etc::SourceParts': '-',
    'APT::Architecture': architecture,
    'APT::Architectures::': architecture,
    'APT::Sandbox::User': 'root',
  };
  const options = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
  await run('apt-get', [...options, 'update'], { quiet: true });
  // The last two for the test: Node itself needs them.
  const packages = ['libc6', 'libc6-dev', 'linux-libc-dev', 'libstdc++6', 'libgcc-s1'];
  const cache = join(out, 'cache');
  await run('apt-get', [...options, 'download', ...packages], { cwd: cache, quiet: true });
  for (const name of readdirSync(cache).filter((name) => name.endsWith('.deb')))
    await run('dpkg-deb', ['-x', join(cache, name), into], { quiet: true });
  makeLinksRelative(into);
  writeFileSync(done, '');
  return into;
}

/** Links to /lib/… would lead out of the sysroot. */
function makeLinksRelative(into) {
  for (const entry of readdirSync(into, { recursive: true, withFileTypes: true })) {
    if (!entry.isSymbolicLink()) continue;
    const link = join(entry.parentPath ?? entry.path, entry.name);
    const target = readlinkSync(link);
    if (!target.startsWith('/')) continue;
    rmSync(link);
    symlinkSync(relative(dirname(link), join(into, target)), link);
  }
}

/** Builds one platform's file; gives its path. */
async function build(name, { debian, compiler, cpu, file = 'collapsar.node' }) {
  const out = join(folder, 'cmake', name);
  const isCuda = file === 'collapsar_cuda.so';
  const options = ['CMAKE_BUILD_TYPE=Release', 'COLLAPSAR_PORTABLE=ON', `COLLAPSAR_CUDA=${isCuda ? 'ON' : 'OFF'}`];
  if (debian !== undefined) {
    check(
      versionOf(compiler) !== null,
      `there is no ${compiler}: apt-get install ${compiler.replace(/(.*)-g\+\+$/, 'g++-$1')}`,
    );
    options.push(`CMAKE_CXX_COMPILER=${compiler}`, `CMAKE_SYSROOT=${await sysroot(debian)}`);
    options.push('CMAKE_SYSTEM_NAME=Linux', `CMAKE_SYSTEM_PROCESSOR=${cpu === 'x64' ? 'x86_64' : 'aarch64'}`);
  }
  await configure(out, options);
  const target = isCuda ? 'collapsar_cuda' : 'collapsar';
  await run('cmake', ['--build', out, '--target', target, '--parallel'], { quiet: true });
  return join(out, 'Release', file);
}

/**
 * What an ELF file exports and asks for, as its dynamic symbols say: what is wrong with it, and the glibc that it
 * needs.
 */
export function readSymbols(path) {
  const { stdout, status } = spawnSync('readelf', ['--wide', '--dyn-syms', path], { encoding: 'utf8' });
  check(status === 0, `readelf cannot read ${path}`);
  const symbols = stdout
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([number]) => /^\d+:$/.test(number))
    .map(([, , , type, bind, , section, name = '']) => ({ type, bind, section, name }));
  const exported = symbols
    .filter(({ section, bind, type }) => section !== 'UND' && bind !== 'LOCAL' && type !== 'SECTION')
    .map(({ name }) => name.replace(/@.*/, ''));
  const isEntry = exported.length === 1 && ['napi_register_module_v1', 'collapsar_cuda_backend'].includes(exported[0]);
  const problems = isEntry ? [] : [`it exports ${exported.join(', ')}`];
  const isNewer = (one, other) => one[0] > other[0] || (one[0] === other[0] && one[1] > other[1]);
  let newest = [0, 0];
  for (const { section, bind, name } of symbols) {
    if (section !== 'UND' || name === '' || name.startsWith('napi_')) continue;
    const [, origin, major, minor] = name.match(/@+([A-Z]+)_(\d+)\.(\d+)/) ?? [];
    if (origin === undefined && bind !== 'WEAK') problems.push(`it needs ${name} of no library's version`);
    if (![undefined, 'GLIBC', 'GCC'].includes(origin)) problems.push(`it needs ${name}`);
    if (origin !== 'GLIBC') continue;
    const version = [Number(major), Number(minor)];
    if (isNewer(version, glibc)) problems.push(`it needs ${name}, and Debian 11 has glibc ${glibc.join('.')}`);
    if (isNewer(version, newest)) newest = version;
  }
  return { problems, glibc: newest.join('.') };
}

/** A package of one file; gives its tarball. */
async function pack(name, file, { os, cpu, libc }) {
  const { version, license } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const out = join(folder, name);
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  const main = file.split('/').at(-1);
  cpSync(file, join(out, main));
  cpSync(join(root, 'LICENSE'), join(out, 'LICENSE'));
  const manifest = {
    name: `@collapsar/${name}`,
    version,
    description: `Prebuilt ${main} of collapsar for ${name}`,
    license,
    os: [os],
    cpu: [cpu],
    ...(libc && { libc: [libc] }),
    main,
    files: [main],
    publishConfig: { access: 'public' },
  };
  writeFileSync(join(out, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  const readme = `The compiled part of collapsar for ${name}; install that.\n`;
  writeFileSync(join(out, 'README.md'), `# @collapsar/${name}\n\n${readme}`);
  await run('npm', ['pack', '--pack-destination', folder], { cwd: out, quiet: true });
  return join(folder, `collapsar-${name}-${version}.tgz`);
}

/** Builds, checks and packs one platform's package; gives its file and its tarball. */
export async function prebuild(name) {
  const platform = platforms[name];
  check(platform !== undefined, `no platform ${name}; there are: ${Object.keys(platforms).join(', ')}`);
  const file = await build(name, platform);
  if (platform.cpu === process.arch && file.endsWith('.node')) {
    await run(process.execPath, ['-e', 'require(process.argv[1])', file], { quiet: true });
  }
  let needs = 'its symbols were not read';
  if (platform.libc === 'glibc') {
    const { problems, glibc } = readSymbols(file);
    check(problems.length === 0, `${file} would not run everywhere: ${problems.join('; ')}`);
    needs = `glibc ${glibc} or newer`;
  }
  const tarball = await pack(name, file, platform);
  console.log(`${relative(root, tarball)}: ${needs}`);
  return { file, tarball };
}

/** Debian 11's files for an architecture, for programs that are to run with them. */
export const sysrootOf = (name) => join(folder, 'sysroot', platforms[name].debian, 'root');

if (process.argv[1] === import.meta.filename) {
  const given = process.argv.slice(2);
  for (const name of given.length > 0 ? given : ['linux-x64-gnu', 'linux-arm64-gnu']) await prebuild(name);
}
