// Requests to stores -> so many at a time, of all files of the process together; the others wait in line.
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
