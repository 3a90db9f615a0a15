// Long work that says where it can be interrupted (a generator that yields) -> its result: at once, or in slices between
// which the event loop turns.
import { setImmediate } from 'node:timers/promises';

/** How long the event loop waits for one slice, about. */
const SLICE_MS = 8;

export type Interruptible<T> = Generator<undefined, T, undefined>;

/** Rows between which `eachRow` cannot be interrupted: what it asks of a row takes a microsecond or so. */
const ROWS_AT_ONCE = 64;

/** One number a row. */
export function* eachRow<R>(rows: readonly R[], of: (row: R, r: number) => number): Interruptible<Float64Array> {
  const numbers = new Float64Array(rows.length);
  for (const [r, row] of rows.entries()) {
    numbers[r] = of(row, r);
    if (r % ROWS_AT_ONCE === ROWS_AT_ONCE - 1) yield;
  }
  return numbers;
}

export function atOnce<T>(work: Interruptible<T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}

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
