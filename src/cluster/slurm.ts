// Submits to Slurm: array jobs that measure shards, and a job after them (afterany) that writes the results. Slurm
// requeues tasks of lost or preempted nodes; the last job finds what failed for good.
import { join } from 'node:path';
import { ClusterError } from '../checks/errors.js';
import { shellLine, shellWord } from '../checks/shell-words.js';
import { writeWhole } from '../logs/stores/atomic-file.js';
import { type ShardArray, shardArrays } from './array-ranges.js';
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

export interface SlurmOptions extends TaskOptions {
  readonly partition: string | undefined;
  readonly account: string | undefined;
  readonly qos: string | undefined;
  readonly time: string | undefined;
  /** Options of sbatch as they are, for all jobs. */
  readonly passed: readonly string[];
}

const ADVICE = "submit where Slurm's commands are, such as a login node";
const UNANSWERED =
  'Slurm does not answer here: see whether its controller is up (scontrol ping), or submit from a machine that reaches it';
const RECORD = 'slurm.json';
/** Slurm's default, where it cannot be asked. */
const MAX_ARRAY_SIZE = 1001;
/** Attributes of directories are cached by NFS for up to a minute. */
const SHARD_WAIT = 60;

/** A job that is submitted; `array` undefined for the one that ends it. */
interface Job {
  readonly job: string;
  readonly array?: ShardArray | undefined;
}

/** A task of a job in the queue. */
interface Queued {
  readonly job: string;
  readonly index: string;
}

/** Jobs of earlier submissions that are in the queue. */
interface Earlier {
  readonly arrays: { job: string; shards: number[] }[];
  readonly ends: { job: string }[];
}

export class Slurm implements ClusterBackend {
  constructor(private readonly options: SlurmOptions) {}

  files(submission: Submission): SubmissionFile[] {
    const { retries, shardWait = SHARD_WAIT } = this.options;
    const before = `# A shard that takes its node down with it must not do so for ever.
if [ "\${SLURM_RESTART_COUNT:-0}" -gt ${retries} ]; then
  echo "this task was started $SLURM_RESTART_COUNT times again: given up (--retries ${retries})" >&2
  exit 1
fi
# Arrays of Slurm are shorter than some analyses are: the shard is the task's number in the array plus this.
shard=$((SLURM_ARRAY_TASK_ID + \${1:-0}))
`;
    const threads = `"\${SLURM_CPUS_PER_TASK:-\${SLURM_CPUS_ON_NODE:-1}}"`;
    const shard = shardScript(submission, { before, index: '$shard', threads });
    const finish = finishScript(submission, { patience: shardWait, every: 5 });
    return [
      { path: join(submission.directory, 'shard.sh'), text: shard, isProgram: true },
      { path: join(submission.directory, 'finish.sh'), text: finish, isProgram: true },
    ];
  }

  async commands(submission: Submission): Promise<string[]> {
    let size = MAX_ARRAY_SIZE;
    const notes: string[] = [];
    try {
      size = await maxArraySize();
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
      notes.push(`# Slurm cannot be asked for its MaxArraySize here; its default, ${MAX_ARRAY_SIZE}, is taken.`);
    }
    const arrays = shardArrays(submission.missing, size);
    const names = arrays.map((_, at) => `shards_${at + 1}`);
    const lines = arrays.map((array, at) => {
      const before = this.#before(at, names.slice(0, at).map(numberIn));
      return `${names[at]}=$(${dependent(this.#shardWords(submission, array), before)})`;
    });
    const earlier = await this.#earlierIfAnswered(submission.work);
    const jobs = [...earlier.arrays.map(({ job }) => job), ...names.map(numberIn)];
    lines.push(dependent(this.#finishWords(submission), jobs));
    if (earlier.ends.length > 0) lines.push(`scancel ${earlier.ends.map(({ job }) => job).join(' ')} || true`);
    return [...notes, ...lines];
  }

  async submit(submission: Submission): Promise<string> {
    const { directory, work, missing } = submission;
    const size = await maxArraySize();
    const earlier = await this.#earlier(work);
    const jobs: Job[] = [];
    const record = (): Promise<void> => writeWhole(join(directory, RECORD), `${JSON.stringify({ jobs }, null, 1)}\n`);
    const arrays = shardArrays(missing, size);
    try {
      for (const [at, array] of arrays.entries()) {
        const before = this.#before(
          at,
          jobs.map(({ job }) => job),
        );
        jobs.push({ job: await sbatch(this.#shardWords(submission, array), before), array });
        await record();
      }
      const before = [...earlier.arrays.map(({ job }) => job), ...jobs.map(({ job }) => job)];
      jobs.push({ job: await sbatch(this.#finishWords(submission), before) });
      await record();
    } catch (error) {
      if (!(error instanceof ClusterError) || jobs.length === 0) throw error;
      const done = `${jobs.length} of ${arrays.length} arrays were submitted (${jobs.map(({ job }) => job).join(', ')})`;
      throw new ClusterError(`${error.message}\n${done}; submit again for the rest, which leaves these in the queue`, {
        cause: error,
      });
    }
    // It would find shards missing that now have another task.
    if (earlier.ends.length > 0) {
      await engineProgram(['scancel', ...earlier.ends.map(({ job }) => job)], ADVICE).catch(() => undefined);
    }
    const ids = jobs.map(({ job }) => job);
    const shards = ids.slice(0, -1);
    const measured = shards.length === 0 ? 'nothing to measure' : `shards: job ${shards.join(', ')}`;
    return `${measured}; results: job ${ids.at(-1)}\nTo stop it: scancel ${ids.join(' ')}`;
  }

  async underWay(work: string): Promise<UnderWay[]> {
    const { arrays, ends } = await this.#earlier(work);
    const found: UnderWay[] = [];
    for (const directory of await submissionDirectories(work)) {
      const jobs = await recordedJobs(directory);
      const mine = new Set(jobs.map(({ job }) => job));
      const shards = arrays.filter(({ job }) => mine.has(job)).flatMap(({ shards }) => shards);
      const isWhole = ends.some(({ job }) => mine.has(job));
      if (shards.length > 0 || isWhole) found.push({ directory, shards: new Set(shards), isWhole });
    }
    return found;
  }

  async isUnderWay(directory: string): Promise<boolean> {
    const end = (await recordedJobs(directory)).find(({ array }) => array === undefined);
    return end !== undefined && (await queue()).some(({ job }) => job === end.job);
  }

  /** With a throttle the arrays come one after the other: together they would each have as many tasks at a time. */
  #before(at: number, jobs: readonly string[]): string[] {
    return this.options.throttle === undefined || at === 0 ? [] : [jobs[at - 1] as string];
  }

  async #earlierIfAnswered(work: string): Promise<Earlier> {
    try {
      return await this.#earlier(work);
    } catch (error) {
      if (error instanceof ClusterError) return { arrays: [], ends: [] };
      throw error;
    }
  }

  async #earlier(work: string): Promise<Earlier> {
    const recorded: Job[] = [];
    for (const directory of await submissionDirectories(work)) recorded.push(...(await recordedJobs(directory)));
    const arrays: Earlier['arrays'] = [];
    const ends: Earlier['ends'] = [];
    if (recorded.length === 0) return { arrays, ends };
    const tasks = await queue();
    for (const { job, array } of recorded) {
      const queued = tasks.filter((task) => task.job === job);
      if (queued.length === 0) continue;
      if (array === undefined) ends.push({ job });
      else arrays.push({ job, shards: queued.map(({ index }) => array.offset + Number(index)) });
    }
    return { arrays, ends };
  }

  #shardWords(submission: Submission, { offset, indices }: ShardArray): string[] {
    const { throttle } = this.options;
    const limited = throttle === undefined ? indices : `${indices}%${throttle}`;
    const { directory } = submission;
    return [
      ...this.#words(submission, 'shard', '%A_%a'),
      `--array=${limited}`,
      ...this.options.passed,
      join(directory, 'shard.sh'),
      String(offset),
    ];
  }

  #finishWords(submission: Submission): string[] {
    const { directory } = submission;
    return [...this.#words(submission, 'finish', '%j'), ...this.options.passed, join(directory, 'finish.sh')];
  }

  #words({ directory, work }: Submission, part: string, file: string): string[] {
    const { name, cpus, memory, partition, account, qos, time } = this.options;
    const option = (key: string, value: string | number | undefined): string[] =>
      value === undefined ? [] : [`--${key}=${value}`];
    // In names of logs a percent sign begins a field.
    const logs = join(directory, 'logs').replaceAll('%', '%%');
    return [
      'sbatch',
      '--parsable',
      `--job-name=${name}-${part}`,
      '--requeue',
      // What an earlier start of the same task said stays.
      '--open-mode=append',
      `--output=${logs}/${part}-${file}.log`,
      `--chdir=${work}`,
      ...option('partition', partition),
      ...option('account', account),
      ...option('qos', qos),
      ...option('time', time),
      ...option('cpus-per-task', cpus),
      ...option('mem', memory === undefined ? undefined : `${Math.ceil(memory / 2 ** 20)}M`),
    ];
  }
}

/**
 * A variable of the shell cannot be quoted as a word: it is put in afterwards. With several clusters it is
 * "number;cluster".
 */
const numberIn = (variable: string): string => `\${${variable}%%;*}`;

const AFTER = '--dependency=afterany';

/** A line of a shell; `jobs` may be its variables. */
function dependent(words: readonly string[], jobs: readonly string[]): string {
  const [program = '', parsable = '', ...rest] = words;
  const dependency = jobs.length === 0 ? '' : ` ${[AFTER, ...jobs].join(':')}`;
  return `${shellWord(program)} ${shellWord(parsable)}${dependency} ${shellLine(rest)}`;
}

/** @returns the job's number */
async function sbatch(words: readonly string[], before: readonly string[]): Promise<string> {
  const [program = '', parsable = '', ...rest] = words;
  const dependency = before.length === 0 ? [] : [[AFTER, ...before].join(':')];
  const said = await engineProgram([program, parsable, ...dependency, ...rest], ADVICE);
  // With several clusters it is "number;cluster".
  const job = said.trim().split(';')[0] ?? '';
  if (!/^[0-9]+$/.test(job))
    throw new ClusterError(
      `sbatch said "${said.trim().slice(0, 200)}", not the number of a job: see whether the sbatch on the PATH is Slurm's, and ` +
        'with squeue whether it took the job',
    );
  return job;
}

/** Indices of arrays are below this. */
async function maxArraySize(): Promise<number> {
  const config = await engineProgram(['scontrol', 'show', 'config'], ADVICE, UNANSWERED);
  const size = Number(/^MaxArraySize\s*=\s*([0-9]+)/m.exec(config)?.[1]);
  if (!Number.isSafeInteger(size)) {
    throw new ClusterError(
      "scontrol show config names no MaxArraySize: see whether the scontrol on the PATH is Slurm's",
    );
  }
  if (size < 2)
    throw new ClusterError(
      'this Slurm allows no array jobs (MaxArraySize): run collapsar analyze --shard in other ways',
    );
  return size;
}

/** This user's tasks that are still to run, or running. */
async function queue(): Promise<Queued[]> {
  const user = String(process.getuid?.() ?? process.env.USER);
  const format = ['--noheader', '--array', `--user=${user}`, '--format=%F %K %T'];
  const lines = (await engineProgram(['squeue', ...format], ADVICE, UNANSWERED)).split('\n');
  return lines.flatMap((line) => {
    const [job = '', index = '', state = ''] = line.trim().split(/\s+/);
    return job === '' || state === 'COMPLETING' ? [] : [{ job, index }];
  });
}

async function recordedJobs(directory: string): Promise<Job[]> {
  const jobs = (await engineRecord(directory, RECORD))?.jobs;
  if (!Array.isArray(jobs)) return [];
  return jobs.filter((job): job is Job => typeof job?.job === 'string');
}
