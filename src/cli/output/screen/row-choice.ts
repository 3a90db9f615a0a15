// Chooses the few rows to show: the first, the last, those around a change, and some of the rest at even distances.
// Holds a few times as many as it shows, however many come.

interface Held<Row> {
  readonly at: number;
  readonly row: Row;
}

/**
 * Of the rows that are shown, changes take at most this part: a run that changes all the time still shows its course.
 */
const CHANGES_PART = 0.75;

export class RowChoice<Row> {
  readonly #most: number;
  /** More candidates than are shown, so that what fills the gaps can be chosen when all changes are known. */
  readonly #capacity: number;
  #even: Held<Row>[] = [];
  #every = 1;
  #changes: (Held<Row> & { readonly rank: number })[] = [];
  #last: Held<Row> | undefined;
  #count = 0;

  /** @param most rows to show, 2 or more; Infinity for all */
  constructor(most: number) {
    this.#most = most;
    this.#capacity = 8 * most;
  }

  /** How many came. */
  get count(): number {
    return this.#count;
  }

  /** @param rank how severe the change at this row is; 0 if nothing changes */
  add(row: Row, rank: number): void {
    const held = { at: this.#count++, row };
    if (rank > 0) {
      if (this.#last !== undefined) this.#changes.push({ ...this.#last, rank });
      this.#changes.push({ ...held, rank });
      if (this.#changes.length > this.#capacity) this.#changes = gravest(this.#changes).slice(0, this.#capacity / 2);
    }
    if (held.at % this.#every === 0) this.#even.push(held);
    if (this.#even.length > this.#capacity) {
      this.#every *= 2;
      this.#even = this.#even.filter(({ at }) => at % this.#every === 0);
    }
    this.#last = held;
  }

  /** Adds to what is shown always the row that is farthest from it. */
  #fill(chosen: Map<number, Row>): void {
    const gaps = this.#even.map(({ at }) => Math.min(...[...chosen.keys()].map((other) => Math.abs(other - at))));
    while (chosen.size < Math.min(this.#most, this.#count)) {
      const widest = gaps.reduce((best, gap, index) => (gap > (gaps[best] as number) ? index : best), 0);
      if (!((gaps[widest] ?? 0) > 0)) break;
      const { at, row } = this.#even[widest] as Held<Row>;
      chosen.set(at, row);
      for (const [index, other] of this.#even.entries())
        gaps[index] = Math.min(gaps[index] as number, Math.abs(other.at - at));
    }
  }

  /** In the order in which they came. */
  rows(): Row[] {
    const chosen = new Map<number, Row>();
    const take = ({ at, row }: Held<Row>) => chosen.set(at, row);
    const ends = [this.#even[0], this.#last].filter((held) => held !== undefined);
    if (this.#count <= this.#most) this.#even.forEach(take);
    ends.forEach(take);
    for (const change of gravest(this.#changes)) {
      if (chosen.size >= Math.ceil(this.#most * CHANGES_PART)) break;
      take(change);
    }
    this.#fill(chosen);
    return [...chosen].sort(([a], [b]) => a - b).map(([, row]) => row);
  }
}

function gravest<T extends { rank: number; at: number }>(changes: readonly T[]): T[] {
  return changes.toSorted((a, b) => b.rank - a.rank || a.at - b.at);
}
