// Where steps come from -> what the analysis works on: files in the order of their runs, each as little as can be, or
// steps as someone hands them out.
import type { ReadableStream } from 'node:stream/web';
import { ArgumentError } from '../../checks/errors.js';
import { shown } from '../../checks/words.js';
import { type ListStepsOptions, listStepsAs } from '../../logs/steps/read-steps.js';
import type { StepData } from '../../logs/steps/step-data.js';
import { directoryOf } from '../../logs/stores/store.js';

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

/** A step file that was looked at, held for as long as the analysis takes. */
export interface StepFile extends StepOfRun {
  readonly identity: string;
  readonly prompts: number;
  readonly rows: number;
}

export function isStream(source: StepSource): source is AsyncIterable<StepData> | ReadableStream<StepData> {
  return typeof source === 'object' && Symbol.asyncIterator in source;
}

/** @throws {ArgumentError} for what is no source */
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

/** @throws FileError as listSteps does */
export async function stepFiles(source: string | readonly string[], options: ListStepsOptions): Promise<StepFile[]> {
  // Of thousands of files in a directory each would hold its own copy of these.
  const known = new Map<string, string>();
  const once = (text: string): string => {
    const same = known.get(text);
    if (same !== undefined) return same;
    known.set(text, text);
    return text;
  };
  return listStepsAs(source, options, ({ file, step, run, runDirectory, bytes, identity, layout }) => ({
    file,
    step,
    run: once(run),
    runDirectory: once(runDirectory),
    bytes,
    identity,
    prompts: layout.prompts,
    rows: layout.rows,
  }));
}

export function stepOfRun({ file, step, run, bytes }: StepData): StepOfRun {
  return { file, step, run, runDirectory: directoryOf(file), bytes };
}
