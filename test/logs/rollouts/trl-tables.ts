// Tables of completions as TRL writes them, for tests: advantages by its own formulas, in float32.
import { parquetWriteBuffer } from 'hyparquet-writer';
import type { LearnedWeights } from '../../../src/logs/rollouts/rewards/learn-weights.js';

export type Model = LearnedWeights['model'];
const { fround } = Math;

/** trl/trainer/grpo_trainer.py, _generate_and_score_completions. */
export function advantages(columns: readonly Float64Array[], weights: readonly number[], size: number, model: Model) {
  const rows = columns[0]?.length as number;
  const groups = Array.from({ length: rows / size }, (_, group) =>
    Array.from({ length: size }, (__, at) => group * size + at),
  );
  const known = (values: number[]) => values.filter((value) => !Number.isNaN(value));
  const mean = (values: number[]) =>
    known(values).reduce((sum, value) => fround(sum + value), 0) / known(values).length;
  const spread = (values: number[]) => {
    const center = fround(mean(values));
    const squares = known(values).reduce((sum, value) => sum + (value - center) ** 2, 0);
    return fround(Math.sqrt(squares / (known(values).length - 1)));
  };
  const unscorable = Array.from({ length: rows }, (_, row) => columns.every((column) => Number.isNaN(column[row])));
  const sum = (parts: readonly ArrayLike<number>[]) =>
    Array.from({ length: rows }, (_, row) => {
      if (unscorable[row]) return Number.NaN;
      return parts.reduce((total, part, at) => {
        const value = fround((part[row] as number) * fround(weights[at] as number));
        return Number.isNaN(value) ? total : fround(total + value);
      }, 0);
    });
  const out = new Float64Array(rows);
  if (model === 'normalized') {
    const parts = columns.map((column) => {
      const part = new Float64Array(rows);
      for (const group of groups) {
        const values = group.map((row) => column[row] as number);
        for (const row of group)
          part[row] = fround(((column[row] as number) - fround(mean(values))) / fround(spread(values) + 1e-4));
      }
      return part;
    });
    const rewards = sum(parts);
    const [center, all] = [fround(mean(rewards)), fround(spread(rewards) + 1e-4)];
    for (let row = 0; row < rows; row++) out[row] = fround(((rewards[row] as number) - center) / all) || 0;
    return out;
  }
  const rewards = sum(columns);
  const batch = spread(rewards);
  for (const group of groups) {
    const values = group.map((row) => rewards[row] as number);
    const scale = model === 'none' ? 1 : fround((model === 'batch' ? batch : spread(values)) + 1e-4);
    for (const row of group) out[row] = fround(((rewards[row] as number) - fround(mean(values))) / scale) || 0;
  }
  return out;
}

/** Columns of rewards as trainers have them: flags, shares, lengths; some NaN. */
export function columnOf(kind: number, rows: number, uniform: () => number): Float64Array {
  return Float64Array.from({ length: rows }, () => {
    if (kind === 0) return uniform() < 0.5 ? 1 : 0;
    if (kind === 1) return fround(uniform());
    if (kind === 2) return fround(3 * uniform() - 2);
    return uniform() < 0.1 ? Number.NaN : fround(Math.floor(4 * uniform()) / 4);
  });
}

export const count = (rows: number, uniform: () => number): Float64Array =>
  Float64Array.from({ length: rows }, () => 100 + Math.floor(900 * uniform()));

/** completions_{step}.parquet: rows of 4 words, of which groups of `size` rows share a prompt. */
export function completions(
  step: number,
  columns: Record<string, Float64Array>,
  advantage: Float64Array,
  size: number,
) {
  const rows = [...advantage.keys()];
  const of = (name: string, type: 'STRING' | 'DOUBLE', data: unknown[] | Float64Array) => ({ name, type, data });
  return new Uint8Array(
    parquetWriteBuffer({
      columnData: [
        { name: 'step', type: 'INT64', data: rows.map(() => BigInt(step)) },
        of(
          'prompt',
          'STRING',
          rows.map((row) => `question ${Math.floor(row / size)} of ${step}`),
        ),
        of(
          'completion',
          'STRING',
          rows.map((row) => `word${row % 7} word${(step * row) % 5} of ${Math.floor(row / size)} word${row}`),
        ),
        ...Object.entries(columns).map(([name, data]) => of(name, 'DOUBLE', data)),
        of('advantage', 'DOUBLE', advantage),
      ],
    } as Parameters<typeof parquetWriteBuffer>[0]),
  );
}
