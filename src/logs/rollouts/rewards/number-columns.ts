// Collects the columns of numbers of a step's table, from which weights of rewards are learned.
import { createHash } from 'node:crypto';
import type { Column } from '../parquet/column-fields.js';
import { hashValue } from '../rows/value-digest.js';
import { type AdvantageRows, possibleGroupSizes } from './learn-weights.js';

/** Rows of a step that are enough to learn from. */
const ENOUGH_ROWS = 4096;

export class NumberColumns {
  readonly #columns = new Map<string, number[]>();
  /** Where the prompt is another than the row before has. */
  readonly #prompts: number[] = [];
  #prompt = '';
  #rows = 0;

  /** @param advantage name of the column of advantages */
  constructor(private readonly advantage: string) {}

  add(columns: ReadonlyMap<string, Column>, from: number, to: number): void {
    const prompts = columns.get('prompt')?.values;
    for (let row = from; row < to; row++) {
      const hash = createHash('sha256');
      hashValue(hash, prompts?.[row]);
      const prompt = hash.digest('base64');
      this.#prompts.push((this.#prompts.at(-1) ?? 0) + (prompt === this.#prompt ? 0 : 1));
      this.#prompt = prompt;
    }
    for (const [name, { values }] of columns) {
      if (name === 'prompt') continue;
      const column = this.#columns.get(name) ?? new Array<number>(this.#rows).fill(Number.NaN);
      this.#columns.set(name, column);
      for (let row = from; row < to; row++) column.push(numberIn(values[row]));
    }
    this.#rows += to - from;
    for (const column of this.#columns.values()) while (column.length < this.#rows) column.push(Number.NaN);
  }

  taken(): AdvantageRows {
    const groupSizes = possibleGroupSizes(this.#prompts);
    const [size = 1] = groupSizes;
    const rows = this.#rows <= ENOUGH_ROWS ? this.#rows : Math.max(size, ENOUGH_ROWS - (ENOUGH_ROWS % size));
    const of = (name: string): Float64Array => Float64Array.from(this.#columns.get(name)?.slice(0, rows) ?? []);
    const names = [...this.#columns.keys()].filter((name) => name !== this.advantage);
    return { advantage: of(this.advantage), columns: new Map(names.map((name) => [name, of(name)])), groupSizes };
  }
}

function numberIn(value: unknown): number {
  return typeof value === 'number' ? value : Number.NaN;
}
