// Waiting that ends at an abort.
import { setMaxListeners } from 'node:events';

/** Calls `listener` when the signal is aborted. @returns what stops that */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (signal === undefined) return () => undefined;
  // Dozens of reads may wait on the signal of an analysis: no leak, of which its eleventh listener would warn.
  setMaxListeners(0, signal);
  signal.addEventListener('abort', listener, { once: true });
  return () => signal.removeEventListener('abort', listener);
}

/** What the work gives, or the signal's reason as soon as it is aborted. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  let forget = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    forget = onAbort(signal, () => reject(signal.reason));
  });
  // If the abort wins, nobody looks at how the work ends.
  work.catch(() => undefined);
  return Promise.race([work, aborted]).finally(forget);
}
