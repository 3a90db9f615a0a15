// Starts a Ray cluster of two nodes on this machine and lets `collapsar submit --engine ray` work on it; stops it at
// the end.
//   node scripts/test-ray.mjs                 the checks: all complete, one shard failed, a node lost
//   node scripts/test-ray.mjs --throughput    two workers against one; status 1 below 1.7
// Takes the Ray of the python3 on the PATH; where it has none, pip installs one into a virtual environment of this
// script's (PIP_ARGS for pip's options, such as an index), which goes when it ends.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, openSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ClusterChecks, processesWith, until } from './cluster-checks.mjs';
import { check, run, skip } from './stage.mjs';

const WANTED = 'ray>=2.30,<3';
const work = realpathSync(mkdtempSync(join(tmpdir(), 'collapsar-ray-')));
/** Every process of this cluster has it, whatever its parent. */
const mark = ['COLLAPSAR_TEST_CLUSTER', work];
const env = { RAY_USAGE_STATS_ENABLED: '0', RAY_DISABLE_IMPORT_WARNING: '1', [mark[0]]: mark[1] };
const nodes = new Map();

function kill(pids) {
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It has ended by itself.
    }
  }
}

// Also when `check` ends the process.
process.on('exit', () => {
  kill(processesWith(mark.join('=')).filter((pid) => pid !== process.pid));
  rmSync(work, { recursive: true, force: true });
});

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(1));

const hasRay = (python) => spawnSync(python, ['-c', 'import ray'], { stdio: 'ignore' }).status === 0;

function pythonWithRay() {
  if (hasRay('python3')) return 'python3';
  const venv = join(work, 'venv');
  if (spawnSync('python3', ['-m', 'venv', venv], { stdio: 'ignore' }).status !== 0) return undefined;
  const more = (process.env.PIP_ARGS ?? '').split(/\s+/).filter((word) => word !== '');
  const args = ['install', '--quiet', '--retries', '0', '--timeout', '15', '--only-binary', ':all:', ...more, WANTED];
  const python = join(venv, 'bin', 'python3');
  spawnSync(python, ['-m', 'pip', ...args], { stdio: 'ignore', timeout: 90_000 });
  return hasRay(python) ? python : undefined;
}

const python = pythonWithRay();
if (python === undefined) {
  skip('Ray (there is none for python3 here, and pip cannot install it)');
  process.exit(0);
}
await run(process.execPath, ['scripts/compile.mjs']);

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject).listen(0, '127.0.0.1', () => {
      const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
      server.close(() => resolve(port));
    });
  });
}

/** A node with one core, whose processes end with it: --block. */
const startNode = (name, ...args) => {
  const ray = ['-m', 'ray.scripts.scripts', 'start', '--block', '--num-cpus=1', '--disable-usage-stats'];
  const store = '--object-store-memory=80000000';
  const log = openSync(join(work, `${name}.log`), 'a');
  const child = spawn(python, [...ray, store, ...args], {
    // In a group of its own, which can be killed at once.
    detached: true,
    env: { ...process.env, ...env, [`${mark[0]}_NODE`]: name },
    stdio: ['ignore', log, log],
  });
  nodes.set(name, child);
};

const processesOf = (name) => {
  const ours = new Set(processesWith(mark.join('=')));
  return processesWith(`${mark[0]}_NODE=${name}`).filter((pid) => ours.has(pid));
};

const port = await freePort();
const address = `127.0.0.1:${port}`;
// Sockets have names of at most 107 characters.
startNode('head', '--head', `--port=${port}`, `--temp-dir=${join(work, 'r')}`, '--include-dashboard=false');
await until(() => readFileSync(join(work, 'head.log'), 'utf8').includes('Ray runtime started'), 'the head node', 90);
startNode('second', `--address=${address}`);
await until(
  () => readFileSync(join(work, 'second.log'), 'utf8').includes('Ray runtime started'),
  'the second node',
  90,
);

const checks = new ClusterChecks(work, ['--engine=ray', `--ray-address=${address}`, `--python=${python}`], env);
checks.say('Ray runs with two nodes');

/** The shard that is measured on a node. */
function shardOn(name) {
  for (const pid of processesOf(name)) {
    let words = [];
    try {
      words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    } catch {
      continue; // it has ended
    }
    const at = words.indexOf('--shard');
    if (at > 0) return Number.parseInt(words[at + 1], 10);
  }
  return undefined;
}

async function loseSecond() {
  // Zero is a shard, too.
  const found = await until(() => {
    const shard = shardOn('second');
    return shard === undefined ? undefined : { shard };
  }, 'a task on the second node');
  await sleep(500);
  check(shardOn('second') === found.shard, 'the task has ended too early: no test');
  kill(processesOf('second'));
  return found.shard;
}

let isGood = true;
if (process.argv.includes('--throughput')) {
  isGood = (await checks.throughput()) >= 1.7;
} else {
  await checks.allComplete();
  await checks.partialFailure();
  await checks.lostNode(loseSecond);
}
for (const child of nodes.values()) child.kill('SIGTERM');
await sleep(1000);
checks.say('stopped');
process.exit(isGood ? 0 : 1);
