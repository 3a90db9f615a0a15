// Runs long work (a generator that yields where it can be interrupted) in slices, and lets the event loop turn between
// them.
import { setImmediate } from 'node:timers/promises';

/** How long the event loop waits for one slice, about. */
const SLICE_MS = 4;

export type Interruptible<T> = Generator<undefined, T, undefined>;

/** @throws the signal's reason once it is aborted */
export async function inSlices<T>(work: Interruptible<T>, signal: AbortSignal | undefined): Promise<T> {
  for (;;) {
    signal?.throwIfAborted();
    const end = performance.now() + SLICE_MS;
    while (performance.now() < end) {
      const { done, value } = work.next();
      if (done) return value;
    }
    await setImmediate();
  }
}
