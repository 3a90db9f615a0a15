// Which pairs a step wants scored: as sets say it, without a set of all of them.
import fc from 'fast-check';
import { expect, it, vi } from 'vitest';
import { Monitor } from '../../src/index.js';
import { sampleRows } from '../../src/metrics/sampling/samplers.js';

const KINDS = ['first_turn', 'trajectory', 'turn'] as const;

it('are those that any of the samplers draws, under the prompts of its rows', () => {
  const step = fc.record({
    groups: fc.array(fc.nat(4), { minLength: 2, maxLength: 25 }),
    kinds: fc.subarray([...KINDS], { minLength: 1 }),
    draws: fc.integer({ min: 1, max: 6 }),
    episodes: fc.integer({ min: 1, max: 6 }),
    empty: fc.nat(5),
  });
  fc.assert(
    fc.property(step, ({ groups, kinds, draws, episodes, empty }) => {
      const sampler = kinds.map((kind) => ({ kind, n: draws, seed: 3 }));
      const labels = {
        groups,
        lengths: groups.map((_, row) => (row % 6 === empty ? 0 : 5)),
        episodes: groups.map((_, row) => row % episodes),
        turns: groups.map((_, row) => row),
      };
      const ids = [...new Set(groups)].sort((a, b) => a - b);
      const wanted = new Set<string>();
      for (const one of sampler) {
        const rows = sampleRows(
          labels.episodes,
          labels.turns,
          { ...one, seed: 3 + 7 },
          (row) => labels.lengths[row] !== 0,
        );
        const prompts = new Set(Array.from(rows, (row) => ids.indexOf(groups[row] as number)));
        if (prompts.size > 1) for (const prompt of prompts) for (const row of rows) wanted.add(`${prompt}/${row}`);
      }
      const { rows, prompts, byPrompt } = new Monitor({ everySteps: 1, sampler }).step(7, labels).pairs();
      const order = Array.from(rows, (row, at) => [prompts[at] as number, row] as const);
      expect(order).toEqual([...order].sort(([p, r], [q, s]) => p - q || r - s));
      expect(new Set(order.map(([prompt, row]) => `${prompt}/${row}`))).toEqual(wanted);
      expect(rows).toHaveLength(wanted.size);
      expect(byPrompt.flatMap((own) => Array.from(own.rows, (row) => [own.prompt, row]))).toEqual(order);
      for (const own of byPrompt) expect(prompts[own.first]).toBe(own.prompt);
    }),
  );
});

it('of all rows under all prompts are no members of a set each', () => {
  const [PROMPTS, ROWS] = [64, 32_768];
  const groups = Int32Array.from({ length: ROWS }, (_, row) => row % PROMPTS);
  const add = vi.spyOn(Set.prototype, 'add');
  const step = new Monitor({ everySteps: 1 }).step(1, { groups, lengths: new Int32Array(ROWS).fill(9) });
  const added = add.mock.calls.length;
  add.mockRestore();
  expect(step.pairs().rows).toHaveLength(PROMPTS * ROWS);
  expect(added).toBeLessThan(4 * ROWS);
});
