// Retries answers of an S3-compatible store that break off or stall: gives up after a while, and asks again a few
// times.

import { setTimeout } from 'node:timers/promises';
import { onAbort } from '../../../checks/abort.js';
import { FileError } from '../../../checks/errors.js';
import { s3Problem } from './client.js';

export interface RetryLimits {
  /** A request that receives nothing for this long is given up and repeated. Default 30 s. */
  readonly stallMs: number;
  /** Times that it may break without a byte in between. Default 5. */
  readonly attempts: number;
  /** The wait after the first break; it doubles. Default 200 ms. */
  readonly backoffMs: number;
}

export const RETRY_LIMITS: RetryLimits = { stallMs: 30_000, attempts: 5, backoffMs: 200 };

/**
 * What `ask` gives, asked again if no answer comes.
 * @throws {FileError} when the store refuses, or none has come after all; the signal's reason when it is aborted
 */
export async function withRetry<T>(
  path: string,
  limits: RetryLimits,
  signal: AbortSignal | undefined,
  ask: (aborted: AbortSignal) => Promise<T>,
): Promise<T> {
  for (let broken = 1; ; broken++) {
    try {
      return await unlessStalled(limits, signal, ask);
    } catch (error) {
      signal?.throwIfAborted();
      if (!(error instanceof BrokenBody)) throw new FileError({ path }, s3Problem(error), { cause: error });
      if (broken > limits.attempts) throw new FileError({ path }, unanswered(broken, limits), { cause: error });
      await pause(backoff(limits, broken), signal);
    }
  }
}

function unanswered(times: number, { stallMs }: RetryLimits): string {
  return `the store was asked ${times} times, and has not answered within ${stallMs / 1000} s: check AWS_ENDPOINT_URL and the network`;
}

export function brokenProblem(times: number): string {
  return `the connection broke ${times} times in a row here: check the network, then analyse it again`;
}

/** Twice as long each time, and not at the same moment for all. */
export function backoff({ backoffMs }: RetryLimits, broken: number): number {
  return backoffMs * 2 ** (broken - 1) * (0.5 + Math.random() / 2);
}

/** Aborts `work` with the signal, and when nothing has come for that long; `onChunk` says that something came. */
export async function unlessStalled<T>(
  { stallMs }: RetryLimits,
  signal: AbortSignal | undefined,
  work: (aborted: AbortSignal, onChunk: () => void) => Promise<T>,
): Promise<T> {
  const abort = new AbortController();
  const stop = () => abort.abort();
  if (signal?.aborted) stop();
  const forget = onAbort(signal, stop);
  const stall = globalThis.setTimeout(stop, stallMs);
  try {
    return await work(abort.signal, () => stall.refresh());
  } catch (error) {
    throw abort.signal.aborted && !(error instanceof FileError) ? new BrokenBody(error) : error;
  } finally {
    clearTimeout(stall);
    forget();
  }
}

/** A body ended early, broke off or stalled. */
export class BrokenBody extends Error {
  /** Whatever broke it, it is the connection that broke. */
  readonly code = 'ECONNRESET';

  constructor(cause: unknown) {
    super('the body of an answer broke', { cause });
  }
}

export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return setTimeout(ms, undefined, signal && { signal }).catch(() => signal?.throwIfAborted());
}
