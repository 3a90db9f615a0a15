// `npm test`: what CI checks, one named stage after the other; stops at the first that fails. What takes longer or
// needs more than Node, a compiler and CMake has scripts of its own: npm run test:emulated, test:slurm, test:ray,
// test:faults.
//   npm test                      all stages
//   npm test -- lint types        these only
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, start, tool } from './stage.mjs';

const script =
  (name, env, ...args) =>
  () =>
    start(process.execPath, [join('scripts', name), ...args], { env });

/** vitest; names the tests that were skipped (what they need is not here), which its own report only counts. */
async function unitTests() {
  mkdirSync(join(root, 'build'), { recursive: true });
  const report = join(root, 'build', 'vitest.json');
  const result = await start(tool('vitest'), [
    'run',
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${report}`,
  ]);
  const files = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')).testResults : [];
  const tests = files.flatMap((file) => file.assertionResults);
  const skipped = tests.filter((test) => test.status === 'skipped' || test.status === 'pending');
  const names = skipped.map((test) => `test "${test.fullName}"`);
  const { status, skipped: also } = result.status === 0 ? await emulatedDeviceTests() : { ...result, skipped: [] };
  return { status, skipped: [...result.skipped, ...names, ...also] };
}

/**
 * The device tests once more, with the backend's own sources on the emulated GPU, which the C++ tests' build leaves.
 */
async function emulatedDeviceTests() {
  const backend = join(root, 'build', 'cmake', 'Release', 'collapsar_cuda_emulated.so');
  if (!existsSync(backend)) return { status: 0, skipped: ['device tests on the emulated GPU, which was not built'] };
  const env = { COLLAPSAR_TEST_DEVICE: 'cuda', COLLAPSAR_CUDA_BACKEND: backend };
  console.log('\nThe device tests on the emulated GPU; those of the fake one are left out:');
  return await start(tool('vitest'), ['run', 'test/engine/device'], { env });
}

// The stage CUDA compiles the backend for one GPU; the other builds leave it out, each of which would take minutes.
process.env.COLLAPSAR_CUDA ??= 'off';

/**
 * A stage passes when its command ends with 0. `advice` says what to do when it does not. One that is `early` begins
 * with the first, for it keeps no more than one processor busy, and shows its output when its turn comes.
 */
const stages = [
  { name: 'lint', run: script('lint.mjs'), advice: 'npx biome check --write . mends most of it' },
  {
    name: 'build',
    run: script('install.mjs', { COLLAPSAR_BUILD: 'cmake' }),
    advice: 'docs/internals/build.md has a table of what goes wrong; npm run install repeats it',
  },
  { name: 'dist', run: script('compile.mjs'), advice: 'npm run prepare repeats it' },
  { name: 'C++ tests', run: script('test-cpp.mjs'), advice: 'npm run test:cpp; one alone: build/cmake/<name>_test' },
  {
    name: 'types',
    early: true,
    run: () => start(tool('tsc'), ['-p', 'tsconfig.json'], { quiet: true }),
    advice: 'mend the types, then npm run typecheck',
  },
  { name: 'unit tests', run: unitTests, advice: 'npx vitest run test/<file> repeats one file' },
  {
    name: 'sanitizers',
    run: script('test-sanitize.mjs'),
    advice: 'npm run test:sanitize; the builds are build/asan, build/tsan',
  },
  {
    name: 'package, by cmake-js and binding.gyp',
    run: script('test-package.mjs'),
    advice:
      'npm run test:package; "files" in package.json says what is packed; binding.gyp must do what CMakeLists.txt does',
  },
  {
    name: 'Python',
    run: script('test-python.mjs'),
    advice: 'npm run test:python; PYTHON=<interpreter> chooses another, python -m pytest in python/ repeats the tests',
  },
  { name: 'CUDA', run: script('test-cuda.mjs', {}, '--all'), advice: 'npm run test:cuda -- --all' },
];

const seconds = (milliseconds) => `${(milliseconds / 1000).toFixed(1)} s`;
const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !stages.some((stage) => stage.name === name));
if (unknown.length > 0) {
  console.error(`no stage ${unknown.join(', ')}; there are: ${stages.map((stage) => stage.name).join(', ')}`);
  process.exit(2);
}

const chosen = stages.filter((stage) => wanted.length === 0 || wanted.includes(stage.name));
const done = [];
let failed = null;
const started = performance.now();
/** What a stage came to, and how long it took. */
async function timed(stage) {
  const from = performance.now();
  const result = await stage.run();
  return { ...result, took: performance.now() - from };
}
const begun = new Map(chosen.filter(({ early }) => early).map((stage) => [stage, timed(stage)]));
for (const stage of chosen) {
  console.log(`\n=== ${stage.name} ${'='.repeat(Math.max(3, 100 - stage.name.length))}`);
  const result = await (begun.get(stage) ?? timed(stage));
  if (stage.early) process.stdout.write(result.output);
  const { took, skipped, status } = result;
  done.push({ name: stage.name, took, skipped, passed: status === 0 });
  if (result.status !== 0) {
    failed = stage;
    break;
  }
}

console.log(`\n=== summary ${'='.repeat(92)}`);
for (const { name, took, skipped, passed } of done) {
  console.log(`${passed ? 'ok    ' : 'FAILED'}  ${name.padEnd(14)} ${seconds(took).padStart(8)}`);
  for (const what of skipped) console.log(`          skipped: ${what}`);
}
for (const { name } of chosen.slice(done.length)) console.log(`not run ${name}`);
console.log(
  `${failed === null ? 'all passed' : `stopped at "${failed.name}"`} after ${seconds(performance.now() - started)}`,
);
if (failed !== null) {
  console.error(`What to do: ${failed.advice}`);
  process.exit(1);
}
