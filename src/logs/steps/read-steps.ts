// Reads steps in order from files, directories and globs. Holds only headers, and few files are open at a time, however
// many there are.
import { stat } from 'node:fs/promises';
import { checkArray, checkPath } from '../../checks/argument-checks.js';
import { FileError } from '../../checks/errors.js';
import { checkOptions, is, type OptionTable } from '../../checks/options.js';
import { type FoundInputs, findInputs, type Hit, withoutSteps } from '../find-inputs.js';
import { placeByNames } from '../place-names.js';
import { FILE_CHOICE, type FileChoiceOptions } from '../stores/file-choice.js';
import { naturalOrder } from '../stores/natural-order.js';
import { isRemote, nameOf } from '../stores/store.js';
import { READ_STEP_OPTIONS, type ReadStepOptions } from './read-step-options.js';
import type { StepData } from './step-data.js';
import { readStepFile, readStepHeader, type StepHeader } from './step-file.js';
import { NoStepError } from './step-layout.js';

/** Where a step file is, and to which run it belongs. */
export interface StepLocation {
  readonly path: string;
  /** Absolute path of the directory, or prefix of the store, that holds it: files of one directory are one run. */
  readonly runDirectory: string;
  /** Named by itself, not found in a folder or by a glob. */
  readonly isNamed: boolean;
}

/** Step files that were found, and what could not be used. */
export interface FoundSteps {
  /** By run directory, then name, both in natural order. */
  readonly files: StepLocation[];
  readonly problems: FileError[];
}

/** Options of `findSteps`. */
export interface FindStepsOptions extends FileChoiceOptions {
  readonly signal?: AbortSignal | undefined;
}

/** How far the looking at files is that comes before the first step. */
export interface ListingProgress {
  /** Files whose headers have been read, or failed to be, of how many. */
  readonly done: number;
  readonly total: number;
  /** The last of them. */
  readonly file: string;
}

/** Options of `listSteps`. */
export interface ListStepsOptions extends FileChoiceOptions {
  /**
   * Called with each file or path that cannot be used; the others are still given. Without it the first one makes the
   * call reject.
   */
  onError?: ((error: FileError) => void) | undefined;
  /**
   * Called with each other file that was found beside step files, such as weights of a model: it opens without a
   * fault, and has neither a step's tensors nor the number of a step (docs/reference/cli.md). Named by itself it is an
   * error.
   */
  onSkipped?: ((file: FileError) => void) | undefined;
  /** Called after each header that is read. */
  onListing?: ((progress: ListingProgress) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/** Options of `readSteps`. */
export interface ReadStepsOptions extends ListStepsOptions, ReadStepOptions {}

const FIND_OPTIONS: OptionTable<FindStepsOptions> = { ...FILE_CHOICE, signal: is.signal };
const LIST_OPTIONS: OptionTable<ListStepsOptions> = {
  ...FILE_CHOICE,
  onError: is.callback,
  onSkipped: is.callback,
  onListing: is.callback,
  signal: is.signal,
};
const READ_OPTIONS: OptionTable<ReadStepsOptions> = { ...LIST_OPTIONS, ...READ_STEP_OPTIONS };

/** A step that can be read: its header, and the directory and the name of its run, as its path says them, too. */
export interface ListedStep extends StepHeader {
  readonly runDirectory: string;
}

/** Headers read at a time: enough to hide the latency of a network mount. */
const OPEN_AT_ONCE = 16;

/**
 * Finds the step files at `source`, one path or several: a file is taken by any name, a directory is searched
 * recursively for the endings of step files, and what does not exist but looks like a glob is matched. Names that
 * begin with a dot are passed over. `include` and `exclude` choose among what is found so.
 * Never rejects because of a path that is a string: each that is missing, unreadable or empty is one FileError in
 * `problems`.
 * @throws {ArgumentError} (as a rejection) unless `source` is a path or paths; the signal's reason when it is aborted
 */
export async function findSteps(
  source: string | readonly string[],
  options: FindStepsOptions = {},
): Promise<FoundSteps> {
  checkOptions(options, FIND_OPTIONS);
  checkPaths(source);
  const found = await findInputs(source, { ...options, wanted: 'steps' });
  const files = stepsIn(found).map(({ path, directory, from }) => ({
    path,
    runDirectory: directory,
    isNamed: from === 'name',
  }));
  return { files, problems: [...found.problems, ...emptyPlaces(found)] };
}

function checkPaths(source: string | readonly string[]): void {
  if (source === undefined || source === null) checkPath(source, 'source');
  if (typeof source === 'string') return;
  checkArray(source, 'source');
  for (const path of source) checkPath(path, 'source');
}

/** By run directory, then name. */
function stepsIn({ hits }: FoundInputs): Hit[] {
  const steps = hits.filter(({ kind }) => kind === 'step');
  return steps.sort((a, b) => naturalOrder(a.directory, b.directory) || naturalOrder(a.path, b.path));
}

function* emptyPlaces(found: FoundInputs): Generator<FileError> {
  for (const searched of found.searched) {
    const problem = withoutSteps(searched, found);
    if (problem !== undefined) yield new FileError({ path: searched.path }, problem);
  }
}

/**
 * Finds the steps at `source` and reads their headers.
 * @param source paths of files and directories, or globs
 * @returns by run directory, `run`, step and name
 * @throws FileError for the first path or file that cannot be used, unless `onError` takes them
 */
export async function listSteps(
  source: string | readonly string[],
  options: ListStepsOptions = {},
): Promise<ListedStep[]> {
  checkOptions(options, LIST_OPTIONS);
  checkPaths(source);
  return [...(await listStepsAs(source, options, (step) => step))];
}

/** What steps are ordered by. */
export type OrderedStep = Pick<ListedStep, 'file' | 'step' | 'run' | 'runDirectory'>;

export function byRunAndStep(a: OrderedStep, b: OrderedStep): number {
  return (
    naturalOrder(a.runDirectory, b.runDirectory) ||
    naturalOrder(a.run, b.run) ||
    a.step - b.step ||
    naturalOrder(a.file, b.file)
  );
}

/** A file as an earlier look had it. */
export interface SeenFile<Kept> {
  readonly stamp: string;
  readonly step: Kept;
}

/** Steps that a search found, and files that are none. */
export interface ListedFiles<Kept> {
  /** By run directory, run, step and name. */
  readonly steps: readonly Kept[];
  readonly failures: readonly FileError[];
  /** Other files beside the steps, such as weights. */
  readonly beside: readonly FileError[];
}

/** Finds the steps at `source`, and reports what cannot be used. @throws FileError as listSteps does */
export async function listStepsAs<Kept extends OrderedStep>(
  source: string | readonly string[],
  options: ListStepsOptions,
  keep: (step: ListedStep) => Kept,
  seen?: Map<string, SeenFile<Kept>> | undefined,
): Promise<readonly Kept[]> {
  const report = reporter(options);
  const { signal, include, exclude, onSkipped } = options;
  const found = await findInputs(source, { signal, include, exclude, wanted: 'steps' });
  for (const problem of found.problems) report(problem);
  for (const problem of emptyPlaces(found)) report(problem);
  const { steps, failures, beside } = await listFound(found, options, keep, seen);
  if (onSkipped !== undefined) beside.forEach(onSkipped);
  failures.forEach(report);
  return steps;
}

/**
 * Reads the headers of the steps among `found`. Of each only what `keep` makes of it is held: of many steps that is
 * what fits into memory.
 * @param seen files as an earlier look had them, which is filled: the header of one whose size and time are the same is
 *   not read again
 */
export async function listFound<Kept extends OrderedStep>(
  found: FoundInputs,
  options: Pick<ListStepsOptions, 'signal' | 'onListing'>,
  keep: (step: ListedStep) => Kept,
  seen?: Map<string, SeenFile<Kept>> | undefined,
): Promise<ListedFiles<Kept>> {
  const files = stepsIn(found);
  const outcomes = await readHeaders(files, options, keep, seen);
  const steps: Kept[] = [];
  const failures: FileError[] = [];
  const beside: FileError[] = [];
  const isBeside = besideSteps(files, outcomes);
  for (const [index, outcome] of outcomes.entries()) {
    if (!(outcome instanceof FileError)) steps.push(outcome);
    else (isBeside(outcome, files[index] as Hit) ? beside : failures).push(outcome);
  }
  return { steps: steps.sort(byRunAndStep), failures, beside };
}

/**
 * Whether a failure is that of another file among steps. If there are no steps it is what the user has to hear
 * of, and so is one whose name is that of a step beside it but for the numbers.
 */
function besideSteps(files: readonly Hit[], outcomes: readonly unknown[]): (failure: FileError, file: Hit) => boolean {
  const likeOf = ({ path }: Hit): string => path.replace(/[0-9]+(?=[^/]*$)/g, '0');
  const names = new Set(files.filter((_, index) => !(outcomes[index] instanceof FileError)).map(likeOf));
  return (failure, file) =>
    failure instanceof NoStepError && file.from !== 'name' && names.size > 0 && !names.has(likeOf(file));
}

/** As `readSteps` of src/on-demand.ts says. */
export async function* readSteps(
  source: string | readonly string[] | AsyncIterable<StepData>,
  options: ReadStepsOptions = {},
): AsyncGenerator<StepData, void, undefined> {
  checkOptions(options, READ_OPTIONS);
  if (typeof source === 'object' && source !== null && Symbol.asyncIterator in source) {
    yield* source;
    return;
  }
  const report = reporter(options);
  const { onError, onSkipped, onListing, include, exclude, ...reading } = options;
  const listing = { onError, onSkipped, onListing, include, exclude, signal: options.signal };
  for (const { file, run } of await listSteps(source, listing)) {
    const step = await orFileError(readStepFile(file, reading), options.signal);
    if (step instanceof FileError) report(step);
    else yield { ...step, run };
  }
}

function reporter({ onError }: ListStepsOptions): (error: FileError) => void {
  return (error) => {
    if (onError === undefined) throw error;
    onError(error);
  };
}

/** In the order of `files`, whichever is read first. */
async function readHeaders<Kept>(
  files: readonly Hit[],
  { signal, onListing }: Pick<ListStepsOptions, 'signal' | 'onListing'>,
  keep: (step: ListedStep) => Kept,
  seen: Map<string, SeenFile<Kept>> | undefined,
): Promise<(Kept | FileError)[]> {
  const steps: (Kept | FileError)[] = new Array(files.length);
  const queue = files.entries();
  let done = 0;
  const readSome = async () => {
    for (const [index, file] of queue) {
      const { path } = file;
      signal?.throwIfAborted();
      // Before the header is read: what is written meanwhile has another.
      const stamp = seen && (await stampOf(path));
      const before = stamp === undefined ? undefined : seen?.get(path);
      if (before !== undefined && before.stamp === stamp) steps[index] = before.step;
      else {
        const header = await orFileError(readStepHeader(path, { signal }), signal);
        const step = header instanceof FileError ? header : keep({ ...header, ...placeOf(file, header) });
        steps[index] = step;
        if (stamp !== undefined && !(step instanceof FileError)) seen?.set(path, { stamp, step });
      }
      onListing?.({ done: ++done, total: files.length, file: path });
    }
  };
  await Promise.all(Array.from({ length: OPEN_AT_ONCE }, readSome));
  return steps;
}

/**
 * The run by the file's own words and by names: folders of steps and splits are not the run's. Parts of a step are no
 * step together, and stay runs of their own.
 */
function placeOf({ path, root }: Hit, { step, metadata }: StepHeader): { runDirectory: string; run: string } {
  const { runDirectory, split } = placeByNames(path, root, { step, keepsParts: true });
  const name = metadata.run ?? nameOf(runDirectory);
  return { runDirectory, run: split === undefined ? name : `${name}/${split}` };
}

/** Undefined for a path that is not a file here, or has parts beside it, such as the sidecars of an array. */
async function stampOf(path: string): Promise<string | undefined> {
  if (isRemote(path) || path.endsWith('.npy')) return undefined;
  const found = await stat(path, { bigint: true }).catch(() => undefined);
  return found && `${found.size} ${found.mtimeNs} ${found.ino}`;
}

/**
 * The FileError with which `reading` fails, as a value.
 * @param signal that `reading` ends for: its reason, which may be a FileError of another file, is not a failure of this
 *   one
 */
export async function orFileError<T>(reading: Promise<T>, signal: AbortSignal | undefined): Promise<T | FileError> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof FileError && error !== signal?.reason) return error;
    throw error;
  }
}
