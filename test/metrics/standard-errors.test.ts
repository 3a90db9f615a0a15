// `<key>_standard_error` against the jackknife in plain float64: each prompt really left out.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { crossScoreMetrics, type Engine, openEngine, type StepMetrics } from '../../src/index.js';
import golden from '../golden/changes.json' with { type: 'json' };
import { uniformNumbers } from '../support/random-numbers.js';

let engine: Engine;
let alone: Engine;
beforeAll(async () => {
  [engine, alone] = [await openEngine({ threads: 2 }), await openEngine({ threads: 1 })];
});
afterAll(async () => {
  await engine.dispose();
  await alone.dispose();
});

interface Step {
  sums: number[][];
  own: number[];
  /** Of each column; equal numbers: equal prompts. */
  prompts: number[];
}

const measure = ({ sums, own, prompts }: Step, by = engine): Promise<StepMetrics> =>
  crossScoreMetrics(
    by,
    {
      sums: { data: Float64Array.from(sums.flat()), dtype: 'float64', shape: [sums.length, prompts.length] },
      lengths: sums.map(() => 3),
      groups: own,
      columnGroups: prompts.map((_, at) => at),
      promptTokens: prompts.map((prompt) => [prompt]),
    },
    { permutations: 0 },
  );

/** Equal prompts are one column and one group; what a prompt's first column says of a row, all of its columns say. */
function once({ sums, own, prompts }: Step): { sums: number[][]; own: number[]; count: number } {
  const kinds = [...new Set(prompts)];
  return {
    sums: sums.map((row) => kinds.map((kind) => row[prompts.indexOf(kind)] as number)),
    own: own.map((column) => kinds.indexOf(prompts[column] as number)),
    count: kinds.length,
  };
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
const mean = (values: readonly number[]): number => sum(values) / values.length;

function jackknife(without: readonly number[]): number {
  const middle = mean(without);
  return Math.sqrt(((without.length - 1) / without.length) * sum(without.map((value) => (value - middle) ** 2)));
}

/** ln of the sum of e^x. */
function logSum(values: readonly number[]): number {
  const most = Math.max(...values);
  return most + Math.log(sum(values.map((value) => Math.exp(value - most))));
}

/** I(X;Z) of the rows of some prompts among these prompts. */
function information(step: ReturnType<typeof once>, kept: readonly number[]): number {
  const rows = [...step.own.keys()].filter((row) => kept.includes(step.own[row] as number));
  return mean(
    rows.map((row) => {
      const scores = step.sums[row] as number[];
      const own = scores[step.own[row] as number] as number;
      return own - logSum(kept.map((prompt) => scores[prompt] as number)) + Math.log(kept.length);
    }),
  );
}

/** Mean over ordered pairs of prompts (own, other), of which the own one has rows. */
function pairs(step: ReturnType<typeof once>, kept: readonly number[]): number {
  const values: number[] = [];
  for (const own of kept) {
    const rows = [...step.own.keys()].filter((row) => step.own[row] === own);
    if (rows.length === 0) continue;
    for (const other of kept) {
      if (other === own) continue;
      values.push(
        mean(
          rows.map((row) => {
            const scores = step.sums[row] as number[];
            return (scores[own] as number) - logSum([scores[own] as number, scores[other] as number]) + Math.LN2;
          }),
        ),
      );
    }
  }
  return mean(values);
}

function expected(step: Step, figure: typeof information): { estimate: number; error: number } {
  const merged = once(step);
  const all = Array.from({ length: merged.count }, (_, prompt) => prompt);
  const without = all.map((left) =>
    figure(
      merged,
      all.filter((prompt) => prompt !== left),
    ),
  );
  return { estimate: figure(merged, all), error: jackknife(without) };
}

/** Rows of the columns in turn, ragged, some columns without any; own scores stand out more or less. */
function stepOf(seed: number, columns: number, kinds: number, spread: number, impossible = 0): Step {
  const uniform = uniformNumbers(seed);
  const prompts = Array.from({ length: columns }, (_, at) => (at < kinds ? at : Math.floor(uniform() * kinds)));
  const own = prompts.flatMap((_, column) =>
    Array<number>(column === 1 ? 0 : 1 + Math.floor(uniform() * 4)).fill(column),
  );
  const sums = own.map((mine) => {
    const scores = Array.from({ length: kinds }, (_, kind) => {
      const isOwn = kind === prompts[mine];
      if (!isOwn && uniform() < impossible) return -Infinity;
      return -20 - spread * (uniform() + (isOwn ? 0 : 0.4));
    });
    return prompts.map((kind) => scores[kind] as number);
  });
  return { sums, own, prompts };
}

const near = (found: number | undefined, wanted: number, what: string): void => {
  expect(found, what).toBeDefined();
  expect(Math.abs((found as number) - wanted), `${what}: ${found}, ${wanted}`).toBeLessThan(
    1e-10 * Math.max(1, wanted),
  );
};

describe('standard errors over prompts', () => {
  it('are those of the reference', async () => {
    const { scores, groups, mi, pair } = golden.functions as unknown as Record<string, number[]> & {
      scores: number[][];
    };
    // What all scores of a row have in common has no part in these; log-probs are not above 0.
    const sums = scores.map((row) => row.map((score) => score - 8));
    const { values } = await measure({ sums, own: groups as number[], prompts: [0, 1, 2, 3] });
    near(values.mi_seq_estimate, mi?.[0] as number, 'I');
    near(values.mi_seq_standard_error, mi?.[1] as number, 'error of I');
    near(values.mi_seq_at_2, pair?.[0] as number, 'I_2');
    near(values.mi_seq_at_2_standard_error, pair?.[1] as number, 'error of I_2');
    expect(values.mi_seq_at_4_standard_error).toBe(values.mi_seq_standard_error);
  });

  it('are the jackknife’s, with ragged groups, prompts without rows, equal columns and impossible prompts', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.nat(1e6),
        fc.integer({ min: 3, max: 12 }),
        fc.integer({ min: 0, max: 5 }),
        fc.constantFrom(0.001, 1, 6, 40, 900),
        fc.constantFrom(0, 0.3),
        async (seed, kinds, more, spread, impossible) => {
          const step = stepOf(seed, kinds + more, kinds, spread, impossible);
          const { values, certainty } = await measure(step);
          const [all, two] = [expected(step, information), expected(step, pairs)];
          near(values.mi_seq_standard_error, all.error, 'error of I');
          near(certainty.mi_seq_estimate?.overPrompts?.estimate, all.estimate, 'I');
          near(values.mi_seq_at_2_standard_error, two.error, 'error of I_2');
          near(certainty.mi_seq_at_2?.overPrompts?.estimate, two.estimate, 'I_2');
        },
      ),
      { numRuns: 150 },
    );
  });

  it('have the same bits for any order of rows and any number of threads', async () => {
    for (let seed = 1; seed <= 10; seed++) {
      const step = stepOf(seed, 40, 35, 5, 0.1);
      const order = [...step.own.keys()].sort((a, b) => ((a * 7919) % 101) - ((b * 7919) % 101));
      const turned = {
        ...step,
        sums: order.map((row) => step.sums[row] as number[]),
        own: order.map((row) => step.own[row] as number),
      };
      const { values, certainty } = await measure(step);
      const other = await measure(turned, alone);
      expect(other.values).toEqual(values);
      expect(other.certainty.mi_seq_at_2?.overPrompts).toEqual(certainty.mi_seq_at_2?.overPrompts);
    }
  });

  it('leave out rows of NaN, as the figures do', async () => {
    const step = stepOf(3, 6, 6, 4);
    const spoilt = { ...step, sums: [...step.sums, [Number.NaN, -1, -2, -3, -4, -5]], own: [...step.own, 0] };
    const [clean, found] = [await measure(step), await measure(spoilt)];
    expect(found.values.mi_seq_standard_error).toBe(clean.values.mi_seq_standard_error);
  });

  it('are 0 where prompts cannot be told apart, and absent under three prompts with the reason', async () => {
    const tied = stepOf(4, 5, 5, 3);
    const flat = await measure({
      ...tied,
      sums: tied.sums.map((row, at) => row.map((_, column) => -5 - at - column * 1e-13)),
    });
    expect(flat.values.mi_seq_standard_error).toBeLessThan(1e-9);
    for (const [columns, kinds] of [
      [2, 2],
      [4, 2],
      [3, 1],
    ] as const) {
      const { own, ...few } = stepOf(5, columns, kinds, 3);
      const { values, absent } = await measure({ ...few, own });
      expect(values).not.toHaveProperty('mi_seq_standard_error');
      expect(values).not.toHaveProperty('mi_seq_at_2_standard_error');
      expect(absent.mi_seq_standard_error).toMatch(/at least three|no other/);
    }
    const oneHasAll = stepOf(6, 5, 5, 3);
    const { absent } = await measure({ ...oneHasAll, own: oneHasAll.own.map(() => 0) });
    expect(absent.mi_seq_standard_error).toMatch(/at least three/);
  });

  it('scatter as the figure does over batches of other prompts, at each number of prompts', async () => {
    const uniform = uniformNumbers(11);
    const bell = (): number => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
    const [columns, kinds, rows, batches] = [32, 24, 4, 160];
    const found: Record<string, number>[] = [];
    for (let batch = 0; batch < batches; batch++) {
      const table = Array.from({ length: columns }, () => {
        const logits = Array.from({ length: kinds }, () => 1.6 * bell());
        const norm = logSum(logits);
        return logits.map((logit) => logit - norm);
      });
      const own = Array.from({ length: columns * rows }, (_, row) => Math.floor(row / rows));
      const sums = own.map((mine) => {
        let left = uniform();
        let z = 0;
        while (z < kinds - 1 && left > Math.exp(table[mine]?.[z] as number))
          left -= Math.exp(table[mine]?.[z++] as number);
        return table.map((logits) => logits[z] as number);
      });
      found.push((await measure({ sums, own, prompts: table.map((_, at) => at) })).values as Record<string, number>);
    }
    for (const key of ['mi_seq', 'mi_seq_at_2', 'mi_seq_at_4', 'mi_seq_at_8', 'mi_seq_at_16', 'mi_seq_at_32']) {
      const values = found.map((one) => one[key === 'mi_seq' ? 'mi_seq_estimate' : key] as number);
      const scatter = Math.sqrt(mean(values.map((value) => (value - mean(values)) ** 2)));
      const stated = Math.sqrt(mean(found.map((one) => (one[`${key}_standard_error`] as number) ** 2)));
      expect(stated / scatter, key).toBeGreaterThan(0.8);
      expect(stated / scatter, key).toBeLessThan(1.3);
    }
  });
});
