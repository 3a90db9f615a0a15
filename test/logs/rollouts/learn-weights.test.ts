// Weights of rewards from advantages, held against weights that were drawn, through TRL's own formulas in float32.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type AdvantageRows,
  type Learned,
  learnWeights,
  possibleGroupSizes,
} from '../../../src/logs/rollouts/rewards/learn-weights.js';
import { uniformNumbers } from '../../support/random-numbers.js';
import { advantages, columnOf, count, type Model } from './trl-tables.js';

const { fround } = Math;

function rowsOf(
  columns: Record<string, Float64Array>,
  weights: Record<string, number>,
  size: number,
  model: Model,
  sizes: readonly number[] = [size],
): AdvantageRows {
  const names = Object.keys(weights);
  const advantage = advantages(
    names.map((name) => columns[name] as Float64Array),
    names.map((name) => weights[name] as number),
    size,
    model,
  );
  return { advantage, columns: new Map(Object.entries(columns)), groupSizes: sizes };
}

function weightsIn(learned: Learned): Record<string, number> {
  if (learned.kind !== 'weights') throw new Error(JSON.stringify(learned));
  return Object.fromEntries(learned.weights);
}

const drawn = fc.record({
  seed: fc.integer({ min: 1, max: 2 ** 30 }),
  size: fc.constantFrom(4, 6, 8, 16),
  groups: fc.integer({ min: 6, max: 16 }),
  kinds: fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 4 }),
  weights: fc.array(fc.double({ min: 0.05, max: 3, noNaN: true }), { minLength: 4, maxLength: 4 }),
  signs: fc.array(fc.constantFrom(1, 1, -1), { minLength: 4, maxLength: 4 }),
});

describe('weights of rewards', () => {
  it.each(['group', 'batch', 'none', 'normalized'] as const)('are those that were drawn: %s', (model) => {
    let worst = 0;
    fc.assert(
      fc.property(drawn, ({ seed, size, groups, kinds, weights: sizes, signs }) => {
        const uniform = uniformNumbers(seed);
        const rows = size * groups;
        const weights = Object.fromEntries(
          kinds.map((_, at) => [`r${at}`, (sizes[at] as number) * (signs[at] as number)]),
        );
        const steps = [1, 2].map(() => {
          const parts = kinds.map((kind, at) => [`r${at}`, columnOf(kind, rows, uniform)]);
          const epoch = new Float64Array(rows).fill(0.25);
          const columns = { tokens: count(rows, uniform), ...Object.fromEntries(parts), epoch };
          return rowsOf(columns, weights, size, model);
        });
        const learned = learnWeights(steps);
        const found = weightsIn(learned);
        expect(Object.keys(found).sort()).toEqual(Object.keys(weights).sort());
        expect(learned).toMatchObject({ constant: ['epoch'], groupSize: size });
        if (kinds.length > 1 || model === 'none') expect(learned).toMatchObject({ model });
        const most = model === 'none' ? 1 : Math.max(...Object.values(weights).map(Math.abs));
        for (const [name, weight] of Object.entries(weights)) {
          worst = Math.max(worst, Math.abs((found[name] as number) - weight / most));
        }
      }),
      // A drawn weight may be close to a short decimal by chance, which is taken for it.
      { numRuns: 150, seed: 11 },
    );
    expect(worst).toBeLessThan(1e-6);
  });

  it('are written as they were, where they are short decimals', () => {
    const uniform = uniformNumbers(5);
    const parts = [1, 2].map(() => ({
      correct: columnOf(0, 64, uniform),
      shape: columnOf(1, 64, uniform),
      tokens: count(64, uniform),
    }));
    const of = (model: Model, times = 1) =>
      learnWeights(
        parts.map((columns) => {
          const { advantage, ...rest } = rowsOf(columns, { correct: 2, shape: 0.2 }, 8, model);
          return { ...rest, advantage: advantage.map((value) => fround(value * times)) };
        }),
      );
    expect(weightsIn(of('group'))).toEqual({ correct: 1, shape: 0.1 });
    expect(weightsIn(of('batch'))).toEqual({ correct: 1, shape: 0.1 });
    expect(weightsIn(of('none'))).toEqual({ correct: 2, shape: 0.2 });
    expect(weightsIn(of('normalized'))).toEqual({ correct: 1, shape: 0.1 });
    // RLOO takes the mean of the others: n / (n − 1) times as much.
    expect(weightsIn(of('none', 8 / 7))).toEqual({ correct: 2, shape: 0.2 });
  });

  it('are told by groups of rows, not by prompts: one may come twice in a row', () => {
    const uniform = uniformNumbers(6);
    const columns = { a: columnOf(1, 48, uniform), b: columnOf(0, 48, uniform) };
    const prompts = Array.from({ length: 48 }, (_, row) => Math.floor(row / 16));
    expect(possibleGroupSizes(prompts)).toEqual([16, 8, 4, 2]);
    expect(possibleGroupSizes(prompts.map((prompt, row) => (row < 8 ? 9 : prompt)))).toEqual([8, 4, 2]);
    expect(possibleGroupSizes(Array.from({ length: 6 }, (_, row) => row))).toEqual([6, 3, 2]);
    for (const model of ['group', 'batch', 'none', 'normalized'] as const) {
      const learned = learnWeights([rowsOf(columns, { a: 1, b: 0.5 }, 8, model, possibleGroupSizes(prompts))]);
      expect(learned).toMatchObject({ kind: 'weights', groupSize: 8, model });
      expect(weightsIn(learned)).toEqual({ a: 1, b: 0.5 });
    }
  });

  it('of columns that say the same are not chosen, and those columns are named', () => {
    const uniform = uniformNumbers(7);
    const [a, b] = [columnOf(1, 64, uniform), columnOf(0, 64, uniform)];
    const twice = { a, b, copy: a.map((value) => fround(3 * value)), tokens: count(64, uniform) };
    for (const model of ['group', 'batch', 'none'] as const) {
      expect(learnWeights([rowsOf(twice, { a: 1, b: 0.5 }, 8, model)])).toEqual({
        kind: 'collinear',
        columns: ['a', 'copy'],
      });
    }
    // Counts that say the same are no rewards: nothing is to be chosen.
    const tokens = count(64, uniform);
    const counts = { a, b, tokens, characters: tokens.map((value) => 4 * value) };
    expect(weightsIn(learnWeights([rowsOf(counts, { a: 1, b: 0.5 }, 8, 'group')]))).toEqual({ a: 1, b: 0.5 });
  });

  it('are not made up: nothing fits advantages of something else, and two rows a group say too little', () => {
    const uniform = uniformNumbers(8);
    const columns = { a: columnOf(1, 64, uniform), b: columnOf(2, 64, uniform), tokens: count(64, uniform) };
    const rows = rowsOf(columns, { a: 1, b: 0.5 }, 8, 'group');
    const noisy = rows.advantage.map((value) => value + 1e-3 * uniform());
    expect(learnWeights([{ ...rows, advantage: noisy }])).toMatchObject({ kind: 'unknown', mayNeedMore: false });
    expect(learnWeights([{ ...rows, advantage: new Float64Array(64) }])).toMatchObject({ mayNeedMore: true });
    expect(learnWeights([rowsOf(columns, { a: 1, b: 0.5 }, 2, 'group')])).toMatchObject({ kind: 'unknown' });
    expect(weightsIn(learnWeights([rowsOf(columns, { a: 1, b: 0.5 }, 2, 'none')]))).toEqual({ a: 1, b: 0.5 });
    expect(learnWeights([{ ...rows, groupSizes: [] }])).toMatchObject({ kind: 'unknown' });
    expect(learnWeights([{ ...rows, columns: new Map() }])).toMatchObject({ kind: 'unknown' });
  });

  it('leave out rows that nothing scores, and groups whose advantages are all 0', () => {
    const uniform = uniformNumbers(9);
    const [a, b] = [columnOf(1, 64, uniform), columnOf(0, 64, uniform)];
    for (const row of [1, 9, 10]) for (const column of [a, b]) column[row] = Number.NaN;
    a.fill(0.5, 16, 24);
    b.fill(1, 16, 24);
    const columns = { a, b, tokens: count(64, uniform) };
    for (const model of ['group', 'batch', 'none', 'normalized'] as const) {
      expect(weightsIn(learnWeights([rowsOf(columns, { a: 1, b: -0.25 }, 8, model)]))).toEqual({ a: 1, b: -0.25 });
    }
  });
});
