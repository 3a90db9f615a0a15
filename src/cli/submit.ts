// `collapsar submit`: paths or a manifest in; tasks of an engine out, and with --wait their results.
import { constants } from 'node:fs';
import { access, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { checkVersion, type Manifest } from '../analysis/manifest.js';
import { readManifest } from '../analysis/manifest-reader.js';
import { follow } from '../analysis/submit/follow.js';
import { kubernetesJobs } from '../analysis/submit/kubernetes.js';
import { Ray } from '../analysis/submit/ray.js';
import { localFileSystem } from '../analysis/submit/shared-directory.js';
import { shellLine, shellWord } from '../analysis/submit/shell-words.js';
import { Slurm } from '../analysis/submit/slurm.js';
import {
  directoryOf,
  type Engine,
  missingShards,
  nextNumber,
  type Submission,
  type SubmissionFile,
  type TaskOptions,
  writeSubmission,
} from '../analysis/submit/submission.js';
import { counted } from '../engine/counted.js';
import { FileError, StateError } from '../errors.js';
import { escaped } from '../logs/printable.js';
import { systemProblem } from '../logs/system-problem.js';
import { packageRoot } from '../package-root.js';
import { packageVersion } from '../package-version.js';
import { EXIT } from './exit-codes.js';
import { impossibleMetrics } from './metric-check.js';
import { planSteps } from './plan-steps.js';
import type { PlanningFlags } from './planning-options.js';
import { Progress } from './progress.js';
import { Interrupted, type Streams } from './streams.js';
import { ENGINE_OPTIONS, PLAN_OPTIONS } from './submit-options.js';

/** The options of the command line, checked one by one. */
export interface SubmitFlags extends PlanningFlags {
  engine: 'slurm' | 'ray' | 'kubernetes';
  work: string;
  out: string;
  manifest?: string;
  dryRun?: true;
  wait?: true;
  collapsar?: string;
  name: string;
  cpus?: number;
  mem?: number;
  throttle?: number;
  retries: number;
  markerWait?: number;
  quiet?: true;
  partition?: string;
  account?: string;
  qos?: string;
  time?: string;
  sbatchArg?: string[];
  rayAddress?: string;
  python?: string;
  rayResource?: string[];
  image?: string;
  namespace?: string;
  claim?: string[];
  envSecret?: string[];
  nodeSelector?: string[];
}

/** Options as the words that give them again, by name. */
type Given = ReadonlyMap<string, readonly string[]>;

/** A command line that makes no sense. */
class Usage extends Error {}

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
    directory: directoryOf(work, number),
    work,
    out: resolve(flags.out),
    manifest: path,
    shards: manifest.shards.length,
    missing: missing.filter((index) => !busy.has(index)),
    collapsar: flags.collapsar ?? thisInstallation(flags.engine),
    mapOptions: words(given, ['threads', 'maxMemory']),
    mergeOptions: words(given, ['fanIn']),
    finalizeOptions: words(given, ['json', 'jsonl', 'every']),
    again: again(flags, given, work),
  };
  const complete = manifest.shards.length - missing.length;
  const counts = `${counted(manifest.shards.length, 'shards')}: ${complete} complete, ${missing.length - submission.missing.length} under way`;

  if (engine === undefined) {
    const text = kubernetesJobs(submission, kubernetesOptions(flags, submission));
    if (!flags.dryRun) {
      await writeSubmission(submission, [{ path: join(submission.directory, 'jobs.yaml'), text, isProgram: false }]);
    }
    await out.write(text);
    if (!flags.dryRun) await err.write(`${counts}, ${submission.missing.length} in these jobs\n`);
    return EXIT.ok;
  }
  if (flags.dryRun) {
    const planning = [...words(given, PLAN_OPTIONS), `--out=${path}`, '--', ...paths];
    const plan = isNew ? `${submission.collapsar} plan ${shellLine(planning)}` : undefined;
    await out.write(asScript(submission, engine.files(submission), await engine.commands(submission), plan));
    return EXIT.ok;
  }

  // With --wait stdout is finalize's.
  const tell = flags.wait ? err : out;
  const going = submission.missing.length === 0 ? earlier.find(({ isWhole }) => isWhole) : undefined;
  let { directory } = submission;
  if (going === undefined) {
    await warnOfLocal([work, submission.out], streams);
    await writeSubmission(submission, engine.files(submission));
    const started = await engine.submit(submission);
    await tell.write(`${counts}, ${submission.missing.length} submitted\n${started}\n`);
  } else {
    directory = going.directory;
    await tell.write(`${counts}; nothing to submit: ${directory} is still at it\n`);
  }
  if (!flags.wait) {
    await tell.write(`Scripts, logs and, at the end, exit status: ${directory}\n`);
    return EXIT.ok;
  }
  return outcome(engine, { ...submission, directory }, manifest, flags, streams);
}

async function outcome(
  engine: Engine,
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

function checkUsage(paths: readonly string[], flags: SubmitFlags, given: Given): void {
  for (const [engine, names] of Object.entries(ENGINE_OPTIONS)) {
    const foreign = engine === flags.engine ? undefined : names.find((name) => given.has(name));
    if (foreign !== undefined) {
      throw new Usage(`${optionName(given, foreign)} is for --engine ${engine}, not for ${flags.engine}`);
    }
  }
  if (paths.length === 0) {
    const planning = PLAN_OPTIONS.find((name) => given.has(name));
    if (planning !== undefined) {
      throw new Usage(`${optionName(given, planning)} belongs to a plan: give PATHS, or leave it out`);
    }
  } else if (flags.manifest !== undefined) {
    throw new Usage('PATHS and --manifest: the manifest says what the paths are, so give one of the two');
  }
  if (flags.engine !== 'kubernetes') return;
  if (flags.wait) throw new Usage('--wait: nothing is submitted here; kubectl wait follows a job');
  if (flags.image === undefined) throw new Usage('--engine kubernetes needs --image');
  if (flags.claim === undefined) throw new Usage('--engine kubernetes needs --claim: pods must have --work and --out');
}

function optionName(given: Given, name: string): string {
  return (given.get(name)?.[0] ?? name).replace(/=.*$/s, '');
}

interface PlannedManifest {
  readonly manifest: Manifest;
  /** Where tasks find it. */
  readonly path: string;
  /** It is not there yet: a dry run writes nothing. */
  readonly isNew: boolean;
}

/** @returns undefined where there is nothing to analyse, which has been said then */
async function manifestOf(
  paths: readonly string[],
  flags: SubmitFlags,
  work: string,
  streams: Streams,
): Promise<PlannedManifest | undefined> {
  if (flags.manifest !== undefined) {
    const path = resolve(flags.manifest);
    return { manifest: await readManifest(path), path, isNew: false };
  }
  const path = join(work, 'manifest.json');
  const isThere = await access(path, constants.F_OK).then(
    () => true,
    () => false,
  );
  if (paths.length === 0) {
    if (!isThere) throw new Usage(`${path} is not there: give PATHS, or --manifest`);
    return { manifest: await readManifest(path), path, isNew: false };
  }
  if (!isThere && !flags.dryRun) return planned(paths, flags, path, streams);
  const temporary = await mkdtemp(join(tmpdir(), 'collapsar-plan-')).catch((error: unknown) => {
    const problem = `no temporary directory can be made in it (TMPDIR): ${systemProblem(error)}`;
    throw new FileError({ path: tmpdir() }, problem, { cause: error });
  });
  try {
    const fresh = await planned(paths, flags, join(temporary, 'manifest.json'), streams);
    if (fresh === undefined || !isThere) return fresh && { ...fresh, path, isNew: true };
    const manifest = await readManifest(path);
    if (manifest.digest === fresh.manifest.digest) return { manifest, path, isNew: false };
    throw new StateError(
      `${path}: made of other files, options or versions of files, or in another directory (${manifest.directory}). ` +
        'Leave out PATHS and the options of the plan to go on with it, or give another --work',
    );
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

async function planned(
  paths: readonly string[],
  flags: SubmitFlags,
  path: string,
  streams: Streams,
): Promise<PlannedManifest | undefined> {
  const { targetBytes, shards, profile, metrics, permutations, seed, samples, nonFinite } = flags;
  const options = { targetBytes, shards, profile, metrics, permutations, seed, samples, nonFinite };
  const { planned: made } = await planSteps(paths, { ...options, out: path }, flags.quiet, streams);
  return made && { manifest: await readManifest(path), path, isNew: false };
}

function engineOf(flags: SubmitFlags): Engine | undefined {
  const { engine, partition, account, qos, time, sbatchArg, rayAddress, python = 'python3', rayResource = [] } = flags;
  const task = taskOptions(flags);
  if (engine === 'slurm') return new Slurm({ ...task, partition, account, qos, time, passed: sbatchArg ?? [] });
  if (engine !== 'ray') return undefined;
  const resources = Object.fromEntries(
    rayResource.map((text) => {
      const [name, amount] = pair(text, '=', '--ray-resource');
      if (!(Number(amount) > 0 && Number.isFinite(Number(amount))))
        throw new Usage(`--ray-resource ${text}: expected NAME=NUMBER`);
      return [name, Number(amount)];
    }),
  );
  return new Ray({ ...task, address: rayAddress, python, resources });
}

function taskOptions({ name, cpus, mem, throttle, retries, markerWait }: SubmitFlags): TaskOptions {
  return { name, cpus, memory: mem, throttle, retries, markerWait };
}

function kubernetesOptions(flags: SubmitFlags, { work, out, manifest }: Submission) {
  const { image = '', namespace, claim = [], envSecret = [], nodeSelector = [] } = flags;
  const claims = claim.map((text) => {
    const [name, mount] = pair(text, ':', '--claim');
    if (!mount.startsWith('/')) throw new Usage(`--claim ${text}: expected NAME:/DIRECTORY`);
    return { claim: name, mount: resolve(mount) };
  });
  for (const path of [work, out, manifest]) {
    if (claims.some(({ mount }) => mount === '/' || path === mount || path.startsWith(`${mount}/`))) continue;
    throw new Usage(`${path} is in no --claim: pods would not see it`);
  }
  const labels = Object.fromEntries(nodeSelector.map((text) => pair(text, '=', '--node-selector')));
  return { ...taskOptions(flags), image, namespace, claims, secrets: envSecret, nodeSelector: labels };
}

function pair(text: string, between: string, option: string): [string, string] {
  const at = text.indexOf(between);
  if (at < 1 || at === text.length - 1)
    throw new Usage(`${option} ${text}: expected two parts with "${between}" between`);
  return [text.slice(0, at), text.slice(at + 1)];
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

/** A script that does what the command would do. */
function asScript(
  { directory }: Submission,
  files: readonly SubmissionFile[],
  commands: readonly string[],
  plan: string | undefined,
): string {
  const lines = ['#!/bin/sh', 'set -e', `mkdir -p ${shellWord(join(directory, 'logs'))}`];
  if (plan !== undefined) lines.push(plan);
  for (const { path, text, isProgram } of files) {
    // Whatever the text is, it does not end before its end: a path in it may have lines of its own.
    let end = 'END_OF_FILE';
    while (text.includes(end)) end += '_';
    lines.push('', `cat >${shellWord(path)} <<'${end}'`, `${text}${end}`);
    if (isProgram) lines.push(`chmod +x ${shellWord(path)}`);
  }
  return `${[...lines, '', ...commands].join('\n')}\n`;
}

async function warnOfLocal(paths: readonly string[], { err }: Streams): Promise<void> {
  for (const path of paths) {
    const name = await localFileSystem(path);
    if (name === undefined) continue;
    await err.write(
      `note: ${escaped(path)} is on ${name}, which is mostly of one machine: all nodes must see it under this path\n`,
    );
  }
}
