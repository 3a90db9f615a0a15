// What compiling the addon takes, and whether it is on this machine: a C++ compiler with CMake, or with make and
// Python; nvcc; a GPU.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { basename, delimiter, dirname, join } from 'node:path';

const oldestCMake = [3, 19]; // string(JSON)

/** What each tool is called in the package managers; null: comes with another entry's package. */
const packages = {
  compiler: {
    name: 'a C++20 compiler (g++ 11 or clang++ 14, or newer; CXX names one that is called otherwise)',
    apt: 'g++',
    dnf: 'gcc-c++',
    brew: null,
  },
  cmake: { name: `CMake ${oldestCMake.join('.')} or newer (cmake)`, apt: 'cmake', dnf: 'cmake', brew: 'cmake' },
  make: { name: 'make', apt: 'make', dnf: 'make', brew: null },
  python: { name: 'Python 3 (python3)', apt: 'python3', dnf: 'python3', brew: null },
  npm: { name: 'npm, which brings node-gyp', apt: 'npm', dnf: 'npm', brew: null },
};

/** Ends the process with a message. */
export function fail(message) {
  console.error(`collapsar: ${message}`);
  process.exit(1);
}

/** The output of `command --version`, or null if it cannot be run. */
export function versionOf(command, ...args) {
  const result = spawnSync(command, [...args, '--version'], { encoding: 'utf8' });
  return result.status === 0 ? result.stdout : null;
}

/** As `versionOf`, of what the variable CXX may hold: a program, or one with arguments (`ccache g++`). */
export const versionOfCompiler = (command) => versionOf(command) ?? versionOf(...command.trim().split(/\s+/));

/** What CXX names, as both builds take it before all others; else the first that is there, if any. */
function findCompiler() {
  const named = process.env.CXX;
  if (!named) return ['g++', 'clang++'].find((command) => versionOf(command) !== null);
  if (versionOfCompiler(named) !== null) return named;
  return fail(`CXX is "${named}", which cannot be run: correct it, or unset it for g++ or clang++.`);
}

/** The shortest way to an nvcc: no toolkit, no root. */
export const nvccPackages = 'pip install nvidia-cuda-nvcc nvidia-cuda-cccl';

/** nvcc of NVIDIA's packages in a Python's environment (`nvidia/cu13/bin/nvcc`), the newest, or undefined. */
function nvccOfPython(python) {
  const { stdout } = spawnSync(python, ['-c', 'import nvidia; print(*nvidia.__path__, sep="\\n")'], {
    encoding: 'utf8',
  });
  const folders = (stdout ?? '').split('\n').filter((folder) => existsSync(folder));
  const toolkits = folders.flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)));
  const versionIn = (toolkit) => Number(basename(toolkit).slice(2));
  return toolkits
    .filter((toolkit) => /^cu\d+$/.test(basename(toolkit)))
    .sort((a, b) => versionIn(b) - versionIn(a))
    .map((toolkit) => join(toolkit, 'bin', 'nvcc'))
    .find((command) => versionOf(command) !== null);
}

/**
 * Where nvcc is, by the means that CMake knows, in the place where NVIDIA's packages put it, or in the environment of
 * COLLAPSAR_PYTHON, of VIRTUAL_ENV or of the Python on the PATH; or null.
 */
export function findNvcc() {
  const folders = [process.env.CUDA_HOME, process.env.CUDA_PATH, '/usr/local/cuda'].flatMap((one) => one || []);
  const places = [process.env.CUDACXX, 'nvcc', ...folders.map((folder) => join(folder, 'bin', 'nvcc'))].flatMap(
    (one) => one || [],
  );
  const installed = places.find((command) => versionOf(command) !== null);
  if (installed !== undefined) return installed;
  const environment = process.env.VIRTUAL_ENV && join(process.env.VIRTUAL_ENV, 'bin', 'python');
  for (const python of [process.env.COLLAPSAR_PYTHON, environment, 'python3', 'python'].filter(Boolean)) {
    const nvcc = nvccOfPython(python);
    if (nvcc !== undefined) return nvcc;
  }
  return null;
}

/** Whether NVIDIA's driver is here: its kernel module, or its library (in containers, under WSL). */
export function hasDriver() {
  if (existsSync('/proc/driver/nvidia/version')) return true;
  const folders = [
    '/usr/lib/x86_64-linux-gnu',
    '/usr/lib/aarch64-linux-gnu',
    '/usr/lib64',
    '/usr/lib',
    '/usr/lib/wsl/lib',
  ];
  return [...folders, ...(process.env.LD_LIBRARY_PATH ?? '').split(delimiter).filter(Boolean)].some((folder) =>
    existsSync(join(folder, 'libcuda.so.1')),
  );
}

/** The architectures of this machine's GPUs, as CMake writes them (`90-real`); none where nvidia-smi names no GPU. */
export function gpuArchitectures() {
  const { stdout } = spawnSync('nvidia-smi', ['--query-gpu=compute_cap', '--format=csv,noheader'], {
    encoding: 'utf8',
  });
  const found = [...(stdout ?? '').matchAll(/^(\d+)\.(\d)\s*$/gm)].map(([, major, minor]) => `${major}${minor}-real`);
  return [...new Set(found)];
}

/** node-gyp's script: npm brings it, and names it to the scripts that it runs. Undefined without npm. */
export function findNodeGyp() {
  const inNpm = (npm) => join(npm, 'node_modules', 'node-gyp', 'bin', 'node-gyp.js');
  const npmOnPath = placeOf('npm');
  return [
    process.env.npm_config_node_gyp,
    inNpm(join(dirname(process.execPath), '..', 'lib', 'node_modules', 'npm')),
    npmOnPath && inNpm(join(dirname(realpathSync(npmOnPath)), '..')),
  ].find((script) => script && existsSync(script));
}

export function findTools() {
  const cmake = versionOf('cmake')?.match(/version (\d+)\.(\d+)/);
  const [major, minor] = [Number(cmake?.[1]), Number(cmake?.[2])];
  return {
    compiler: findCompiler(),
    cmake: cmake && (major > oldestCMake[0] || (major === oldestCMake[0] && minor >= oldestCMake[1])),
    make: versionOf('make') !== null,
    ninja: versionOf('ninja') !== null,
    python: versionOf('python3') !== null,
    npm: findNodeGyp() !== undefined,
  };
}

/** The build that can be made with these tools; if there is none, what is missing for one. */
export function chooseBuild(tools, wanted) {
  const needs = {
    cmake: [!tools.compiler && 'compiler', !tools.cmake && 'cmake', !(tools.ninja || tools.make) && 'make'].filter(
      Boolean,
    ),
    gyp: [!tools.compiler && 'compiler', !tools.make && 'make', !tools.python && 'python', !tools.npm && 'npm'].filter(
      Boolean,
    ),
  };
  const ways = wanted ? [wanted] : ['cmake', 'gyp'];
  const build = ways.find((way) => needs[way].length === 0);
  // Recommended: the way that lacks least.
  const [missing] = ways.map((way) => needs[way]).sort((a, b) => a.length - b.length);
  return { build, missing };
}

export function missingToolsMessage(missing) {
  const install = (manager) => missing.map((tool) => packages[tool][manager]).filter((name) => name !== null);
  const brew = [
    ...(install('brew').length < missing.length ? ['xcode-select --install'] : []),
    ...(install('brew').length > 0 ? [`brew install ${install('brew').join(' ')}`] : []),
  ];
  return [
    'the native addon cannot be built on this machine.',
    `Missing: ${missing.map((tool) => packages[tool].name).join('; ')}.`,
    'Install with:',
    `  Debian, Ubuntu   sudo apt-get install -y ${install('apt').join(' ')}`,
    `  Fedora           sudo dnf install -y ${install('dnf').join(' ')}`,
    `  macOS            ${brew.join(' && ')}`,
    'and run the npm command again.',
  ].join('\n');
}

/** Where this program is on the PATH, or undefined. */
export const placeOf = (program) =>
  (process.env.PATH ?? '')
    .split(delimiter)
    .map((folder) => join(folder, program))
    .find(existsSync);

/** What CXX names, as CMake has it: the program's path, and then its arguments. */
export function namedCompiler() {
  const [program, ...args] = (process.env.CXX ?? '').trim().split(/\s+/);
  return [program.includes('/') ? program : placeOf(program), ...args];
}
