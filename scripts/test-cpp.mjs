// The engine's C++ tests, in the folder of the addon's CMake build so that the engine is compiled once.
//   npm run test:cpp                  the engine
//   npm run test:cpp -- --emulated    the CUDA backend's sources on an emulated GPU
import { join } from 'node:path';
import { configure, root, run } from './stage.mjs';

const tests = process.argv.includes('--emulated') ? '-R' : '-E';
const out = join(root, 'build', 'cmake');
await configure(out, ['COLLAPSAR_TESTS=ON', 'COLLAPSAR_CUDA_EMULATION=ON']);
await run('cmake', ['--build', out, '--parallel', '2']);
await run('ctest', ['--output-on-failure', '--no-tests=error', '--parallel', '2', tests, '^cuda_emulated_'], {
  cwd: out,
});
