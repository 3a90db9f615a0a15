// Files, directories and globs -> steps in order. Only headers are held, and few files are open at a time, however
// many there are.
import { stat } from 'node:fs/promises';
import { FileError } from '../../checks/errors.js';
import { checkOptions, is, type OptionTable } from '../../checks/options.js';
import { FILE_CHOICE, type FileChoiceOptions } from '../stores/file-choice.js';
import { naturalOrder } from '../stores/natural-order.js';
import { isRemote } from '../stores/store.js';
import { findSteps, type StepLocation } from './find-steps.js';
import { NoStepError } from './no-step-error.js';
import { READ_STEP_OPTIONS, type ReadStepOptions } from './read-step-options.js';
import type { StepData } from './step-data.js';
import { readStepFile, readStepHeader, type StepHeader } from './step-file.js';

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

const LIST_OPTIONS: OptionTable<ListStepsOptions> = {
  ...FILE_CHOICE,
  onError: is.callback,
  onSkipped: is.callback,
  onListing: is.callback,
  signal: is.signal,
};
const READ_OPTIONS: OptionTable<ReadStepsOptions> = { ...LIST_OPTIONS, ...READ_STEP_OPTIONS };

/** A step that can be read: its header and the directory that makes it part of a run. */
export interface ListedStep extends StepHeader {
  readonly runDirectory: string;
}

/** Headers read at a time: enough to hide the latency of a network mount. */
const OPEN_AT_ONCE = 16;

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
  return listStepsAs(source, options, (step) => step);
}

/** What steps are ordered by. */
export type OrderedStep = Pick<ListedStep, 'file' | 'step' | 'run' | 'runDirectory'>;

/** A file as an earlier look had it. */
export interface SeenFile<Kept> {
  readonly stamp: string;
  readonly step: Kept;
}

/**
 * The same, of each step only what `keep` makes of it: of many steps that is what fits into memory.
 * @param seen files as an earlier look had them, which is filled: the header of one whose size and time are the same is
 *   not read again
 * @throws FileError as listSteps does
 */
export async function listStepsAs<Kept extends OrderedStep>(
  source: string | readonly string[],
  options: ListStepsOptions,
  keep: (step: ListedStep) => Kept,
  seen?: Map<string, SeenFile<Kept>> | undefined,
): Promise<Kept[]> {
  const report = reporter(options);
  const { signal, include, exclude, onSkipped } = options;
  const { files, problems } = await findSteps(source, { signal, include, exclude });
  problems.forEach(report);
  const found = await readHeaders(files, options, keep, seen);
  const steps: Kept[] = [];
  const isSkipped = besideSteps(files, found);
  for (const [index, step] of found.entries()) {
    if (!(step instanceof FileError)) steps.push(step);
    else if (isSkipped(step, files[index] as StepLocation)) onSkipped?.(step);
    else report(step);
  }
  return steps.sort(
    (a, b) =>
      naturalOrder(a.runDirectory, b.runDirectory) ||
      naturalOrder(a.run, b.run) ||
      a.step - b.step ||
      naturalOrder(a.file, b.file),
  );
}

/**
 * Whether a failure is that of another file among steps. Where there are no steps it is what the user has to hear
 * of, and so is one whose name is that of a step beside it but for the numbers.
 */
function besideSteps(
  files: readonly StepLocation[],
  found: readonly unknown[],
): (failure: FileError, file: StepLocation) => boolean {
  const likeOf = ({ path }: StepLocation): string => path.replace(/[0-9]+(?=[^/]*$)/g, '0');
  const names = new Set(files.filter((_, index) => !(found[index] instanceof FileError)).map(likeOf));
  return (failure, file) =>
    failure instanceof NoStepError && !file.isNamed && names.size > 0 && !names.has(likeOf(file));
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
  for (const { file } of await listSteps(source, listing)) {
    const step = await orFileError(readStepFile(file, reading), options.signal);
    if (step instanceof FileError) report(step);
    else yield step;
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
  files: readonly StepLocation[],
  { signal, onListing }: ListStepsOptions,
  keep: (step: ListedStep) => Kept,
  seen: Map<string, SeenFile<Kept>> | undefined,
): Promise<(Kept | FileError)[]> {
  const steps: (Kept | FileError)[] = new Array(files.length);
  const queue = files.entries();
  let done = 0;
  const readSome = async () => {
    for (const [index, { path, runDirectory }] of queue) {
      signal?.throwIfAborted();
      // Before the header is read: what is written meanwhile has another.
      const stamp = seen && (await stampOf(path));
      const before = stamp === undefined ? undefined : seen?.get(path);
      if (before !== undefined && before.stamp === stamp) steps[index] = before.step;
      else {
        const header = await orFileError(readStepHeader(path, { signal }), signal);
        const step = header instanceof FileError ? header : keep({ ...header, runDirectory });
        steps[index] = step;
        if (stamp !== undefined && !(step instanceof FileError)) seen?.set(path, { stamp, step });
      }
      onListing?.({ done: ++done, total: files.length, file: path });
    }
  };
  await Promise.all(Array.from({ length: OPEN_AT_ONCE }, readSome));
  return steps;
}

/** Undefined for a path that is not a file here, or has parts beside it, such as the sidecars of an array. */
async function stampOf(path: string): Promise<string | undefined> {
  if (isRemote(path) || path.endsWith('.npy')) return undefined;
  const found = await stat(path, { bigint: true }).catch(() => undefined);
  return found && `${found.size} ${found.mtimeNs} ${found.ino}`;
}

/**
 * The FileError with which `reading` fails, as a value.
 * @param signal that `reading` ends for: its reason, which may be a FileError of another file, is no failure of this
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
