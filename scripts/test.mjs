// `npm test` and `npm run ci`: named stages one after the other; stops at the first that fails. What needs a cluster,
// or takes still longer, has scripts of its own: npm run test:slurm, test:ray, test:faults.
//   npm test                      in minutes: lint, types, unit tests and C++ tests
//   npm run ci                    the rest: the emulated GPU, long unit tests, sanitizers, prebuilt addons, packages,
//                                 CUDA, other processors
//   npm test -- lint types        these stages only
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { root, start, tool } from './stage.mjs';

const script =
  (name, env, ...args) =>
  () =>
    start(process.execPath, [join('scripts', name), ...args], { env });

/**
 * What would run a test that was skipped, by its file and name: the first that fits.
 * @type {[RegExp, string][]}
 */
const missingFor = [
  [/rollout-data\.test|gsm-verl|trl-runs|runs of TRL/, 'the data sets that the test names, in shared/data'],
  [/tensorboard\.test|prometheus\.test/, 'Python with tensorboard and prometheus-client (COLLAPSAR_PYTHON)'],
  [/logs-python|engine-device-(example|ipc)/, 'Python with numpy, torch and safetensors (COLLAPSAR_PYTHON)'],
  [/engine-device/, 'Linux with CMake, for the emulated GPU, or a GPU: COLLAPSAR_TEST_DEVICE=cuda'],
  [/(report|live|moved)-page\.test/, "Chromium: Debian's package chromium, or COLLAPSAR_CHROMIUM"],
  [/Float16Array/, 'Node 24 or newer'],
  [/rights|can be read by now|unprivileged/, 'a user other than root'],
];
const whatWouldRun = (test) =>
  missingFor.find(([pattern]) => pattern.test(test))?.[1] ?? 'what the condition beside it in its file asks for';

/** Unit tests of the whole run, for the line that closes it. */
const counts = { passed: 0, failed: 0, skipped: 0 };
const countsFile = join(root, 'build', 'unit-tests.json');

/** vitest; names the tests that were skipped, which its own report only counts. `set`: see vitest.config.ts. */
async function unitTests(set, env = {}, files = []) {
  mkdirSync(join(root, 'build'), { recursive: true });
  const report = join(root, 'build', 'vitest.json');
  rmSync(report, { force: true });
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  const result = await start(tool('vitest'), ['run', ...reporters, ...files], {
    env: { ...env, COLLAPSAR_TESTS: set },
  });
  const ran = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')).testResults : [];
  const tests = ran.flatMap((file) => file.assertionResults.map((test) => ({ ...test, file: basename(file.name) })));
  const isSkipped = ({ status }) => ['skipped', 'pending', 'todo'].includes(status);
  const failed = tests.filter(({ status }) => status === 'failed').length;
  const passed = tests.filter(({ status }) => status === 'passed').length;
  if (passed + failed === 0) console.error('no unit test ran');
  const status = passed === 0 ? 1 : result.status;
  counts.passed += passed;
  counts.skipped += tests.filter(isSkipped).length;
  counts.failed += status === 0 ? failed : Math.max(1, failed); // a file that does not load has no tests
  const names = tests.filter(isSkipped).map(({ file, fullName }) => {
    const test = `${file} "${fullName}"`;
    return `${test}; needs ${whatWouldRun(test)}`;
  });
  return { status, skipped: [...result.skipped, ...names] };
}

// The stage CUDA compiles the backend for one GPU; the other builds leave it out, each of which would take minutes.
process.env.COLLAPSAR_CUDA ??= 'off';

/**
 * A stage passes when its command ends with 0. `advice` says what to do when it does not. One that is `early` begins
 * with the first, for it keeps no more than one processor busy, and shows its output when its turn comes.
 */
const built = [
  {
    name: 'build',
    run: script('build-addon.mjs', { COLLAPSAR_BUILD: 'cmake' }),
    advice: 'docs/internals/build.md has a table of what goes wrong; npm run install repeats it',
  },
  { name: 'dist', run: script('compile.mjs'), advice: 'npm run prepare repeats it' },
];
const quick = [
  { name: 'lint', run: script('lint.mjs'), advice: 'npx biome check --write . mends most of it' },
  ...built,
  { name: 'C++ tests', run: script('test-cpp.mjs'), advice: 'npm run test:cpp; one alone: build/cmake/<name>_test' },
  {
    name: 'types',
    early: true,
    run: async () => {
      const results = await Promise.all(
        ['tsconfig.json', 'src/report/page'].map((project) => start(tool('tsc'), ['-p', project], { quiet: true })),
      );
      return results.find(({ status }) => status !== 0) ?? results[0];
    },
    advice: 'mend the types, then npm run typecheck',
  },
  {
    // Reads the types in dist/, after the stage that makes them.
    name: 'types of .mjs',
    run: () => start(tool('tsc'), ['-p', 'tsconfig.mjs.json']),
    advice: 'mend the types, then npm run typecheck',
  },
  { name: 'unit tests', run: () => unitTests('quick'), advice: 'npx vitest run test/<file> repeats one file' },
];
const long = [
  ...built,
  {
    name: 'docs',
    run: () => start(tool('typedoc'), []),
    advice: 'npm run docs; typedoc.json lists the types that are kept back on purpose',
  },
  {
    name: 'emulated GPU',
    run: script('test-cpp.mjs', {}, '--emulated'),
    advice: 'npm run test:cpp -- --emulated; npx vitest run test/engine/device runs the engine on it',
  },
  { name: 'long unit tests', run: () => unitTests('long'), advice: 'npx vitest run test/<file> repeats one file' },
  {
    name: 'sanitizers',
    run: script('test-sanitize.mjs'),
    advice: 'npm run test:sanitize; the builds are build/asan, build/tsan',
  },
  {
    name: 'prebuilt addons',
    run: script('test-prebuilt.mjs'),
    advice: 'npm run test:prebuilt; npm run prebuild makes them alone',
  },
  {
    name: 'packages',
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
  {
    name: 'other processors',
    run: () => start('bash', [join('scripts', 'test-emulated.sh'), 'arm64']),
    advice: 'npm run test:emulated',
  },
];
const isCi = process.argv[2] === '--ci';
const stages = isCi ? long : quick;

const seconds = (milliseconds) => `${(milliseconds / 1000).toFixed(1)} s`;
const wanted = process.argv.slice(isCi ? 3 : 2);
const unknown = wanted.filter((name) => !stages.some((stage) => stage.name === name));
if (unknown.length > 0) {
  console.error(`no stage ${unknown.join(', ')}; there are: ${stages.map((stage) => stage.name).join(', ')}`);
  process.exit(2);
}

const chosen = stages.filter((stage) => wanted.length === 0 || wanted.includes(stage.name));
const done = [];
/** @type {(typeof chosen)[number] | null} */
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
const width = Math.max(...chosen.map(({ name }) => name.length));
for (const { name, took, skipped, passed } of done) {
  console.log(`${passed ? 'ok    ' : 'FAILED'}  ${name.padEnd(width)} ${seconds(took).padStart(8)}`);
  for (const what of skipped) console.log(`          skipped: ${what}`);
}
for (const { name } of chosen.slice(done.length)) console.log(`not run ${name}`);
/** Skips that COLLAPSAR_ALLOWED_SKIPS has no pattern for (regular expressions, a line each), where it is set. */
const allowed = process.env.COLLAPSAR_ALLOWED_SKIPS?.split('\n').filter((line) => line.trim() !== '');
const unexpected =
  allowed === undefined
    ? []
    : done
        .flatMap(({ skipped }) => skipped)
        .filter((what) => !allowed.some((line) => new RegExp(line.trim()).test(what)));
for (const what of unexpected) console.error(`FAILED  skipped, and .ci/run does not list it: ${what}`);
console.log(
  `${failed === null && unexpected.length === 0 ? 'all passed' : `stopped at "${failed?.name ?? 'skips'}"`} after ${seconds(performance.now() - started)}`,
);
if (failed !== null) console.error(`What to do: ${failed.advice}`);
// The unit tests of both commands, where the other one was the last to run before this one.
if (isCi && existsSync(countsFile)) {
  const before = JSON.parse(readFileSync(countsFile, 'utf8'));
  for (const name of Object.keys(counts)) counts[name] += before[name];
  rmSync(countsFile);
} else if (!isCi) {
  mkdirSync(join(root, 'build'), { recursive: true });
  writeFileSync(countsFile, JSON.stringify(counts));
}
console.log(
  `${counts.passed} passed, ${counts.failed} failed${counts.skipped > 0 ? `, ${counts.skipped} skipped` : ''}`,
);
if (failed !== null || unexpected.length > 0) process.exitCode = 1;
