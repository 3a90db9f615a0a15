// Why groups were dropped: a byte a group. A map of them ends at 16.8 million, and takes longer than the rest of the
// filter.
import type { DropReason } from '../filter-result.js';

/** In no order that matters; 0 is none. */
const REASONS: readonly DropReason[] = [
  'singleton',
  'no_rollouts',
  'zero_score',
  'below_cut',
  'nothing_selected',
  'all_succeed',
  'all_fail',
  'same_outcome',
];

export class DropReasons {
  readonly #codes: Uint8Array;

  constructor(groups: number) {
    this.#codes = new Uint8Array(groups);
  }

  set(group: number, reason: DropReason): void {
    this.#codes[group] = REASONS.indexOf(reason) + 1;
  }

  /** Undefined where none was set. */
  of(group: number): DropReason | undefined {
    return REASONS[(this.#codes[group] as number) - 1];
  }
}
