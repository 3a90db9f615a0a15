// What can happen to an analysis while it runs: each function makes logs, lets it happen to `collapsar analyze --out`,
// and checks that what comes of it is the result of an undisturbed analysis, or an error that names what to do. They
// throw where it is not, and give { skipped } where this machine does not let it happen.
import { spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

const JOURNAL = '.collapsar-journal';

/** Reproducible numbers in [0, 1) (mulberry32). */
export function randomFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function expectThat(condition, problem) {
  if (!condition) throw new Error(problem);
}

/** Writes a step of `prompts` × `rows` scores of `tokens` tokens. */
async function putStep(main, path, step, { prompts = 8, rows = 64, tokens = 24, seed = step } = {}) {
  const { writeStep } = await import(pathToFileURL(join(dirname(main), '..', 'index.js')).href);
  const random = randomFrom(seed);
  const data = new Float32Array(prompts * rows * tokens);
  for (let at = 0; at < data.length; at++) data[at] = -0.1 - 2 * random();
  const group = Int32Array.from({ length: rows }, (_, row) => row % prompts);
  const rewards = Float64Array.from({ length: rows }, () => Math.round(random()));
  const lengths = new Int32Array(rows).fill(tokens);
  mkdirSync(dirname(path), { recursive: true });
  await writeStep(path, {
    step,
    logprobs: { data, dtype: 'float32', shape: [prompts, rows, tokens] },
    lengths,
    group,
    rewards,
  });
}

const nameOf = (step) => `step_${String(step).padStart(5, '0')}.safetensors`;

/** Two runs of `steps` steps each, and among them a file that is cut off. */
export async function makeLogs(main, folder, steps, sizes) {
  for (const run of ['a', 'b']) {
    for (let step = 1; step <= steps; step++) await putStep(main, join(folder, run, nameOf(step)), step, sizes);
  }
  const whole = readFileSync(join(folder, 'a', nameOf(1)));
  writeFileSync(join(folder, 'b', nameOf(steps + 1)), whole.subarray(0, whole.length - 100));
  return folder;
}

/**
 * Starts the command. `ended` resolves with { status, signal, out, err, seconds }; `printed` says how many lines came
 * so far.
 * @param {string} main
 * @param {string[]} args
 * @param {{ user?: number | undefined }} [options]
 */
export function start(main, args, { user } = {}) {
  const began = performance.now();
  const child = spawn(process.execPath, [main, ...args], user === undefined ? {} : { uid: user, gid: user });
  let out = '';
  let err = '';
  child.stdout.on('data', (data) => {
    out += data;
  });
  child.stderr.on('data', (data) => {
    err += data;
  });
  const ended = new Promise((resolve) => {
    child.on('close', (status, signal) => {
      resolve({ status, signal, out, err, seconds: (performance.now() - began) / 1000 });
    });
  });
  return { child, ended, printed: () => out.split('\n').length - 1 };
}

/** Every file of a directory, as text of its bytes. */
export function contentsOf(directory) {
  return new Map(
    readdirSync(directory)
      .sort()
      .map((name) => [name, readFileSync(join(directory, name), 'latin1')]),
  );
}

/** The same without the journal: its lines are in the order in which steps happened to be measured. */
function resultsOf(directory) {
  const contents = contentsOf(directory);
  contents.delete(JOURNAL);
  return contents;
}

function expectSame(found, wanted, what) {
  const names = (contents) => [...contents.keys()].join(', ');
  expectThat(names(found) === names(wanted), `${what}: there are ${names(found)}, expected ${names(wanted)}`);
  for (const [name, bytes] of wanted) expectThat(found.get(name) === bytes, `${what}: ${name} has other bytes`);
}

/** The files of which the journal has a whole line. */
function journaled(directory) {
  const path = join(directory, JOURNAL);
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').split('\n').slice(1, -1);
  return lines.map((line) => JSON.parse(line.split('\t')[1]).step);
}

/** A file failed, so that the journal stays: with each step that could be measured, once. */
function expectJournal(directory, reference, what) {
  const [found, wanted] = [directory, reference].map((path) => journaled(path).sort().join('\n'));
  expectThat(found === wanted, `${what}: the journal that stays has other steps`);
}

/**
 * `runs` analyses, each killed with SIGKILL up to three times at random moments and started again.
 * @returns how many kills there were, and how many steps were found in journals after them
 */
export async function killedRuns({ main, folder, runs, steps = 40, seed = 1, onRun = (_run) => {} }) {
  const random = randomFrom(seed);
  const logs = await makeLogs(main, join(folder, 'logs'), steps);
  const command = (out) => ['analyze', logs, '--out', out, '--jsonl', '--permutations', '199'];
  const reference = join(folder, 'reference');
  const undisturbed = await start(main, command(reference)).ended;
  expectThat(undisturbed.status === 1, `expected status 1 for the file cut off, got ${undisturbed.status}`);
  const wanted = resultsOf(reference);
  let kills = 0;
  let resumed = 0;
  for (let run = 0; run < runs; run++) {
    const out = join(folder, `out-${run}`);
    const what = `run ${run} of seed ${seed}`;
    const planned = 1 + Math.floor(3 * random());
    for (let kill = 0; ; kill++) {
      const before = journaled(out);
      expectThat(new Set(before).size === before.length, `${what}: a step was measured twice`);
      const { child, ended } = start(main, command(out));
      const timer =
        kill < planned ? setTimeout(() => child.kill('SIGKILL'), 1050 * undisturbed.seconds * random()) : undefined;
      const { status, signal, out: printed, err } = await ended;
      clearTimeout(timer);
      if (signal === 'SIGKILL') {
        kills++;
        continue;
      }
      const said = Number(/continuing in .*: ([0-9]+) steps?/.exec(err)?.[1] ?? 0);
      expectThat(said === before.length, `${what}: ${before.length} steps were kept, ${said} were continued from`);
      resumed += said;
      expectThat(status === 1, `${what}: status ${status}: ${err}`);
      expectThat(printed === undisturbed.out, `${what}: it printed something else`);
      expectSame(resultsOf(out), wanted, what);
      expectJournal(out, reference, what);
      break;
    }
    rmSync(out, { recursive: true });
    onRun(run);
  }
  return { kills, resumed };
}

/**
 * A file system of its own that fills up, in sizes (kilobytes) at which different files are the first that do not fit.
 */
export async function fullDisk({
  main,
  folder,
  steps = 30,
  sizes = Array.from({ length: 18 }, (_, at) => Math.ceil(64 * 1.3 ** at)),
}) {
  const logs = await makeLogs(main, join(folder, 'logs'), steps);
  const reference = join(folder, 'reference');
  const command = (out) => ['analyze', logs, '--out', out, '--permutations', '19'];
  const undisturbed = await start(main, command(reference)).ended;
  const wanted = resultsOf(reference);
  const disk = join(folder, 'disk');
  mkdirSync(disk);
  const mount = (options) => spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', disk]).status === 0;
  if (process.getuid?.() !== 0 || !mount('size=4M')) return { skipped: 'mounting a tmpfs needs root' };
  let full = 0;
  let resumed = 0;
  try {
    spawnSync('umount', [disk]);
    for (const kilobytes of sizes) {
      expectThat(mount(`size=${kilobytes}k`), 'the second mount failed');
      const out = join(disk, 'out');
      // Results of an earlier analysis, which must stay what they are until there are whole new ones.
      const earlier = await start(main, ['analyze', join(logs, 'a', nameOf(1)), '--out', out, '--permutations', '0'])
        .ended;
      const had = earlier.status === 0 ? contentsOf(out) : undefined;
      const { status, err } = await start(main, command(out)).ended;
      const what = `a disk of ${kilobytes} kB`;
      if (/ENOSPC/.test(err)) {
        full++;
        expectThat(status === 1, `${what}: status ${status}`);
        expectThat(/the disk is full: free some space/.test(err), `${what}: it said ${err}`);
        const left = existsSync(out) ? resultsOf(out) : new Map();
        const kept = journaled(out).length;
        if (had !== undefined) expectSame(left, had, what);
        spawnSync('mount', ['-o', 'remount,size=64M', disk]);
        const again = await start(main, command(out)).ended;
        const said = Number(/continuing in .*: ([0-9]+) steps?/.exec(again.err)?.[1] ?? 0);
        expectThat(said === kept, `${what}: ${kept} steps were kept, ${said} were continued from`);
        resumed += said;
        expectThat(again.out === undisturbed.out, `${what}: it printed something else after there was room`);
      } else expectThat(status === 1 && err.includes(nameOf(steps + 1)), `${what}: status ${status}, ${err}`);
      expectSame(resultsOf(out), wanted, what);
      expectJournal(out, reference, what);
      spawnSync('umount', [disk]);
    }
  } finally {
    spawnSync('umount', [disk]);
  }
  return { full, resumed };
}

/** Waits until a process does something, looking every millisecond. */
async function until(child, condition) {
  for (;;) {
    if (child.exitCode !== null) return false;
    if (condition()) return true;
    await sleep(1);
  }
}

function isOpen(pid, file) {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((descriptor) => {
      try {
        return readlinkSync(`/proc/${pid}/fd/${descriptor}`) === file;
      } catch {
        return false;
      }
    });
  } catch {
    return false;
  }
}

/** A file is cut while its scores are being read. */
export async function truncatedWhileRead({ main, folder }) {
  if (process.platform !== 'linux') return { skipped: 'seeing which file is open needs /proc' };
  const logs = join(folder, 'logs');
  const large = join(logs, nameOf(2));
  for (const step of [1, 3]) await putStep(main, join(logs, nameOf(step)), step);
  for (let attempt = 0; attempt < 10; attempt++) {
    await putStep(main, large, 2, { prompts: 32, rows: 512, tokens: 1024 });
    const args = ['analyze', logs, '--jsonl', '--permutations', '0', '--max-memory', '1'];
    const { child, ended } = start(main, args);
    // The first time its header is read.
    let times = 0;
    let was = false;
    await until(child, () => {
      const is = isOpen(child.pid, large);
      if (is && !was) times++;
      was = is;
      return times >= 2 && is;
    });
    await sleep(5 * attempt);
    const isReading = child.exitCode === null && isOpen(child.pid, large);
    truncateSync(large, 30e6);
    const { status, out, err } = await ended;
    if (!isReading) continue;
    const isThrough = out.trim().split('\n').length === 3;
    expectThat(isThrough || (status === 1 && err.includes(large)), `status ${status}: ${err}`);
    const said = /(the file changed while it was read|the file ends here).*/.exec(err)?.[0];
    if (said !== undefined) return { said };
  }
  return { skipped: 'the file was read faster than it could be cut' };
}

/** One file may not be read any more; when it may again, the same command gives everything. */
export async function permissionLost({ main, folder }) {
  const user = process.getuid?.() === 0 ? 65534 : undefined;
  const logs = join(folder, 'logs');
  for (const step of [1, 2, 3]) await putStep(main, join(logs, nameOf(step)), step);
  if (user !== undefined) {
    chmodSync(folder, 0o777);
    if ((await start(main, ['--version'], { user }).ended).status !== 0)
      return { skipped: 'another user cannot run this' };
  }
  const command = (out) => ['analyze', logs, '--out', join(folder, out), '--jsonl', '--permutations', '19'];
  const undisturbed = await start(main, command('reference'), { user }).ended;
  expectThat(undisturbed.status === 0, undisturbed.err);
  chmodSync(join(logs, nameOf(2)), 0);
  const without = await start(main, command('out'), { user }).ended;
  expectThat(without.status === 1, `status ${without.status}`);
  expectThat(
    /step_00002\.safetensors: no permission: give this user rights/.test(without.err),
    `it said ${without.err}`,
  );
  expectThat(without.out.trim().split('\n').length === 2, 'the other files were not reported');
  chmodSync(join(logs, nameOf(2)), 0o644);
  const again = await start(main, command('out'), { user }).ended;
  expectThat(again.status === 0 && again.out === undisturbed.out, `status ${again.status}: ${again.err}`);
  expectSame(contentsOf(join(folder, 'out')), contentsOf(join(folder, 'reference')), 'permission given again');
  return {};
}

/** A file is replaced after the files were listed, before it is its turn. */
export async function replacedWhileWaiting({ main, folder, steps = 150 }) {
  const logs = join(folder, 'logs');
  const out = join(folder, 'out');
  for (let step = 1; step <= steps; step++) await putStep(main, join(logs, nameOf(step)), step);
  const last = join(logs, nameOf(steps));
  const next = join(folder, 'next.safetensors');
  // A file is known by its size, header and time of change, which file systems keep to some milliseconds only.
  await sleep(50);
  await putStep(main, next, steps, { seed: 4711 });
  const command = (directory) => ['analyze', logs, '--out', directory, '--jsonl', '--permutations', '999'];
  const { child, ended, printed } = start(main, command(out));
  const isUnderWay = await until(child, () => journaled(out).length > 0);
  child.kill('SIGSTOP');
  // Not by the journal: on a busy disk it may be many steps behind.
  await sleep(200);
  const isInTime = isUnderWay && printed() < steps / 2;
  renameSync(next, last);
  child.kill('SIGCONT');
  const { status, err } = await ended;
  if (!isInTime) return { skipped: 'the steps were measured faster than one could be replaced' };
  expectThat(status === 1 && err.includes(`${last}: the file was replaced or changed`), `status ${status}: ${err}`);
  const again = await start(main, command(out)).ended;
  const fresh = await start(main, command(join(folder, 'fresh'))).ended;
  expectThat(again.status === 0 && again.out === fresh.out, `status ${again.status}: ${again.err}`);
  expectSame(contentsOf(out), contentsOf(join(folder, 'fresh')), 'after the replacement');
  return {};
}
