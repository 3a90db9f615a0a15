// What must hold for every batch: order, shift, scale, value, rows and turns do not change what they must not.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { filterGate } from '../../src/filter/filter-gate.js';
import { filterGroups } from '../../src/filter/filter-groups.js';
import type { FilterOptions } from '../../src/filter/input/filter-options.js';
import {
  dialect,
  direction,
  evenBatch,
  numbersFrom,
  raggedBatch,
  rewardMetric,
  strategy,
} from './filter-arbitraries.js';

const strictOptions = fc.record({
  how: strategy,
  metric: rewardMetric,
  direction,
  includeZero: fc.boolean(),
  topPMode: fc.constantFrom('linear', 'softmax'),
}) as fc.Arbitrary<{ how: { strategy: 'top_p'; value: number } } & Omit<FilterOptions, 'strategy' | 'value'>>;

const flattened = ({ how, ...rest }: { how: Pick<FilterOptions, 'strategy' | 'value'> } & FilterOptions) => ({
  ...how,
  ...rest,
});

/** An option set that `dialect` has. */
const anyOptions = fc.record({ dialect, how: strategy, direction }).map(({ dialect: name, how, direction: way }) => {
  const { strategy: chosen, value } = how;
  if (name !== 'upstream') return { dialect: name, strategy: chosen, value, direction: way } as FilterOptions;
  const counts = chosen === 'top_k' || chosen === 'top_k_abs';
  return {
    dialect: name,
    strategy: counts ? 'top_k' : 'top_p',
    value: counts ? 2 : Math.max(0.1, value),
  } as FilterOptions;
});

describe('permuting groups permutes the result', () => {
  it('every dialect, where no tie meets the cut', () => {
    fc.assert(
      fc.property(evenBatch, anyOptions, fc.nat(), (rewards, options, seed) => {
        const next = numbersFrom(seed);
        const order = rewards.map((_, group) => group);
        for (let at = order.length - 1; at > 0; at--) {
          const other = next() % (at + 1);
          [order[at], order[other]] = [order[other] as number, order[at] as number];
        }
        const before = filterGroups({ rewards }, options);
        const after = filterGroups({ rewards: order.map((group) => rewards[group] as number[]) }, options);
        expect([...after.scores].map((score) => Object.is(score, Number.NaN))).not.toContain(true);
        const scoresBefore = before.kept.map((group) => before.scores[group] as number).sort((a, b) => a - b);
        const scoresAfter = after.kept.map((group) => after.scores[group] as number).sort((a, b) => a - b);
        if (options.dialect === 'ragen') {
          // The float32 sum behind its threshold depends on the order of groups by its last bits.
          expect(Math.abs(scoresAfter.length - scoresBefore.length)).toBeLessThanOrEqual(1);
          return;
        }
        // Scores that only rounding tells apart are ties, and which of them is first changes with the order.
        expect(scoresAfter).toHaveLength(scoresBefore.length);
        for (const [at, score] of scoresBefore.entries()) expect(scoresAfter[at]).toBeCloseTo(score, 9);
        const sorted = [...before.scores].sort((a, b) => a - b);
        const areDistinct = sorted.every((score, at) => at === 0 || score - (sorted[at - 1] as number) > 1e-9);
        if (areDistinct) {
          expect(after.kept.map((group) => order[group] as number).sort((a, b) => a - b)).toEqual(before.kept);
        }
      }),
    );
  });
});

describe('strict', () => {
  it('keeps the same groups whatever is added to rewards and whatever they are multiplied with', () => {
    const change = fc.record({
      shift: fc.integer({ min: -4000, max: 4000 }),
      scale: fc.double({ min: 1e-3, max: 1e3, noNaN: true }),
    });
    fc.assert(
      fc.property(raggedBatch, strictOptions, change, (rewards, drawn, { shift, scale }) => {
        const options = flattened(drawn);
        const { kept } = filterGroups({ rewards }, options);
        const moved = rewards.map((group) => group.map((reward) => reward + shift));
        expect(filterGroups({ rewards: moved }, options).kept).toEqual(kept);
        const scaled = rewards.map((group) => group.map((reward) => reward * scale));
        expect(filterGroups({ rewards: scaled }, options).kept).toEqual(kept);
        const both = rewards.map((group) => group.map((reward) => reward * scale + shift / 7));
        expect(filterGroups({ rewards: both }, options).kept).toEqual(kept);
      }),
      { numRuns: 400 },
    );
  });

  it.each([1e-320, 1e-160, 1e-30, 1e30, 1e90])('holds at the scale of %d too', (scale) => {
    const rewards = [
      [0, 1, 1],
      [0, 0.1, 0],
      [1, 1, 1],
      [3, 0, 0],
    ];
    const scaled = rewards.map((group) => group.map((reward) => reward * scale));
    for (const value of [0.1, 0.5, 0.9, 0.99]) {
      const result = filterGroups({ rewards: scaled }, { value });
      expect(result.kept).toEqual(filterGroups({ rewards }, { value }).kept);
      expect(Object.values(result.metrics).filter((metric) => !Number.isFinite(metric))).toEqual([]);
    }
  });

  it('is top_p by its definition: the fewest best groups whose variances reach the value', () => {
    fc.assert(
      fc.property(evenBatch, fc.double({ min: 0.05, max: 0.999, noNaN: true }), (rewards, value) => {
        const variances = rewards.map((group) => {
          const mean = group.reduce((sum, reward) => sum + reward, 0) / group.length;
          return group.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / (group.length - 1);
        });
        const total = variances.reduce((sum, variance) => sum + variance, 0);
        fc.pre(total > 1e-12);
        const { kept, scores } = filterGroups({ rewards }, { value });
        for (const [group, variance] of variances.entries()) expect(scores[group]).toBeCloseTo(variance, 9);
        const mass = kept.reduce((sum, group) => sum + (variances[group] as number), 0);
        expect(mass).toBeGreaterThanOrEqual((value - 1e-8) * total);
        const least = Math.min(...kept.map((group) => variances[group] as number));
        // Without its least group it falls short, and no dropped group is better than a kept one.
        expect(mass - least).toBeLessThan((value + 1e-8) * total);
        for (const [group, variance] of variances.entries()) {
          if (!kept.includes(group)) expect(variance).toBeLessThanOrEqual(least * (1 + 1e-6));
        }
      }),
    );
  });
});

describe('kept sets grow with value', () => {
  const growing = fc.record({
    dialect: fc.constantFrom('strict', 'paper', 'ragen'),
    strategy: fc.constantFrom('top_p', 'top_k', 'top_k_abs'),
    topPMode: fc.constantFrom('linear', 'softmax'),
    direction,
  }) as fc.Arbitrary<FilterOptions>;

  it('for shares and counts', () => {
    const values = fc.tuple(
      fc.double({ min: 0.01, max: 1, noNaN: true }),
      fc.double({ min: 0.01, max: 1, noNaN: true }),
    );
    fc.assert(
      fc.property(raggedBatch, growing, values, (rewards, options, [a, b]) => {
        const [less, more] = [Math.min(a, b), Math.max(a, b)].map((share) =>
          options.strategy === 'top_k_abs' ? Math.ceil(share * 12) : share,
        ) as [number, number];
        const small = filterGroups({ rewards }, { ...options, value: less });
        const large = filterGroups({ rewards }, { ...options, value: more });
        // The reference keeps nothing at all where it does not reach its threshold.
        if (options.dialect === 'ragen' && large.empty) return;
        expect(large.kept).toEqual(expect.arrayContaining(small.kept));
      }),
      { numRuns: 300 },
    );
  });

  it('min_p asks for more with a higher value: its kept sets shrink', () => {
    fc.assert(
      fc.property(raggedBatch, direction, fc.double({ min: 0, max: 0.9, noNaN: true }), (rewards, way, value) => {
        const options = { strategy: 'min_p', direction: way } as const;
        const large = filterGroups({ rewards }, { ...options, value });
        const small = filterGroups({ rewards }, { ...options, value: value + 0.1 });
        expect(large.kept).toEqual(expect.arrayContaining(small.kept));
      }),
    );
  });
});

describe('rows', () => {
  it('the mask has 1 where the group is kept, kept and dropped are all groups in input order', () => {
    fc.assert(
      fc.property(raggedBatch, anyOptions, (rewards, options) => {
        const { kept, dropped, rowMask, lossScale, empty, metrics } = filterGroups({ rewards }, options);
        expect([...rowMask]).toEqual(rewards.flatMap((group, at) => group.map(() => (kept.includes(at) ? 1 : 0))));
        expect([...kept, ...dropped.map(({ group }) => group)].sort((a, b) => a - b)).toEqual(
          rewards.map((_, at) => at),
        );
        expect(kept).toEqual([...kept].sort((a, b) => a - b));
        expect(empty).toBe(kept.length === 0);
        expect(lossScale).toBeGreaterThanOrEqual(0);
        expect(Object.values(metrics).filter((value) => !Number.isFinite(value))).toEqual([]);
      }),
    );
  });

  it('rows in any order, and a flat matrix, give what groups give', () => {
    fc.assert(
      fc.property(evenBatch, anyOptions, fc.nat(), (rewards, options, seed) => {
        const next = numbersFrom(seed);
        const wanted = filterGroups({ rewards }, options);
        const size = (rewards[0] as number[]).length;
        const flat = filterGroups({ rewards: { values: rewards.flat(), groupSize: size } }, options);
        expect(flat).toEqual(wanted);
        // Deal the rows out in turns, so that groups are interleaved; a group's own rows keep their order.
        const queues = rewards.map((group, at) => ({ id: 100 + 7 * at, left: [...group] }));
        const values: number[] = [];
        const groups: number[] = [];
        for (const { id, left } of queues) {
          values.push(left.shift() as number);
          groups.push(id);
        }
        for (let open = queues; open.length > 0; open = open.filter(({ left }) => left.length > 0)) {
          const { id, left } = open[next() % open.length] as (typeof queues)[number];
          if (left.length === 0) continue;
          values.push(left.shift() as number);
          groups.push(id);
        }
        const rows = filterGroups(
          { rewards: { values: Float64Array.from(values), groups: Int32Array.from(groups) } },
          options,
        );
        expect(rows.kept).toEqual(wanted.kept.map((group) => 100 + 7 * group));
        expect([...rows.scores]).toEqual([...wanted.scores]);
        expect(rows.metrics).toEqual(wanted.metrics);
        expect([...rows.rowMask]).toEqual(groups.map((id) => (rows.kept.includes(id) ? 1 : 0)));
      }),
    );
  });

  it('turn-level rows give the groups of episode-level ones, however many turns an episode has', () => {
    fc.assert(
      fc.property(raggedBatch, anyOptions, fc.nat(), (rewards, options, seed) => {
        const next = numbersFrom(seed);
        const wanted = filterGroups({ rewards }, options);
        const values: number[] = [];
        const groups: number[] = [];
        const episodes: number[] = [];
        const turns: number[] = [];
        for (const [group, rollouts] of rewards.entries()) {
          for (const [episode, reward] of rollouts.entries()) {
            const length = 1 + (next() % 5);
            for (let turn = 0; turn < length; turn++) {
              values.push(reward);
              groups.push(group);
              episodes.push(episode);
              turns.push(turn);
            }
          }
        }
        const found = filterGroups({ rewards: { values, groups, episodes, turns } }, options);
        expect(found.kept).toEqual(wanted.kept);
        expect(found.metrics).toEqual(wanted.metrics);
        expect([...found.rowMask]).toEqual(groups.map((group) => (wanted.kept.includes(group) ? 1 : 0)));
      }),
    );
  });
});

describe('filterGate', () => {
  it('is Std/Mean of the variances, at any scale', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0, max: 5, noNaN: true }), { minLength: 2, maxLength: 20 }),
        fc.double({ min: 1e-6, max: 1e6, noNaN: true }),
        (variances, scale) => {
          const mean = variances.reduce((sum, value) => sum + value, 0) / variances.length;
          fc.pre(mean > 1e-6);
          const std = Math.sqrt(variances.reduce((sum, value) => sum + (value - mean) ** 2, 0) / variances.length);
          expect(filterGate(variances).ratio).toBeCloseTo(std / mean, 9);
          expect(filterGate(variances.map((value) => value * scale)).ratio).toBeCloseTo(std / mean, 9);
        },
      ),
    );
  });
});
