// Collects times pass after pass, and makes one measure of all times of a thing.
import { summary } from './statistics.mjs';

/** Times by what was timed; times of the same thing, from another pass, join those that are there. */
export class Collected {
  #entries = new Map();

  /**
   * @param {{ key: string, [field: string]: unknown }} what    what was timed: `key` tells it from the others; the rest goes into the measure as it is
   * @param {number[][]} rounds  seconds, by round
   */
  add({ key, ...what }, rounds) {
    const entry = this.#entries.get(key) ?? { what, rounds: [] };
    entry.rounds.push(...rounds);
    this.#entries.set(key, entry);
  }

  /** In the order in which they were first added. */
  all() {
    return [...this.#entries.values()].map(({ what, rounds }) => ({ ...what, ...summary(rounds) }));
  }
}

/**
 * Of the reads of one case with as many threads, only the fastest: that is the roofline.
 * @param {import('./report.mjs').Measure[]} measures
 */
export function fastestReads(measures) {
  const isRival = (one, other) =>
    other.runner === 'read' && other.case === one.case && other.threads === one.threads && other.seconds < one.seconds;
  return measures.filter((one) => one.runner !== 'read' || !measures.some((other) => isRival(one, other)));
}
