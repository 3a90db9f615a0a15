// The memory that a run's processes hold: watched, because a machine out of memory kills whom it likes.
import { readFileSync, writeFileSync } from 'node:fs';

/**
 * Resident bytes of a process now, and the most it has held since `forgetPeak`; undefined where there is no /proc, or
 * no such process.
 */
export function residentBytes(pid) {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const bytes = (name) => Number(new RegExp(`^${name}:\\s*(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) * 1024;
    return { now: bytes('VmRSS'), peak: bytes('VmHWM') };
  } catch {
    return undefined;
  }
}

/** Resets the peak of a process (proc_pid_clear_refs(5)); a kernel that refuses keeps the old peak. */
export function forgetPeak(pid) {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, '5');
  } catch {
    // The peak is then of all its life: more than what is asked for, never less.
  }
}

/** Sums what this process and those it has started hold, ten times a second; over the limit, it stops those. */
export class MemoryWatch {
  #limit;
  #own;
  #of;
  #watched = new Map();
  #timer;
  /** The most bytes that were seen together. */
  peakBytes = 0;

  /** `own` and `of` read the memory of this process and of another one. */
  constructor(limit, { own = () => process.memoryUsage.rss(), of = residentBytes } = {}) {
    this.#limit = limit;
    this.#own = own;
    this.#of = of;
    this.#timer = setInterval(() => this.sample(), 100);
    this.#timer.unref();
  }

  /** Bytes that are left beside what is held now. */
  free() {
    return (
      this.#limit - this.#own() - [...this.#watched.keys()].reduce((sum, pid) => sum + (this.#of(pid)?.now ?? 0), 0)
    );
  }

  /** Counts a process in; `stop` is called with the reason when all together are over the limit. */
  add(pid, stop) {
    this.#watched.set(pid, stop);
  }

  remove(pid) {
    this.sample();
    this.#watched.delete(pid);
  }

  sample() {
    let sum = this.#own();
    for (const pid of this.#watched.keys()) sum += this.#of(pid)?.peak ?? 0;
    this.peakBytes = Math.max(this.peakBytes, sum);
    if (sum <= this.#limit) return;
    const gibibytes = (bytes) => (bytes / 2 ** 30).toFixed(2);
    for (const stop of this.#watched.values())
      stop(`stopped: all processes held ${gibibytes(sum)} GiB, the budget is ${gibibytes(this.#limit)} GiB`);
  }

  close() {
    this.sample();
    clearInterval(this.#timer);
  }
}
