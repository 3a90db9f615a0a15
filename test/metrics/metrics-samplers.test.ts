// The three samplers: exact numbers, the stated probabilities, seeded; and what crossScoreMetrics makes of their draws.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { effectiveSize, firstTurnRows, sampleRows } from '../../src/exports/sampling.js';
import { type CrossScores, crossScoreMetrics, type Engine, openEngine, type SamplerKind } from '../../src/index.js';
import { uniformNumbers } from '../support/random-numbers.js';

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
          expect(trajectoryDraws.length).toBe(n); // trajectories without a usable turn lose no draw (docs/reference/metrics.md)
          expect([...turnDraws, ...trajectoryDraws].some((row) => bad.includes(row))).toBe(false);
        },
      ),
    );
  });

  it('loses draws on trajectories without a usable turn under ragen, as the reference does', () => {
    const usable = (row: number) => row > 4; // two rows, of one trajectory of three
    let kept = 0;
    for (let seed = 0; seed < 600; seed++) {
      const rows = sampleRows(episodes, turns, { kind: 'trajectory', n: 2, seed }, usable, 'ragen');
      expect([...rows].every(usable)).toBe(true);
      kept += rows.length;
    }
    // Five standard deviations of a binomial count.
    expect(Math.abs(kept - 1200 / 3)).toBeLessThan(5 * Math.sqrt(1200 * (1 / 3) * (2 / 3)));
    expect([...sampleRows(episodes, turns, { kind: 'trajectory' }, () => false, 'ragen')]).toEqual([]);
  });

  it('draws as many as asked for, or as there are turns, under either profile', () => {
    for (const profile of ['strict', 'ragen'] as const) {
      expect(sampleRows(episodes, turns, { kind: 'trajectory', n: 3 }, all, profile)).toHaveLength(3);
      expect(sampleRows(episodes, turns, { kind: 'trajectory' }, all, profile)).toHaveLength(episodes.length);
    }
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

  it('is saturated where every draw tells its prompt, however unevenly prompts are drawn', async () => {
    // Twelve turns under one prompt and three under one each: .72 nats is all they can tell, not nine tenths of ln 4.
    const groups = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3];
    const sums = Float64Array.from(groups.flatMap((own) => [0, 1, 2, 3].map((p) => (p === own ? -1 : -500))));
    const uneven: CrossScores = {
      sums: { data: sums, dtype: 'float64', shape: [15, 4] },
      lengths: Array(15).fill(5),
      groups,
      episodes: groups.map((_, row) => row),
      turns: Array(15).fill(0),
    };
    const { values } = await crossScoreMetrics(engine, uneven, { sampler: { kind: 'turn' } });
    expect(values.mi_seq_estimate).toBeCloseTo((12 * Math.log(15 / 12) + 3 * Math.log(15)) / 15, 12);
    expect(values.mi_saturated).toBe(1);
  });

  it.each(['first_turn', 'trajectory', 'turn'] as const)('%s alone is the sampler with its defaults', async (kind) => {
    const spelled = await crossScoreMetrics(engine, step, { sampler: { kind } });
    expect(await crossScoreMetrics(engine, step, { sampler: kind })).toEqual(spelled);
    expect(spelled.label).toBe(`collapse_${kind}_sample`);
  });

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

  /**
   * Seven turns, listed so that the first is not of the lowest group, and nearly the same score for each under every
   * prompt.
   */
  const groups = [30, 30, 10, 20, 20, 20, 10];
  const alike: CrossScores = {
    sums: { data: Float64Array.from({ length: 21 }, (_, at) => -6 - 1e-9 * (at % 3)), dtype: 'float64', shape: [7, 3] },
    lengths: Array(7).fill(4),
    groups,
    episodes: [0, 1, 2, 3, 4, 5, 6],
    turns: Array(7).fill(0),
  };

  it('asks retrieval of each prompt once, however often it was drawn', async () => {
    for (const kind of ['turn', 'trajectory'] as const) {
      const found = await crossScoreMetrics(engine, alike, { sampler: { kind, n: 21, seed: 2 }, perRow: true });
      const drawn = Array.from(found.perRow?.row ?? [], (row) => groups[row]);
      expect(found.values.sample_prompts).toBe(3);
      expect(found.values.posterior_entropy_mean).toBeCloseTo(Math.log(3), 12);
      expect(found.values.retrieval_chance_level).toBeCloseTo(1 / 3, 12);
      expect(found.values['retrieval_chance_exact@2']).toBeCloseTo(2 / 3, 12);
      // The best columns are the lower ones: those of groups 10 and 20.
      const share = (best: number[]) => drawn.filter((group) => best.includes(group as number)).length / drawn.length;
      expect(found.values.retrieval_accuracy).toBeCloseTo(share([10]), 12);
      expect(found.values['retrieval_accuracy@2']).toBeCloseTo(share([10, 20]), 12);
      expect(found.certainty['retrieval_accuracy@2']?.pValue).toBe(1);
      expect(found.absent['retrieval_accuracy@4']).toMatch(/top 4 of 3 columns/);
    }
  });

  it('weighs a prompt in the marginal as often as it was drawn', async () => {
    const data = Float64Array.from({ length: 21 }, (_, at) => -((at * 7) % 5) - 1);
    const scores: CrossScores = { ...alike, sums: { data, dtype: 'float64', shape: [7, 3] } };
    const { values } = await crossScoreMetrics(engine, scores, { sampler: { kind: 'turn' } });
    const excess = groups.map((group, row) => {
      const [ten, twenty, thirty] = [...data.subarray(3 * row, 3 * row + 3)].map(Math.exp) as [number, number, number];
      const matched = Math.log({ 10: ten, 20: twenty, 30: thirty }[group] as number);
      return matched - Math.log((2 * ten + 3 * twenty + 2 * thirty) / 7);
    });
    expect(values.mi_seq_estimate).toBeCloseTo(excess.reduce((sum, value) => sum + value, 0) / 7, 12);
  });

  it('takes draws of a prompt for one prompt in intervals', async () => {
    const rows = 12;
    const data = Float64Array.from(
      { length: rows * 3 },
      (_, at) => -((at * 7) % 11) / 3 - (at % 3 === (at / 3) % 3 ? 0 : 2),
    );
    const scores: CrossScores = {
      sums: { data, dtype: 'float64', shape: [rows, 3] },
      lengths: Array(rows).fill(4),
      groups: Array.from({ length: rows }, (_, row) => row % 3),
      episodes: Array.from({ length: rows }, (_, row) => row),
      turns: Array(rows).fill(0),
    };
    // Each prompt is drawn four times: the marginal is that of the step without a sampler, and so is all else.
    const plain = await crossScoreMetrics(engine, scores, {});
    const drawn = await crossScoreMetrics(engine, scores, { sampler: { kind: 'turn' } });
    for (const [key, { batch, population }] of Object.entries(plain.certainty)) {
      const same = drawn.certainty[key];
      for (const [one, other] of [
        [batch, same?.batch],
        [population, same?.population],
      ]) {
        // Some figures have an interval for these very prompts alone.
        if (one === population && 'absent' in population) {
          expect([key, other]).toEqual([expect.stringMatching(/^mi_seq_(at_2|margin)$/), population]);
          continue;
        }
        if (one === undefined || !('low' in one)) throw new Error(`${key} has no interval`);
        expect(other).toMatchObject({ low: expect.closeTo(one.low, 10), high: expect.closeTo(one.high, 10) });
      }
    }
    // Of two prompts there is no population interval, and nothing exceeds ln 2.
    const two = {
      ...scores,
      groups: Array.from({ length: rows }, (_, row) => Math.min(row % 3, 1)),
      columnGroups: [0, 1, 2],
    };
    const { certainty } = await crossScoreMetrics(engine, two, {
      sampler: { kind: 'trajectory', n: 40, seed: 3 },
    });
    expect(certainty.mi_seq_estimate?.population).toHaveProperty('absent');
    expect(certainty.mi_seq_estimate?.batch).toMatchObject({ high: expect.toSatisfy((high) => high <= Math.log(2)) });
  });

  /** A step whose rows ignore their prompts, or do not: trajectories of one turn. */
  const trajectories = (rows: number, prompts: number, uniform: () => number, own: number): CrossScores => ({
    sums: {
      data: Float64Array.from({ length: rows * prompts }, (_, at) => {
        const isOwn = at % prompts === Math.floor(at / prompts) % prompts;
        return -10 + uniform() + (isOwn ? own : 0);
      }),
      dtype: 'float64',
      shape: [rows, prompts],
    },
    lengths: Array(rows).fill(5),
    groups: Array.from({ length: rows }, (_, row) => row % prompts),
    episodes: Array.from({ length: rows }, (_, row) => row),
    turns: Array(rows).fill(0),
  });

  it('takes draws of a row for one row in intervals and p-values', async () => {
    const [rows, prompts] = [12, 4];
    const scores = trajectories(rows, prompts, uniformNumbers(3), 1);
    const sampler = { kind: 'trajectory', n: 40, seed: 5 } as const;
    const found = await crossScoreMetrics(engine, scores, { sampler, perRow: true });
    const drawn = [...new Set(found.perRow?.row)] as number[];
    expect(drawn.length).toBeLessThan(40);
    const { data } = scores.sums as { data: Float64Array };
    const once = await crossScoreMetrics(engine, {
      sums: {
        data: Float64Array.from(drawn.flatMap((row) => [...data.subarray(row * prompts, (row + 1) * prompts)])),
        dtype: 'float64',
        shape: [drawn.length, prompts],
      },
      lengths: drawn.map(() => 5),
      groups: drawn.map((row) => row % prompts),
    });
    const widening = Math.sqrt(drawn.length / (found.values.sample_effective_size as number));
    expect(widening).toBeGreaterThan(1.05);
    for (const key of ['mi_seq_estimate', 'mi_seq_loo_estimate', 'mi_per_token', 'mi_estimate', 'retrieval_accuracy']) {
      const [of, from] = [found, once].map(({ values, certainty }) => ({ value: values[key], ...certainty[key] }));
      expect(of?.pValue).toBe(from?.pValue);
      for (const kind of ['batch', 'population'] as const) {
        const [moved, plain] = [of?.[kind], from?.[kind]];
        if (!moved || !plain || !('low' in moved) || !('low' in plain)) throw new Error(`${key} has no interval`);
        const [to, at] = [of?.value as number, from?.value as number];
        const most = { mi_seq_estimate: Math.log(prompts), mi_estimate: Math.log(prompts), retrieval_accuracy: 1 }[key];
        expect(moved.low, key).toBeCloseTo(
          Math.max(to - widening * (at - plain.low), key.startsWith('r') ? 0 : -1e9),
          10,
        );
        expect(moved.high, key).toBeCloseTo(Math.min(to + widening * (plain.high - at), most ?? 1e9), 10);
        expect(moved.error, key).toBeCloseTo(widening * plain.error, 10);
      }
    }
  });

  it('gives p-values that are right where rows are drawn again and again', async () => {
    const uniform = uniformNumbers(77);
    let low = 0;
    for (let seed = 0; seed < 1000; seed++) {
      const scores = trajectories(32, 8, uniform, 0);
      const sampler = { kind: 'trajectory', n: 64, seed } as const;
      const { certainty } = await crossScoreMetrics(engine, scores, { sampler, seed, permutations: 99 });
      low += (certainty.mi_seq_estimate?.pValue as number) <= 0.05 ? 1 : 0;
    }
    expect(low).toBeLessThan(72); // 50 expected, 3.2 standard deviations; 180 where each draw counted
  });

  it('draws of one prompt alone give no metrics, but for ragen', async () => {
    const one: CrossScores = {
      ...alike,
      sums: { data: new Float64Array(7).fill(-6), dtype: 'float64', shape: [7, 1] },
      groups: Array(7).fill(3),
    };
    const sampler = { kind: 'turn' } as const;
    const found = await crossScoreMetrics(engine, one, { sampler });
    expect(found.values).toEqual({});
    expect(found.absent.mi_seq_estimate).toBe('MI and retrieval need at least 2 prompts; this step has 1');
    const ragen = await crossScoreMetrics(engine, one, { sampler, profile: 'ragen' });
    expect(ragen.values.mi_upper_bound).toBeCloseTo(Math.log(7), 12);
    // A second prompt that no row was sampled from is there, and no part of a sample.
    const beside: CrossScores = {
      ...one,
      sums: { data: new Float64Array(14).fill(-6), dtype: 'float64', shape: [7, 2] },
      columnGroups: [3, 4],
    };
    expect((await crossScoreMetrics(engine, beside, { sampler })).absent.mi_seq_estimate).toBe(
      'MI and retrieval need at least 2 prompts; of the 2 of this step, the rows that are measured cover 1',
    );
  });

  it('ragen calls each draw its own prompt', async () => {
    const options = { profile: 'ragen', sampler: { kind: 'trajectory', n: 7, seed: 1 } } as const;
    const found = await crossScoreMetrics(engine, step, options);
    expect(found.values.mi_upper_bound).toBeCloseTo(Math.log(7), 12);
    expect(found.columns).toEqual({ total: 7, distinct: 3 });
  });

  it('ragen draws no more trajectories than there are turns, as the reference does', async () => {
    const options = { profile: 'ragen', sampler: { kind: 'trajectory', n: 64, seed: 1 } } as const;
    const found = await crossScoreMetrics(engine, step, options);
    expect(found.rows.used).toBe(7);
    const sparse = await crossScoreMetrics(engine, { ...step, lengths: [0, 0, 0, 0, 4, 0, 0] }, options);
    expect(sparse.notes).toEqual(['every draw fell on a trajectory without reasoning tokens']);
    expect(found.values.mi_upper_bound).toBeCloseTo(Math.log(7), 12);
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
