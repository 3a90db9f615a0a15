// The file of a manifest -> the plan in it, read in constant memory, with every line checked.
import { isAbsolute, resolve } from 'node:path';
import { checkPath } from '../../checks/argument-checks.js';
import { ArgumentError, type FileError, StateError } from '../../checks/errors.js';
import {
  count,
  DamagedPart,
  either,
  fields,
  flag,
  list,
  number,
  oneOf,
  optional,
  pair,
  record,
  reject,
  type Shape,
  text,
} from '../../checks/saved.js';
import { printable, shown } from '../../checks/words.js';
import { TURN_REWARDS, type TurnRewards } from '../../filter/input/filter-options.js';
import { logReading } from '../../logs/rollouts/log-options.js';
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
import { plannedRolloutsShape, rolloutsOf } from './planned-rollouts.js';
import { problemAt, savedProblemShape } from './saved-problem.js';

/**
 * Reads a manifest through once and checks all of it.
 * @param onStep called with each step, in order
 * @throws {StateError} unless it is a whole manifest of this version; {FileError} when it cannot be read
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
    for await (const shard of reader.list('shards')) {
      shards.push(lines.read(`shard ${shards.length}`, () => shardOf(shard, shards.at(-1))));
    }
    for await (const run of reader.list('runs')) runs.push(lines.read(`run ${runs.length}`, () => runShape(run)));
    const place = { runs, directory: head.directory };
    let steps = 0;
    let bytes = 0;
    let runNumber = -1;
    for await (const line of reader.list('steps')) {
      const step = lines.read(`step ${steps}`, () => stepOf(line, steps, place));
      steps++;
      if (step.runNumber !== runNumber && step.runNumber !== runNumber + 1)
        throw lines.damaged('its runs are not in order');
      runNumber = step.runNumber;
      bytes += step.bytes;
      onStep?.(step, shards);
    }
    for await (const line of reader.list('failures')) {
      failures.push(lines.read(`failure ${failures.length}`, () => failureOf(line)));
    }
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
    for await (const line of reader.list('steps'))
      yield lines.read(`step ${index}`, () => stepOf(line, index++, manifest));
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
    return this.lines.read('its first line', () => headShape(head));
  }

  async *list(name: string): AsyncGenerator<unknown, void, undefined> {
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
      yield this.#parsed(more ? text.slice(0, -1) : text, name);
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

  #parsed(text: string, name: string): unknown {
    try {
      return JSON.parse(text);
    } catch {
      throw this.lines.damaged(`an element of ${name} is not JSON`);
    }
  }
}

function asJson(value: unknown): string {
  return printable(String(JSON.stringify(value))).slice(0, 40);
}

const logFields = {
  format: optional(text),
  columns: optional(record(text)),
  reasoning: optional(either((value) => value === 'all', oneOf('all'), pair(text))),
  tagTokens: optional(pair(count)),
  groupSize: optional(count),
  rewardColumns: optional(record(number)),
};
const logShape = fields(logFields);

const settingsFields = fields({
  profile: oneOf('strict', 'ragen'),
  permutations: optional(count),
  seed: count,
  samples: count,
  nonFinite: oneOf('error', 'exclude'),
  placeholders: oneOf('error', 'exclude'),
  turnRewards: oneOf<TurnRewards>(...TURN_REWARDS),
  metrics: optional(list(text)),
  ...logFields,
});

/** What logs are read with must be what a caller may ask for. */
const settingsShape: Shape<PlanSettings> = (value) => {
  const settings = settingsFields(value);
  try {
    logReading(logShape(value));
  } catch (error) {
    if (error instanceof ArgumentError) throw new DamagedPart(`do not hold: ${error.message}`, '', { cause: error });
    throw error;
  }
  return settings;
};

const headShape = fields({ collapsar: text, directory: text, settings: settingsShape });
const shardShape = fields({ first: count, steps: count, bytes: count });
const runShape = fields({ name: text, directory: text });
const failureShape = fields({ file: text });
const stepShape = fields({
  file: text,
  run: count,
  step: count,
  bytes: count,
  identity: text,
  prompts: count,
  rows: count,
  isLog: optional(flag),
  rollouts: optional(plannedRolloutsShape),
});

function shardOf(value: unknown, last: Shard | undefined): Shard {
  const shard = shardShape(value);
  const first = last === undefined ? 0 : last.first + last.steps;
  return shard.first === first ? shard : reject(shard.first, `${first}`, 'first');
}

function stepOf(value: unknown, index: number, { runs, directory }: Pick<Manifest, 'runs' | 'directory'>): PlannedStep {
  const { run: runNumber, isLog, rollouts, ...step } = stepShape(value);
  const run = runs[runNumber] ?? reject(runNumber, `a whole number below ${runs.length}`, 'run');
  if (isLog !== undefined && rollouts === undefined) reject(rollouts, 'where the log is', 'rollouts');
  const ofRun = { step: step.step, run: run.name, runDirectory: run.directory };
  const at = (file: string) => placed(file, directory);
  return {
    ...step,
    ...ofRun,
    index,
    runNumber,
    path: at(step.file),
    ...(rollouts && { rollouts: rolloutsOf(rollouts, ofRun, at), ...(isLog && { isLog }) }),
  };
}

/** A relative path as given where it still leads to the same place, so that errors name what the user knows. */
function placed(file: string, directory: string): string {
  return isAddress(file) || isAbsolute(file) || process.cwd() === directory ? file : resolve(directory, file);
}

function failureOf(value: unknown): FileError {
  return problemAt(failureShape(value).file, savedProblemShape(value));
}
