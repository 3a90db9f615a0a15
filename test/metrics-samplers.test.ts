// The three samplers: exact numbers, the stated probabilities, seeded; and what crossScoreMetrics makes of their draws.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type CrossScores,
  crossScoreMetrics,
  type Engine,
  effectiveSize,
  firstTurnRows,
  openEngine,
  type SamplerKind,
  sampleRows,
} from '../src/index.js';

/** Trajectory 10 has turns 0..3 (rows 0-3), 20 has one (row 4), 30 has two, listed backwards (rows 6, 5). */
const episodes = [10, 10, 10, 10, 20, 30, 30];
const turns = [0, 1, 2, 3, 0, 1, 0];
const all = () => true;
const draw = (kind: SamplerKind, n: number, seed = 0, usable: (row: number) => boolean = all) => [
  ...sampleRows(episodes, turns, { kind, n, seed }, usable),
];

describe('samplers', () => {
  it('knows the first turn of each trajectory by its turn number', () => {
    expect(firstTurnRows(episodes, turns)).toEqual([0, 4, 6]);
    expect(draw('first_turn', 9)).toEqual([0, 4, 6]);
  });

  it('draws exactly n, without replacement where it says so, only usable rows', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 7 }),
        fc.nat(),
        fc.uniqueArray(fc.integer({ min: 0, max: 6 }), { maxLength: 5 }),
        (n, seed, bad) => {
          const usable = (row: number) => !bad.includes(row);
          const turnDraws = draw('turn', n, seed, usable);
          expect(turnDraws.length).toBe(Math.min(n, 7 - bad.length));
          expect(new Set(turnDraws).size).toBe(turnDraws.length);
          const trajectoryDraws = draw('trajectory', n, seed, usable);
          expect(trajectoryDraws.length).toBe(n); // trajectories without a usable turn lose no draw (metrics.md §3, repair 5)
          expect([...turnDraws, ...trajectoryDraws].some((row) => bad.includes(row))).toBe(false);
        },
      ),
    );
  });

  it('is uniform over trajectories, then over turns; or over turns', () => {
    const counts = new Array(7).fill(0);
    const n = 60_000;
    for (const row of draw('trajectory', n, 1)) counts[row]++;
    const wanted = [1 / 12, 1 / 12, 1 / 12, 1 / 12, 1 / 3, 1 / 6, 1 / 6];
    // Five standard deviations of a binomial count.
    wanted.forEach((p, row) => {
      expect(Math.abs(counts[row] - n * p)).toBeLessThan(5 * Math.sqrt(n * p * (1 - p)));
    });
    const picked = new Array(7).fill(0);
    for (let seed = 0; seed < 7000; seed++) picked[draw('turn', 1, seed)[0] as number]++;
    for (const count of picked) expect(Math.abs(count - 1000)).toBeLessThan(5 * Math.sqrt(1000 * (6 / 7)));
  });

  it('repeats with its seed and differs with another', () => {
    expect(draw('trajectory', 50, 3)).toEqual(draw('trajectory', 50, 3));
    expect(draw('trajectory', 50, 3)).not.toEqual(draw('trajectory', 50, 4));
    expect(draw('trajectory', 50, 2 ** 40)).not.toEqual(draw('trajectory', 50, 0));
  });

  it('counts how many rows the draws are worth', () => {
    expect(effectiveSize(Int32Array.of(1, 2, 3, 4))).toBe(4);
    expect(effectiveSize(Int32Array.of(1, 1, 1, 1))).toBe(1);
  });

  it('refuses bad options', () => {
    expect(() => draw('turn', 0)).toThrow(/sampler\.n/);
    expect(() => draw('turn', 1, -1)).toThrow(/sampler\.seed/);
    expect(() => draw('other' as SamplerKind, 1)).toThrow(/sampler\.kind/);
    expect(() => sampleRows([1], [1, 2], { kind: 'turn' }, all)).toThrow(/turns/);
  });
});

describe('metrics of a sample', () => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await openEngine();
  });
  afterAll(() => engine.dispose());

  /** Seven turns under three prompts (one a trajectory), each strongly its own. */
  const step: CrossScores = {
    sums: {
      data: Float64Array.from(episodes.flatMap((e) => [10, 20, 30].map((g) => (g === e ? -2 : -30)))),
      dtype: 'float64',
      shape: [7, 3],
    },
    lengths: Array(7).fill(4),
    groups: episodes,
    episodes,
    turns,
  };

  it('keeps groups: no more than ln(prompts drawn) is claimed, and the effective size is told', async () => {
    const found = await crossScoreMetrics(engine, step, { sampler: { kind: 'trajectory', n: 64, seed: 1 } });
    expect(found.label).toBe('collapse_trajectory_sample');
    expect(found.rows.used).toBe(64);
    expect(found.columns).toEqual({ total: 64, distinct: 3 });
    expect(found.values.mi_attainable_bound).toBeCloseTo(Math.log(3), 12);
    expect(found.values.mi_upper_bound).toBeCloseTo(Math.log(3), 12);
    expect(found.values.mi_seq_estimate).toBeLessThanOrEqual(Math.log(3) + 1e-9);
    expect(found.values.retrieval_accuracy).toBe(1);
    expect(found.values.sample_effective_size).toBeLessThan(8);
    expect(found.values.sample_prompts).toBe(3);
  });

  it('ragen calls each draw its own prompt', async () => {
    const options = { profile: 'ragen', sampler: { kind: 'trajectory', n: 64, seed: 1 } } as const;
    const found = await crossScoreMetrics(engine, step, options);
    expect(found.values.mi_upper_bound).toBeCloseTo(Math.log(64), 12);
    expect(found.columns).toEqual({ total: 64, distinct: 3 });
  });

  it('first turns only', async () => {
    const found = await crossScoreMetrics(engine, step, { sampler: { kind: 'first_turn' } });
    expect(found.rows.used).toBe(3);
    expect(found.logged['collapse/first_turn_num_total']).toBe(3);
  });

  it('needs to know episodes and turns', async () => {
    const { episodes: _, ...without } = step;
    await expect(crossScoreMetrics(engine, without, { sampler: { kind: 'turn' } })).rejects.toThrow(/episodes/);
  });
});
