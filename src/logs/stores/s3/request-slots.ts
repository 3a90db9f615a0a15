// Limits the requests to stores that run at a time, over all files of the process; the others wait in line.
import { MAX_REQUESTS } from './client.js';

class Slots {
  readonly #waiting: (() => void)[] = [];

  constructor(private free: number) {}

  async use<T>(work: () => Promise<T>): Promise<T> {
    if (this.free > 0) this.free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.free++;
      else next();
    }
  }
}

export const requestSlots = new Slots(MAX_REQUESTS);
