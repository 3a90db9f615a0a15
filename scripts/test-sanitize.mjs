// The C++ tests and the addon under AddressSanitizer and UndefinedBehaviorSanitizer, and what threads share, those of
// the emulated GPU too, under ThreadSanitizer. Warnings are errors here.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { check, configure, root, run, skip, tool, versionOf } from './stage.mjs';

// -O1: the tests then run about as fast as at -O3 and compile in half the time.
const options = ['COLLAPSAR_TESTS=ON', 'COLLAPSAR_WERROR=ON', 'COLLAPSAR_FLAGS=-O1', 'COLLAPSAR_CUDA=OFF'];
const parallel = ['--parallel', '2'];

const env = {
  // More threads find no more here, and each round takes its time.
  COLLAPSAR_TEST_THREADS: '3',
  ASAN_OPTIONS: 'detect_stack_use_after_return=1:strict_init_order=1',
  UBSAN_OPTIONS: 'print_stacktrace=1',
  TSAN_OPTIONS: 'halt_on_error=1:second_deadlock_stack=1',
};

console.log('C++ tests under ASan and UBSan');
const asan = join(root, 'build', 'asan');
await configure(asan, [...options, 'COLLAPSAR_SANITIZE=address,undefined']);
await run('cmake', ['--build', asan, ...parallel]);
// Whether a kernel gives the same bits again is tested without a sanitizer.
const leftOut = ['-E', '^cuda_emulated_repeats$'];
await run('ctest', ['--output-on-failure', '--no-tests=error', ...parallel, ...leftOut], { cwd: asan, env });

console.log('\nthe addon under ASan and UBSan');
// The runtime must be there before Node is, which only preloading can do; GCC names its file.
const library = (name) => spawnSync('c++', [`-print-file-name=${name}`], { encoding: 'utf8' }).stdout.trim();
const preload = [library('libasan.so'), library('libstdc++.so.6')];
if (process.platform !== 'linux' || !preload.every((file) => existsSync(file))) {
  skip(`the addon under ASan (it needs GCC's libasan.so; the compiler is ${versionOf('c++')})`);
} else {
  // What reads tensors, texts, lines of logs and pages of Parquet by native code.
  const files = [
    ...['test/engine/engine-', 'test/engine/device', 'test/engine/row-readings', 'test/metrics/text-metrics'],
    ...['test/logs/rollouts/scanned-lines', 'test/logs/rollouts/parquet-columns'],
  ];
  await run(tool('vitest'), ['run', ...files], {
    env: {
      ...env,
      // Node frees little of its own at exit, so that leaks are the leak tests' business.
      ASAN_OPTIONS: `${env.ASAN_OPTIONS}:detect_leaks=0`,
      LD_PRELOAD: preload.join(' '),
      COLLAPSAR_ADDON: join(asan, 'Release', 'collapsar.node'),
      COLLAPSAR_SANITIZED: '1',
    },
  });
}

console.log('\nC++ tests of what threads share, under TSan');
const tsan = join(root, 'build', 'tsan');
const { tests } = JSON.parse(readFileSync(join(root, 'native', 'sources.json'), 'utf8'));
const threaded = tests
  .map((file) => basename(file, '.cpp'))
  .filter((name) => /thread|bits|step_tokens|text/.test(name));
check(threaded.length > 0, 'native/sources.json names no test of what threads share');
const tsanOptions = [...options, 'COLLAPSAR_SANITIZE=thread'].map((option) => `-D${option}`);
await run('cmake', ['-S', root, '-B', tsan, ...tsanOptions], { quiet: true });
const backend = process.platform === 'linux' ? ['cuda_check', 'collapsar_cuda_emulated'] : [];
await run('cmake', ['--build', tsan, ...parallel, '--target', ...threaded, ...backend]);
// Newer kernels randomise more address bits than GCC 12's TSan can place: run without that.
const fixed = versionOf('setarch') === null ? [] : ['setarch', process.arch === 'x64' ? 'x86_64' : 'aarch64', '-R'];
const chosen = `^(${threaded.join('|')}|cuda_emulated_.*)$`;
const [command, ...args] = [
  ...fixed,
  'ctest',
  '--output-on-failure',
  '--no-tests=error',
  ...parallel,
  '-R',
  chosen,
  ...leftOut,
];
await run(command, args, { cwd: tsan, env: { ...env, COLLAPSAR_TEST_THREADS: '2' } });
