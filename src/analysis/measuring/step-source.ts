// Finds the steps of an analysis in step files and rollout logs, in the order of their runs and holding little of each;
// or takes steps that a caller hands out.
import type { ReadableStream } from 'node:stream/web';
import { ArgumentError, FileError } from '../../checks/errors.js';
import { shown } from '../../checks/words.js';
import { findInputs, type Searched, withoutSteps } from '../../logs/find-inputs.js';
import { isLogName } from '../../logs/input-names.js';
import type { LoggedPart, LoggedStep, RolloutLogs } from '../../logs/rollouts/rollout-logs.js';
import {
  byRunAndStep,
  type ListedStep,
  type ListStepsOptions,
  listFound,
  type SeenFile,
} from '../../logs/steps/read-steps.js';
import type { StepData } from '../../logs/steps/step-data.js';
import { headerDigest } from '../../logs/steps/step-digest.js';
import { NoStepError } from '../../logs/steps/step-layout.js';
import { directoryOf } from '../../logs/stores/store.js';
import { FirstSteps } from './first-steps.js';

/**
 * Paths of files and directories, or globs; or steps of any origin, in the order of their steps within each run.
 */
export type StepSource = string | readonly string[] | AsyncIterable<StepData> | ReadableStream<StepData>;

/** Whose step it is. */
export interface StepOfRun {
  readonly file: string;
  readonly step: number;
  readonly run: string;
  readonly runDirectory: string;
  readonly bytes: number;
}

/** A step that was looked at, held for as long as the analysis takes: of a step file, of rollout logs, or of both. */
export interface StepFile extends StepOfRun {
  readonly identity: string;
  /** Of the cross-scores; 0 if there are none. */
  readonly prompts: number;
  readonly rows: number;
  /** There are no cross-scores: `file` is the first of the logs. */
  readonly isLog?: boolean | undefined;
  /** What the step's rollout logs have of it. */
  readonly rollouts?: LoggedStep | undefined;
}

export function isStream(source: StepSource): source is AsyncIterable<StepData> | ReadableStream<StepData> {
  return typeof source === 'object' && Symbol.asyncIterator in source;
}

/** @throws {ArgumentError} unless it is a source */
export function checkSource(source: unknown): void {
  const advice = 'expected paths of step files, directories or globs, or an async iterable or Web Stream of steps';
  if (typeof source === 'string') return;
  if (Array.isArray(source)) {
    if (source.length === 0) {
      throw new ArgumentError('source', 'no path given: name step files, directories of them, or globs');
    }
    const at = source.findIndex((path) => typeof path !== 'string');
    if (at < 0) return;
    throw new ArgumentError(
      `source[${at}]`,
      `got ${shown(source[at])}, expected a path; steps themselves go in as a stream: ReadableStream.from(steps)`,
    );
  }
  if (typeof source !== 'object' || source === null) {
    throw new ArgumentError('source', `got ${shown(source)}, ${advice}`);
  }
  if (Symbol.asyncIterator in source && typeof source[Symbol.asyncIterator] === 'function') return;
  const made = Symbol.iterator in source ? '; make a stream of an iterable of steps: ReadableStream.from(steps)' : '';
  throw new ArgumentError('source', `got ${shown(source)}, ${advice}${made}`);
}

const COLUMNS = ['lengths', 'group', 'columnGroup'] as const;

/**
 * Looks at what every step has; what the values are is for those who use them.
 * @param place in the stream, from 0 on
 * @throws {ArgumentError} naming what is missing or of another type
 */
export function checkStepData(data: unknown, place: number): void {
  const fail = (name: string, value: unknown, expected: string): never => {
    throw new ArgumentError(`source: step ${place} of the stream${name}`, `got ${shown(value)}, expected ${expected}`);
  };
  if (typeof data !== 'object' || data === null) fail('', data, 'a step, such as readSteps() gives');
  const { file, step, run, bytes, scores, ...rest } = data as Partial<StepData>;
  if (typeof file !== 'string') fail('.file', file, 'the name that reports and messages give the step');
  if (!Number.isSafeInteger(step) || (step as number) < 0) fail('.step', step, 'a whole number from 0 on');
  if (typeof run !== 'string') fail('.run', run, 'the name of its run');
  if (typeof bytes !== 'number' || !(bytes >= 0)) fail('.bytes', bytes, 'how large the step is');
  const isSums = scores?.kind === 'sums' && typeof scores.read === 'function';
  const isLogprobs = scores?.kind === 'logprobs' && typeof scores.blocks === 'function';
  if (!(isSums || isLogprobs) || !Array.isArray(scores.shape)) {
    fail('.scores', scores, '{ kind: "logprobs", shape, blocks, … } or { kind: "sums", shape, read, … }');
  }
  for (const name of COLUMNS) {
    const column = rest[name];
    if (!(column instanceof Int32Array || column instanceof BigInt64Array)) {
      fail(`.${name}`, column, 'an Int32Array or a BigInt64Array');
    }
  }
}

export interface StepFilesOptions extends ListStepsOptions {
  /** Called with what was passed over among rollout logs, and why. */
  onNote?: ((note: string) => void) | undefined;
  /** Step files as an earlier look had them, which is filled. */
  seen?: Map<string, SeenFile<StepFile>> | undefined;
}

/**
 * Step files and rollout logs: a folder may hold both, and a step of a run that has both is one step.
 * @param logs finds the rollouts, and is to read all of them; undefined: only step files are looked for
 * @param isForced whether a reader of logs is forced: it then also gets named files that are not step files
 * @throws FileError for the first path or file that cannot be used, unless `onError` takes them
 */
export async function stepFiles(
  source: string | readonly string[],
  options: StepFilesOptions,
  logs: RolloutLogs | undefined,
  isForced: boolean,
): Promise<StepFile[]> {
  const { onError, onSkipped, onNote, seen, ...listing } = options;
  const report = (error: FileError): void => {
    if (onError === undefined) throw error;
    onError(error);
  };
  const { include, exclude, signal } = listing;
  const wanted = logs === undefined ? 'steps' : 'both';
  const found = await findInputs(source, { include, exclude, signal, wanted, isForced });
  const { steps: files, failures, beside } = await listFound(found, listing, stepFileMaker(), seen);
  const { steps: logged, problems, notes, empty } = (await logs?.among(found)) ?? NO_LOGS;
  const named = new Set(typeof source === 'string' ? [source] : source);
  /** A file that is not a log among steps, or not a step among rollouts, merely lies beside them. */
  const isBesideSteps = (path: string) => !named.has(path) && files.length > 0 && logged.length === 0;
  const tell = (problem: FileError, isBeside: boolean) => (isBeside ? onSkipped?.(problem) : report(problem));
  for (const problem of found.problems) tell(problem, isLogName(problem.path) && isBesideSteps(problem.path));
  for (const searched of found.searched) {
    const [noSteps, noLogs] = [withoutSteps(searched, found), empty.get(searched)];
    const isSaid = logs === undefined ? noSteps !== undefined : noLogs !== undefined;
    // One that has steps which cannot be used has no logs either.
    if (!isSaid || (noSteps === undefined && files.length + logged.length > 0)) continue;
    const problem = [noSteps, noLogs].filter((one) => one !== undefined).join('; nor rollouts: ');
    report(new FileError({ path: searched.path }, problem));
  }
  for (const file of beside) onSkipped?.(file);
  for (const failure of failures) {
    tell(failure, failure instanceof NoStepError && !named.has(failure.path) && logged.length > 0);
  }
  for (const problem of problems) tell(problem, isBesideSteps(problem.path));
  if (logged.length > 0 || files.length === 0) for (const note of notes) onNote?.(note);
  return joined(files, logged);
}

const NO_LOGS = { steps: [], problems: [], notes: [], empty: new Map<Searched, string>() };

/** Makes steps that share the names of their runs: of thousands of files each would hold its own copy. */
function stepFileMaker(): (step: ListedStep) => StepFile {
  const known = new Map<string, string>();
  const once = (text: string): string => {
    const same = known.get(text);
    if (same !== undefined) return same;
    known.set(text, text);
    return text;
  };
  return ({ file, step, run, runDirectory, bytes, identity, layout: { prompts, rows } }) => ({
    ...{ file, step, run: once(run), runDirectory: once(runDirectory), bytes, identity, prompts, rows },
  });
}

/** By run, then step. */
function joined(files: readonly StepFile[], logged: readonly LoggedStep[]): StepFile[] {
  if (logged.length === 0) return [...files];
  const keyOf = ({ runDirectory, run, step }: Pick<StepOfRun, 'runDirectory' | 'run' | 'step'>) =>
    `${runDirectory}\n${run}\n${step}`;
  const byKey = new Map(logged.map((one) => [keyOf(one), one]));
  const beside = textsByFile(logged);
  const taken = new Set<LoggedStep>();
  const steps = files.map((file): StepFile => {
    const rollouts = besideFile(file, beside) ?? byKey.get(keyOf(file));
    if (rollouts === undefined || taken.has(rollouts)) return file;
    taken.add(rollouts);
    return { ...file, rollouts, bytes: file.bytes + rollouts.bytes };
  });
  for (const rollouts of logged) {
    if (taken.has(rollouts)) continue;
    const { step, run, runDirectory, bytes, identity, parts } = rollouts;
    const [{ path: file }] = parts as readonly [LoggedPart];
    steps.push({ file, step, run, runDirectory, bytes, identity, prompts: 0, rows: 0, isLog: true, rollouts });
  }
  steps.sort(byRunAndStep);
  const first = new FirstSteps();
  for (const step of steps) first.add(step);
  return steps.map((step) => {
    if (step.rollouts === undefined) return step;
    const { identity, rewards } = step.rollouts;
    // Phrases are held against the run's first step, and rewards may be weighted as other steps tell.
    const others = [first.identityOf(step) ?? '', step.isLog ? '' : step.identity];
    const digest = headerDigest(identity, ...others, ...(rewards === undefined ? [] : [JSON.stringify(rewards)]));
    return { ...step, identity: digest };
  });
}

/** Texts beside step files, by the step file's path without its endings. */
function textsByFile(logged: readonly LoggedStep[]): Map<string, LoggedStep> {
  const texts = logged.filter(({ format }) => format.name === 'texts');
  return new Map(
    texts.flatMap((one) => one.parts.map(({ path }) => [path.replace(/\.texts\.[^/]*$/, ''), one] as const)),
  );
}

/** By the name: only the step file says what its run is called. */
function besideFile({ file, step }: StepOfRun, texts: ReadonlyMap<string, LoggedStep>): LoggedStep | undefined {
  if (texts.size === 0) return undefined;
  for (let stem = file; ; ) {
    const shorter = stem.replace(/\.[^./]*$/, '');
    if (shorter === stem) return undefined;
    stem = shorter;
    const found = texts.get(stem);
    if (found !== undefined) return found.step === step ? found : undefined;
  }
}

export function stepOfRun({ file, step, run, bytes }: StepData): StepOfRun {
  return { file, step, run, runDirectory: directoryOf(file), bytes };
}
