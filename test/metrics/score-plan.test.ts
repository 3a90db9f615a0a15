// Plans and what is estimated from their pairs: that draws are what they are said to be, and that nothing depends on
// order.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ArgumentError, StateError } from '../../src/checks/errors.js';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import { estimateFromPairs, type PairEstimates } from '../../src/metrics/sampled/estimates.js';
import { completeSums } from '../../src/metrics/sampled/pair-scores.js';
import { planScores } from '../../src/metrics/sampled/plan.js';
import { turnsOfPrompts } from '../../src/metrics/sampled/prompt-turns.js';
import { ScoreRounds } from '../../src/metrics/sampled/rounds.js';
import { signaturesIn } from '../../src/metrics/sampled/strata.js';
import { mean } from '../support/metrics-reference.js';
import { drawnStep, knownStep, pairsOf, type SampledStep, scoresOf } from './score-plan-steps.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ device: 'cpu', threads: 2 });
});
afterAll(() => engine.dispose());

/** The batch interval, which must be there. */
function batchOf(estimates: PairEstimates | undefined, key = 'mi_seq_estimate'): { low: number; high: number } {
  const batch = estimates?.certainty[key]?.batch;
  if (batch === undefined || !('low' in batch)) throw new Error(`no batch interval of ${key}`);
  return batch;
}

const negativesOf = fc.integer({ min: 4, max: 10 });
const seedOf = fc.nat(1e9);

/** Prompts with the same tokens are one. */
const tokensOf = ({ input }: SampledStep, prompt: number) => String(input.promptTokens[prompt]);
const ownOf = ({ input }: SampledStep, row: number) => input.columnGroups.indexOf(input.groups[row] as number);

describe('a plan', () => {
  it('has every own pair, no pair twice, m different negatives, and equal prompts once', () => {
    fc.assert(
      fc.property(drawnStep(), negativesOf, seedOf, fc.boolean(), (step, negatives, seed, hard) => {
        const promptTurns = hard ? step.input.columnGroups.map((_, p) => p % 2) : undefined;
        const plan = planScores({ ...step.input, promptTurns }, { negatives, seed });
        const pairs = pairsOf(plan);
        const distinct = new Set(step.input.promptTokens.map(String)).size;
        expect(new Set(pairs.map(String)).size).toBe(pairs.length);
        step.input.lengths.forEach((length, row) => {
          const scored = pairs.filter(([r]) => r === row).map(([, prompt]) => tokensOf(step, prompt));
          if (length === 0) {
            expect(scored).toEqual([]);
            return;
          }
          expect(new Set(scored).size).toBe(scored.length);
          expect(scored).toContain(tokensOf(step, ownOf(step, row)));
          expect(scored).toHaveLength(1 + Math.min(negatives, distinct - 1));
        });
        expect(plan.cost.pairs).toBe(pairs.length);
        expect(plan.complete).toBe(negatives >= distinct - 1 || plan.rows.length === 0);
      }),
      { numRuns: 200 },
    );
  });

  it('gives inclusion probabilities that add up to the draws, exactly', () => {
    fc.assert(
      fc.property(drawnStep(), negativesOf, seedOf, fc.boolean(), (step, negatives, seed, hard) => {
        const promptTurns = hard ? step.input.columnGroups.map((_, p) => p % 2) : undefined;
        const plan = planScores({ ...step.input, promptTurns }, { negatives, seed });
        for (const { row, ownColumn, strata, drawn } of plan.layout.rows) {
          strata.forEach((stratum, h) => {
            const { columns } = stratum;
            const signatures = signaturesIn(stratum);
            const negativesDrawn = drawn[h] as Int32Array;
            expect(columns).toBe(
              signatures.reduce((sum, signature) => sum + (plan.layout.counts[signature] as number), 0),
            );
            for (const signature of negativesDrawn) {
              const prompt = plan.layout.scored[signature];
              const at = pairsOf(plan).findIndex(([r, p]) => r === row && p === prompt);
              expect(plan.inclusion[at]).toBe(negativesDrawn.length / signatures.length);
            }
          });
          const own = plan.layout.scored[plan.layout.signatures[ownColumn] as number];
          expect(plan.inclusion[pairsOf(plan).findIndex(([r, p]) => r === row && p === own)]).toBe(1);
        }
      }),
      { numRuns: 60 },
    );
  });

  it('draws every negative, and every two together, as often as it should', () => {
    const input = { groups: Array.from({ length: 4_000 }, () => 0), lengths: Array(4_000).fill(1) };
    const columnGroups = [0, 1, 2, 3, 4, 5, 6];
    const plan = planScores({ ...input, columnGroups }, { negatives: 3, seed: 5 });
    const singles = new Map<number, number>();
    const twos = new Map<string, number>();
    for (const { drawn } of plan.layout.rows) {
      const [negatives = new Int32Array()] = drawn;
      for (const a of negatives) {
        singles.set(a, (singles.get(a) ?? 0) + 1);
        for (const b of negatives) if (a < b) twos.set(`${a},${b}`, (twos.get(`${a},${b}`) ?? 0) + 1);
      }
    }
    // Binomial counts: 3/6 of 4,000 and 3·2/(6·5) of 4,000; five standard deviations.
    expect(singles.size).toBe(6);
    for (const count of singles.values()) expect(Math.abs(count - 2_000)).toBeLessThan(5 * Math.sqrt(1_000));
    expect(twos.size).toBe(15);
    for (const count of twos.values()) expect(Math.abs(count - 800)).toBeLessThan(5 * Math.sqrt(640));
  });

  it('is grouped by prompt, and the same for the same seed', () => {
    fc.assert(
      fc.property(drawnStep(), negativesOf, seedOf, (step, negatives, seed) => {
        const plan = planScores(step.input, { negatives, seed });
        expect(planScores(step.input, { negatives, seed })).toEqual(plan);
        expect(plan.byPrompt.flatMap(({ prompt, rows }) => Array.from(rows, (row) => [row, prompt]))).toEqual(
          pairsOf(plan),
        );
        const prompts = plan.byPrompt.map(({ prompt }) => prompt);
        expect(prompts).toEqual([...new Set(prompts)].sort((a, b) => a - b));
        for (const { rows, first } of plan.byPrompt) {
          expect([...rows]).toEqual([...rows].sort((a, b) => a - b));
          expect([...plan.rows.subarray(first, first + rows.length)]).toEqual([...rows]);
        }
      }),
      { numRuns: 60 },
    );
  });

  it('with more negatives keeps those of fewer', () => {
    fc.assert(
      fc.property(drawnStep(), seedOf, fc.boolean(), (step, seed, hard) => {
        const promptTurns = hard ? step.input.columnGroups.map((_, p) => p % 2) : undefined;
        const of = (negatives: number) =>
          new Set(pairsOf(planScores({ ...step.input, promptTurns }, { negatives, seed })).map(String));
        let before = new Set<string>();
        for (const negatives of [4, 5, 7, 9]) {
          const now = of(negatives);
          for (const pair of before) expect(now.has(pair)).toBe(true);
          before = now;
        }
      }),
      { numRuns: 60 },
    );
  });

  it('refuses what makes no sense', () => {
    const input = { groups: [1, 2, 3, 4, 5, 6], lengths: [1, 1, 1, 1, 1, 1] };
    const refused = (change: object, options: object, message: RegExp) => {
      const act = () => planScores({ ...input, ...change }, { negatives: 3, ...options });
      expect(act).toThrow(ArgumentError);
      expect(act).toThrow(message);
    };
    refused({}, { negatives: 2 }, /options\.negatives/);
    refused({}, { negatives: 3.5 }, /options\.negatives/);
    refused({}, { negatives: Number.NaN }, /options\.negatives/);
    refused({}, { seed: -1 }, /options\.seed/);
    refused({}, { hardShare: 2 }, /options\.hardShare/);
    refused({ lengths: [1] }, {}, /lengths/);
    refused({ lengths: [1, 1, 1, 1, 1, -1] }, {}, /lengths.*entry 5/);
    refused({ columnGroups: [1, 2] }, {}, /groups/);
    refused({ promptTokens: [[1]] }, {}, /promptTokens/);
    refused({ promptTurns: [1] }, {}, /promptTurns/);
    refused({ promptTurns: [0, 0, 0, 1, 1, 1] }, {}, /at least 4, two of each kind/);
    expect(() => turnsOfPrompts([1, 1, 2], [0, 1, 0])).toThrow(/row 1 is of turn 1/);
    expect(() => turnsOfPrompts([1, 1], [0, 0], [1, 2])).toThrow(/prompt 1 has no rows/);
    expect([...turnsOfPrompts([5, 1, 5], [3, 0, 3])]).toEqual([0, 3]);
  });

  it('of nothing is empty', async () => {
    const plan = planScores({ groups: [], lengths: [] }, { negatives: 3 });
    expect(plan).toMatchObject({ byPrompt: [], complete: true, cost: { pairs: 0, allPairs: 0, saved: 0 } });
    const { values, absent, notes } = await estimateFromPairs(engine, plan, { sums: [] });
    expect(values).toEqual({});
    expect(absent.mi_seq_estimate).toContain('no row');
    expect(notes).toHaveLength(1);
  });
});

describe('estimates', () => {
  it('do not depend on the order of the pairs, to the bit', async () => {
    await fc.assert(
      fc.asyncProperty(
        drawnStep(),
        negativesOf,
        seedOf,
        fc.infiniteStream(fc.nat()),
        async (step, negatives, seed, keys) => {
          const plan = planScores(step.input, { negatives, seed });
          const order = [...plan.rows.keys()]
            .map((at) => ({ at, key: keys.next().value as number }))
            .sort((a, b) => a.key - b.key)
            .map(({ at }) => at);
          const sums = scoresOf(step, plan);
          const shuffled = {
            rows: order.map((at) => plan.rows[at] as number),
            prompts: order.map((at) => plan.prompts[at] as number),
            sums: order.map((at) => sums[at] as number),
          };
          expect(await estimateFromPairs(engine, plan, shuffled)).toEqual(
            await estimateFromPairs(engine, plan, { sums }),
          );
        },
      ),
      { numRuns: 80 },
    );
  });

  it('are the figures themselves where scores do not differ', async () => {
    const step = knownStep(3, { prompts: 12, rowsPerPrompt: 3, strength: 0 });
    const plan = planScores(step.input, { negatives: 3 });
    const estimates = await estimateFromPairs(engine, plan, { sums: scoresOf(step, plan) });
    const { values } = estimates;
    for (const key of ['mi_seq_estimate', 'mi_per_token', 'mi_estimate', 'mi_seq_loo_estimate']) {
      expect(Math.abs(values[key] as number), key).toBeLessThan(1e-12);
      const batch = batchOf(estimates, key);
      expect(batch.high - batch.low, key).toBeLessThan(1e-9);
    }
    // Ties go to the lower column; half of the pairs of different prompts have the own one first.
    expect(values.retrieval_accuracy_of_2).toBeGreaterThan(0.3);
    expect(values.retrieval_accuracy_of_2).toBeLessThan(0.7);
  });

  it('of retrieval among c candidates are unbiased, and bounds hold what all pairs give', async () => {
    const step = knownStep(11, { prompts: 9, rowsPerPrompt: 6, strength: 1 });
    const all = planScores(step.input, { negatives: 100 });
    const full = await estimateFromPairs(engine, all, { sums: scoresOf(step, all) });
    for (const promptTurns of [undefined, step.input.columnGroups.map((_, p) => p % 2)]) {
      const found: number[] = [];
      const four: number[] = [];
      for (let seed = 0; seed < 120; seed++) {
        const plan = planScores({ ...step.input, promptTurns }, { negatives: 6, seed });
        const { values, bounds, absent } = await estimateFromPairs(engine, plan, { sums: scoresOf(step, plan) });
        found.push(values.retrieval_accuracy_of_2 as number);
        if (promptTurns === undefined) four.push(values.retrieval_accuracy_of_4 as number);
        const { low, high } = bounds.retrieval_accuracy as { low: number; high: number };
        expect(low).toBeLessThanOrEqual(full.values.retrieval_accuracy as number);
        expect(high).toBeGreaterThanOrEqual(full.values.retrieval_accuracy as number);
        expect(absent.retrieval_accuracy).toContain('cannot be estimated');
      }
      const near = (values: number[], wanted: number) => {
        const error = Math.sqrt(mean(values.map((value) => (value - mean(values)) ** 2)) / values.length);
        expect(Math.abs(mean(values) - wanted)).toBeLessThan(4.5 * error + 1e-12);
      };
      near(found, full.values.retrieval_accuracy_of_2 as number);
      if (four.length > 0) near(four, full.values.retrieval_accuracy_of_4 as number);
    }
  });

  it('know chance exactly, however few pairs are scored', async () => {
    const step = knownStep(3, { prompts: 16, rowsPerPrompt: 2, strength: 1 });
    // Some prompts are equal to others, so that their rows have more chance.
    const promptTokens = step.input.promptTokens.map((_, prompt) => [Math.max(prompt, 5)]);
    const input = { ...step.input, promptTokens };
    const estimated = (negatives: number): Promise<PairEstimates> => {
      const plan = planScores(input, { negatives, seed: 1 });
      return estimateFromPairs(engine, plan, { sums: scoresOf(step, plan) });
    };
    const [few, all] = await Promise.all([estimated(3), estimated(15)]);
    for (const key of ['retrieval_chance_level', 'retrieval_chance_exact@2', 'retrieval_chance_exact@8']) {
      expect(few.values[key], key).toBeGreaterThan(0);
      expect(few.values[key], key).toBe(all.values[key]);
    }
    for (const key of ['retrieval_above_chance', 'retrieval_above_chance_exact@2']) {
      expect(few.absent[key]).toMatch(/^retrieval_accuracy(@2)? cannot be given: see there$/);
    }
  });

  it('say why something cannot be given', async () => {
    const step = knownStep(1, { prompts: 8, rowsPerPrompt: 2, strength: 1 });
    const plan = planScores(step.input, { negatives: 3 });
    const { values, absent } = await estimateFromPairs(engine, plan, { sums: scoresOf(step, plan) });
    for (const key of ['marginal_std', 'posterior_entropy_mean', 'retrieval_accuracy', 'retrieval_accuracy@4']) {
      expect(values).not.toHaveProperty([key]);
      expect(absent[key]).toBeTruthy();
    }
    expect(absent['retrieval_accuracy@8']).toContain('a hit is certain');
    expect(absent.retrieval_accuracy_of_8).toContain('at least 7 negatives');
  });

  it('leave out rows with scores that are NaN or infinite, and name them', async () => {
    const step = knownStep(1, { prompts: 8, rowsPerPrompt: 2, strength: 4 });
    const plan = planScores(step.input, { negatives: 3 });
    const sums = scoresOf(step, plan);
    const own = pairsOf(plan).findIndex(([row, prompt]) => row === 4 && prompt === ownOf(step, 4));
    const other = pairsOf(plan).findIndex(([row, prompt]) => row === 7 && prompt !== ownOf(step, 7));
    sums[own] = Number.NEGATIVE_INFINITY;
    sums[other] = Number.NaN;
    const { rows, values, notes } = await estimateFromPairs(engine, plan, { sums });
    expect(rows).toEqual({ total: 16, used: 14, zeroLength: 0, nonFinite: [4, 7] });
    expect(values.mi_seq_estimate).toBeGreaterThan(0);
    expect(notes.join()).toContain('rows left out');
  });

  it('refuse scores that are not the plan’s', async () => {
    const step = knownStep(1, { prompts: 6, rowsPerPrompt: 2, strength: 1 });
    const plan = planScores(step.input, { negatives: 3 });
    const sums = [...scoresOf(step, plan)];
    const refused = async (scores: object, message: RegExp, options = {}) => {
      const estimates = estimateFromPairs(engine, plan, { sums, ...scores }, options);
      await expect(estimates).rejects.toThrow(ArgumentError);
      await expect(estimates).rejects.toThrow(message);
    };
    await refused({ sums: sums.slice(1) }, /47 sums for the 48 pairs/);
    await refused({ sums: [...sums.slice(1), 'x'] }, /entry 47/);
    await refused({ rows: plan.rows }, /both `rows` and `prompts`/);
    const rows = [...plan.rows];
    const prompts = [...plan.prompts];
    await refused({ rows: rows.slice(1), prompts }, /scores\.rows/);
    await refused({ rows: [rows[1], ...rows.slice(1)], prompts: [prompts[1], ...prompts.slice(1)] }, /is given twice/);
    await refused({ rows: [99, ...rows.slice(1)], prompts }, /row 99 under prompt .* is not a pair of the plan/);
    await refused({}, /options\.confidence/, { confidence: 1 });
    expect(() => completeSums(plan, { sums })).toThrow(/leaves pairs out/);
  });
});

describe('intervals', () => {
  // 200 draws: a share of 95% has a standard error of 1.5 points.
  it.each([
    ['weak', { prompts: 16, rowsPerPrompt: 4, strength: 0.3 }, 6],
    ['strong', { prompts: 16, rowsPerPrompt: 4, strength: 2 }, 4],
    ['strong, of 32 prompts', { prompts: 32, rowsPerPrompt: 4, strength: 2 }, 6],
    ['near the bound', { prompts: 16, rowsPerPrompt: 4, strength: 6 }, 4],
  ])('hold the true value: %s', async (_, model, negatives) => {
    const keys = ['mi_seq_estimate', 'mi_per_token', 'reasoning_entropy_seq_est'] as const;
    const held = { mi_seq_estimate: 0, mi_per_token: 0, reasoning_entropy_seq_est: 0 };
    const draws = 200;
    for (let seed = 0; seed < draws; seed++) {
      const step = knownStep(seed + 1, model);
      const plan = planScores(step.input, { negatives, seed });
      const estimates = await estimateFromPairs(engine, plan, { sums: scoresOf(step, plan) });
      for (const key of keys) {
        const { low, high } = batchOf(estimates, key);
        const truth = step.truth[key];
        if (low <= truth && truth <= high) held[key]++;
      }
    }
    for (const key of keys) expect(held[key] / draws, key).toBeGreaterThan(0.91);
  });

  it.each([
    ['sampled from the scores', 1, undefined],
    ['sampled from the scores, with negatives of the own turn', 1, 3],
    ['sampled colder', 0.6, undefined],
    ['sampled hotter', 1.6, undefined],
    ['sampled hotter, with negatives of the own turn', 1.6, 3],
  ])('tell whether rows are as scored: %s', async (_, temperature, turns) => {
    const told = async (strength: number, negatives: number, seed: number): Promise<boolean> => {
      const step = knownStep(seed, { prompts: 32, rowsPerPrompt: 8, strength, temperature });
      const promptTurns = turns === undefined ? undefined : step.input.columnGroups.map((prompt) => prompt % turns);
      const plan = planScores({ ...step.input, promptTurns }, { negatives, seed });
      const { notes } = await estimateFromPairs(engine, plan, { sums: scoresOf(step, plan) });
      return notes.some((note) => note.includes('do not look sampled'));
    };
    // Strong dependence and few negatives: what they leave out is no sign of another sampling.
    for (const strength of [1, 2]) {
      for (const negatives of turns === undefined ? [3, 6, 12] : [6, 12]) {
        const steps = await Promise.all(Array.from({ length: 10 }, (_, at) => told(strength, negatives, at + 1)));
        const found = steps.filter(Boolean).length / steps.length;
        if (temperature === 1) expect(found, `${strength}, ${negatives}`).toBe(0);
        else expect(found, `${strength}, ${negatives}`).toBeGreaterThan(turns === undefined ? 0.55 : 0.45);
      }
    }
  });

  it('of prompts with one row say that they hold the spread between prompts', async () => {
    const notesOf = async (rowsPerPrompt: number) => {
      const step = knownStep(5, { prompts: 8, rowsPerPrompt, strength: 1 });
      const plan = planScores(step.input, { negatives: 3 });
      return (await estimateFromPairs(engine, plan, { sums: scoresOf(step, plan) })).notes.join();
    };
    expect(await notesOf(1)).toContain('some prompt has one row only');
    expect(await notesOf(2)).not.toContain('some prompt has one row only');
  });

  // Rows of each of 8 prompts, and Student's t at 95% for 8 fewer degrees than there are rows.
  const QUANTILES = [
    [2, 2.3060041352041667],
    [3, 2.1199052992212546],
    [5, 2.036933343460102],
    [6, 2.0210753903062733],
    [7, 2.0106347576242323],
    [12, 1.9872898648311697],
  ] as const;

  // A mean of six like values need not be the value: what rounding leaves of their variance is none.
  it.each(QUANTILES)('of retrieval have width where all %d rows of a prompt are alike', async (rowsPerPrompt, t) => {
    const groups = Array.from({ length: 8 * rowsPerPrompt }, (_, r) => Math.floor(r / rowsPerPrompt));
    const plan = planScores({ groups, lengths: groups.map(() => 4) }, { negatives: 4 });
    // Rows of four prompts are most likely under their own, those of the others least.
    const sums = Float64Array.from(plan.rows, (row, at) =>
      plan.prompts[at] === groups[row] ? ((groups[row] as number) < 4 ? -10 : -14) : -12,
    );
    const estimates = await estimateFromPairs(engine, plan, { sums });
    // Wilson's for as many draws as rows.
    const rows = groups.length;
    const half = (t / (1 + t ** 2 / rows)) * Math.sqrt(0.25 / rows + t ** 2 / (4 * rows ** 2));
    for (const key of ['retrieval_accuracy_of_2', 'retrieval_accuracy_of_4']) {
      expect(estimates.values[key]).toBe(0.5);
      const { low, high } = batchOf(estimates, key);
      expect(low).toBeCloseTo(0.5 - half, 12);
      expect(high).toBeCloseTo(0.5 + half, 12);
    }
  });
});

describe('rounds', () => {
  const step = knownStep(2, { prompts: 20, rowsPerPrompt: 4, strength: 2 });

  it('end as soon as the interval is narrow enough, and score no pair twice', async () => {
    for (const width of [3, 1.2, 0.9, 1e-3]) {
      const rounds = new ScoreRounds(engine, step.input, { width, seed: 4 });
      const pairs: string[] = [];
      for (let round = rounds.next(); round !== undefined; round = rounds.next()) {
        const { rows, prompts, byPrompt } = round;
        pairs.push(...Array.from(rows, (row, at) => `${row}/${prompts[at]}`));
        expect(byPrompt.flatMap(({ prompt, rows: of }) => Array.from(of, (row) => `${row}/${prompt}`))).toEqual(
          Array.from(rows, (row, at) => `${row}/${prompts[at]}`),
        );
        await rounds.add({ sums: scoresOf(step, round) });
      }
      const { reason, estimates, done } = rounds.result();
      expect(done).toBe(true);
      expect(new Set(pairs).size).toBe(pairs.length);
      expect(pairs).toHaveLength(estimates?.cost.pairs as number);
      const { low, high } = batchOf(estimates);
      if (reason === 'width') expect(high - low).toBeLessThanOrEqual(width);
      else expect(high - low).toBeGreaterThan(width);
      // Each look at its own level.
      expect(estimates?.confidence).toBe(1 - (1 - 0.95) / rounds.looks);
      await expect(rounds.add({ sums: [] })).rejects.toThrow(StateError);
    }
  });

  it('take in nothing of what is wrong', async () => {
    const rounds = new ScoreRounds(engine, step.input, { width: 0.1 });
    const before = rounds.result();
    await expect(rounds.add({ sums: [1] })).rejects.toThrow(ArgumentError);
    expect(rounds.result()).toEqual(before);
    expect(rounds.next()?.round).toBe(1);
    const refused = (options: object, message: RegExp) =>
      expect(() => new ScoreRounds(engine, step.input, { width: 1, ...options })).toThrow(message);
    refused({ width: 0 }, /options\.width/);
    refused({ metric: 'retrieval_accuracy' }, /options\.metric/);
    refused({ estimand: 'both' }, /options\.estimand/);
    refused({ first: 2 }, /options\.first/);
    refused({ confidence: 0 }, /options\.confidence/);
  });

  it('hold the true value wherever they stop', async () => {
    let held = 0;
    const draws = 120;
    for (let seed = 0; seed < draws; seed++) {
      const known = knownStep(seed + 500, { prompts: 16, rowsPerPrompt: 4, strength: 2 });
      const rounds = new ScoreRounds(engine, known.input, { width: 0.9, seed });
      for (let round = rounds.next(); round !== undefined; round = rounds.next()) {
        await rounds.add({ sums: scoresOf(known, round) });
      }
      const { low, high } = batchOf(rounds.result().estimates);
      if (low <= known.truth.mi_seq_estimate && known.truth.mi_seq_estimate <= high) held++;
    }
    expect(held / draws).toBeGreaterThan(0.91);
  });
});
