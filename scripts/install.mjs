// Builds the native addon: `npm install`, `npm ci` and `npm rebuild` run this, in a clone and in a consumer's
// node_modules. With CMake by cmake-js -> build/cmake/Release/collapsar.node; without it by node-gyp ->
// build/Release/collapsar.node. Nothing is downloaded: the Node-API headers come from the package node-api-headers.
// With CMake and nvcc also the CUDA backend -> build/cmake/Release/collapsar_cuda.so; the addon does without it.
// COLLAPSAR_BUILD=cmake|gyp chooses by hand; COLLAPSAR_CUDA=off leaves the backend out, on makes it a condition.
// Exit status 1, with what is missing and how to get it, if there is no way.
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { delimiter, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const require = createRequire(import.meta.url); // finds hoisted packages too
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
};

/** The output of `command --version`, or null if it cannot be run. */
function versionOf(command, ...args) {
  const result = spawnSync(command, [...args, '--version'], { encoding: 'utf8' });
  return result.status === 0 ? result.stdout : null;
}

/** As `versionOf`, of what the variable CXX may hold: a program, or one with arguments (`ccache g++`). */
const versionOfCompiler = (command) => versionOf(command) ?? versionOf(...command.trim().split(/\s+/));

/** What CXX names, as both builds take it before all others; else the first that is there, if any. */
function findCompiler() {
  const named = process.env.CXX;
  if (!named) return ['g++', 'clang++'].find((command) => versionOf(command) !== null);
  if (versionOfCompiler(named) !== null) return named;
  return fail(`CXX is "${named}", which cannot be run: correct it, or unset it for g++ or clang++.`);
}

/** Where nvcc is, by the means that CMake knows and in the place where NVIDIA's packages put it; or null. */
function findNvcc() {
  const folders = [process.env.CUDA_HOME, process.env.CUDA_PATH, '/usr/local/cuda'].filter(Boolean);
  const places = [process.env.CUDACXX, 'nvcc', ...folders.map((folder) => join(folder, 'bin', 'nvcc'))].filter(Boolean);
  return places.find((command) => versionOf(command) !== null) ?? null;
}

function findTools() {
  const cmake = versionOf('cmake')?.match(/version (\d+)\.(\d+)/);
  const [major, minor] = [Number(cmake?.[1]), Number(cmake?.[2])];
  return {
    compiler: findCompiler(),
    cmake: cmake && (major > oldestCMake[0] || (major === oldestCMake[0] && minor >= oldestCMake[1])),
    make: versionOf('make') !== null,
    ninja: versionOf('ninja') !== null,
    python: versionOf('python3') !== null,
  };
}

/** The build that can be made with these tools; if there is none, what is missing for one. */
function chooseBuild(tools, wanted) {
  const needs = {
    cmake: [!tools.compiler && 'compiler', !tools.cmake && 'cmake', !(tools.ninja || tools.make) && 'make'].filter(
      Boolean,
    ),
    gyp: [!tools.compiler && 'compiler', !tools.make && 'make', !tools.python && 'python'].filter(Boolean),
  };
  const ways = wanted ? [wanted] : ['cmake', 'gyp'];
  const build = ways.find((way) => needs[way].length === 0);
  // Recommended: the way that lacks least.
  const [missing] = ways.map((way) => needs[way]).sort((a, b) => a.length - b.length);
  return { build, missing };
}

function missingToolsMessage(missing) {
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

/** The environment without npm's own settings: node-gyp lets npm_config_nodedir and others override its arguments. */
function buildEnvironment(tools) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_(config|package)_/i.test(name)));
  // gyp's Makefile calls g++ where the environment does not say otherwise; cmake looks by itself.
  if (tools.compiler === 'clang++') env.CXX ||= 'clang++';
  return env;
}

/** Runs node on a tool's script; resolves to its status and everything it printed. */
function runTool(script, args, env) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [script, ...args], { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    const keep = (chunk) => {
      output += chunk;
    };
    child.stdout.setEncoding('utf8').on('data', keep);
    child.stderr.setEncoding('utf8').on('data', keep);
    child.on('close', (status) => resolve({ status, output }));
  });
}

/** The compiler in CMake's cache, or undefined. */
function cachedCompiler() {
  if (!existsSync(cmakeCache)) return undefined;
  return readFileSync(cmakeCache, 'utf8').match(/^CMAKE_CXX_COMPILER:\w+=(.+)$/m)?.[1];
}

/** Where this program is on the PATH, or undefined. */
const placeOf = (program) =>
  (process.env.PATH ?? '')
    .split(delimiter)
    .map((folder) => join(folder, program))
    .find(existsSync);

/** What CXX names, as CMake has it: the program's path, and then its arguments. */
function namedCompiler() {
  const [program, ...args] = process.env.CXX.trim().split(/\s+/);
  return [program.includes('/') ? program : placeOf(program), ...args];
}

/**
 * Runs cmake-js, which ends where there is neither g++ nor clang++ unless options name the compilers of C++ and C
 * (unused).
 */
function runCMakeJs(args, env) {
  const script = join(dirname(require.resolve('cmake-js/package.json')), 'bin', 'cmake-js');
  const named = process.env.CXX && !placeOf('g++') && !placeOf('clang++') ? namedCompiler().join(';') : undefined;
  return runTool(script, [...args, ...(named ? ['--cxx', named, '--cc', named] : [])], env);
}

async function buildWithCMake(env) {
  const out = join(root, 'build', 'cmake');
  // Once there is a cache CMake keeps to its compiler, whatever CXX says. Only objects of another one are compiled
  // again.
  if (process.env.CXX && cachedCompiler() !== namedCompiler()[0]) rmSync(cmakeCache, { force: true });
  const configure = () =>
    runCMakeJs(['configure', '--out', out, '--CDCOLLAPSAR_TESTS=OFF', '--CDCOLLAPSAR_CUDA=OFF'], env);
  let result = await configure();
  if (result.status !== 0 && existsSync(join(out, 'CMakeCache.txt'))) {
    // A cache of another place, generator or compiler: start afresh once.
    rmSync(out, { recursive: true, force: true });
    result = await configure();
  }
  if (result.status === 0) {
    result = await runCMakeJs(['build', '--out', out, '--parallel', String(availableParallelism())], env);
  }
  const compiler = process.env.CXX || cachedCompiler();
  // The compiler of a failed build must not be that of the next, before which another one may have been installed.
  if (result.status !== 0) rmSync(cmakeCache, { force: true });
  return { ...result, tool: 'cmake-js', compiler };
}

/**
 * The CUDA backend, in the folder of the addon's build and after it, so that what fails here fails alone.
 * Resolves to null, or to the output of what failed.
 */
async function buildCuda(env, nvcc) {
  const out = join(root, 'build', 'cmake');
  const cuda = { ...env, CUDACXX: nvcc };
  const configure = (state) => runCMakeJs(['configure', '--out', out, `--CDCOLLAPSAR_CUDA=${state}`], cuda);
  const configured = await configure('ON');
  const build = ['build', '--out', out, '--target', 'collapsar_cuda', '--parallel', String(availableParallelism())];
  const result = configured.status === 0 ? await runCMakeJs(build, cuda) : configured;
  if (result.status === 0 && existsSync(backend)) return null;
  // Nor are nvcc and its compiler looked for again while they are in the cache.
  rmSync(cmakeCache, { force: true });
  await configure('OFF');
  return result.output;
}

async function buildWithGyp(env) {
  // node-gyp wants a folder as Node's header tarball has it. The headers of Node-API are all that the addon includes.
  const headers = join(root, 'build', 'node-headers');
  mkdirSync(join(headers, 'include'), { recursive: true });
  cpSync(require('node-api-headers').include_dir, join(headers, 'include', 'node'), { recursive: true });
  const common = `{
  'variables': { 'visibility%': 'hidden' },
  'target_defaults': { 'default_configuration': 'Release', 'configurations': { 'Release': {} } },
}
`;
  writeFileSync(join(headers, 'common.gypi'), common);
  const script = join(dirname(require.resolve('node-gyp/package.json')), 'bin', 'node-gyp.js');
  // A relative path, for gyp's Makefile does not quote what it hands to the compiler: the package's own may have
  // spaces. Not `rebuild`: that empties build/.
  const args = [
    'configure',
    'build',
    `--nodedir=${relative(root, headers)}`,
    '--force-process-config',
    `--jobs=${availableParallelism()}`,
  ];
  const result = await runTool(script, args, env);
  return { ...result, tool: 'node-gyp' };
}

/** When the youngest file that goes into the addon changed, in milliseconds. */
function sourcesChanged() {
  const native = readdirSync(join(root, 'native'), { recursive: true }).map((name) => join('native', name));
  const files = [...native, 'CMakeLists.txt', 'binding.gyp', 'scripts/install.mjs'];
  return Math.max(...files.map((name) => statSync(join(root, name)).mtimeMs));
}

/** Whether an addon is there, younger than its sources, and loads. `npx collapsar` in a clone comes by here, too. */
function isCurrent(addon) {
  return existsSync(addon) && statSync(addon).mtimeMs > sourcesChanged() && problemLoading(addon) === null;
}

/** One line that tells the compilers of one attempt at the CUDA backend from those of another. */
function cudaCompilers(nvcc) {
  const release = versionOf(nvcc)?.match(/release .*/)?.[0];
  // nvcc calls a compiler of its own choice: CMake hands it that of CUDAHOSTCXX, not that of CXX.
  const host = process.env.CUDAHOSTCXX || process.env.NVCC_CCBIN || 'g++';
  return `${nvcc} ${release} with ${host} ${versionOfCompiler(host)?.split('\n')[0]}`;
}

/** Whether the CUDA backend was tried with these compilers since the sources changed. */
function hasCudaFailed(nvcc) {
  if (!existsSync(cudaFailed) || statSync(cudaFailed).mtimeMs <= sourcesChanged()) return false;
  return readFileSync(cudaFailed, 'utf8').startsWith(`${cudaCompilers(nvcc)}\n`);
}

/**
 * Whether there is nothing to do about the CUDA backend: it is built, or not wanted, or cannot be had by trying again
 * (it takes minutes, and `npx collapsar` comes by here).
 */
function isCudaCurrent() {
  if (wantedCuda === 'off' || (existsSync(backend) && statSync(backend).mtimeMs > sourcesChanged())) return true;
  if (wantedCuda === 'on') return false;
  const nvcc = findNvcc();
  return nvcc === null || hasCudaFailed(nvcc);
}

/** Loads an addon in another process; what went wrong, or null. */
function problemLoading(addon) {
  const load = spawnSync(process.execPath, ['-e', 'require(process.argv[1])', addon], { encoding: 'utf8' });
  return load.status === 0 ? null : load.stderr || `signal ${load.signal}`;
}

function fail(message) {
  console.error(`collapsar: ${message}`);
  process.exit(1);
}

if (process.platform === 'win32') fail('Windows is not supported; WSL2 (Windows Subsystem for Linux) is.');
const wanted = process.env.COLLAPSAR_BUILD || undefined;
if (![undefined, 'cmake', 'gyp'].includes(wanted)) fail(`COLLAPSAR_BUILD is "${wanted}"; expected cmake or gyp.`);
const wantedCuda = process.env.COLLAPSAR_CUDA || undefined;
if (![undefined, 'on', 'off'].includes(wantedCuda)) fail(`COLLAPSAR_CUDA is "${wantedCuda}"; expected on or off.`);
if (wantedCuda === 'on' && wanted === 'gyp')
  fail('COLLAPSAR_CUDA=on needs the build with CMake: COLLAPSAR_BUILD=cmake.');
if (wantedCuda === 'on' && process.platform !== 'linux') fail('COLLAPSAR_CUDA=on: the CUDA backend is for Linux.');

const addons = {
  cmake: join(root, 'build', 'cmake', 'Release', 'collapsar.node'),
  gyp: join(root, 'build', 'Release', 'collapsar.node'),
};
const backend = join(root, 'build', 'cmake', 'Release', 'collapsar_cuda.so');
const cmakeCache = join(root, 'build', 'cmake', 'CMakeCache.txt');
const cudaFailed = join(root, 'build', 'cmake', 'cuda-failed.txt');
const current = (wanted ? [wanted] : Object.keys(addons)).find((way) => isCurrent(addons[way]));
if (current !== undefined && (current === 'gyp' ? wantedCuda !== 'on' : isCudaCurrent())) {
  console.log(`collapsar: ${addons[current]} is up to date`);
  process.exit(0);
}

const started = performance.now();
const tools = findTools();
// nvcc needs CMake, too.
const { build, missing } = chooseBuild(tools, wantedCuda === 'on' ? 'cmake' : wanted);
if (build === undefined) fail(missingToolsMessage(missing));
const nvcc = build === 'cmake' && wantedCuda !== 'off' && process.platform === 'linux' ? findNvcc() : null;
if (wantedCuda === 'on' && nvcc === null) {
  fail(
    'COLLAPSAR_CUDA=on, but there is no nvcc: install the CUDA toolkit, 12.8 or newer (developer.nvidia.com/cuda-downloads), ' +
      'and put its bin folder on PATH, or name nvcc by CUDACXX.',
  );
}

// The loader takes whichever is there, so that of an earlier build must not stay. One that is up to date is kept.
if (build !== current) for (const addon of Object.values(addons)) rmSync(addon, { force: true });
rmSync(backend, { force: true });
const env = buildEnvironment(tools);
const result = build === 'cmake' ? await buildWithCMake(env) : await buildWithGyp(env);
if (result.status !== 0) {
  const compiler = result.compiler ?? tools.compiler;
  const version = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version;
  fail(
    `building the native addon of version ${version} with ${result.tool} failed (status ${result.status}); its last lines:\n` +
      `${result.output.trimEnd().split('\n').slice(-60).join('\n')}\n` +
      `collapsar: the compiler was ${versionOfCompiler(compiler)?.split('\n')[0]}; it needs to be GCC 11, Clang 14 or newer. ` +
      'CXX names another: CXX=g++-12 (or what you have) before the npm command.',
  );
}
const problem = problemLoading(addons[build]);
if (problem !== null) fail(`${addons[build]} was built but does not load:\n${problem}`);
const seconds = (from) => ((performance.now() - from) / 1000).toFixed(0);
console.log(`collapsar: built with ${result.tool} in ${seconds(started)} s`);

if (nvcc === null) {
  const why = { off: 'COLLAPSAR_CUDA=off' }[wantedCuda] ?? (build === 'gyp' ? 'it needs CMake' : 'there is no nvcc');
  console.log(`collapsar: the CUDA backend was left out (${why})`);
} else {
  const cudaStarted = performance.now();
  const output = await buildCuda(env, nvcc);
  if (output === null) {
    rmSync(cudaFailed, { force: true });
    console.log(`collapsar: built the CUDA backend with ${nvcc} in ${seconds(cudaStarted)} s`);
  } else {
    const last = output.trimEnd().split('\n').slice(-40).join('\n');
    if (wantedCuda === 'on') fail(`building the CUDA backend with ${nvcc} failed; its last lines:\n${last}`);
    writeFileSync(cudaFailed, `${cudaCompilers(nvcc)}\n${output}`);
    console.log(
      `collapsar: building the CUDA backend with ${nvcc} failed, so that this build has none; its last lines:\n${last}\n` +
        `collapsar: all of it is in ${cudaFailed}. COLLAPSAR_CUDA=off does not try, COLLAPSAR_CUDA=on insists; ` +
        'CUDAHOSTCXX names another compiler for nvcc to call.',
    );
  }
}
