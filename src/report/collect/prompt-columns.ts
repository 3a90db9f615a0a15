// What is known of each prompt of each step -> columns.
import type { PromptTable } from '../report.js';

/** A row of prompts.parquet. */
export interface PromptRow {
  readonly step: number;
  readonly prompt: string;
  readonly rows: number;
  readonly mi: number | null;
  readonly mi_low: number | null;
  readonly mi_high: number | null;
  readonly reward_mean: number | null;
  readonly reward_std: number | null;
  readonly kept: boolean | null;
  readonly drop_reason: string | null;
  readonly cause: string | null;
  readonly retrieval: number | null;
}

const NUMBERS = {
  rows: 'rows',
  mi: 'mi',
  miLow: 'mi_low',
  miHigh: 'mi_high',
  rewardMean: 'reward_mean',
  rewardStd: 'reward_std',
  retrieval: 'retrieval',
} as const;

export class PromptColumns {
  readonly #rows: PromptRow[] = [];

  add(row: PromptRow): void {
    this.#rows.push(row);
  }

  /** @param after only of steps later than this one */
  table(after: number): PromptTable | undefined {
    const rows = this.#rows.filter(({ step }) => step > after);
    if (rows.length === 0) return undefined;
    const [ids, prompt] = numbered(rows.map((row) => row.prompt));
    const [reasons, reason] = numbered(rows.map((row) => row.drop_reason ?? ''));
    const [causes, cause] = numbered(rows.map((row) => row.cause ?? ''));
    const numbers = Object.fromEntries(
      Object.entries(NUMBERS).map(([name, key]) => [name, Float32Array.from(rows, (row) => row[key] ?? Number.NaN)]),
    ) as Record<keyof typeof NUMBERS, Float32Array>;
    return {
      ...{ ids, reasons, causes, ...numbers },
      step: Float64Array.from(rows, (row) => row.step),
      prompt: Uint32Array.from(prompt),
      kept: Uint8Array.from(rows, ({ kept }) => (kept === null ? 2 : Number(kept))),
      reason: Uint8Array.from(reason),
      cause: Uint8Array.from(cause),
    };
  }
}

function numbered(words: readonly string[]): [string[], number[]] {
  const places = new Map<string, number>();
  const numbers = words.map((word) => {
    const known = places.get(word) ?? places.size;
    places.set(word, known);
    return known;
  });
  return [[...places.keys()], numbers];
}
