// The engine's C++ tests, in the folder of the addon's CMake build so that the engine is compiled once.
//   npm run test:cpp                  the engine
//   npm run test:cpp -- --emulated    the CUDA backend's sources on an emulated GPU
//   npm run test:cpp -- --backend     only compiles that backend, for test/engine/device
import { join } from 'node:path';
import { configure, root, run } from './stage.mjs';

const isEmulated = process.argv.includes('--emulated');
const isBackend = process.argv.includes('--backend');
const out = join(root, 'build', 'cmake');
await configure(out, ['COLLAPSAR_TESTS=ON', 'COLLAPSAR_CUDA_EMULATION=ON']);
const only = isBackend ? ['--target', 'collapsar_cuda_emulated'] : [];
await run('cmake', ['--build', out, '--parallel', '2', ...only]);
if (!isBackend) {
  const tests = [isEmulated ? '-R' : '-E', '^cuda_emulated_'];
  await run('ctest', ['--output-on-failure', '--no-tests=error', '--parallel', '2', ...tests], { cwd: out });
}
