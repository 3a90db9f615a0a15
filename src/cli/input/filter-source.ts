// Rewards as `collapsar filter` takes them, from a step file or from lines of text.
import type { FilterInput } from '../../filter/input/filter-input.js';

export interface FilterSource {
  /** As an error names it. */
  readonly path: string;
  readonly input: FilterInput;
  /** What whoever reads the choice should know of where rewards come from. */
  readonly notes?: readonly string[];
  /** Group id of each row, as in `input`. */
  readonly groupOfRow: Iterable<number | bigint>;
  /** How the source names a group. */
  nameOf(group: number | bigint): string;
  /** How it names a row. */
  nameOfRow(row: number): string;
  /** How it writes a reward that is not finite. */
  nameOfReward(value: number | null | undefined): string;
}
