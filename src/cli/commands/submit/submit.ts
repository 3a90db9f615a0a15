// `collapsar submit`: paths or a manifest in; tasks of an engine out, and with --wait their results.

import { join, resolve } from 'node:path';
import { checkVersion, type Manifest } from '../../../analysis/shards/manifest.js';
import { packageRoot } from '../../../checks/package-root.js';
import { packageVersion } from '../../../checks/package-version.js';
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
  submissionDirectory,
  writeSubmission,
} from '../../../cluster/submission.js';
import { submissionScript } from '../../../cluster/submission-script.js';
import { EXIT } from '../../output/exit-codes.js';
import { Progress } from '../../output/progress.js';
import { Interrupted, type Streams } from '../../output/streams.js';
import { impossibleMetrics } from '../metric-check.js';
import { engineOf, kubernetesOptions } from './engine-choice.js';
import type { Given, SubmitFlags } from './flags.js';
import { PLAN_OPTIONS } from './flags.js';
import { manifestOf } from './plan-of-work.js';
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
  const planned = await manifestOf(paths, flags, work, streams);
  if (planned === undefined) return EXIT.failures;
  const { manifest, path, isNew } = planned;
  checkVersion(manifest, packageVersion());
  const missing = await missingShards(work, manifest);
  const engine = engineOf(flags);
  const earlier = engine === undefined ? [] : await engine.underWay(work);
  const busy = new Set(earlier.flatMap(({ shards }) => [...shards]));
  const number = await nextNumber(work);
  const submission: Submission = {
    number,
    directory: submissionDirectory(work, number),
    work,
    out: resolve(flags.out),
    manifest: path,
    shards: manifest.shards.length,
    missing: missing.filter((index) => !busy.has(index)),
    collapsar: flags.collapsar ?? thisInstallation(flags.engine),
    mapOptions: words(given, ['threads', 'maxMemory']),
    mergeOptions: words(given, ['fanIn']),
    finalizeOptions: words(given, ['json', 'jsonl', 'markdown', 'rows', 'failOn']),
    again: again(flags, given, work),
  };
  const complete = manifest.shards.length - missing.length;
  const counts = `${counted(manifest.shards.length, 'shards')}: ${complete} complete, ${missing.length - submission.missing.length} under way`;

  if (engine === undefined) {
    await giveJobs(submission, flags, counts, streams);
    return EXIT.ok;
  }
  if (flags.dryRun) {
    const planning = [...words(given, PLAN_OPTIONS), `--out=${path}`, '--', ...paths];
    const plan = isNew ? `${submission.collapsar} plan ${shellLine(planning)}` : undefined;
    await out.write(submissionScript(submission, engine.files(submission), await engine.commands(submission), plan));
    return EXIT.ok;
  }

  // With --wait stdout is finalize's.
  const tell = flags.wait ? err : out;
  const going = submission.missing.length === 0 ? earlier.find(({ isWhole }) => isWhole) : undefined;
  const { directory } = going ?? submission;
  if (going === undefined) {
    await warnOfLocal([work, submission.out], streams);
    await writeSubmission(submission, engine.files(submission));
    const started = await engine.submit(submission);
    await tell.write(`${counts}, ${submission.missing.length} submitted\n${started}\n`);
  } else {
    await tell.write(`${counts}; nothing to submit: ${directory} is still at it\n`);
  }
  if (!flags.wait) {
    await tell.write(`Scripts, logs and, at the end, exit status: ${directory}\n`);
    return EXIT.ok;
  }
  return outcome(engine, { ...submission, directory }, manifest, flags, streams);
}

/** Jobs of Kubernetes, for the user to apply. */
async function giveJobs(
  submission: Submission,
  flags: SubmitFlags,
  counts: string,
  { out, err }: Streams,
): Promise<void> {
  const text = kubernetesJobs(submission, kubernetesOptions(flags, submission));
  if (!flags.dryRun) {
    await writeSubmission(submission, [{ path: join(submission.directory, 'jobs.yaml'), text, isProgram: false }]);
  }
  await out.write(text);
  if (!flags.dryRun) await err.write(`${counts}, ${submission.missing.length} in these jobs\n`);
}

async function outcome(
  engine: ClusterBackend,
  submission: Submission,
  manifest: Manifest,
  flags: SubmitFlags,
  streams: Streams,
): Promise<number> {
  const { out, err, signal } = streams;
  const progress = Progress.of(streams, flags.quiet);
  try {
    const onProgress = progress.update.bind(progress);
    const ended = await follow({ engine, submission, manifest, signal, onProgress });
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

/** The command that submits what is missing: everything but what made the plan. */
function again(flags: SubmitFlags, given: Given, work: string): string {
  const dropped = new Set<string>([...PLAN_OPTIONS, 'work', 'out', 'manifest', 'dryRun', 'wait']);
  const kept = [...given].flatMap(([name, option]) => (dropped.has(name) ? [] : option));
  const places = [`--work=${work}`, `--out=${resolve(flags.out)}`];
  if (flags.manifest !== undefined) places.push(`--manifest=${resolve(flags.manifest)}`);
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
