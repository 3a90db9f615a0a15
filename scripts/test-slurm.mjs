// Starts a Slurm of two nodes on this machine and lets `collapsar submit --engine slurm` work on it; stops it at the
// end.
//   node scripts/test-slurm.mjs                 the checks: all complete, one shard failed, a node lost, preempted
//   tasks node scripts/test-slurm.mjs --throughput    two workers against one; status 1 below 1.7
// As root, Debian's packages are installed where they are missing, and stay.
import { spawn, spawnSync } from 'node:child_process';
import {
  createWriteStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { hostname, tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ClusterChecks, processesWith, until } from './cluster-checks.mjs';
import { check, run, skip } from './stage.mjs';

const PACKAGES = ['slurmctld', 'slurmd', 'slurm-client'];
const programs = ['slurmctld', 'slurmd', 'sbatch', 'squeue', 'scontrol', 'scancel'];
// Debian has the daemons where only root's PATH leads.
process.env.PATH = `${process.env.PATH}:/usr/sbin`;

const missing = () => programs.filter((name) => spawnSync('sh', ['-c', `command -v ${name}`]).status !== 0);
if (missing().length > 0 && process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')) {
  const install = () =>
    spawnSync('apt-get', ['install', '-y', '--no-install-recommends', ...PACKAGES], {
      stdio: 'ignore',
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    });
  if (install().status !== 0) {
    spawnSync('apt-get', ['update'], { stdio: 'ignore' });
    install();
  }
}
if (missing().length > 0) {
  skip(`Slurm (there is no ${missing().join(', ')} here; Debian: apt-get install ${PACKAGES.join(' ')})`);
  process.exit(0);
}
await run(process.execPath, ['scripts/compile.mjs']);

const NODES = ['node1', 'node2'];
const work = realpathSync(mkdtempSync(join(tmpdir(), 'collapsar-slurm-')));
const conf = join(work, 'slurm.conf');
const env = { SLURM_CONF: conf };
const daemons = new Map();

/** Ports that were free a moment ago. */
async function freePorts(count) {
  const servers = await Promise.all(
    Array.from(
      { length: count },
      () =>
        new Promise((resolve, reject) => {
          const server = createServer();
          server.on('error', reject).listen(0, '127.0.0.1', () => resolve(server));
        }),
    ),
  );
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

function daemon(name, program, ...args) {
  const child = spawn(program, ['-D', ...args], { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  const log = createWriteStream(join(work, `${name}.log`), { flags: 'a' });
  child.stdout.pipe(log, { end: false });
  child.stderr.pipe(log, { end: false });
  daemons.set(name, child);
}

const slurm = (program, ...args) =>
  spawnSync(program, args, { env: { ...process.env, ...env }, encoding: 'utf8', timeout: 20_000 });

/** What runs for jobs of a node: the tasks and the daemons above them. */
function stepsOf(node) {
  const ours = new Set(processesWith(`SLURM_CONF=${conf}`));
  return processesWith(`SLURMD_NODENAME=${node}`)
    .filter((pid) => ours.has(pid))
    .flatMap((pid) => {
      const parent = Number(/^PPid:\s*(\d+)/m.exec(statusOf(pid))?.[1]);
      return /^Name:\s*slurmstepd/m.test(statusOf(parent)) ? [parent, pid] : [pid];
    });
}

function statusOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    return '';
  }
}

function kill(pids) {
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It has ended by itself.
    }
  }
}

async function begin() {
  const [control, ...ports] = await freePorts(1 + NODES.length);
  const user = userInfo().username;
  for (const folder of ['state', ...NODES]) mkdirSync(join(work, folder));
  writeFileSync(
    conf,
    `ClusterName=test
SlurmctldHost=${hostname()}(127.0.0.1)
SlurmUser=${user}
SlurmdUser=${user}
AuthType=auth/none
CredType=cred/none
SlurmctldPort=${control}
SlurmctldPidFile=${work}/slurmctld.pid
SlurmdPidFile=${work}/%n.pid
StateSaveLocation=${work}/state
SlurmdSpoolDir=${work}/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmctldTimeout=5
SlurmdTimeout=5
KillWait=2
MaxArraySize=4
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=100000
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
${NODES.map((name, at) => `NodeName=${name} NodeHostname=${hostname()} NodeAddr=127.0.0.1 Port=${ports[at]} CPUs=1`).join('\n')}
PartitionName=low Nodes=${NODES} Default=YES PriorityTier=1 State=UP
PartitionName=high Nodes=${NODES} PriorityTier=10 State=UP
`,
  );
  daemon('slurmctld', 'slurmctld', '-i');
  for (const node of NODES) daemon(node, 'slurmd', '-N', node);
  await until(() => /2 idle/.test(slurm('sinfo', '-h', '-p', 'low', '-o', '%D %T').stdout), 'two idle nodes', 30);
}

async function end() {
  const user = String(process.getuid?.());
  slurm('scancel', `--user=${user}`);
  for (const child of daemons.values()) child.kill('SIGTERM');
  await Promise.race([
    Promise.all([...daemons.values()].map((child) => child.exitCode ?? new Promise((done) => child.on('exit', done)))),
    sleep(5000),
  ]);
  kill(processesWith(`SLURM_CONF=${conf}`));
}

/** A task that runs on this node, and the shard that it measures. */
function shardOn(node) {
  const running = ['-h', '-r', '-t', 'R', '-w', node, '-n', 'collapsar-shard', '-o', '%A'];
  const job = slurm('squeue', ...running).stdout.split('\n')[0];
  // The task, and what Slurm has above it.
  if (job === '' || stepsOf(node).length < 2) return undefined;
  const about = shown(job);
  // The script's argument is what is to be added.
  const numbers = [/ArrayTaskId=(\d+)/, /Command=.* (\d+)$/m].map((pattern) => Number(pattern.exec(about)?.[1]));
  return { job, shard: numbers[0] + numbers[1] };
}

const shown = (job) => slurm('scontrol', 'show', 'job', job).stdout;

/** Slurm starts a requeued task two minutes later at the earliest; a test need not wait for them. */
function hurry() {
  for (const line of slurm('squeue', '-h', '-r', '-t', 'PD', '-o', '%A %r').stdout.split('\n')) {
    if (line.endsWith('BeginTime')) slurm('scontrol', 'update', `JobId=${line.split(' ')[0]}`, 'StartTime=now');
  }
}

const isRequeued = (job) => /Restarts=[1-9]/.test(shown(job));

async function loseNode2() {
  const { job, shard } = await until(() => shardOn('node2'), 'a task on node2');
  await sleep(500);
  const pids = stepsOf('node2');
  daemons.get('node2').kill('SIGKILL');
  kill(pids);
  await until(() => isRequeued(job), 'the task to be queued again');
  return shard;
}

/** Jobs of a partition with priority take both nodes for a moment. */
async function preemption(checks) {
  const name = 'preempted';
  const first = await checks.submitLong(name, '--partition=low');
  check(first.status === 0, `preemption: submit ended with ${first.status}:\n${first.output}`);
  const { job, shard } = await until(() => shardOn('node1'), 'a task on node1');
  await sleep(500);
  const sbatch = ['-p', 'high', '-o', '/dev/null', '--wrap', 'sleep 1'];
  for (const node of NODES) slurm('sbatch', '-w', node, ...sbatch);
  await until(() => isRequeued(job), 'the task to be queued again');
  check(!checks.isComplete(name, shard), `shard ${shard} was complete before it was preempted: no test`);
  checks.say(`shard ${shard} was preempted`);
  const { status, output } = await checks.submit(name, '--wait', '--partition=low');
  check(status === 0, `after preemption, submit --wait ended with ${status}:\n${output}`);
  await checks.checkLong(name);
  checks.say('preempted tasks were queued again: the bytes of analyze');
}

// `check` ends the process at once.
process.on('exit', () => {
  kill(processesWith(`SLURM_CONF=${conf}`));
  rmSync(work, { recursive: true, force: true });
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(1));
await begin();
const hurrying = setInterval(hurry, 1000);
const checks = new ClusterChecks(work, ['--engine=slurm'], env);
checks.say('Slurm runs with two nodes');
let isGood = true;
if (process.argv.includes('--throughput')) {
  isGood = (await checks.throughput()) >= 1.7;
} else {
  await checks.allComplete();
  await checks.partialFailure();
  await preemption(checks);
  await checks.lostNode(loseNode2);
}
clearInterval(hurrying);
await end();
checks.say('stopped');
process.exit(isGood ? 0 : 1);
