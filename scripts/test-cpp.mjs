// The engine's C++ tests, in the folder of the addon's CMake build so that the engine is compiled once.
import { join } from 'node:path';
import { root, run, tool } from './stage.mjs';

const out = join(root, 'build', 'cmake');
await run(tool('cmake-js'), ['configure', '--out', out, '--CDCOLLAPSAR_TESTS=ON'], { quiet: true });
await run('cmake', ['--build', out, '--parallel', '2']);
await run('ctest', ['--output-on-failure', '--parallel', '2'], { cwd: out });
