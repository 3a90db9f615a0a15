// The file of a manifest -> the plan in it, read in constant memory, with every line checked.
import { isAbsolute, resolve } from 'node:path';
import { checkPath } from '../../checks/argument-checks.js';
import { ArgumentError, type FileError, StateError } from '../../checks/errors.js';
import { isCount } from '../../checks/saved-shape.js';
import { printable, shown } from '../../checks/words.js';
import { TURN_REWARDS, type TurnRewards } from '../../filter/input/filter-options.js';
import { type LogOptions, logReading } from '../../logs/rollouts/log-options.js';
import { isAddress } from '../../logs/stores/address.js';
import { CheckedLines } from './checked-lines.js';
import {
  MANIFEST_ADVICE,
  MANIFEST_FORMAT,
  MANIFEST_VERSION,
  type Manifest,
  type PlannedRun,
  type PlannedStep,
  type PlanSettings,
  type Shard,
} from './manifest.js';
import { rolloutsFrom } from './planned-rollouts.js';
import { problemAt } from './saved-problem.js';

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
    throw new ArgumentError('onStep', `got ${shown(onStep)}, expected a function`);
  }
  const lines = await CheckedLines.open(path, MANIFEST_ADVICE);
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
  const lines = await CheckedLines.open(manifest.path, MANIFEST_ADVICE);
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

type Head = Pick<Manifest, 'collapsar' | 'settings' | 'directory'>;

class ManifestReader {
  constructor(private readonly lines: CheckedLines) {}

  async head(): Promise<Head> {
    const { path } = this.lines;
    const head = await this.lines.head();
    if (head.format !== MANIFEST_FORMAT)
      throw new StateError(`${path}: this is no manifest of collapsar: ${MANIFEST_ADVICE}`);
    if (head.version !== MANIFEST_VERSION) {
      throw new StateError(
        `${path}: a manifest of version ${asJson(head.version)}, this release reads ${MANIFEST_VERSION}: ${MANIFEST_ADVICE}`,
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

function asJson(value: unknown): string {
  return printable(String(JSON.stringify(value))).slice(0, 40);
}

function settingsOf(value: unknown, lines: CheckedLines): PlanSettings {
  const settings = (value ?? {}) as Partial<Record<keyof PlanSettings, unknown>>;
  const { profile, permutations, seed, samples, nonFinite, placeholders, turnRewards, metrics } = settings;
  const sound =
    (profile === 'strict' || profile === 'ragen') &&
    (nonFinite === 'error' || nonFinite === 'exclude') &&
    (placeholders === 'error' || placeholders === 'exclude') &&
    TURN_REWARDS.some((rule) => rule === turnRewards) &&
    (permutations === undefined || isCount(permutations)) &&
    isCount(seed) &&
    isCount(samples) &&
    hasSoundLogs(settings) &&
    (metrics === undefined || (Array.isArray(metrics) && metrics.every((name) => typeof name === 'string')));
  if (!sound) throw lines.damaged('its settings');
  return {
    profile,
    ...(permutations !== undefined && { permutations }),
    seed,
    samples,
    nonFinite,
    placeholders,
    turnRewards: turnRewards as TurnRewards,
    ...logOptions(settings as LogOptions),
    ...(metrics !== undefined && { metrics: metrics as string[] }),
  };
}

function logOptions({ format, columns, reasoning, tagTokens, groupSize }: LogOptions): LogOptions {
  return {
    ...(format !== undefined && { format }),
    ...(columns !== undefined && { columns }),
    ...(reasoning !== undefined && { reasoning }),
    ...(tagTokens !== undefined && { tagTokens }),
    ...(groupSize !== undefined && { groupSize }),
  };
}

function hasSoundLogs(settings: object): boolean {
  try {
    logReading(logOptions(settings));
    return true;
  } catch (error) {
    if (error instanceof ArgumentError) return false;
    throw error;
  }
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
  { file, run: runNumber, step, bytes, identity, prompts, rows, isLog, rollouts }: Record<string, unknown>,
  index: number,
  { runs, directory }: Pick<Manifest, 'runs' | 'directory'>,
  lines: CheckedLines,
): PlannedStep {
  const run = isCount(runNumber) ? runs[runNumber] : undefined;
  const named = typeof file === 'string' && typeof identity === 'string' && isCount(step);
  if (run === undefined || !named || !isCount(bytes) || !isCount(prompts) || !isCount(rows)) {
    throw lines.damaged(`entry ${index} of its list of steps`);
  }
  const ofRun = { step: step as number, run: run.name, runDirectory: run.directory };
  const logs = rollouts === undefined ? undefined : rolloutsFrom(rollouts, ofRun, (path) => placed(path, directory));
  if (rollouts === undefined ? isLog !== undefined : logs === undefined)
    throw lines.damaged(`entry ${index} of its list of steps`);
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
    ...(logs && { rollouts: logs, ...(isLog === true && { isLog }) }),
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
