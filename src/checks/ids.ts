// Numbers ids of any kind, so that arrays can be indexed by them and native code can count them.

/** Numbers ids from 0 on, in the order in which they come first. */
export class IdNumbers<Id> {
  readonly #numbers = new Map<Id, number>();
  readonly #ids: Id[] = [];

  numberOf(id: Id): number {
    let number = this.#numbers.get(id);
    if (number === undefined) {
      number = this.#ids.length;
      this.#numbers.set(id, number);
      this.#ids.push(id);
    }
    return number;
  }

  /** By number. */
  get ids(): readonly Id[] {
    return this.#ids;
  }
}

export interface NumberedLabels {
  /** Number of each id. */
  readonly labels: Int32Array;
  /** Different ids. */
  readonly count: number;
}

export function numbered(ids: ArrayLike<number | bigint>): NumberedLabels {
  const numbers = new IdNumbers<number | bigint>();
  const labels = Int32Array.from({ length: ids.length }, (_, row) => numbers.numberOf(idOf(ids, row)));
  return { labels, count: numbers.ids.length };
}

/** 64-bit ids that a number holds exactly become numbers. */
export function idOf(ids: ArrayLike<number | bigint>, row: number): number | bigint {
  const id = ids[row] as number | bigint;
  return typeof id === 'bigint' && Number.isSafeInteger(Number(id)) ? Number(id) : id;
}
