// Work that is done one after the other, in the order in which it was asked for.
import { unlessAborted } from './abort.js';

export class Turns {
  #last: Promise<unknown> = Promise.resolve();

  /** What `work` gives once all before it has ended; the signal's reason when it is aborted while it waits. */
  take<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const before = this.#last;
    const turn = unlessAborted(before, signal).then(() => {
      signal?.throwIfAborted();
      return work();
    });
    // One that was aborted while it waited leaves the next to wait for the same.
    this.#last = turn.catch(() => before);
    return turn;
  }
}
