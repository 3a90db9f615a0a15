// What tests and benchmarks need beside the addon, from the folder of its CMake build: the emulated GPU, the rooflines.
//   node scripts/native-target.mjs emulatedGpu|rooflines
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { configureArguments, root } from './stage.mjs';
import { whileLocked } from './while-locked.mjs';

const targets = {
  emulatedGpu: {
    target: 'collapsar_cuda_emulated',
    file: 'collapsar_cuda_emulated.so',
    options: ['COLLAPSAR_TESTS=ON', 'COLLAPSAR_CUDA_EMULATION=ON'],
    sources: ['native'],
  },
  rooflines: {
    target: 'rooflines',
    file: 'rooflines.node',
    options: ['COLLAPSAR_BENCH=ON'],
    sources: ['native', 'bench/native'],
  },
};

/** The path of what `name` is built as, compiled now where a source is newer; undefined where it cannot be compiled. */
export function nativeTarget(name) {
  const { target, file, options, sources } = targets[name];
  const folder = join(root, 'build', 'cmake');
  const built = join(folder, 'Release', file);
  const newest = Math.max(...sources.map((source) => newestIn(join(root, source))));
  const isFresh = () => existsSync(built) && statSync(built).mtimeMs > newest;
  if (isFresh()) return built;
  return whileLocked('cmake', 600, () => {
    if (isFresh()) return built;
    const build = ['--build', folder, '--parallel', '2', '--target', target];
    for (const args of [configureArguments(folder, options), build]) {
      const env = { ...process.env, LD_PRELOAD: '' }; // the compiler needs no sanitizer
      const { status, stdout, stderr } = spawnSync('cmake', args, { env, encoding: 'utf8' });
      if (status === 0) continue;
      console.error(`${target} cannot be built: ${stdout ?? ''}${stderr ?? ''}`);
      return undefined;
    }
    utimesSync(built, new Date(), new Date()); // it may not depend on what has changed
    return built;
  });
}

function newestIn(folder) {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Math.max(...files.map(({ parentPath, name }) => statSync(join(parentPath, name)).mtimeMs));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const built = nativeTarget(process.argv[2]);
  if (built === undefined) process.exit(1);
  console.log(built);
}
