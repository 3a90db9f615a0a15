// Where steps come from -> what the analysis works on: files in the order of their runs, each as little as can be, or steps as
// someone hands them out.
import type { ReadableStream } from 'node:stream/web';
import { type ListStepsOptions, listStepsAs } from '../logs/read-steps.js';
import type { StepData } from '../logs/step-data.js';
import { directoryOf } from '../logs/store.js';

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

/** The same steps; a wait for the next one ends when the signal is aborted. */
export async function* until<Item>(
  source: AsyncIterable<Item>,
  signal: AbortSignal,
): AsyncGenerator<Item, void, undefined> {
  let abort = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason);
  });
  aborted.catch(() => undefined);
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();
  const items = source[Symbol.asyncIterator]();
  let isAsked = false;
  try {
    for (;;) {
      isAsked = true;
      const { done, value } = await Promise.race([items.next(), aborted]);
      isAsked = false;
      if (done) return;
      yield value;
    }
  } finally {
    signal.removeEventListener('abort', abort);
    // One that has been asked and does not answer keeps its end for itself.
    const ending = items.return?.();
    if (isAsked) Promise.resolve(ending).catch(() => undefined);
    else await ending;
  }
}
