// Follows a running submission: progress from the journals that its tasks leave, and at the end the exit status of its
// analysis.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { textOfFile } from '../analysis/results/regular-file.js';
import { ClusterError, FileError } from '../checks/errors.js';
import { errorCode, systemProblem } from '../logs/stores/system-problem.js';
import { type ClusterBackend, completeShards, type Submission } from './submission.js';

export interface FollowOptions {
  readonly engine: ClusterBackend;
  readonly submission: Pick<Submission, 'directory' | 'work' | 'shards' | 'again'>;
  readonly signal: AbortSignal;
  /** Called with shards that are complete, of how many. */
  readonly onProgress: (done: number, total: number) => void;
  /** Milliseconds between looks: the first, and what they grow to. */
  readonly every?: readonly [number, number];
}

export interface Outcome {
  /** Exit status of the analysis. */
  readonly status: number;
  readonly out: string;
  readonly err: string;
}

/** Queues answer slowly when everybody asks. */
const EVERY = [500, 15_000] as const;
/** Looks without a sign of it in the queue before it counts as lost: a shared file system shows the end late. */
const LOST_AFTER = 4;

/** @throws {ClusterError} when its jobs are gone and have left no result; `signal.reason` when aborted */
export async function follow(options: FollowOptions): Promise<Outcome> {
  const { engine, submission, signal } = options;
  const { directory, work, shards, again } = submission;
  let [pause, longest] = options.every ?? EVERY;
  let unseen = 0;
  for (;;) {
    options.onProgress((await completeShards(work, shards)).size, shards);
    const text = await textOf(join(directory, 'status'));
    if (text !== undefined) {
      const [out = '', err = ''] = [
        await textOf(join(directory, 'finish.out')),
        await textOf(join(directory, 'finish.err')),
      ];
      return { status: statusOf(text, directory), out, err };
    }
    unseen = (await engine.isUnderWay(directory)) ? 0 : unseen + 1;
    if (unseen >= LOST_AFTER) {
      throw new ClusterError(
        `the last task of ${directory} has ended without a result. Its log, if it has one, is there; if not, no node could open it: ` +
          `does every node see that directory? What is complete is kept; to run the rest again:\n  ${again}`,
      );
    }
    await sleep(pause, undefined, { signal }).catch(() => signal.throwIfAborted());
    pause = Math.min(longest, pause * 1.2);
  }
}

/** @returns undefined if there is no such file */
async function textOf(path: string): Promise<string | undefined> {
  try {
    return await textOfFile(path);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw new FileError({ path }, `cannot be read: ${systemProblem(error)}`, { cause: error });
  }
}

function statusOf(text: string, directory: string): number {
  if (/^[0-9]{1,3}\n$/.test(text)) return Number(text);
  const problem = `expected an exit status, got ${JSON.stringify(text.slice(0, 40))}: see the log of the last task, then submit again`;
  throw new FileError({ path: join(directory, 'status') }, problem);
}
