// The steps that `npm test` is made of: a step runs one command, shows its output as it comes, and notes what was
// skipped.
import { spawn, spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of package.json. */
export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** A command that a package in node_modules brings: quieter and quicker than npx. */
export const tool = (name) => join(root, 'node_modules', '.bin', name);

/** What CMake takes to configure a build of the addon in a folder; options as CMake's without -D. */
export function configureArguments(folder, options) {
  const require = createRequire(import.meta.url);
  const headers = [require('node-api-headers').include_dir, resolve(require('node-addon-api').include_dir)].join(';');
  const generator = versionOf('ninja') === null ? [] : ['-G', 'Ninja'];
  const given = [`CMAKE_JS_INC=${headers}`, ...options].map((option) => `-D${option}`);
  return ['-S', root, '-B', folder, ...generator, ...given];
}

/** Configures it. */
export const configure = (folder, options) => run('cmake', configureArguments(folder, options), { quiet: true });

/** A line that starts so, from any command, names something that did not run; the summary of `npm test` repeats it. */
const skipMark = 'skipped: ';

/** Says that something was not run, and why. */
export function skip(what) {
  console.log(skipMark + what);
}

/** The first line of `command --version`, or null if there is no such command. */
export function versionOf(command) {
  const result = spawnSync(command, ['--version'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  return result.status === 0 ? result.stdout.split('\n')[0] : null;
}

/**
 * Runs a command without stdin and passes its output through.
 * Resolves to its exit status (null: killed by a signal), its output and the things it skipped.
 */
export function start(command, args, { env = {}, cwd = root, quiet = false } = {}) {
  return new Promise((resolve, reject) => {
    // Through a pipe nobody sees colours; some programs send them all the same.
    const colours = process.stdout.isTTY ? {} : { NO_COLOR: '1', FORCE_COLOR: undefined };
    const merged = { ...process.env, ...colours, ...env };
    for (const name of Object.keys(merged)) if (merged[name] === undefined) delete merged[name];
    const child = spawn(command, args, { cwd, env: merged, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    const pass = (target) => (chunk) => {
      output += chunk;
      if (!quiet) target.write(chunk);
    };
    child.stdout.setEncoding('utf8').on('data', pass(process.stdout));
    child.stderr.setEncoding('utf8').on('data', pass(process.stderr));
    child.on('error', reject);
    child.on('close', (status, signal) => {
      const skipped = output.split('\n').filter((line) => line.startsWith(skipMark));
      resolve({ status, signal, output, skipped: skipped.map((line) => line.slice(skipMark.length)) });
    });
  });
}

/** As `start`, but ends this process with status 1 unless the command succeeds. */
export async function run(command, args, options) {
  const result = await start(command, args, options);
  if (result.status !== 0) {
    if (options?.quiet) process.stdout.write(result.output);
    console.error(`failed (${result.signal ?? `status ${result.status}`}): ${[command, ...args].join(' ')}`);
    process.exit(1);
  }
  return result;
}

/**
 * Ends this process with status 1 and a reason unless the condition holds.
 * @returns {asserts condition}
 */
export function check(condition, problem) {
  if (condition) return;
  console.error(`failed: ${problem}`);
  process.exit(1);
}
