// mi_seq_at_<k> and mi_seq_margin against their definitions in plain float64: every subset of prompts, one by one.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CrossScores, crossScoreMetrics, type Engine, openEngine, type StepMetrics } from '../../src/index.js';
import { logSumExp, mean } from '../support/metrics-reference.js';
import { uniformNumbers } from '../support/random-numbers.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ threads: 2 });
});
afterAll(() => engine.dispose());

interface Step {
  sums: number[][];
  own: number[];
  /** Equal numbers: equal prompts. */
  prompts: number[];
}

const toScores = ({ sums, own, prompts }: Step): CrossScores => ({
  sums: { data: Float64Array.from(sums.flat()), dtype: 'float64', shape: [sums.length, prompts.length] },
  lengths: sums.map(() => 3),
  groups: own,
  columnGroups: prompts.map((_, at) => at),
  promptTokens: prompts.map((prompt) => [prompt]),
});

const measure = (step: Step, seed = 0): Promise<StepMetrics> =>
  crossScoreMetrics(engine, toScores(step), { permutations: 0, seed });

function subsetsOf<T>(values: readonly T[], size: number): T[][] {
  if (size === 0) return [[]];
  return values.flatMap((value, at) => subsetsOf(values.slice(at + 1), size - 1).map((rest) => [value, ...rest]));
}

/** Scores of a row under each other distinct prompt, once each. */
function others({ sums, own, prompts }: Step, row: number): number[] {
  const ownPrompt = prompts[own[row] as number];
  const seen = new Set([ownPrompt]);
  return (sums[row] as number[]).filter((_, column) => {
    if (seen.has(prompts[column])) return false;
    seen.add(prompts[column]);
    return true;
  });
}

const scoreOf = ({ sums, own }: Step, row: number): number => (sums[row] as number[])[own[row] as number] as number;

/** Over all subsets. */
function information(step: Step, row: number, k: number): number {
  const own = scoreOf(step, row);
  const drawn = subsetsOf(others(step, row), k - 1);
  return mean(drawn.map((some) => own - logSumExp([own, ...some]) + Math.log(k)));
}

function stepOf(columns: number, rows: number, spread: number, seed: number): Step {
  const uniform = uniformNumbers(seed);
  const own = Array.from({ length: rows }, (_, row) => row % columns);
  const sums = own.map((mine) =>
    Array.from({ length: columns }, (_, column) => -5 - spread * (uniform() + (column === mine ? 0 : 0.5))),
  );
  return { sums, own, prompts: Array.from({ length: columns }, (_, at) => at) };
}

const rowsOf = ({ own }: Step): number[] => [...own.keys()];

describe('information among k prompts', () => {
  it('is exact for two prompts and for all', async () => {
    for (const columns of [2, 3, 4, 5, 8, 16, 37]) {
      for (const spread of [0.01, 3, 40, 600]) {
        const step = stepOf(columns, 24, spread, columns);
        const { values } = await measure(step);
        const pairs = mean(rowsOf(step).map((row) => information(step, row, 2)));
        expect(values.mi_seq_at_2).toBeCloseTo(pairs, 12);
        if (Number.isInteger(Math.log2(columns))) {
          expect(values[`mi_seq_at_${columns}`]).toBeCloseTo(values.mi_seq_estimate as number, 12);
        }
      }
    }
  });

  it('is the mean over all subsets, on average over seeds', async () => {
    const step = stepOf(9, 12, 4, 1);
    const exact = (k: number) => mean(rowsOf(step).map((row) => information(step, row, k)));
    const seeds = 400;
    const found = await Promise.all(Array.from({ length: seeds }, (_, seed) => measure(step, seed)));
    for (const k of [4, 8]) {
      const drawn = found.map(({ values }) => values[`mi_seq_at_${k}`] as number);
      const error = Math.sqrt(mean(drawn.map((value) => (value - mean(drawn)) ** 2)) / seeds);
      expect(error).toBeGreaterThan(0);
      expect(error).toBeLessThan(0.01);
      expect(Math.abs(mean(drawn) - exact(k))).toBeLessThan(4 * error);
    }
  });

  it('does not count equal prompts twice', async () => {
    const { sums, own, prompts } = stepOf(8, 24, 3, 2);
    const twice: Step = { sums: sums.map((row) => [...row, ...row]), own, prompts: [...prompts, ...prompts] };
    const once = await measure({ sums, own, prompts });
    const found = await measure(twice);
    for (const key of ['mi_seq_at_2', 'mi_seq_at_4', 'mi_seq_at_8', 'mi_seq_margin']) {
      expect(found.values[key]).toBeCloseTo(once.values[key] as number, 13);
    }
    expect(found.values).not.toHaveProperty('mi_seq_at_16');
    expect(found.absent).not.toHaveProperty('mi_seq_at_16');
    expect(found.columns).toEqual({ total: 16, distinct: 8 });
  });

  it('holds where exp() of a difference is beyond doubles, or a prompt makes a row impossible', async () => {
    const columns = 8;
    const cases: [what: string, score: (column: number, mine: number) => number][] = [
      ['own far above', (column, mine) => (column === mine ? -3 : -1e5 - column)],
      ['own far below', (column, mine) => (column === mine ? -9000 : -10 - 150 * column)],
      ['own far below most, which are alike', (column, mine) => (column === mine ? -9000 : -10)],
      ['own in between', (column, mine) => (column === mine ? -700 : -1300 * (column % 2))],
      ['impossible under some', (column, mine) => (column === mine ? -5 : column % 3 === 0 ? -Infinity : -6)],
      ['impossible under all others', (column, mine) => (column === mine ? -5 : -Infinity)],
      ['impossible and far below', (column, mine) => (column === mine ? -9000 : column > 5 ? -Infinity : -3)],
    ];
    for (const [what, score] of cases) {
      const own = Array.from({ length: 16 }, (_, row) => row % columns);
      const prompts = Array.from({ length: columns }, (_, at) => at);
      const step: Step = { own, prompts, sums: own.map((mine) => prompts.map((column) => score(column, mine))) };
      const { values } = await measure(step);
      const exact = (k: number) => mean(rowsOf(step).map((row) => information(step, row, k)));
      for (const k of [2, 8]) {
        const found = values[`mi_seq_at_${k}`] as number;
        expect(Math.abs(found - exact(k)), `${what}, ${k}`).toBeLessThan(1e-12 * Math.max(1, Math.abs(exact(k))));
      }
      // A draw lies between the lowest and the highest of all.
      const four = rowsOf(step).map((row) => {
        const mine = scoreOf(step, row);
        return subsetsOf(others(step, row), 3).map((some) => mine - logSumExp([mine, ...some]) + Math.log(4));
      });
      expect(values.mi_seq_at_4, what).toBeGreaterThanOrEqual(mean(four.map((all) => Math.min(...all))) - 1e-9);
      expect(values.mi_seq_at_4, what).toBeLessThanOrEqual(mean(four.map((all) => Math.max(...all))) + 1e-9);
    }
  });

  it('lies at ln k where every response tells its prompt, and at 0 where none does', async () => {
    const flat = stepOf(64, 128, 0, 3);
    const told = flat.sums.map((row, at) =>
      row.map((_, column) => (column === flat.own[at] ? -5 : -50 - (at % 7) - column)),
    );
    const sharp = await measure({ ...flat, sums: told });
    const none = await measure({ ...flat, sums: flat.sums.map((row, at) => row.map(() => -5 - at)) });
    for (let k = 2; k <= 64; k *= 2) {
      expect(sharp.values[`mi_seq_at_${k}`]).toBeLessThanOrEqual(Math.log(k) + 1e-12);
      expect(sharp.values[`mi_seq_at_${k}`]).toBeCloseTo(Math.log(k), 12);
      expect(none.values[`mi_seq_at_${k}`] ?? 0).toBeCloseTo(0, 12);
    }
  });

  it('has the same bits for any order of rows, and draws that the seed alone decides', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 2, max: 20 }), fc.nat(1000), fc.nat(3), async (columns, seed, draws) => {
        const step = stepOf(columns, 30, 5, seed);
        const order = rowsOf(step).sort((a, b) => ((a * 7919) % 31) - ((b * 7919) % 31));
        const turned: Step = {
          ...step,
          sums: order.map((row) => step.sums[row] as number[]),
          own: order.map((row) => step.own[row] as number),
        };
        const { values } = await measure(step, draws);
        expect((await measure(turned, draws)).values).toEqual(values);
      }),
      { numRuns: 40 },
    );
  });

  it('has a batch interval that its value lies in, and says why there is no other', async () => {
    const { certainty, values, logged } = await measure(stepOf(8, 32, 3, 4));
    for (const key of ['mi_seq_at_2', 'mi_seq_at_4', 'mi_seq_at_8', 'mi_seq_margin']) {
      const { batch, population, pValue } = certainty[key] ?? {};
      if (!batch || !('low' in batch)) throw new Error(`${key} has no interval`);
      expect(batch.low).toBeLessThan(values[key] as number);
      expect(batch.high).toBeGreaterThan(values[key] as number);
      expect(population).toEqual({ absent: expect.stringMatching(/these very prompts/) });
      expect(pValue).toEqual({ absent: expect.stringMatching(/permutations/) });
      expect(logged).toMatchObject({
        [`collapse_first_turn_sample/${key}`]: values[key],
        [`collapse_first_turn_sample/${key}_batch_low`]: batch.low,
        [`collapse_first_turn_sample/${key}_batch_high`]: batch.high,
      });
      expect(logged).not.toHaveProperty([`collapse_first_turn_sample/${key}_p_value`]);
    }
  });

  it('weighs rows as often as a sampler drew them', async () => {
    const step = stepOf(6, 24, 3, 5);
    const scores = { ...toScores(step), episodes: rowsOf(step), turns: step.own.map(() => 0) };
    const found = await crossScoreMetrics(engine, scores, {
      permutations: 0,
      perRow: true,
      sampler: { kind: 'trajectory', n: 40, seed: 1 },
    });
    const rows = [...(found.perRow?.row ?? [])];
    expect(new Set(rows).size).toBeLessThan(rows.length);
    expect(found.values.mi_seq_at_2).toBeCloseTo(mean(rows.map((row) => information(step, row, 2))), 12);
    const margin = mean(rows.map((row) => scoreOf(step, row) - mean(others(step, row))));
    expect(found.values.mi_seq_margin).toBeCloseTo(margin, 12);
    const batch = found.certainty.mi_seq_at_2?.batch;
    if (!batch || !('low' in batch)) throw new Error('no interval');
    expect(batch.low).toBeLessThan(found.values.mi_seq_at_2 as number);
    expect(batch.high).toBeGreaterThan(found.values.mi_seq_at_2 as number);
  });
});

describe('contrastive margin', () => {
  it('is the mean of the own score less the mean of the other prompts', async () => {
    for (const columns of [2, 3, 8, 13, 64]) {
      const step = stepOf(columns, 30, 10, columns);
      const { values } = await measure(step);
      const margins = rowsOf(step).map((row) => scoreOf(step, row) - mean(others(step, row)));
      expect(values.mi_seq_margin).toBeCloseTo(mean(margins), 11);
      expect(values.mi_seq_margin_rows_left_out).toBe(0);
    }
  });

  it('leaves out rows that are impossible under another prompt, counted and in a note', async () => {
    const step = stepOf(4, 12, 3, 6);
    (step.sums[2] as number[])[3] = -Infinity;
    (step.sums[5] as number[])[0] = -Infinity;
    const { values, notes, rows, certainty } = await measure(step);
    const kept = rowsOf(step).filter((row) => row !== 2 && row !== 5);
    const margins = kept.map((row) => scoreOf(step, row) - mean(others(step, row)));
    expect(values.mi_seq_margin).toBeCloseTo(mean(margins), 12);
    expect(values.mi_seq_margin_rows_left_out).toBe(2);
    expect(notes).toContainEqual(expect.stringMatching(/mi_seq_margin leaves out 2 of 12 rows/));
    expect(rows.nonFinite).toEqual([]);
    expect(certainty.mi_seq_margin?.batch).toMatchObject({ low: expect.any(Number) });
  });

  it('is absent where no row is left, and where there is no other prompt', async () => {
    const step = stepOf(4, 8, 3, 7);
    for (const [row, scores] of step.sums.entries()) scores[((step.own[row] as number) + 1) % 4] = -Infinity;
    const { values, absent } = await measure(step);
    expect(values).not.toHaveProperty('mi_seq_margin');
    expect(values.mi_seq_margin_rows_left_out).toBe(8);
    expect(absent.mi_seq_margin).toMatch(/every row is impossible/);
    const alike = await measure({ ...stepOf(2, 8, 3, 8), prompts: [7, 7] });
    expect(alike.absent.mi_seq_margin).toMatch(/no other/);
    expect(alike.absent.mi_seq_margin_rows_left_out).toMatch(/no other/);
    expect(Object.keys(alike.values)).not.toContainEqual(expect.stringMatching(/mi_seq_at/));
  });
});
