// Describes one submission of an analysis to an engine, and the numbered directory below WORK with its scripts, logs
// and outcome. Submitting again what is missing makes another submission of the same WORK.
import { mkdir, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { makeDirectory } from '../analysis/results/make-directory.js';
import { textOfFile } from '../analysis/results/regular-file.js';
import { JOURNALS } from '../analysis/store/journal-set.js';
import { FileError } from '../checks/errors.js';
import { writeError, writeWhole } from '../logs/stores/atomic-file.js';
import { errorCode, systemProblem } from '../logs/stores/system-problem.js';

export interface Submission {
  /** 001, 002, … */
  readonly number: string;
  /** WORK/submissions/001 */
  readonly directory: string;
  /** Absolute paths, the same on every node. */
  readonly work: string;
  readonly out: string;
  /** Directory that `paths` are relative to. */
  readonly from: string;
  /** What is analysed, as it was given. */
  readonly paths: readonly string[];
  /** Options that figures depend on, for shards and for the end. */
  readonly measuring: readonly string[];
  /** How many shards there are. */
  readonly shards: number;
  /** Shards to measure, in rising order. */
  readonly missing: readonly number[];
  /** How a node starts collapsar, as a shell reads it. */
  readonly collapsar: string;
  readonly shardOptions: readonly string[];
  readonly finishOptions: readonly string[];
  /** The command that submits what is then missing. */
  readonly again: string;
}

/** What every engine can be asked for. */
export interface TaskOptions {
  readonly name: string;
  /** Cores of a task. */
  readonly cpus: number | undefined;
  /** Bytes of memory of a task. */
  readonly memory: number | undefined;
  /** Tasks at a time, at most. */
  readonly throttle: number | undefined;
  /** How often a task is started again after a node was lost. */
  readonly retries: number;
  /** Seconds that the end waits for journals without a new one; undefined for what suits the engine. */
  readonly shardWait: number | undefined;
}

/** A file that tasks run or read. */
export interface SubmissionFile {
  readonly path: string;
  readonly text: string;
  readonly isProgram: boolean;
}

/** What an earlier submission of the same WORK still has under way. */
export interface UnderWay {
  readonly directory: string;
  readonly shards: ReadonlySet<number>;
  /** It will end with results if its shards do. */
  readonly isWhole: boolean;
}

export interface ClusterBackend {
  /** What earlier submissions have under way. */
  underWay(work: string): Promise<readonly UnderWay[]>;
  files(submission: Submission): readonly SubmissionFile[];
  /** The commands, as a shell would run them. */
  commands(submission: Submission): Promise<readonly string[]>;
  /** @returns what was started and how to stop it, in words */
  submit(submission: Submission): Promise<string>;
  /** Whether anything of it is still to come. */
  isUnderWay(directory: string): Promise<boolean>;
}

const SUBMISSIONS = 'submissions';

function submissionsDirectory(work: string): string {
  return join(work, SUBMISSIONS);
}

/** Directories of submissions so far, oldest first. */
export async function submissionDirectories(work: string): Promise<string[]> {
  const directory = submissionsDirectory(work);
  try {
    const names = (await readdir(directory)).filter((name) => /^[0-9]{3,}$/.test(name));
    return names.sort((a, b) => Number(a) - Number(b)).map((name) => join(directory, name));
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return [];
    throw new FileError({ path: directory }, `cannot be listed: ${systemProblem(error)}`, { cause: error });
  }
}

export async function nextNumber(work: string): Promise<string> {
  const last = (await submissionDirectories(work)).at(-1)?.split('/').at(-1);
  return String(Number(last ?? 0) + 1).padStart(3, '0');
}

export function submissionDirectory(work: string, number: string): string {
  return join(work, SUBMISSIONS, number);
}

/** @throws {FileError} also when another submission took the number meanwhile */
export async function writeSubmission({ directory }: Submission, files: readonly SubmissionFile[]): Promise<void> {
  await makeDirectory(dirname(directory));
  try {
    await mkdir(directory);
    await mkdir(join(directory, 'logs'));
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw writeError(directory, error);
    throw new FileError({ path: directory }, 'another submission is being made: try again', { cause: error });
  }
  for (const { path, text, isProgram } of files) {
    await writeWhole(path, text, isProgram ? 0o777 : undefined);
  }
}

/** Shards without a whole journal, in rising order. */
export async function missingShards(work: string, count: number): Promise<number[]> {
  const complete = await completeShards(work, count);
  return Array.from({ length: count }, (_, index) => index).filter((index) => !complete.has(index));
}

/** Shards whose journal has its name: they came to their end. */
export async function completeShards(work: string, count: number): Promise<Set<number>> {
  const directory = join(work, JOURNALS);
  try {
    const names = (await readdir(directory)).map((name) => /^([0-9]+)-of-([0-9]+)$/.exec(name));
    return new Set(names.filter((name) => Number(name?.[2]) === count).map((name) => Number(name?.[1])));
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return new Set();
    throw new FileError({ path: directory }, `cannot be listed: ${systemProblem(error)}`, { cause: error });
  }
}

/** A record that an engine keeps beside its scripts; undefined if there is none that can be read. */
export async function engineRecord(directory: string, name: string): Promise<Record<string, unknown> | undefined> {
  try {
    const value: unknown = JSON.parse(await textOfFile(join(directory, name)));
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
