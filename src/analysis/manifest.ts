// The plan of an analysis as a file: every step with the content that it had, in order, and which of them make a shard. It
// is one JSON document, and each of its elements has a line of its own, so that it is read in constant memory.
import { isAbsolute, resolve } from 'node:path';
import { checkPath } from '../engine/argument-checks.js';
import { shown as shownValue } from '../engine/shown.js';
import { ArgumentError, FileError, StateError } from '../errors.js';
import { isAddress } from '../logs/address.js';
import { printable } from '../logs/printable.js';
import { CheckedLines } from './checked-lines.js';
import { StateWriter } from './state-writer.js';
import type { MeasureOptions } from './step-measurement.js';
import type { StepFile } from './step-source.js';

const FORMAT = 'collapsar/manifest';
const VERSION = 1;
const ADVICE = 'make it again with collapsar plan';

/** What the analysis was asked for. */
export interface PlanSettings extends MeasureOptions {
  /** Metrics to put into records; default all. */
  readonly metrics?: readonly string[] | undefined;
}

/** A range of whole steps. */
export interface Shard {
  /** Index of its first step. */
  readonly first: number;
  /** How many; none in shards beyond the number of steps. */
  readonly steps: number;
  /** Size of their files. */
  readonly bytes: number;
}

export interface PlannedRun {
  readonly name: string;
  /** Absolute path, where the plan was made, of the directory whose files are this run. */
  readonly directory: string;
}

/** `file`: as the user gave it; `identity`: when it was planned. */
export interface PlannedStep extends StepFile {
  /** Position in the sorted list of steps: the step's key in states. */
  readonly index: number;
  /** Position of its run in the list of runs. */
  readonly runNumber: number;
  /** Where to open it, whatever the working directory. */
  readonly path: string;
}

/** A plan as it was read: settings, shards and failures; its steps stay in the file. */
export interface Manifest {
  readonly path: string;
  /** SHA-256: which manifest a state belongs to. */
  readonly digest: string;
  /** Version of the package that made it. */
  readonly collapsar: string;
  readonly settings: PlanSettings;
  /** What relative paths are relative to. */
  readonly directory: string;
  readonly shards: readonly Shard[];
  readonly runs: readonly PlannedRun[];
  readonly steps: number;
  readonly bytes: number;
  /** Files and paths that could not be planned. */
  readonly failures: readonly FileError[];
}

export interface Plan {
  readonly collapsar: string;
  readonly settings: PlanSettings;
  readonly directory: string;
  readonly shards: readonly Shard[];
  readonly steps: readonly StepFile[];
  readonly failures: readonly FileError[];
}

/**
 * Writes the manifest whole or not at all. The same plan gives the same bytes.
 * @returns its digest
 * @throws {FileError} when it cannot be written
 */
export async function writeManifest(path: string, plan: Plan): Promise<string> {
  const writer = await StateWriter.open(path);
  try {
    const runs = runsOf(plan.steps);
    const { collapsar, settings, directory, steps } = plan;
    const head = { format: FORMAT, version: VERSION, collapsar, settings, directory };
    await writer.line(`${JSON.stringify(head).slice(0, -1)},`);
    await writeList(writer, 'shards', plan.shards);
    await writeList(writer, 'runs', runs);
    await writeList(writer, 'steps', plannedLines(steps));
    await writeList(writer, 'failures', plan.failures.map(savedFailure));
    return (await writer.complete('')).digest;
  } catch (error) {
    await writer.discard();
    throw error;
  }
}

async function writeList(writer: StateWriter, name: string, elements: Iterable<unknown>): Promise<void> {
  await writer.line(`"${name}":[`);
  let held: string | undefined;
  for (const element of elements) {
    if (held !== undefined) await writer.line(`${held},`);
    held = JSON.stringify(element);
  }
  if (held !== undefined) await writer.line(held);
  await writer.line('],');
}

/** Steps come by run. */
function runsOf(steps: readonly StepFile[]): PlannedRun[] {
  const runs: PlannedRun[] = [];
  for (const { run: name, runDirectory: directory } of steps) {
    const last = runs.at(-1);
    if (last?.name !== name || last.directory !== directory) runs.push({ name, directory });
  }
  return runs;
}

function* plannedLines(steps: readonly StepFile[]) {
  let run = -1;
  let last: StepFile | undefined;
  for (const next of steps) {
    if (last?.run !== next.run || last.runDirectory !== next.runDirectory) run++;
    last = next;
    const { file, step, bytes, identity, prompts, rows } = next;
    yield { file, run, step, bytes, identity, prompts, rows };
  }
}

/** A failure without its path, which whoever reads it knows. */
export interface SavedProblem {
  readonly problem: string;
  readonly tensor?: string;
  readonly offset?: number;
  /** Name of the file beside the step's that failed; only in states, and only where it is not the step's own. */
  readonly sidecar?: string;
}

/** The failure's message begins with where it is. */
export function savedProblem({ path, tensor, offset, message }: FileError): SavedProblem {
  const where = { ...(tensor !== undefined && { tensor }), ...(offset !== undefined && { offset }) };
  const prefix = new FileError({ path, ...where }, '').message;
  return { problem: message.startsWith(prefix) ? message.slice(prefix.length) : message, ...where };
}

/** @returns undefined for what `savedProblem` does not give */
export function problemAt(path: string, saved: unknown): FileError | undefined {
  const { problem, tensor, offset } = (saved ?? {}) as Partial<Record<keyof SavedProblem, unknown>>;
  if (typeof problem !== 'string') return undefined;
  if (tensor !== undefined && typeof tensor !== 'string') return undefined;
  if (offset !== undefined && !isCount(offset)) return undefined;
  return new FileError(
    { path, ...(tensor !== undefined && { tensor }), ...(offset !== undefined && { offset }) },
    problem,
  );
}

function savedFailure(failure: FileError) {
  return { file: failure.path, ...savedProblem(failure) };
}

/** @throws {ArgumentError} for what readManifest() did not give */
export function checkManifest(manifest: unknown): void {
  const { path, digest, shards, settings } = Object(manifest) as Partial<Manifest>;
  if (typeof path === 'string' && typeof digest === 'string' && Array.isArray(shards) && settings !== undefined) return;
  throw new ArgumentError(
    'options.manifest',
    `got ${shownValue(manifest)}, expected a path, or what readManifest() gives`,
  );
}

/**
 * Reads a manifest through once and checks all of it.
 * @param onStep called with each step, in order
 * @throws {StateError} when it is no manifest, damaged, or of another version; {FileError} when it cannot be read
 */
export async function readManifest(
  path: string,
  onStep?: (step: PlannedStep, shards: readonly Shard[]) => void,
): Promise<Manifest> {
  checkPath(path, 'path');
  if (onStep !== undefined && typeof onStep !== 'function') {
    throw new ArgumentError('onStep', `got ${shownValue(onStep)}, expected a function`);
  }
  const lines = await CheckedLines.open(path, ADVICE);
  try {
    const reader = new ManifestReader(lines);
    const head = await reader.head();
    const shards: Shard[] = [];
    const runs: PlannedRun[] = [];
    const failures: FileError[] = [];
    for await (const shard of reader.list('shards')) shards.push(shardOf(shard, shards.at(-1), lines));
    for await (const run of reader.list('runs')) runs.push(runOf(run, lines));
    const place = { runs, directory: head.directory };
    let steps = 0;
    let bytes = 0;
    let runNumber = -1;
    for await (const line of reader.list('steps')) {
      const step = stepOf(line, steps++, place, lines);
      if (step.runNumber !== runNumber && step.runNumber !== runNumber + 1)
        throw lines.damaged('its runs are not in order');
      runNumber = step.runNumber;
      bytes += step.bytes;
      onStep?.(step, shards);
    }
    for await (const line of reader.list('failures')) failures.push(failureOf(line, lines));
    const digest = await reader.end();
    const covered = shards.reduce((total, shard) => total + shard.steps, 0);
    if (covered !== steps || runNumber + 1 !== runs.length)
      throw lines.damaged('its shards or runs do not fit its steps');
    return { path, digest, ...head, shards, runs, steps, bytes, failures };
  } finally {
    await lines.close();
  }
}

/**
 * The steps of a manifest, in order.
 * @throws as `readManifest`, and {StateError} when it is not the one that `manifest` was read from
 */
export async function* plannedSteps(manifest: Manifest): AsyncGenerator<PlannedStep, void, undefined> {
  const lines = await CheckedLines.open(manifest.path, ADVICE);
  try {
    const reader = new ManifestReader(lines);
    await reader.head();
    for (const skipped of ['shards', 'runs']) for await (const _ of reader.list(skipped));
    let index = 0;
    for await (const line of reader.list('steps')) yield stepOf(line, index++, manifest, lines);
    for await (const _ of reader.list('failures'));
    if ((await reader.end()) !== manifest.digest) {
      throw new StateError(`${manifest.path}: another manifest was put in its place meanwhile: start again`);
    }
  } finally {
    await lines.close();
  }
}

/** @throws {StateError} when figures of this version of the package would not fit the plan's */
export function checkVersion(manifest: Manifest, version: string): void {
  if (manifest.collapsar === version) return;
  throw new StateError(
    `${manifest.path}: planned by collapsar ${printable(manifest.collapsar)}, this is ${version}: ` +
      `use one version everywhere, or ${ADVICE}`,
  );
}

type Head = Pick<Manifest, 'collapsar' | 'settings' | 'directory'>;

class ManifestReader {
  constructor(private readonly lines: CheckedLines) {}

  async head(): Promise<Head> {
    const { path } = this.lines;
    const head = await this.lines.head();
    if (head.format !== FORMAT) throw new StateError(`${path}: this is no manifest of collapsar: ${ADVICE}`);
    if (head.version !== VERSION) {
      throw new StateError(
        `${path}: a manifest of version ${shown(head.version)}, this release reads ${VERSION}: ${ADVICE}`,
      );
    }
    const { collapsar, directory } = head;
    if (typeof collapsar !== 'string' || typeof directory !== 'string') throw this.lines.damaged('its first line');
    return { collapsar, directory, settings: settingsOf(head.settings, this.lines) };
  }

  async *list(name: string): AsyncGenerator<Record<string, unknown>, void, undefined> {
    if ((await this.#text()) !== `"${name}":[`) throw this.lines.damaged(`its list of ${name} is not where it belongs`);
    let more: boolean | undefined;
    for (;;) {
      const text = await this.#text();
      if (text === '],') {
        if (more === true) throw this.lines.damaged(`its list of ${name} ends early`);
        return;
      }
      if (more === false) throw this.lines.damaged(`its list of ${name} lacks a comma`);
      more = text.endsWith(',');
      yield this.#object(more ? text.slice(0, -1) : text, name);
    }
  }

  /** @returns the digest */
  async end(): Promise<string> {
    if ((await this.#text()) !== '' || (await this.lines.next()) !== undefined || this.lines.digest === undefined) {
      throw this.lines.damaged('something comes after its lists');
    }
    return this.lines.digest;
  }

  async #text(): Promise<string> {
    const line = await this.lines.next();
    if (line === undefined) throw this.lines.damaged('a list is missing');
    return line.bytes.toString();
  }

  #object(text: string, name: string): Record<string, unknown> {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      value = undefined;
    }
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
    throw this.lines.damaged(`an element of ${name} is no JSON object`);
  }
}

/** Of what was read back from a file. */
export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function shown(value: unknown): string {
  return printable(String(JSON.stringify(value))).slice(0, 40);
}

function settingsOf(value: unknown, lines: CheckedLines): PlanSettings {
  const settings = (value ?? {}) as Partial<Record<keyof PlanSettings, unknown>>;
  const { profile, permutations, seed, samples, nonFinite, metrics } = settings;
  const sound =
    (profile === 'strict' || profile === 'ragen') &&
    (nonFinite === 'error' || nonFinite === 'exclude') &&
    (permutations === undefined || isCount(permutations)) &&
    isCount(seed) &&
    isCount(samples) &&
    (metrics === undefined || (Array.isArray(metrics) && metrics.every((name) => typeof name === 'string')));
  if (!sound) throw lines.damaged('its settings');
  return {
    profile,
    ...(permutations !== undefined && { permutations }),
    seed,
    samples,
    nonFinite,
    ...(metrics !== undefined && { metrics: metrics as string[] }),
  };
}

function shardOf(
  { first, steps, bytes }: Record<string, unknown>,
  last: Shard | undefined,
  lines: CheckedLines,
): Shard {
  const follows = first === (last === undefined ? 0 : last.first + last.steps);
  if (!follows || !isCount(first) || !isCount(steps) || !isCount(bytes)) throw lines.damaged('a shard');
  return { first, steps, bytes };
}

function runOf({ name, directory }: Record<string, unknown>, lines: CheckedLines): PlannedRun {
  if (typeof name !== 'string' || typeof directory !== 'string') throw lines.damaged('a run');
  return { name, directory };
}

function stepOf(
  { file, run: runNumber, step, bytes, identity, prompts, rows }: Record<string, unknown>,
  index: number,
  { runs, directory }: Pick<Manifest, 'runs' | 'directory'>,
  lines: CheckedLines,
): PlannedStep {
  const run = isCount(runNumber) ? runs[runNumber] : undefined;
  const named = typeof file === 'string' && typeof identity === 'string' && Number.isSafeInteger(step);
  if (run === undefined || !named || !isCount(bytes) || !isCount(prompts) || !isCount(rows)) {
    throw lines.damaged(`entry ${index} of its list of steps`);
  }
  return {
    index,
    runNumber: runNumber as number,
    file,
    path: placed(file, directory),
    run: run.name,
    runDirectory: run.directory,
    step: step as number,
    bytes,
    identity,
    prompts,
    rows,
  };
}

/** A relative path as given where it still leads to the same place, so that errors name what the user knows. */
function placed(file: string, directory: string): string {
  return isAddress(file) || isAbsolute(file) || process.cwd() === directory ? file : resolve(directory, file);
}

function failureOf({ file, ...problem }: Record<string, unknown>, lines: CheckedLines): FileError {
  const failure = typeof file === 'string' ? problemAt(file, problem) : undefined;
  if (failure === undefined) throw lines.damaged('a failure');
  return failure;
}
