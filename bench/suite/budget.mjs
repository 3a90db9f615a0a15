// What a run may take, minutes and memory, and what follows from it: shares of the time, the bytes of inputs.
import { totalmem } from 'node:os';

const mebibyte = 2 ** 20;

/**
 * The bytes that all processes of a run may hold at once: a quarter of the machine, or of the cgroup whose limit is
 * lower. `constrained` is 0 or beyond the machine's memory where nothing limits it.
 */
export function memoryBudget(total = totalmem(), constrained = process.constrainedMemory()) {
  return Math.floor((constrained > 0 ? Math.min(total, constrained) : total) / 4);
}

/**
 * Bytes of the largest inputs: enough that no cache holds them, as far as both budgets allow. From the machine and the
 * options alone, so that two runs measure the same work. A run of `minutes` can afford inputs in proportion; memory has
 * room beside an input for its outputs, and with peers for the copy that a peer has and temporaries of several times
 * that. Never under 8 MiB: less would measure calls, not operations.
 * @param {{ peers: boolean, minutes: number, memory: number, cache: number }} given  bytes
 */
export function inputBudget({ peers, minutes, memory, cache }) {
  const wanted = (peers ? 256 : 512) * mebibyte;
  const byTime = minutes * (peers ? 32 : 64) * mebibyte;
  const byMemory = Math.max(memory - 512 * mebibyte, memory / 2) / (peers ? 8 : 3);
  const bytes = Math.min(Math.max(wanted, 4 * cache), byTime, byMemory);
  return Math.floor(Math.max(bytes, 8 * mebibyte));
}

/** The time that is left, and shares of it: what one part does not use, the later ones have. */
export class TimeBudget {
  #clock;
  #end;

  /** @param {() => number} clock  seconds */
  constructor(seconds, clock = () => performance.now() / 1000) {
    this.#clock = clock;
    this.#end = clock() + seconds;
  }

  /** Seconds; negative once the end has passed. */
  left() {
    return this.#end - this.#clock();
  }

  /** The budget of the next of `parts` equal parts; `size` of them together for a part that is larger. */
  share(parts, size = 1) {
    return new TimeBudget(Math.max(0, (this.left() * Math.min(size, parts)) / parts), this.#clock);
  }
}
