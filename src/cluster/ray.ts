// Submits to Ray: a Python driver runs each shard as a task, and Ray restarts tasks of a dead node on another. One job
// per shard would lose shards, as Ray does not restart a job when the node of its supervisor dies.
import { spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { ClusterError } from '../checks/errors.js';
import { packageRoot } from '../checks/package-root.js';
import { shellLine, shellWord } from '../checks/shell-words.js';
import { writeWhole } from '../logs/stores/atomic-file.js';
import { engineProgram } from './engine-program.js';
import {
  type ClusterBackend,
  engineRecord,
  type Submission,
  type SubmissionFile,
  submissionDirectories,
  type TaskOptions,
  type UnderWay,
} from './submission.js';
import { finishScript, shardScript } from './task-scripts.js';

export interface RayOptions extends TaskOptions {
  /** Default: RAY_ADDRESS, else the cluster that this node belongs to. */
  readonly address: string | undefined;
  /** The interpreter that has the package `ray`. */
  readonly python: string;
  /** Custom resources that a task takes. */
  readonly resources: Readonly<Record<string, number>>;
}

/** Ships with the package. */
const DRIVER = join(packageRoot, 'engines', 'ray', 'driver.py');
const RECORD = 'ray.json';
/** Seconds that the end waits for a new journal, as for Slurm. */
const SHARD_WAIT = 60;
/**
 * As the driver will import it: with -c Python also looks in the directory where it is started, which may hold files of
 * others.
 */
const HAS_RAY = 'import sys; sys.path[:] = filter(None, sys.path); import ray';
const FILES = { driver: 'driver.py', tasks: 'tasks.json', log: 'driver.log' } as const;

export class Ray implements ClusterBackend {
  constructor(private readonly options: RayOptions) {}

  files(submission: Submission): SubmissionFile[] {
    const { directory, missing } = submission;
    const { address, cpus, memory, throttle, retries, resources, shardWait = SHARD_WAIT } = this.options;
    const cores = cpus ?? 1;
    const tasks = {
      address: address ?? null,
      shards: missing,
      shard: join(directory, 'shard.sh'),
      finish: join(directory, 'finish.sh'),
      logs: join(directory, 'logs'),
      cpus: cores,
      memory: memory ?? null,
      resources,
      throttle: throttle ?? null,
      retries,
    };
    const shard = shardScript(submission, { index: '$1', threads: String(cores) });
    return [
      { path: tasks.shard, text: shard, isProgram: true },
      { path: tasks.finish, text: finishScript(submission, { patience: shardWait, every: 5 }), isProgram: true },
      { path: join(directory, FILES.driver), text: readFileSync(DRIVER, 'utf8'), isProgram: false },
      { path: join(directory, FILES.tasks), text: `${JSON.stringify(tasks)}\n`, isProgram: false },
    ];
  }

  async commands({ directory }: Submission): Promise<string[]> {
    const log = shellWord(join(directory, FILES.log));
    return [`${shellLine(this.#driver(directory))} >>${log} 2>&1 &`];
  }

  async submit({ directory, missing }: Submission): Promise<string> {
    const { python } = this.options;
    const advice = 'name an interpreter that has Ray with --python';
    await engineProgram([python, '-c', HAS_RAY], advice, advice);
    const log = openSync(join(directory, FILES.log), 'a');
    try {
      const [program = '', ...args] = this.#driver(directory);
      // In a session of its own: it continues when this command, or the terminal, ends.
      const child = spawn(program, args, { detached: true, stdio: ['ignore', log, log] });
      const pid = await new Promise<number>((resolve, reject) => {
        child.on('error', (error) => reject(new ClusterError(`${program} cannot be started: ${error.message}`)));
        child.on('spawn', () => resolve(child.pid as number));
      });
      child.unref();
      await writeWhole(join(directory, RECORD), `${JSON.stringify({ host: hostname(), pid, shards: missing })}\n`);
      return `driver: process ${pid} on ${hostname()}, which says how far it is in ${join(directory, FILES.log)}\nTo stop it: kill ${pid}`;
    } finally {
      closeSync(log);
    }
  }

  async underWay(work: string): Promise<UnderWay[]> {
    const found: UnderWay[] = [];
    for (const directory of await submissionDirectories(work)) {
      const shards = (await engineRecord(directory, RECORD))?.shards;
      if (!Array.isArray(shards) || !(await this.isUnderWay(directory))) continue;
      found.push({ directory, shards: new Set(shards.filter(Number.isSafeInteger)), isWhole: true });
    }
    return found;
  }

  /** Drivers of other hosts cannot be seen from here: to measure a shard twice does no harm. */
  async isUnderWay(directory: string): Promise<boolean> {
    // With the results all is done, and the driver needs a moment to leave the cluster.
    if (existsSync(join(directory, 'status'))) return false;
    const record = await engineRecord(directory, RECORD);
    if (record?.host !== hostname() || !Number.isSafeInteger(record.pid)) return false;
    return runs(record.pid as number, join(directory, FILES.driver));
  }

  #driver(directory: string): string[] {
    return [this.options.python, join(directory, FILES.driver), join(directory, FILES.tasks)];
  }
}

/** Numbers of processes are used again: the file that it runs identifies it. */
function runs(pid: number, file: string): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(file);
  } catch {
    // No /proc: macOS.
    return true;
  }
}
