// How long a store is waited for, without one: what answers late, breaks off or is aborted, and that it ends.
import { getEventListeners } from 'node:events';
import { expect, it, vi } from 'vitest';
import { FileError } from '../../../src/checks/errors.js';
import { BrokenBody, backoff, pause, unlessStalled, withRetry } from '../../../src/logs/stores/s3/retry.js';

const limits = { stallMs: 20, attempts: 2, backoffMs: 1 };

/** Answers nothing until it is aborted, as a client of a silent store does. */
const silent = (aborted: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    const stop = () => reject(new Error('aborted'));
    if (aborted.aborted) stop();
    aborted.addEventListener('abort', stop);
  });

const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );

it('a store that never answers is asked again as often as was said, and then given up', async () => {
  let asked = 0;
  const failure = await failureOf(
    withRetry('s3://b/k', limits, undefined, (aborted) => {
      asked++;
      return silent(aborted);
    }),
  );
  expect(asked).toBe(1 + limits.attempts);
  expect(failure).toBeInstanceOf(FileError);
  expect((failure as FileError).message).toContain('asked 3 times, and has not answered within 0.02 s');
});

it('a store that refuses is asked once', async () => {
  let asked = 0;
  const failure = await failureOf(
    withRetry('s3://b/k', limits, undefined, () => {
      asked++;
      return Promise.reject(Object.assign(new Error('no such key'), { name: 'NoSuchKey' }));
    }),
  );
  expect([asked, failure instanceof FileError]).toEqual([1, true]);
});

it('waits before it asks again', async () => {
  const times: number[] = [];
  const ask = (): Promise<void> => {
    times.push(performance.now());
    return times.length < 3 ? Promise.reject(new BrokenBody('cut')) : Promise.resolve();
  };
  await withRetry('s3://b/k', { ...limits, backoffMs: 40 }, undefined, ask);
  const [first, second, third] = times as [number, number, number];
  // Timers may fire a millisecond early.
  expect(second - first).toBeGreaterThanOrEqual(19);
  expect(third - second).toBeGreaterThanOrEqual(39);
});

it('an answer that comes at a later time is taken', async () => {
  let asked = 0;
  const ask = (aborted: AbortSignal) => (++asked < 3 ? silent(aborted) : Promise.resolve('here'));
  expect(await withRetry('s3://b/k', limits, undefined, ask)).toBe('here');
});

it('each wait is twice the one before, between half of it and all', () => {
  for (const [broken, most] of [1, 2, 3, 4].map((n) => [n, 200 * 2 ** (n - 1)] as const)) {
    const waits = Array.from({ length: 200 }, () => backoff({ ...limits, backoffMs: 200 }, broken));
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(most / 2);
    expect(Math.max(...waits)).toBeLessThanOrEqual(most);
  }
});

it('what sends something now and then is not given up', async () => {
  vi.useFakeTimers();
  try {
    const slow = unlessStalled({ ...limits, stallMs: 100 }, undefined, async (aborted, onChunk) => {
      for (let chunk = 0; chunk < 8; chunk++) {
        await new Promise((resolve) => setTimeout(resolve, 80));
        onChunk();
      }
      return aborted.aborted;
    });
    await vi.advanceTimersByTimeAsync(8 * 80);
    expect(await slow).toBe(false);
  } finally {
    vi.useRealTimers();
  }
});

it('ends with the signal, aborted before, while it asks or while it waits, and leaves no listener behind', async () => {
  const reason = new Error('enough');
  const before = AbortSignal.abort(reason);
  expect(await failureOf(unlessStalled({ ...limits, stallMs: 1e6 }, before, silent))).toBeInstanceOf(BrokenBody);
  expect(await failureOf(withRetry('s3://b/k', { ...limits, stallMs: 1e6 }, before, silent))).toBe(reason);
  const later = new AbortController();
  const asking = failureOf(withRetry('s3://b/k', { ...limits, stallMs: 1e6 }, later.signal, silent));
  const waiting = failureOf(pause(1e6, later.signal));
  later.abort(reason);
  expect([await asking, await waiting]).toEqual([reason, reason]);
  const used = new AbortController();
  await pause(1, used.signal);
  await withRetry('s3://b/k', limits, used.signal, async () => 1);
  // A wait that has ended listens no longer.
  expect(getEventListeners(used.signal, 'abort')).toHaveLength(0);
});
