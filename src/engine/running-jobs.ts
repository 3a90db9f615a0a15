// Runs a native job as a promise, with abort, progress, dispose, and the errors that it can end with.

import { setMaxListeners } from 'node:events';
import { ArgumentError, CollapsarError, DeviceError, DisposedError } from '../checks/errors.js';
import type { OperationOptions } from '../checks/operation-options.js';
import { HeldBuffers } from './memory.js';
import type { NativeAddon, NativeProblem, Settle } from './native.js';

const progressMilliseconds = 50;

/** What native code reported of a job, as one of this package's errors. */
function nativeError(
  operation: string,
  message: string,
  argument: string | undefined,
  { reason, askedBytes, freeBytes }: NativeReason,
): Error {
  if (argument) return new ArgumentError(argument, message);
  if (reason === 'no_memory') {
    const advice = 'give fewer rows or prompts at a time, or run where there is more memory';
    return new DeviceError(`${operation}: ${message}; ${advice}`, { reason: 'out_of_memory', askedBytes });
  }
  return new DeviceError(message, { reason: reason || 'failed', askedBytes, freeBytes });
}

interface NativeReason {
  reason?: NativeProblem | '' | undefined;
  askedBytes?: number | undefined;
  freeBytes?: number | undefined;
}

/** What a call of native code threw, as one of this package's errors. */
export function thrownError(operation: string, error: unknown): Error {
  if (error instanceof CollapsarError) return error;
  const { message, argument, reason, askedBytes } = error as Error & NativeReason & { argument?: string };
  return nativeError(operation, message, argument, { reason, askedBytes });
}

/** The jobs of one engine that have not been settled. */
export class RunningJobs {
  readonly #addon: NativeAddon;
  // How to stop each, and the operation it belongs to.
  readonly #stops = new Map<(reason: unknown) => void, string>();

  constructor(addon: NativeAddon) {
    this.#addon = addon;
  }

  /**
   * Starts a job and settles with what `finish` makes of its result, once native code no longer touches any memory.
   * An abort rejects with the signal's reason; an error thrown by `onProgress` cancels the job and rejects with it.
   * Buffers that `start` protects are released when the job has ended. `settle`, which native code calls, never throws.
   * `discard` gets the result of a job that was done but whose promise is rejected all the same.
   */
  run<Native, Result>(
    operation: string,
    options: OperationOptions,
    start: (settle: Settle, held: HeldBuffers) => number,
    finish: (native: Native) => Result,
    discard?: (native: Native) => void,
  ): Promise<Result> {
    const { signal, onProgress } = options;
    // A job listens to the signal from its start on, which may have been aborted before.
    if (signal?.aborted) return Promise.reject(signal.reason);
    const held = new HeldBuffers();
    return new Promise<Result>((resolve, reject) => {
      let job: number;
      let stopped: { reason: unknown } | undefined;
      let timer: NodeJS.Timeout | undefined;
      const stop = (reason: unknown): void => {
        stopped ??= { reason };
        this.#addon.cancel(job);
      };
      const onAbort = (): void => stop(signal?.reason);
      const settle: Settle = (outcome, value, argument, reason, askedBytes, freeBytes) => {
        this.#stops.delete(stop);
        signal?.removeEventListener('abort', onAbort);
        clearInterval(timer);
        const detached = held.release();
        try {
          if (stopped !== undefined) {
            if (outcome === 0) discard?.(value as Native);
            reject(stopped.reason);
          } else if (detached !== undefined) {
            if (outcome === 0) discard?.(value as Native);
            // Its memory may have held something else by then.
            reject(new ArgumentError(detached, 'the ArrayBuffer was detached while the job was reading it'));
          } else if (outcome === 0 && discard !== undefined) {
            // First what may throw: nobody could discard what `finish` has made.
            try {
              onProgress?.(1);
            } catch (error) {
              discard(value as Native);
              throw error;
            }
            resolve(finish(value as Native));
          } else if (outcome === 0) {
            const result = finish(value as Native);
            onProgress?.(1);
            resolve(result);
          } else {
            const message = outcome === 1 ? 'the job was cancelled' : (value as string);
            reject(nativeError(operation, message, argument, { reason, askedBytes, freeBytes }));
          }
        } catch (error) {
          reject(error);
        }
      };
      try {
        job = start(settle, held);
      } catch (error) {
        held.release();
        reject(thrownError(operation, error));
        return;
      }
      this.#stops.set(stop, operation);
      if (signal !== undefined) {
        // The jobs of several steps may wait on the signal of an analysis: no leak, of which it would warn.
        setMaxListeners(0, signal);
        signal.addEventListener('abort', onAbort, { once: true });
      }
      if (onProgress !== undefined) {
        timer = setInterval(() => {
          try {
            onProgress(this.#addon.progress(job));
          } catch (error) {
            stop(error);
          }
        }, progressMilliseconds).unref();
      }
    });
  }

  /** Cancels all; they reject with a DisposedError when they have stopped. */
  dispose(): void {
    for (const [stop, operation] of this.#stops) stop(new DisposedError(operation));
  }
}
