// How far inference is from training, against verl's own code (test/golden/mismatch_answers.py).
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/checks/package-root.js';
import { openEngine, textMetrics } from '../../src/index.js';
import { MISMATCH_FIGURES, mismatchOf } from '../../src/metrics/figures/mismatch.js';

interface Case {
  readonly name: string;
  readonly sampled: number[][];
  readonly trained: number[][];
  readonly expected: Record<string, number>;
}

const cases = JSON.parse(readFileSync(join(packageRoot, 'test/golden/mismatch.json'), 'utf8')) as readonly Case[];
const keys = MISMATCH_FIGURES.map(({ key }) => key);

function figures(sampled: (number[] | undefined)[], trained: (number[] | undefined)[]): Record<string, number> {
  const found = mismatchOf(sampled, trained);
  if (typeof found === 'string') throw new Error(found);
  return Object.fromEntries(keys.map((key, at) => [key, found[at] as number]));
}

describe('mismatchOf', () => {
  it.each(cases)('equals verl: $name', ({ sampled, trained, expected }) => {
    const found = figures(sampled, trained);
    expect(Object.keys(found).sort()).toEqual(Object.keys(expected).sort());
    // verl prints what it has counted in float32, and adds 1e-8 to the mean weight.
    for (const key of keys)
      expect(Math.abs((found[key] as number) - (expected[key] as number)), key).toBeLessThan(
        2e-7 * Math.max(1, Math.abs(expected[key] as number)),
      );
  });

  it('is 0, and a whole sample, where both are the same', () => {
    const rows = [[-1, -2, -0.5], [-0.1]];
    const { mismatch_eff_sample_size: effective, ...others } = figures(rows, rows);
    expect(effective).toBe(1);
    for (const [key, value] of Object.entries(others)) expect(value, key).toBeCloseTo(0, 15);
  });

  it('leaves out tokens and rows of which a side is missing', () => {
    const whole = figures([[-1, -2]], [[-1.5, -2.25]]);
    const sampled = [[-1, -2, Number.NaN, -3], undefined, [-1], [-1, -2]];
    const trained = [[-1.5, -2.25, -1, Number.NEGATIVE_INFINITY], [-1], undefined, [-1]];
    const { mismatch_k3_kl_last_quarter: _, mismatch_k3_kl_first_quarter: __, ...rest } = figures(sampled, trained);
    expect(whole).toMatchObject(rest);
    expect(mismatchOf([[Number.NaN], undefined], [[-1], [-1]])).toMatch(/no row has a token/);
    expect(mismatchOf([], [])).toMatch(/no row has a token/);
  });
});

describe('textMetrics with log-probs of both sides', () => {
  it('gives the mismatch, and says why it is absent', async () => {
    await using engine = await openEngine();
    const [first] = cases as [Case];
    const rows = first.sampled.length;
    const texts = Array.from({ length: rows }, (_, row) => `word ${row}`);
    const step = { texts, groups: Array.from({ length: rows }, (_, row) => row % 2), logprobs: first.sampled };
    const { values } = await textMetrics(engine, { ...step, trainerLogprobs: first.trained }, { permutations: 0 });
    for (const key of keys) expect(values[key], key).toBeCloseTo(first.expected[key] as number, 6);
    const { absent } = await textMetrics(engine, step, { permutations: 0 });
    for (const key of keys) expect(absent[key], key).toBe('the log has no log-probs of the trainer');
  });
});
