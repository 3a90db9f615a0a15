// Reads one after the other, each begun while the one before is being used: what is far away or compressed then arrives
// while the engine computes.
import { onAbort } from '../../checks/abort.js';

/**
 * Results of `read(0)`, `read(1)`, … up to `count`. What is given is not used any more when the next is asked for, so
 * that two buffers are enough. Ended early, it stops the read that is under way and waits for it.
 */
export async function* readAhead<T>(
  count: number,
  read: (index: number, signal: AbortSignal) => Promise<T>,
  signal: AbortSignal | undefined,
): AsyncGenerator<T, void, undefined> {
  const stop = new AbortController();
  const forget = onAbort(signal, () => stop.abort(signal?.reason));
  if (signal?.aborted) stop.abort(signal.reason);
  const begin = (index: number): Promise<T> => {
    const reading = read(index, stop.signal);
    // Its failure is thrown when it is asked for.
    reading.catch(() => undefined);
    return reading;
  };
  let coming: Promise<T> | undefined;
  try {
    if (count > 0) coming = begin(0);
    for (let index = 0; index < count; index++) {
      const result = (await coming) as T;
      coming = index + 1 < count ? begin(index + 1) : undefined;
      yield result;
    }
  } finally {
    forget();
    stop.abort();
    await coming?.catch(() => undefined);
  }
}
