// Collects what is known of each prompt of each step into columns.
import type { PromptTable } from '../report.js';
import { stepsToLetGo } from './let-go.js';

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
  readonly #steps = new Map<number, PromptRow[]>();

  /** @param most steps whose prompts are kept */
  constructor(private readonly most = Number.POSITIVE_INFINITY) {}

  add(row: PromptRow): void {
    const rows = this.#steps.get(row.step);
    if (rows !== undefined) {
      rows.push(row);
      return;
    }
    this.#steps.set(row.step, [row]);
    for (const step of stepsToLetGo([...this.#steps.keys()], this.most)) this.#steps.delete(step);
  }

  /** @param after only of steps later than this one */
  table(after: number): PromptTable | undefined {
    const rows = [...this.#steps].flatMap(([step, of]) => (step > after ? of : []));
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
