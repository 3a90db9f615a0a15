// The `strict` profile against a plain float64 reference, and the promises that go beyond it.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { estimateFromPairs, planScores } from '../../src/exports/sampling.js';
import {
  type CrossScores,
  crossScoreMetrics,
  type Engine,
  openEngine,
  type StepMetrics,
  type Tensor,
} from '../../src/index.js';
import { intervalOf, isOfProfile } from '../../src/metrics/figures/derived.js';
import { SCORE_FIGURES } from '../../src/metrics/figures/score-figures.js';
import { RunningState } from '../../src/metrics/reporting/running-state.js';
import { type ReferenceStep, referenceMetrics } from '../support/metrics-reference.js';
import { uniformNumbers } from '../support/random-numbers.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine();
});
afterAll(() => engine.dispose());

/** A step in the plain form of the reference; scores[r][p][t]. */
interface Plain extends ReferenceStep {
  scores: number[][][];
  tokens: number;
}

/** Random steps: uneven groups, duplicate prompts, empty rows, saturated and collapsed ones. */
const steps = fc
  .record({
    P: fc.integer({ min: 2, max: 12 }),
    R: fc.integer({ min: 1, max: 24 }),
    T: fc.integer({ min: 1, max: 40 }),
    kinds: fc.integer({ min: 1, max: 12 }),
    match: fc.constantFrom(0, 0.5, 30),
    emptyShare: fc.constantFrom(0, 0.3),
    seed: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
  })
  .map(({ P, R, T, kinds, match, emptyShare, seed }): Plain => {
    const uniform = uniformNumbers(seed);
    const own = Array.from({ length: R }, (): number => Math.floor(uniform() * P));
    const lengths = Array.from({ length: R }, (): number =>
      uniform() < emptyShare ? 0 : 1 + Math.floor(uniform() * T),
    );
    if (!lengths.some((length) => length > 0)) lengths[0] = 1;
    const prompts = Array.from({ length: P }, () => String(Math.floor(uniform() * kinds)));
    const scores = own.map((o) =>
      Array.from({ length: P }, (_, p) =>
        Array.from({ length: T }, () =>
          Math.fround(-3 * uniform() - (prompts[p] === prompts[o] ? 0 : match * uniform())),
        ),
      ),
    );
    return { own, lengths, prompts, scores, tokens: T };
  });

type Interval = StepMetrics['certainty'][string]['batch'];

/** Equal but for rounding, of which a ratio of small differences may leave some 1e-8. */
function expectSameInterval(found: Interval | undefined, expected: Interval, what: string): void {
  if (found === undefined || 'absent' in expected || 'absent' in found) {
    expect(found, what).toEqual(expected);
    return;
  }
  for (const side of ['low', 'high'] as const) {
    expect(
      Math.abs(found[side] - expected[side]),
      `${what} ${side}: ${found[side]} for ${expected[side]}`,
    ).toBeLessThan(1e-6 * Math.max(1, Math.abs(expected[side])));
  }
}

function toScores(step: Plain, dtype: 'float64' | 'float32'): CrossScores {
  const [P, R, T] = [step.prompts.length, step.own.length, step.tokens];
  const data = dtype === 'float64' ? new Float64Array(P * R * T) : new Float32Array(P * R * T);
  step.scores.forEach((columns, r) => {
    columns.forEach((tokens, p) => {
      tokens.forEach((x, t) => {
        data[(p * R + r) * T + t] = t < (step.lengths[r] as number) ? x : Number.NaN;
      });
    });
  });
  return {
    logprobs: { data, dtype, shape: [P, R, T] },
    lengths: step.lengths,
    groups: step.own,
    columnGroups: step.prompts.map((_, p) => p),
    promptTokens: step.prompts.map((prompt) => [Number(prompt)]),
  };
}

function expectClose(found: StepMetrics, wanted: Record<string, number>, tolerance: number): void {
  for (const [key, value] of Object.entries(wanted)) {
    if (!Number.isFinite(value)) {
      expect(found.absent, key).toHaveProperty([key]);
      continue;
    }
    const got = found.values[key];
    if (got === undefined) throw new Error(`${key} is missing: ${found.absent[key]}`);
    if (Math.abs(got - value) > tolerance * Math.max(1, Math.abs(value))) expect(got, key).toBe(value);
  }
}

const options = { permutations: 19 };

describe('strict profile', () => {
  it('equals the float64 reference to 1e-12 from float64 scores', async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (step) => {
        expectClose(await crossScoreMetrics(engine, toScores(step, 'float64'), options), referenceMetrics(step), 1e-12);
      }),
      { numRuns: 200 },
    );
  });

  it('equals it to 1e-6 from float32 scores and from float32 sums', async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (step) => {
        const wanted = referenceMetrics(step);
        const scores = toScores(step, 'float32');
        expectClose(await crossScoreMetrics(engine, scores, options), wanted, 1e-6);
        const sums = step.scores.map((columns, r) =>
          columns.map((tokens) => Math.fround(tokens.slice(0, step.lengths[r]).reduce((a, b) => a + b, 0))),
        );
        const { logprobs: _, ...labels } = scores;
        const fromSums = await crossScoreMetrics(
          engine,
          {
            ...labels,
            sums: { data: Float32Array.from(sums.flat()), dtype: 'float32', shape: [sums.length, step.prompts.length] },
          },
          options,
        );
        expectClose(fromSums, referenceMetrics({ ...step, sums }), 1e-6);
      }),
      { numRuns: 100 },
    );
  });

  it('gives the same bits whatever the order of rows and of columns', async () => {
    await fc.assert(
      fc.asyncProperty(steps, fc.infiniteStream(fc.nat()), async (step, picks) => {
        const shuffled = (n: number): number[] => {
          const order = Array.from({ length: n }, (_, i) => i);
          for (let i = n - 1; i > 0; i--) {
            const j = (picks.next().value as number) % (i + 1);
            [order[i], order[j]] = [order[j] as number, order[i] as number];
          }
          return order;
        };
        const rows = shuffled(step.own.length);
        const columns = shuffled(step.prompts.length);
        const moved: Plain = {
          ...step,
          own: rows.map((r) => step.own[r] as number),
          lengths: rows.map((r) => step.lengths[r] as number),
          scores: rows.map((r) => columns.map((p) => step.scores[r]?.[p] as number[])),
          prompts: columns.map((p) => step.prompts[p] as string),
        };
        const given = toScores(moved, 'float32');
        const found = await crossScoreMetrics(engine, { ...given, groups: moved.own, columnGroups: columns }, options);
        const plain = await crossScoreMetrics(engine, toScores(step, 'float32'), options);
        expect(found.values).toEqual(plain.values);
        for (const [key, figure] of Object.entries(plain.certainty)) {
          for (const estimand of ['batch', 'population'] as const) {
            expectSameInterval(found.certainty[key]?.[estimand], figure[estimand], `${key} ${estimand}`);
          }
        }
      }),
      { numRuns: 60 },
    );
  });

  describe('where every row is certain of its prompt', () => {
    const [P, R] = [6, 24];
    const rows = Array.from({ length: R }, (_, r) => r);
    /**
     * Scores under other prompts lie `apart` to three times as far below the own; rows of the first `sampled` prompts
     * in any order, each moved by itself.
     */
    const certain = (apart: number, order: number[] = rows, moved = (_row: number) => 0, sampled = P) =>
      crossScoreMetrics(
        engine,
        {
          sums: {
            data: Float64Array.from(
              order.flatMap((r) =>
                Array.from({ length: P }, (_, p) => {
                  const beside = p === r % sampled ? 0 : apart * (1 + ((r + p) % 3));
                  return moved(r) - Math.sin(r * P + p) ** 2 - beside;
                }),
              ),
            ),
            dtype: 'float64',
            shape: [R, P],
          },
          lengths: order.map((r) => 1 + (r % 5)),
          groups: order.map((r) => r % sampled),
          columnGroups: Array.from({ length: P }, (_, p) => p),
        },
        { permutations: 0 },
      );
    const population = (found: StepMetrics, key: string): { low: number; high: number } => {
      const interval = found.certainty[key]?.population;
      if (interval === undefined || 'absent' in interval) throw new Error(`${key} has no interval`);
      return interval;
    };

    it.each([15, 30, 40, 80, 300])('rounding moves no interval: %d nats apart', async (apart) => {
      const plain = await certain(apart);
      const expectSame = (found: StepMetrics, what: string, but?: string): void => {
        for (const [key, figure] of Object.entries(plain.certainty)) {
          if (key === but) continue;
          expectSameInterval(found.certainty[key]?.batch, figure.batch, `${key} batch, ${what}`);
          expectSameInterval(found.certainty[key]?.population, figure.population, `${key} population, ${what}`);
        }
      };
      for (const step of [5, 7, 11, 13, 17, 19, 23]) {
        const order = rows.map((r) => (r * step) % R);
        expectSame(await certain(apart, order), `order ${step}`);
      }
      // Per token, scores are not what they were when something is added to their sum.
      expectSame(await certain(apart, rows, (r) => 500 * (Math.sin(r) - 1)), 'moved', 'mi_estimate');
    });

    it.each([30, 80, 300])('the population may have prompts that are alike: %d nats apart', async (apart) => {
      const found = await certain(apart);
      // -ln .025 of the prompts with rows may be, as none was seen; a prompt that is like another one loses ln 2.
      const least = (sampled: number) => Math.log(P) - (3.6888794541 / sampled) * Math.LN2;
      expect(population(found, 'mi_seq_estimate').low).toBeCloseTo(least(P), 6);
      const half = await certain(apart, rows, () => 0, P / 2);
      expect(population(half, 'mi_seq_estimate').low).toBeCloseTo(least(P / 2), 6);
      expect(population(found, 'mi_estimate').low).toBeGreaterThan(0);
      expect(population(found, 'retrieval_accuracy').low).toBeLessThanOrEqual(1 - 3.6888794541 / P / 2);
    });

    it('per token, where lengths differ, other rows may say more', async () => {
      const found = await certain(80);
      expect(population(found, 'mi_per_token').high).toBeGreaterThan((found.values.mi_per_token as number) + 0.01);
    });

    it('per token, where lengths differ, what differs is the gap to the bound, and not the bound', async () => {
      const [prompts, each] = [64, 4];
      const labels = Array.from({ length: prompts * each }, (_, r) => Math.floor(r / each));
      const lows = [5, 8, 12, 18, 24, 30, 48].map(async (apart) => {
        const data = Float64Array.from(
          labels.flatMap((own) => labels.slice(0, prompts).map((_, p) => (p === own ? -32 : -32 - apart))),
        );
        const found = await crossScoreMetrics(
          engine,
          {
            sums: { data, dtype: 'float64', shape: [labels.length, prompts] },
            lengths: labels.map((own, r) => 20 + ((37 * own + 11 * (r % each)) % 100)),
            groups: labels,
          },
          { permutations: 0 },
        );
        return population(found, 'mi_per_token').low / (found.values.mi_upper_bound as number);
      });
      // Each further nat tells more; near the bound the low end was 0 for a gap of which lengths made a large spread.
      const found = await Promise.all(lows);
      found.slice(1).forEach((low, i) => {
        expect(low).toBeGreaterThan((found[i] as number) - 1e-7);
      });
      expect(Math.min(...found)).toBeGreaterThan(0.06 / Math.log(prompts));
    });
  });

  it('says why nothing can be given for one prompt, and for no usable row', async () => {
    const one = await crossScoreMetrics(engine, {
      sums: { data: new Float64Array([-1, -2]), dtype: 'float64', shape: [2, 1] },
      lengths: [1, 1],
      groups: [7, 7],
    });
    expect(one.values).toEqual({});
    expect(one.absent.mi_seq_estimate).toMatch(/at least 2 prompts/);
    const empty = await crossScoreMetrics(engine, {
      sums: { data: new Float64Array([-1, -2]), dtype: 'float64', shape: [1, 2] },
      lengths: [0],
      groups: [1],
      columnGroups: [1, 2],
    });
    expect(empty.absent.retrieval_accuracy).toMatch(/no row has reasoning/);
    expect(empty.rows).toEqual({ total: 1, used: 0, zeroLength: 1, nonFinite: [] });
  });

  it('accounts for every key: a value or a reason, with and without enough columns', async () => {
    const step = (P: number): CrossScores => ({
      sums: {
        data: Float64Array.from({ length: 4 * P }, (_, i) => -((i * 7919) % 13)),
        dtype: 'float64',
        shape: [4, P],
      },
      lengths: [1, 2, 3, 4],
      groups: P === 1 ? [0, 0, 0, 0] : [0, 1, 0, 1],
      columnGroups: Array.from({ length: P }, (_, p) => p),
    });
    const keys = (m: StepMetrics) => [...Object.keys(m.values), ...Object.keys(m.absent)].sort();
    const [one, two, nine] = await Promise.all([step(1), step(2), step(9)].map((s) => crossScoreMetrics(engine, s)));
    if (!one || !two || !nine) throw new Error('unreachable');
    const among = (m: StepMetrics) => keys(m).filter((key) => key.startsWith('mi_seq_at_'));
    const withErrors = (key: string) => [key, `${key}_standard_error`];
    expect([one, two, nine].map(among)).toEqual([
      [],
      withErrors('mi_seq_at_2'),
      ['mi_seq_at_2', 'mi_seq_at_4', 'mi_seq_at_8'].flatMap(withErrors),
    ]);
    const others = (m: StepMetrics) => keys(m).filter((key) => !key.startsWith('mi_seq_at_'));
    expect(others(one)).toEqual(others(nine));
    expect(others(two)).toEqual(others(nine));
    expect(two.absent['retrieval_accuracy@2']).toMatch(/a hit is certain/);
    expect(nine.absent).toEqual({});
  });

  it('leaves out rows with NaN or infinite scores, counts and names them', async () => {
    const data = Float64Array.from([-1, -2, Number.NaN, -1, -3, -2, -1, Number.POSITIVE_INFINITY, -5, -4]);
    const found = await crossScoreMetrics(engine, {
      sums: { data, dtype: 'float64', shape: [5, 2] },
      lengths: [1, 1, 1, 1, 1],
      groups: [0, 1, 0, 1, 1],
    });
    expect(found.rows).toEqual({ total: 5, used: 3, zeroLength: 0, nonFinite: [1, 3] });
    expect(found.notes.join()).toMatch(/rows left out.*: 2 \(row 1, 3\)/);
    const kept = await crossScoreMetrics(engine, {
      sums: { data: Float64Array.from([-1, -2, -3, -2, -5, -4]), dtype: 'float64', shape: [3, 2] },
      lengths: [1, 1, 1],
      groups: [0, 0, 1],
    });
    expect(found.values).toEqual(kept.values);
  });

  it('lets NaN and infinities propagate under ragen, as torch does', async () => {
    const metrics = (row: number[]) =>
      crossScoreMetrics(
        engine,
        {
          sums: { data: Float64Array.from([...row, -2, -1]), dtype: 'float64', shape: [2, 2] },
          lengths: [1, 1],
          groups: [0, 1],
        },
        { profile: 'ragen' },
      );
    const nan = await metrics([-1, Number.NaN]);
    expect(nan.values.mi_estimate).toBeNaN();
    expect(nan.values.matched_log_prob_mean).toBe(-1);
    expect(nan.values.retrieval_accuracy).toBe(0.5);
    const impossible = await metrics([Number.NEGATIVE_INFINITY, -1]);
    expect(impossible.values.mi_seq_estimate).toBe(Number.NEGATIVE_INFINITY);
  });

  it('flags saturation, and leave-one-out sees beyond it', async () => {
    const P = 8;
    const data = Float64Array.from({ length: P * P }, (_, i) => (i % P === Math.floor(i / P) ? -5 : -5 - 6));
    const found = await crossScoreMetrics(engine, {
      sums: { data, dtype: 'float64', shape: [P, P] },
      lengths: Array(P).fill(3),
      groups: Array.from({ length: P }, (_, r) => r),
    });
    expect(found.values.mi_saturated).toBe(1);
    expect(found.values.mi_seq_estimate).toBeLessThan(Math.log(P));
    expect(found.values.mi_seq_loo_estimate).toBeCloseTo(6, 12);
    expect(found.notes.join()).toMatch(/saturated/);
  });

  it('flags saturation by what can be told where prompts are repeated unevenly', async () => {
    // Columns 0 to 4 are one prompt: rows of it tell ln 8/5 at most, the others ln 8, which is less than ln 4 in the
    // mean.
    const P = 8;
    const prompt = (column: number) => Math.max(4, column);
    const of = async (gap: number) => {
      const data = Float64Array.from({ length: P * P }, (_, i) =>
        prompt(i % P) === prompt(Math.floor(i / P)) ? -5 : -5 - gap,
      );
      const input = {
        lengths: Array(P).fill(3),
        groups: Array.from({ length: P }, (_, r) => r),
        promptTokens: Array.from({ length: P }, (_, column) => [prompt(column)]),
      };
      const plan = planScores(input, { negatives: P });
      const pairs = Float64Array.from(plan.rows, (row, at) => data[row * P + (plan.prompts[at] as number)] as number);
      const sampled = await estimateFromPairs(engine, plan, { sums: pairs });
      const found = await crossScoreMetrics(engine, { ...input, sums: { data, dtype: 'float64', shape: [P, P] } });
      expect(sampled.values.mi_saturated).toBe(found.values.mi_saturated);
      return found;
    };
    const most = (5 * Math.log(8 / 5) + 3 * Math.log(8)) / 8;
    const told = await of(60);
    expect(told.values.mi_seq_estimate).toBeCloseTo(most, 12);
    expect(told.values.mi_attainable_bound).toBe(Math.log(4));
    expect(told.values.mi_saturated).toBe(1);
    expect(told.notes.join()).toContain(
      `MI is saturated: ${most.toPrecision(3)} of at most ${most.toPrecision(3)} nats`,
    );
    expect((await of(1)).values.mi_saturated).toBe(0);
    expect((await of(1e-9)).values.mi_saturated).toBe(0);
  });

  it.each(['strict', 'ragen'] as const)(
    'refuses sums of log-probs that are above 0 by more than rounding, under any prompt (%s)',
    async (profile) => {
      const measured = (changes: Record<number, number>, dtype: 'float64' | 'float32' = 'float64') => {
        const values = Array.from({ length: 8 }, (_, at) => changes[at] ?? -2 - at / 8);
        const data = dtype === 'float64' ? Float64Array.from(values) : Float32Array.from(values);
        const sums = { data, dtype, shape: [4, 2] };
        return crossScoreMetrics(
          engine,
          { sums, lengths: [3, 3, 3, 3], groups: [5, 9, 5, 9], columnGroups: [9, 5] },
          { profile },
        );
      };
      await measured({});
      // bfloat16 log-probs of certain tokens lie a hair above 0.
      await measured({ 0: 0, 3: 0.12 });
      await measured({ 5: Number.POSITIVE_INFINITY }).catch((error) => expect(error.message).not.toContain('above 0'));
      for (const dtype of ['float64', 'float32'] as const) {
        // Row 1 under its own prompt (column 0), and row 2 under its own (column 1).
        await expect(measured({ 2: 3 }, dtype)).rejects.toThrow(
          /^scores: row 1 under prompt 0: the log-probs of its 3 tokens add up to 3.00 nats, above 0 .*\(0.130\): give ln p .*not probabilities/,
        );
        await expect(measured({ 5: 0.5 }, dtype)).rejects.toThrow(/row 2 under prompt 1/);
      }
    },
  );

  it('puts a floor under the z-score where rows are alike', async () => {
    const found = await crossScoreMetrics(engine, {
      sums: {
        data: Float64Array.from({ length: 8 }, (_, at) => -2 - 1e-12 * (at % 2)),
        dtype: 'float64',
        shape: [4, 2],
      },
      lengths: [2, 2, 2, 2],
      groups: [0, 1, 0, 1],
    });
    expect(found.values.marginal_std_below_floor).toBe(1);
    expect(Math.abs(found.values.mi_zscore_floored as number)).toBeLessThan(1e-9);
  });

  it('averages by training step, so that cadence does not matter', async () => {
    const spread = (state: RunningState, step: number, std: number) =>
      state.update('strict', 'collapse_first_turn_sample', { std, stdSeq: std }, step);
    const [often, seldom] = [new RunningState(), new RunningState()];
    spread(often, 1, 2);
    for (let step = 2; step <= 11; step++) spread(often, step, 1);
    spread(seldom, 1, 2);
    const late = spread(seldom, 11, 1);
    expect(spread(often, 12, 1).std).toBeCloseTo(spread(seldom, 12, 1).std, 12);
    expect(late.std).toBeCloseTo(1 + 0.81, 12);
  });

  it('measures the z-score of the average in the average, with the same floor', async () => {
    /** Rows whose marginals differ by `apart` nats a token from row to row. */
    const stepOf = (apart: number): CrossScores => ({
      sums: {
        data: Float64Array.from(
          { length: 8 },
          (_, at) => -4 - (at >> 1) * apart * 2 - ((at >> 1) % 2 === at % 2 ? 0 : 3),
        ),
        dtype: 'float64',
        shape: [4, 2],
      },
      lengths: [2, 2, 2, 2],
      groups: [0, 1, 0, 1],
    });
    const state = new RunningState();
    const first = await crossScoreMetrics(engine, stepOf(1), { state, step: 1, permutations: 0 });
    const second = await crossScoreMetrics(engine, stepOf(0.25), { state, step: 6, permutations: 0 });
    const alike = await crossScoreMetrics(engine, stepOf(0), { state: new RunningState(), step: 1, permutations: 0 });
    const figure = ({ values }: StepMetrics, key: string): number => values[key] as number;
    for (const [key, value] of Object.entries(second.values)) {
      if (`${second.label}/${key}` in second.logged) expect(second.logged[`${second.label}/${key}`], key).toBe(value);
    }
    for (const [of, floor, mi] of [
      ['', 0.05, 'mi_estimate'],
      ['_seq', 0.05 * 2, 'mi_seq_estimate'],
    ] as const) {
      const [before, now] = [figure(first, `marginal_std${of}`), figure(second, `marginal_std${of}`)];
      const average = 0.9 * before + 0.1 * now;
      expect(figure(second, `marginal_std_ema_by_step${of}`)).toBeCloseTo(average, 12);
      expect(figure(second, `mi_zscore_ema_by_step${of}`)).toBeCloseTo(figure(second, mi) / average, 12);
      expect(figure(second, `mi_zscore_floored${of}`)).toBeCloseTo(figure(second, mi) / now, 12);
      expect(figure(alike, `mi_zscore_ema_by_step${of}`)).toBeCloseTo(figure(alike, mi) / floor, 9);
    }
  });

  it('averages to the same bits on every version of Node, whose ** round differently', () => {
    const weights = {
      3: 0.9387403933595694,
      4: 0.9191661188401214,
      11: 0.793110173512391,
      400: 0.00021847450052839078,
    };
    for (const [elapsed, weight] of Object.entries(weights)) {
      const state = new RunningState();
      state.update('strict', 'collapse_turn_sample', { std: 1, stdSeq: 1 }, 1);
      expect(state.update('strict', 'collapse_turn_sample', { std: 0, stdSeq: 0 }, 1 + Number(elapsed)).std).toBe(
        weight,
      );
    }
  });

  it('continues from saved state to the bit', async () => {
    const state = new RunningState();
    state.update('strict', 'collapse_turn_sample', { std: 1 / 3, stdSeq: Math.PI }, 4);
    state.update('ragen', 'collapse_turn_sample', { std: Number.NaN, stdSeq: 1 }, 4);
    const restored = RunningState.from(JSON.parse(JSON.stringify(state)));
    const next = { std: 0.1, stdSeq: 0.2 };
    for (const profile of ['strict', 'ragen'] as const) {
      expect(restored.update(profile, 'collapse_turn_sample', next, 9)).toEqual(
        state.update(profile, 'collapse_turn_sample', next, 9),
      );
    }
    // Rows that are all alike have a spread of 0, which is a spread like any other.
    const alike = new RunningState();
    alike.update('strict', 'collapse_turn_sample', { std: 0, stdSeq: 0 }, 0);
    expect(RunningState.from(JSON.parse(JSON.stringify(alike))).toJSON()).toEqual(alike.toJSON());
    expect(() => RunningState.from({ format: 'other' })).toThrow(/not a saved running state/);
    expect(() => RunningState.from({ ...state.toJSON(), version: 2 })).toThrow(/version 2.*start a new RunningState/);
    expect(() => RunningState.from({ ...state.toJSON(), averages: { x: { std: 'a' } } })).toThrow(/damaged/);
    const whole = { std: 1, stdSeq: 1, step: 1 };
    for (const bad of [{ std: -1 }, { stdSeq: -1 }, { step: 0.5 }, { std: undefined }, { step: null }]) {
      expect(() => RunningState.from({ ...state.toJSON(), averages: { x: { ...whole, ...bad } } })).toThrow(/damaged/);
    }
  });
});

describe('certainty', () => {
  const random = (P: number, K: number, match: number, seed: number): CrossScores => {
    const uniform = uniformNumbers(seed);
    const R = P * K;
    return {
      sums: {
        data: Float64Array.from(
          { length: R * P },
          (_, i) => -10 * uniform() - 3 + (Math.floor(i / P / K) === i % P ? match : 0),
        ),
        dtype: 'float64',
        shape: [R, P],
      },
      lengths: Array(R).fill(5),
      groups: Array.from({ length: R }, (_, r) => Math.floor(r / K)),
    };
  };

  it('gives every MI and retrieval figure both intervals and a p-value, in the record too', async () => {
    const found = await crossScoreMetrics(engine, random(8, 4, 3, 5));
    const certain = SCORE_FIGURES.filter((entry) => isOfProfile(entry, 'strict') && intervalOf(entry) === 'all');
    // Of eight prompts the best eight are all.
    const keys = certain.map(({ key }) => key).filter((key) => !key.endsWith('@8'));
    expect(keys).toEqual(expect.arrayContaining(['mi_seq_estimate', 'mi_seq_loo_estimate', 'retrieval_accuracy@4']));
    for (const key of keys) {
      const { batch, population, pValue } = found.certainty[key] ?? {};
      if (!batch || !population || 'absent' in batch || 'absent' in population)
        throw new Error(`${key} has no interval`);
      const value = found.values[key] as number;
      expect(batch.low).toBeLessThanOrEqual(value);
      expect(batch.high).toBeGreaterThanOrEqual(value);
      expect(population.low).toBeLessThanOrEqual(value);
      expect(population.high).toBeGreaterThanOrEqual(value);
      expect(found.logged[`collapse_first_turn_sample/${key}_batch_low`]).toBe(batch.low);
      expect(found.logged[`collapse_first_turn_sample/${key}_p_value`]).toBe(pValue);
    }
    expect(found.certainty.mi_seq_estimate?.pValue).toBe(0.001);
  });

  it('has every figure inside its intervals, where all is rounding too', async () => {
    const uniform = uniformNumbers(7);
    for (let step = 0; step < 300; step++) {
      const prompts = 2 + Math.floor(uniform() * 8);
      const groups = Array.from({ length: prompts * (1 + Math.floor(uniform() * 4)) }, (_, r) => r % prompts);
      const spread = 10 ** (6 * uniform());
      const [offset, beside] = [10 ** (7 * uniform()), uniform() < 0.3 ? 3 * spread : 0];
      const data = Float64Array.from(
        groups.flatMap((own) =>
          Array.from({ length: prompts }, (_, p) => -offset - spread * uniform() - (p === own ? 0 : beside)),
        ),
      );
      const sums: Tensor = { data, dtype: 'float64', shape: [groups.length, prompts] };
      const lengths = groups.map(() => 1 + Math.floor(200 * uniform()));
      const found = await crossScoreMetrics(engine, { sums, lengths, groups }, { permutations: 0 });
      for (const [key, { batch, population }] of Object.entries(found.certainty)) {
        for (const interval of [batch, population]) {
          if ('absent' in interval) continue;
          expect(interval.low, key).toBeLessThanOrEqual(found.values[key] as number);
          expect(interval.high, key).toBeGreaterThanOrEqual(found.values[key] as number);
        }
      }
    }
  });

  it('is seeded: the same twice, and another p for another seed', async () => {
    const step = random(8, 2, 0.5, 3);
    const p = async (seed: number) =>
      (await crossScoreMetrics(engine, step, { seed })).certainty.mi_seq_estimate?.pValue;
    expect(await p(1)).toBe(await p(1));
    const others = await Promise.all([2, 3, 4, 5].map(p));
    expect(new Set(others).size).toBeGreaterThan(1);
  });

  it('says that a prompt with one row has no noise of its own', async () => {
    const found = await crossScoreMetrics(engine, random(8, 1, 2, 3));
    expect(found.notes.join()).toMatch(/one row only/);
  });

  it('says when responses cannot have been sampled from what was scored', async () => {
    const found = await crossScoreMetrics(engine, random(8, 4, -15, 3));
    expect(found.notes.join()).toMatch(/do not look sampled/);
    // Rows that tell their prompt, under the labels of other rows.
    const mislabelled = { ...random(8, 4, 3, 3), groups: Array.from({ length: 32 }, (_, row) => (row + 5) % 8) };
    const { notes, values } = await crossScoreMetrics(engine, mislabelled);
    expect(values.mi_seq_estimate).toBeLessThan(-1);
    expect(notes.join()).toMatch(/do not look sampled .*\(labels of other rows, /);
    // Ten rows that fit prompt 0 six to four, ten that fit prompt 1 so, and six of ten each come from the one that
    // fits.
    const [likely, unlikely] = [Math.log(0.6), Math.log(0.4)];
    const alike = await crossScoreMetrics(engine, {
      sums: {
        data: Float64Array.from({ length: 40 }, (_, i) => (i % 2 === Math.floor(i / 20) ? likely : unlikely)),
        dtype: 'float64',
        shape: [20, 2],
      },
      lengths: Array(20).fill(1),
      groups: [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0],
    });
    expect(alike.notes.join()).not.toMatch(/do not look sampled/);
  });

  it('says why there is no p-value without permutations', async () => {
    const found = await crossScoreMetrics(engine, random(4, 2, 1, 3), { permutations: 0 });
    expect(found.certainty.mi_seq_estimate?.pValue).toEqual({ absent: 'permutations is 0' });
  });
});

describe('placeholders', () => {
  const P = 4;
  /** Rows whose number is in `alike` have its value under every prompt. */
  const scores = (alike: Record<number, number>, rows = 12): CrossScores => ({
    sums: {
      data: Float64Array.from({ length: rows * P }, (_, at) => {
        const row = Math.floor(at / P);
        return alike[row] ?? -5 - ((at * 7919) % 13) - (at % P === row % P ? 0 : 3);
      }),
      dtype: 'float64',
      shape: [rows, P],
    },
    lengths: Array(rows).fill(3),
    groups: Array.from({ length: rows }, (_, row) => row % P),
  });
  const everyRow = (value: (row: number) => number) =>
    Object.fromEntries(Array.from({ length: 12 }, (_, r) => [r, value(r)]));

  it('are left out, counted and named', async () => {
    const found = await crossScoreMetrics(engine, scores({ 2: 0, 7: -4.25 }), options);
    expect(found.rows).toEqual({ total: 12, used: 10, zeroLength: 0, nonFinite: [], placeholders: [2, 7] });
    expect(found.notes).toContainEqual(expect.stringMatching(/same score under every prompt.*: 2 \(row 2, 7\)/));
    const kept = scores({});
    const without = await crossScoreMetrics(
      engine,
      { ...kept, lengths: [3, 3, 0, 3, 3, 3, 3, 0, 3, 3, 3, 3] },
      options,
    );
    expect(found.values.mi_seq_estimate).toBe(without.values.mi_seq_estimate);
    expect(found.values.retrieval_accuracy).toBe(without.values.retrieval_accuracy);
    expect((await crossScoreMetrics(engine, scores({}), options)).rows).not.toHaveProperty('placeholders');
  });

  it('give no evidence where every row is one, and say so', async () => {
    for (const value of [() => 0, () => -3, (row: number) => -row]) {
      const found = await crossScoreMetrics(engine, scores(everyRow(value)), options);
      expect(found.values).toEqual({});
      for (const key of ['mi_seq_estimate', 'retrieval_accuracy', 'mi_seq_margin', 'mi_seq_at_2', 'mi_seq_at_4']) {
        expect(found.absent[key]).toMatch(/every row has the same score under every prompt/);
      }
      expect(found.notes).toEqual([expect.stringMatching(/placeholders/)]);
      expect(found.rows.used).toBe(0);
    }
    const both = await crossScoreMetrics(engine, scores({ ...everyRow(() => 0), 1: Number.NaN }), options);
    expect(both.absent.mi_seq_estimate).toMatch(/NaN or infinite, or the same score/);
  });

  it('are none where all columns have one prompt, and pass under ragen', async () => {
    const twins = { ...scores({ 3: 0 }), promptTokens: Array(P).fill([1, 2]) };
    expect((await crossScoreMetrics(engine, twins, options)).rows.used).toBe(12);
    const ragen = await crossScoreMetrics(engine, scores(everyRow(() => 0)), { profile: 'ragen' });
    expect(ragen.values.mi_seq_estimate).toBe(0);
    expect(ragen.rows).not.toHaveProperty('placeholders');
  });
});

describe('columns with equal scores in every row', () => {
  const [P, R] = [16, 32];
  /** Eight prompts twice, each response certain of its own. */
  const twice = (
    change: (row: number, column: number, score: number) => number = (_r, _c, score) => score,
  ): CrossScores => ({
    sums: {
      data: Float64Array.from({ length: R * P }, (_, at) => {
        const [row, column] = [Math.floor(at / P), at % P];
        return change(row, column, column % 8 === row % 8 ? -5 - row / 8 : -60 - ((row * 31 + (column % 8) * 17) % 23));
      }),
      dtype: 'float64',
      shape: [R, P],
    },
    lengths: Array(R).fill(3),
    groups: Array.from({ length: R }, (_, row) => row % P),
  });

  it('are one prompt, noted', async () => {
    const found = await crossScoreMetrics(engine, twice(), options);
    expect(found.values.retrieval_accuracy).toBe(1);
    expect(found.columns).toEqual({ total: 16, distinct: 8 });
    expect(found.values.mi_attainable_bound).toBe(Math.log(8));
    expect(found.notes.filter((note) => note.includes('same scores in every row'))).toEqual(
      Array.from({ length: 8 }, (_, c) => expect.stringMatching(new RegExp(`^columns ${c} and ${c + 8} have`))),
    );
    const promptTokens = Array.from({ length: P }, (_, column) => [column % 8]);
    const told = await crossScoreMetrics(engine, { ...twice(), promptTokens }, options);
    expect(found.values).toEqual(told.values);
    expect(found.certainty).toEqual(told.certainty);
  });

  it('differ where one row tells them apart, or tokens do', async () => {
    const apart = await crossScoreMetrics(
      engine,
      twice((row, column, s) => s - (row === 31 && column === 9 ? 1e-9 : 0)),
      options,
    );
    expect(apart.columns.distinct).toBe(9);
    expect(apart.notes.join()).not.toMatch(/columns 1 and 9/);
    const promptTokens = Array.from({ length: P }, (_, column) => [column]);
    const told = await crossScoreMetrics(engine, { ...twice(), promptTokens }, options);
    expect(told.columns.distinct).toBe(16);
    expect(told.notes.join()).not.toMatch(/same scores/);
  });

  it('are not looked for under ragen, and impossible prompts are not merged', async () => {
    const ragen = await crossScoreMetrics(engine, twice(), { profile: 'ragen' });
    expect(ragen.columns.distinct).toBe(16);
    const never = twice((_row, column, s) => (column >= 14 ? -Infinity : s - column * 1e-3));
    const found = await crossScoreMetrics(
      engine,
      {
        ...never,
        groups: Array.from({ length: R }, (_, row) => row % 8),
        columnGroups: Array.from({ length: P }, (_, c) => c),
      },
      options,
    );
    expect(found.columns.distinct).toBe(16);
  });

  it('are those that are equal in plain words', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(fc.nat(2), { minLength: 5, maxLength: 5 }), { minLength: 2, maxLength: 6 }),
        async (rows) => {
          const told = rows.filter((row) => new Set(row).size > 1);
          const found = await crossScoreMetrics(
            engine,
            {
              sums: { data: Float64Array.from(rows.flat(), (v) => -1 - v), dtype: 'float64', shape: [rows.length, 5] },
              lengths: rows.map(() => 1),
              groups: rows.map((_, r) => r % 5),
              columnGroups: [0, 1, 2, 3, 4],
            },
            { permutations: 0 },
          );
          const columns = [0, 1, 2, 3, 4].map((c) => told.map((row) => row[c]).join());
          expect(found.columns.distinct).toBe(told.length < 2 ? 5 : new Set(columns).size);
        },
      ),
      { numRuns: 100 },
    );
  });
});
