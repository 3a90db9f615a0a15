// Merges remarks about steps into one entry per kind of remark, however many steps have it.
import type { Remark } from '../report.js';

/** A run of millions of steps must not fill the page with remarks that differ in every step. */
const MOST = 100;

export class RemarkList {
  /** By the remark with its numbers taken out: remarks that differ in nothing else are of one kind. */
  readonly #kinds = new Map<string, Remark>();

  add(about: string, text: string, step: number): void {
    const kind = `${about}\n${text.replace(/[0-9][0-9.,e+-]*/g, '#')}`;
    const known = this.#kinds.get(kind);
    if (known === undefined && this.#kinds.size === MOST) return;
    this.#kinds.set(kind, known ? { ...known, steps: known.steps + 1 } : { about, text, first: step, steps: 1 });
  }

  get all(): Remark[] {
    return [...this.#kinds.values()];
  }
}
