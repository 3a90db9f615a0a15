// Reads a trainer's rollouts from files, folders and globs, step by step in order. Besides the present step it holds
// only where rows are.

import { checkArray, checkPath } from '../../checks/argument-checks.js';
import type { FileError } from '../../checks/errors.js';
import { checkOptions, is, type OptionTable } from '../../checks/options.js';
import type { Texts } from './columns.js';
import { DEFAULT_MEMORY, LOG_OPTIONS, type LogOptions, logReading } from './log-options.js';
import { textOf } from './logged-text.js';
import { THINK, tagIds } from './reasoning.js';
import type { LoggedColumns, RolloutStep } from './rollout.js';
import { type LoggedStep, RolloutLogs } from './rollout-logs.js';

/** Options of `readRollouts`. */
export interface ReadRolloutsOptions extends LogOptions {
  /** A tokenizer.json to look up `tagTokens` in. */
  tokenizer?: string | undefined;
  /** Threads that parse JSON lines; 1: none beside the caller's. Default: one a processor. */
  threads?: number | undefined;
  /**
   * Bytes that reading may take, about: what is packed and unpacks to more is refused, and so are lines of more than an
   * eighth of it (16 MiB at least). Default: 300 MB.
   */
  maxMemory?: number | undefined;
  /**
   * Called with each file, line or row that cannot be used; the others are still given. Without it the first one makes
   * the iteration throw.
   */
  onError?: ((error: FileError) => void) | undefined;
  /** Called with what was passed over, before the first step. */
  onNote?: ((note: string) => void) | undefined;
  signal?: AbortSignal | undefined;
}

const OPTIONS: OptionTable<ReadRolloutsOptions> = {
  ...LOG_OPTIONS,
  tokenizer: is.path,
  threads: is.integer(1),
  maxMemory: is.integer(1),
  onError: is.callback,
  onNote: is.callback,
  signal: is.signal,
};

/**
 * Reads the rollouts that a trainer logged, a step at a time, in the order of runs and steps. Rows of a step may be
 * in several files, and those of several steps in one, in any order. Memory: a step or two, and blocks of a few MiB for
 * each thread.
 * @param source paths of files and folders, or globs
 * @throws {ArgumentError} for a bad option, FileError for the first file, line or row that cannot be used, unless
 *   `onError` takes them; the signal's reason when it is aborted
 * @example
 * import { readRollouts } from 'collapsar/logs';
 *
 * for await (const { step, rows, reward } of readRollouts('rollouts/')) console.log(step, rows, reward);
 */
export async function* readRollouts(
  source: string | readonly string[],
  options: ReadRolloutsOptions = {},
): AsyncGenerator<RolloutStep, void, undefined> {
  checkSource(source, options);
  const { tokenizer, threads, maxMemory = DEFAULT_MEMORY, signal, onError, onNote, ...reading } = options;
  const tagTokens = reading.tagTokens ?? (tokenizer && (await tagIds(tokenizer, reading.reasoning ?? THINK)));
  const report = (error: FileError): void => {
    if (onError === undefined) throw error;
    onError(error);
  };
  const logs = new RolloutLogs(
    { ...logReading({ ...reading, ...(tagTokens && { tagTokens }) }), threads, maxMemory },
    signal,
  );
  try {
    const { steps, problems, notes } = await logs.find(source);
    problems.forEach(report);
    for (const note of notes) onNote?.(note);
    for await (const { step, errors } of inTurn(steps, (one) => logs.read(one))) {
      errors.forEach(report);
      if (step !== undefined) yield withStrings(step);
      // Those that follow may have been read already.
      signal?.throwIfAborted();
    }
  } finally {
    await logs.close();
  }
}

/** Responses become strings where somebody reads them. */
function withStrings(step: LoggedColumns): RolloutStep {
  const lazily = (name: 'output' | 'reasoning'): PropertyDescriptor => ({
    enumerable: true,
    configurable: true,
    get(): Texts | undefined {
      const value = step[name]?.map((text) => (text === undefined ? undefined : textOf(text)));
      Object.defineProperty(this, name, { value, enumerable: true, configurable: true, writable: true });
      return value;
    },
  });
  return Object.defineProperties({ ...step } as RolloutStep, {
    output: lazily('output'),
    reasoning: lazily('reasoning'),
  });
}

function checkSource(source: string | readonly string[], options: ReadRolloutsOptions): void {
  checkOptions(options, OPTIONS);
  if (typeof source !== 'string') {
    checkArray(source, 'source');
    for (const path of source) checkPath(path, 'source');
  }
}

/** Bytes that may be read while a step is in use. */
const AHEAD_BYTES = 32 * 2 ** 20;

/**
 * Results in the order of `plans`; those that come next are begun meanwhile: one whatever its size, more if they are
 * small.
 */
async function* inTurn<T>(
  plans: readonly LoggedStep[],
  read: (plan: LoggedStep) => Promise<T>,
): AsyncGenerator<T, void, undefined> {
  const coming: { reading: Promise<T>; bytes: number }[] = [];
  let bytes = 0;
  let next = 0;
  try {
    for (;;) {
      while (next < plans.length && (coming.length < 2 || bytes < AHEAD_BYTES)) {
        const plan = plans[next++] as LoggedStep;
        const reading = read(plan);
        // Its failure is reported when its result is asked for.
        reading.catch(() => undefined);
        coming.push({ reading, bytes: plan.bytes });
        bytes += plan.bytes;
      }
      const first = coming.shift();
      if (first === undefined) return;
      bytes -= first.bytes;
      yield await first.reading;
    }
  } finally {
    await Promise.allSettled(coming.map(({ reading }) => reading));
  }
}
