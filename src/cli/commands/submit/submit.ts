// `collapsar submit`: paths in; tasks of an engine out, and with --wait their results.

import { join, resolve } from 'node:path';
import { packageRoot } from '../../../checks/package-root.js';
import { shellLine } from '../../../checks/shell-words.js';
import { counted, escaped } from '../../../checks/words.js';
import { follow } from '../../../cluster/follow.js';
import { kubernetesJobs } from '../../../cluster/kubernetes.js';
import { localFileSystem } from '../../../cluster/shared-directory.js';
import {
  type ClusterBackend,
  missingShards,
  nextNumber,
  type Submission,
  type SubmissionFile,
  submissionDirectory,
  writeSubmission,
} from '../../../cluster/submission.js';
import { submissionScript } from '../../../cluster/submission-script.js';
import { EXIT } from '../../output/exit-codes.js';
import { Progress } from '../../output/progress.js';
import { Interrupted, type Streams } from '../../output/streams.js';
import { impossibleMetrics } from '../metric-check.js';
import { analysisOfWork } from './analysis-of-work.js';
import { engineOf, kubernetesOptions } from './engine-choice.js';
import { ANALYSIS_OPTIONS, type Given, type SubmitFlags } from './flags.js';
import { checkUsage, Usage } from './usage.js';

/** @returns exit status */
export async function submitCommand(
  paths: readonly string[],
  flags: SubmitFlags,
  given: Given,
  streams: Streams,
): Promise<number> {
  const impossible = impossibleMetrics(flags.metrics, flags.profile);
  if (impossible !== undefined) {
    await streams.err.write(impossible);
    return EXIT.usage;
  }
  try {
    return await submit(paths, flags, given, streams);
  } catch (error) {
    if (!(error instanceof Usage)) throw error;
    await streams.err.write(`error: ${escaped(error.message)}\n(see collapsar submit --help)\n`);
    return EXIT.usage;
  }
}

async function submit(paths: readonly string[], flags: SubmitFlags, given: Given, streams: Streams): Promise<number> {
  checkUsage(paths, flags, given);
  const { out, err } = streams;
  const work = resolve(flags.work);
  const known = await analysisOfWork(paths, flags, given, work, streams);
  if (known === undefined) return EXIT.failures;
  const { shards, metrics, ...analysis } = known.analysis;
  const missing = await missingShards(work, shards);
  const engine = engineOf(flags);
  const earlier = engine === undefined ? [] : await engine.underWay(work);
  const busy = new Set(earlier.flatMap(({ shards }) => [...shards]));
  const number = await nextNumber(work);
  const submission: Submission = {
    number,
    directory: submissionDirectory(work, number),
    work,
    out: resolve(flags.out),
    ...{ from: analysis.from, paths: analysis.paths, measuring: analysis.measuring, shards },
    missing: missing.filter((index) => !busy.has(index)),
    collapsar: flags.collapsar ?? thisInstallation(flags.engine),
    shardOptions: words(given, ['threads', 'maxMemory']),
    finishOptions: [...metrics, ...words(given, ['json', 'jsonl', 'markdown', 'rows', 'failOn', 'maxMemory'])],
    again: again(flags, given, work),
  };
  const complete = shards - missing.length;
  const counts = `${counted(shards, 'shards')}: ${complete} complete, ${missing.length - submission.missing.length} under way`;

  if (engine === undefined) {
    await giveJobs(submission, known.record, flags, counts, streams);
    return EXIT.ok;
  }
  const files = [...(known.record === undefined ? [] : [known.record]), ...engine.files(submission)];
  if (flags.dryRun) {
    await out.write(submissionScript(submission, files, await engine.commands(submission)));
    return EXIT.ok;
  }

  // With --wait stdout is the analysis's.
  const tell = flags.wait ? err : out;
  const going = submission.missing.length === 0 ? earlier.find(({ isWhole }) => isWhole) : undefined;
  const { directory } = going ?? submission;
  if (going === undefined) {
    await warnOfLocal([work, submission.out], streams);
    await writeSubmission(submission, files);
    const started = await engine.submit(submission);
    await tell.write(`${counts}, ${submission.missing.length} submitted\n${started}\n`);
  } else {
    await tell.write(`${counts}; nothing to submit: ${directory} is still at it\n`);
  }
  if (!flags.wait) {
    await tell.write(`Scripts, logs and, at the end, exit status: ${directory}\n`);
    return EXIT.ok;
  }
  return outcome(engine, { ...submission, directory }, flags, streams);
}

/** Jobs of Kubernetes, for the user to apply. */
async function giveJobs(
  submission: Submission,
  record: SubmissionFile | undefined,
  flags: SubmitFlags,
  counts: string,
  { out, err }: Streams,
): Promise<void> {
  const text = kubernetesJobs(submission, kubernetesOptions(flags, submission));
  if (!flags.dryRun) {
    const jobs = { path: join(submission.directory, 'jobs.yaml'), text, isProgram: false };
    await writeSubmission(submission, record === undefined ? [jobs] : [record, jobs]);
  }
  await out.write(text);
  if (!flags.dryRun) await err.write(`${counts}, ${submission.missing.length} in these jobs\n`);
}

async function outcome(
  engine: ClusterBackend,
  submission: Submission,
  flags: SubmitFlags,
  streams: Streams,
): Promise<number> {
  const { out, err, signal } = streams;
  const progress = Progress.of(streams, flags.quiet);
  try {
    const onProgress = progress.shards.bind(progress);
    const ended = await follow({ engine, submission, signal, onProgress });
    progress.clear();
    await out.write(ended.out);
    await err.write(ended.err);
    return ended.status;
  } catch (error) {
    progress.clear();
    if (error instanceof Interrupted) {
      await err.write(`The jobs go on; to follow them again:\n  ${submission.again} --wait\n`);
    }
    throw error;
  }
}

function words(given: Given, names: readonly string[]): string[] {
  return names.flatMap((name) => given.get(name) ?? []);
}

/** In an image collapsar is on the PATH; nodes of a cluster see what this one sees. */
function thisInstallation(engine: SubmitFlags['engine']): string {
  if (engine === 'kubernetes') return 'collapsar';
  return shellLine([process.execPath, join(packageRoot, 'dist', 'cli', 'main.js')]);
}

/** The command that submits what is missing: everything but what the analysis is. */
function again(flags: SubmitFlags, given: Given, work: string): string {
  const dropped = new Set<string>([...ANALYSIS_OPTIONS, 'work', 'out', 'dryRun', 'wait']);
  const kept = [...given].flatMap(([name, option]) => (dropped.has(name) ? [] : option));
  const places = [`--work=${work}`, `--out=${resolve(flags.out)}`];
  return shellLine(['collapsar', 'submit', ...kept, ...places]);
}

async function warnOfLocal(paths: readonly string[], { err }: Streams): Promise<void> {
  for (const path of paths) {
    const name = await localFileSystem(path);
    if (name === undefined) continue;
    await err.write(
      `note: ${escaped(path)} is on ${name}, which usually belongs to one machine: all nodes must see it under this path\n`,
    );
  }
}
