// Compiles the native addon: `collapsar build` runs this, and scripts/install.mjs in a clone and where no prebuilt
// addon fits.
// With CMake, which cmake-js drives, it becomes build/cmake/Release/collapsar.node; without it, by npm's node-gyp,
// build/Release/collapsar.node. Nothing is downloaded: the Node-API headers come from the package node-api-headers.
// With CMake and nvcc also the CUDA backend is made, build/cmake/Release/collapsar_cuda.so, where NVIDIA's driver is and for
// its GPUs.
// COLLAPSAR_BUILD=cmake|gyp chooses the way; COLLAPSAR_CUDA=on insists on the backend, off leaves it out, auto forgets
// either. Exit status 1, with what is missing and how to get it, if there is no way.
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  chooseBuild,
  fail,
  findNodeGyp,
  findNvcc,
  findTools,
  gpuArchitectures,
  hasDriver,
  missingToolsMessage,
  namedCompiler,
  nvccPackages,
  placeOf,
  versionOf,
  versionOfCompiler,
} from './addon-tools.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const require = createRequire(import.meta.url); // finds hoisted packages too
/** A clone keeps its objects for the next build; an installed package what runs. */
const isClone = existsSync(join(root, 'src'));

const out = join(root, 'build', 'cmake');
const cmakeCache = join(out, 'CMakeCache.txt');
const addons = {
  cmake: join(out, 'Release', 'collapsar.node'),
  gyp: join(root, 'build', 'Release', 'collapsar.node'),
};
const backend = join(out, 'Release', 'collapsar_cuda.so');
const cudaFailed = join(out, 'cuda-failed.txt');
const cudaChoice = join(root, 'build', 'cuda-choice.txt');
/** Where a release has its binding.gyp: package managers take one at the top for an install script. */
const gypOfRelease = join(root, 'native', 'binding.gyp');

/** Seconds of one processor that a build takes, to say how long it will be. */
const work = { cmake: 130, gyp: 260, cudaBase: 15, cudaArchitecture: 25 };
const seconds = (milliseconds) => (milliseconds / 1000).toFixed(0);
function about(processorSeconds) {
  const cores = availableParallelism();
  const expected = Math.max(10, processorSeconds / cores);
  return `about ${Math.ceil(expected / 5) * 5} s with ${cores} ${cores === 1 ? 'core' : 'cores'}`;
}
const say = (what) => console.log(`collapsar: ${what}`);

/** The environment without npm's own settings: node-gyp lets npm_config_nodedir and others override its arguments. */
function buildEnvironment(tools) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_(config|package)_/i.test(name)));
  // gyp's Makefile calls g++ where the environment does not say otherwise; cmake looks by itself.
  if (tools.compiler === 'clang++') env.CXX ||= 'clang++';
  return env;
}

/** Runs a command; resolves to its status and everything it printed. */
function runTool(command, args, env, cwd = root) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    const keep = (chunk) => {
      output += chunk;
    };
    child.stdout.setEncoding('utf8').on('data', keep);
    child.stderr.setEncoding('utf8').on('data', keep);
    child.on('error', (error) => resolve({ status: null, output: `${output}${error.message}` }));
    child.on('close', (status) => resolve({ status, output }));
  });
}

/** The compiler in CMake's cache, or undefined. */
function cachedCompiler() {
  if (!existsSync(cmakeCache)) return undefined;
  return readFileSync(cmakeCache, 'utf8').match(/^CMAKE_CXX_COMPILER:\w+=(.+)$/m)?.[1];
}

/** Runs a command of cmake-js, with options of its own and then such as CMake has. */
function cmakeJs(command, env, own, options = []) {
  const args = [command, '--directory', root, '--out', out, '--log-level', 'warn', ...own, '--', ...options];
  return runTool(process.execPath, [findCMakeJs(), ...args], env);
}

function findCMakeJs() {
  try {
    return require.resolve('cmake-js/bin/cmake-js');
  } catch {
    return fail(
      'the package cmake-js, which collapsar depends on, is not installed: npm ci in a clone, else npm install.',
    );
  }
}

const configure = (env, ...options) =>
  // cmake-js would put flags of its own in the place of those of CXXFLAGS.
  cmakeJs('configure', env, compilerOptions(), [`-DCMAKE_CXX_FLAGS=${env.CXXFLAGS ?? ''}`, ...options]);
const compile = (env, target) =>
  cmakeJs('build', env, [...compilerOptions(), '--target', target, '--parallel', String(availableParallelism())]);

/** Names the compiler of CXX where there is no other: cmake-js looks for g++ and clang++ alone. CMake reads CXX. */
function compilerOptions() {
  if (!process.env.CXX || placeOf('g++') || placeOf('clang++')) return [];
  return ['--cc', 'cc', '--cxx', namedCompiler().join(';')];
}

async function buildWithCMake(env) {
  // Once there is a cache CMake keeps to its compiler, whatever CXX says. Only objects of another one are compiled
  // again.
  if (process.env.CXX && cachedCompiler() !== namedCompiler()[0]) rmSync(cmakeCache, { force: true });
  const options = ['-DCOLLAPSAR_TESTS=OFF', '-DCOLLAPSAR_CUDA=OFF'];
  let result = await configure(env, ...options);
  if (result.status !== 0 && existsSync(cmakeCache)) {
    // A cache of another place, generator or compiler: start afresh once.
    rmSync(out, { recursive: true, force: true });
    result = await configure(env, ...options);
  }
  if (result.status === 0) result = await compile(env, 'collapsar');
  const compiler = process.env.CXX || cachedCompiler();
  // The compiler of a failed build must not be that of the next, before which another one may have been installed.
  if (result.status !== 0) rmSync(cmakeCache, { force: true });
  return { ...result, tool: 'CMake', compiler };
}

/**
 * The CUDA backend, in the folder of the addon's build and after it, so that what fails here fails alone.
 * Resolves to null, or to the output of what failed.
 */
async function buildCuda(env, nvcc, architectures) {
  const cuda = { ...env, CUDACXX: nvcc };
  const chosen = architectures === null ? [] : [`-DCOLLAPSAR_CUDA_ARCHITECTURES=${architectures.join(';')}`];
  const configured = await configure(cuda, '-DCOLLAPSAR_CUDA=ON', ...chosen);
  const result = configured.status === 0 ? await compile(cuda, 'collapsar_cuda') : configured;
  if (result.status === 0 && existsSync(backend)) return null;
  // Nor are nvcc and its compiler looked for again while they are in the cache.
  rmSync(cmakeCache, { force: true });
  await configure(env, '-DCOLLAPSAR_CUDA=OFF');
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
  const gyp = join(root, 'binding.gyp');
  const isRelease = !existsSync(gyp);
  if (isRelease) cpSync(gypOfRelease, gyp);
  // A relative path, for gyp's Makefile does not quote what it hands to the compiler: the package's own may have
  // spaces. Not `rebuild`: that empties build/.
  const args = ['configure', 'build', '--nodedir=build/node-headers', '--force-process-config'];
  const result = await runTool(process.execPath, [findNodeGyp(), ...args, `--jobs=${availableParallelism()}`], env);
  if (isRelease) rmSync(gyp);
  return { ...result, tool: 'node-gyp' };
}

/** When the youngest file that goes into the addon changed, in milliseconds. */
function sourcesChanged() {
  const native = readdirSync(join(root, 'native'), { recursive: true, encoding: 'utf8' })
    .filter((name) => !/^test\b/.test(name))
    .map((name) => join('native', name));
  const top = ['CMakeLists.txt', 'binding.gyp', 'scripts/build-addon.mjs'].filter((name) =>
    existsSync(join(root, name)),
  );
  const files = [...native, ...top];
  return Math.max(...files.map((name) => statSync(join(root, name)).mtimeMs));
}

/** Whether an addon is there, younger than its sources, and loads. */
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

/** Loads an addon in another process; what went wrong, or null. */
function problemLoading(addon) {
  const load = spawnSync(process.execPath, ['-e', 'require(process.argv[1])', addon], { encoding: 'utf8' });
  return load.status === 0 ? null : load.stderr || `signal ${load.signal}`;
}

/** What COLLAPSAR_CUDA says, or said when it was last set: on, off, or undefined. */
function chosenCuda() {
  const given = process.env.COLLAPSAR_CUDA;
  if (!given) return existsSync(cudaChoice) ? readFileSync(cudaChoice, 'utf8').trim() : undefined;
  if (!['on', 'off', 'auto'].includes(given)) fail(`COLLAPSAR_CUDA is "${given}"; expected on, off or auto.`);
  if (given === 'auto') {
    rmSync(cudaChoice, { force: true });
    return undefined;
  }
  mkdirSync(dirname(cudaChoice), { recursive: true });
  writeFileSync(cudaChoice, `${given}\n`);
  return given;
}

/** Whether to build the CUDA backend with what, or why not. */
function planCuda(choice, build) {
  if (choice === 'off') return { without: 'COLLAPSAR_CUDA=off, now or earlier; auto forgets it' };
  if (process.platform !== 'linux') return { without: 'it is for Linux' };
  if (choice !== 'on' && !hasDriver()) {
    return { without: 'there is no NVIDIA driver; COLLAPSAR_CUDA=on compiles it all the same' };
  }
  if (build === 'gyp') return { without: 'it needs CMake' };
  const nvcc = findNvcc();
  return nvcc === null
    ? { without: `there is no nvcc: ${nvccPackages}, or install the CUDA toolkit, 12.8 or newer` }
    : { nvcc };
}

/** What the backend is compiled for: the GPUs of this machine; where there is none, null: all that it knows. */
function cudaArchitectures() {
  const given = process.env.COLLAPSAR_CUDA_ARCHITECTURES?.split(/[;,]/).filter(Boolean);
  if (given?.length) return given;
  const found = gpuArchitectures();
  return found.length > 0 ? found : null;
}

/**
 * Leaves of an installed package's build what runs: the objects are ten times as large, and nobody compiles there
 * again.
 */
function dropObjects() {
  const kept = [...Object.values(addons), backend, cudaFailed, cudaChoice];
  const prune = (folder) => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      if (kept.includes(path)) continue;
      if (kept.some((file) => file.startsWith(`${path}/`))) prune(path);
      else rmSync(path, { recursive: true, force: true });
    }
  };
  prune(join(root, 'build'));
}

if (process.platform === 'win32') fail('Windows is not supported; WSL2 (Windows Subsystem for Linux) is.');
const wanted = process.env.COLLAPSAR_BUILD || undefined;
if (![undefined, 'cmake', 'gyp'].includes(wanted)) fail(`COLLAPSAR_BUILD is "${wanted}"; expected cmake or gyp.`);
const choice = chosenCuda();
if (choice === 'on' && wanted === 'gyp') fail('COLLAPSAR_CUDA=on needs the build with CMake: COLLAPSAR_BUILD=cmake.');
if (choice === 'on' && process.platform !== 'linux') fail('COLLAPSAR_CUDA=on: the CUDA backend is for Linux.');

const current = (wanted ? [wanted] : Object.keys(addons)).find((way) => isCurrent(addons[way]));
const isBackendCurrent = existsSync(backend) && statSync(backend).mtimeMs > sourcesChanged();
if (current !== undefined) {
  const { nvcc } = isBackendCurrent && choice !== 'off' ? {} : planCuda(choice, current);
  // Failing again takes as long as it did.
  if (choice === 'on' ? isBackendCurrent : nvcc === undefined || hasCudaFailed(nvcc)) {
    if (choice === 'off') rmSync(backend, { force: true });
    say(`${addons[current]} is up to date`);
    process.exit(0);
  }
}

const tools = findTools();
// nvcc needs CMake, too.
const { build, missing } = chooseBuild(tools, choice === 'on' ? 'cmake' : wanted);
if (build === undefined) fail(missingToolsMessage(missing));
const cuda = planCuda(choice, build);
if (choice === 'on' && cuda.nvcc === undefined) {
  fail(
    `COLLAPSAR_CUDA=on, but there is no nvcc: ${nvccPackages} (in the environment of COLLAPSAR_PYTHON, of VIRTUAL_ENV or of ` +
      'the Python on PATH), or install the CUDA toolkit, 12.8 or newer (developer.nvidia.com/cuda-downloads), and put its ' +
      'bin folder on PATH, or name nvcc by CUDACXX.',
  );
}

// The loader takes whichever is there, so that of an earlier build must not stay. One that is up to date is kept.
if (build !== current) for (const addon of Object.values(addons)) rmSync(addon, { force: true });
rmSync(backend, { force: true });
const env = buildEnvironment(tools);
const started = performance.now();
say(`compiling the addon with ${build === 'cmake' ? 'CMake' : 'node-gyp'}: ${about(work[build])}`);
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
say(`built with ${result.tool} in ${seconds(performance.now() - started)} s`);

if (cuda.nvcc === undefined) {
  say(`the CUDA backend was left out (${cuda.without})`);
} else {
  const architectures = cudaArchitectures();
  const cudaStarted = performance.now();
  const names = architectures?.join(', ') ?? 'all GPUs it knows';
  say(
    `compiling the CUDA backend for ${names}: ${about(work.cudaBase + work.cudaArchitecture * (architectures?.length ?? 4))}`,
  );
  const output = await buildCuda(env, cuda.nvcc, architectures);
  if (output === null) {
    rmSync(cudaFailed, { force: true });
    say(`built the CUDA backend with ${cuda.nvcc} in ${seconds(performance.now() - cudaStarted)} s`);
  } else {
    const last = output.trimEnd().split('\n').slice(-40).join('\n');
    if (choice === 'on') fail(`building the CUDA backend with ${cuda.nvcc} failed; its last lines:\n${last}`);
    writeFileSync(cudaFailed, `${cudaCompilers(cuda.nvcc)}\n${output}`);
    say(
      `building the CUDA backend with ${cuda.nvcc} failed, so that this build has none; its last lines:\n${last}\n` +
        `collapsar: all of it is in ${cudaFailed}. COLLAPSAR_CUDA=off does not try, COLLAPSAR_CUDA=on insists; ` +
        'CUDAHOSTCXX names another compiler for nvcc to call.',
    );
  }
}
if (!isClone) dropObjects();
