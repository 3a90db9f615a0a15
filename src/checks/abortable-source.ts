// Wraps an iterable, async iterable or Web Stream so that iteration stops when the signal aborts, even while waiting.
// Always closes the source.

import { unlessAborted } from './abort.js';
import { ArgumentError } from './errors.js';
import { shown } from './words.js';

/** What gives values one after another. */
export type Source<T> = AsyncIterable<T> | Iterable<T> | ReadableStream<T>;

/** Whether it can be iterated and is not a string. */
export function isSource(value: unknown): value is Source<unknown> {
  return (
    value !== null &&
    typeof value === 'object' &&
    (Symbol.asyncIterator in value || Symbol.iterator in value || isStream(value))
  );
}

function isStream(value: object): value is ReadableStream<unknown> {
  return 'getReader' in value && typeof value.getReader === 'function';
}

/** @throws {ArgumentError} unless it can be iterated */
export function expectSource(value: unknown, argument: string): void {
  if (isSource(value)) return;
  throw new ArgumentError(argument, `got ${shown(value)}, expected an (async) iterable or a ReadableStream`);
}

/**
 * @throws {unknown} what the source throws; `signal.reason` when aborted. A stream is then cancelled with the reason,
 *   an iterator returned
 */
export async function* abortableSource<T>(source: Source<T>, signal?: AbortSignal): AsyncGenerator<T, void, undefined> {
  const { next, close } = isStream(source) ? fromStream<T>(source) : fromIterator<T>(source);
  let ended = false;
  try {
    for (;;) {
      signal?.throwIfAborted();
      const { done, value } = await unlessAborted(next(), signal);
      if (done) {
        ended = true;
        return;
      }
      yield value;
    }
  } catch (error) {
    // A source that waits for something may never get to its end: nobody waits for it.
    if (signal?.aborted) {
      ended = true;
      close(signal.reason).catch(() => undefined);
    }
    throw error;
  } finally {
    // Left while what it gave was worked on, the abort may have come there.
    if (!ended) await close(signal?.aborted ? signal.reason : undefined);
  }
}

/** Closes a source that nobody will read. */
export async function closeUnread(source: unknown, reason: unknown): Promise<void> {
  if (isSource(source) && isStream(source) && !source.locked) await source.cancel(reason).catch(() => undefined);
}

interface Closing<T> {
  next(): Promise<IteratorResult<T, unknown>>;
  close(reason: unknown): Promise<unknown>;
}

function fromStream<T>(stream: ReadableStream<T>): Closing<T> {
  const reader = stream.getReader();
  return {
    next: () => reader.read() as Promise<IteratorResult<T, unknown>>,
    close: (reason) => reader.cancel(reason).finally(() => reader.releaseLock()),
  };
}

function fromIterator<T>(source: AsyncIterable<T> | Iterable<T>): Closing<T> {
  const iterator =
    Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : (source as Iterable<T>)[Symbol.iterator]();
  let failed = false;
  return {
    async next() {
      try {
        return await iterator.next();
      } catch (error) {
        failed = true;
        throw error;
      }
    },
    // One that threw has ended by itself.
    close: async () => (failed ? undefined : await iterator.return?.()),
  };
}
