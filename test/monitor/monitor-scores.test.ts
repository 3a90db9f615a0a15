// Scores into the monitor: in any order and any form the same bits as the whole tensor; which pairs are wanted; what is
// refused.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { estimateFromPairs, planScores } from '../../src/exports/sampling.js';
import {
  ArgumentError,
  crossScoreMetrics,
  type Engine,
  Monitor,
  type MonitorOptions,
  type MonitorStep,
  openEngine,
  type SamplerOptions,
} from '../../src/index.js';
import { columnOf, type SmallStep, scorePrompts, smallStep } from './monitor-run.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ threads: 1 });
});
afterAll(() => engine.dispose());

const open = (small: SmallStep, options: MonitorOptions = {}, step = 1): MonitorStep =>
  new Monitor({ engine, permutations: 19, ...options }).step(step, small.labels);

const metricsOf = async (step: MonitorStep) => JSON.stringify((await step.finish()).stepMetrics);

/** Sums over tokens of one prompt, as the engine takes them. */
async function sumsOf({ logprobs, labels }: SmallStep, prompt: number): Promise<Float64Array> {
  const { sums } = await engine.sumTokens(logprobs, labels.lengths);
  const [P, R] = logprobs.shape;
  return Float64Array.from({ length: R }, (_, row) => sums.data[row * P + prompt] as number);
}

/** The rows of one prompt's log-probs without padding, or only some of them. */
function packed({ logprobs, labels }: SmallStep, prompt: number, rows?: Int32Array) {
  const [, R, T] = logprobs.shape;
  const chosen = rows ?? Int32Array.from({ length: R }, (_, row) => row);
  const tokens = Array.from(chosen).flatMap((row) => {
    const first = (prompt * R + row) * T;
    return Array.from(logprobs.data.subarray(first, first + (labels.lengths[row] as number)));
  });
  return { data: Float32Array.from(tokens), dtype: 'float32', shape: [tokens.length] } as const;
}

describe('scores', () => {
  it('give the bits of crossScoreMetrics, whole or prompt by prompt, in any order and form', async () => {
    const cases = fc.record({
      seed: fc.nat(),
      prompts: fc.integer({ min: 2, max: 6 }),
      responses: fc.integer({ min: 1, max: 4 }),
      profile: fc.constantFrom('strict' as const, 'ragen' as const),
      order: fc.infiniteStream(fc.nat()),
      forms: fc.infiniteStream(fc.constantFrom('padded', 'packed', 'strided', 'sums')),
    });
    await fc.assert(
      fc.asyncProperty(cases, async ({ seed, prompts, responses, profile, order, forms }) => {
        const small = smallStep(seed, { prompts, responses });
        const { labels, logprobs } = small;
        const options = { profile, permutations: 19, step: 1 };
        const wanted = JSON.stringify(await crossScoreMetrics(engine, { ...labels, logprobs }, options));

        const whole = open(small, { profile });
        await whole.scoreAll({ logprobs });
        expect(await metricsOf(whole)).toBe(wanted);

        const summed = open(small, { profile });
        await summed.scoreAll({ sums: (await engine.sumTokens(logprobs, labels.lengths)).sums });
        expect(await metricsOf(summed)).toBe(wanted);

        const step = open(small, { profile });
        const left = step.pairs().byPrompt.map(({ prompt }) => prompt);
        expect(left).toEqual(Array.from({ length: prompts }, (_, prompt) => prompt));
        const begun: Promise<void>[] = [];
        while (left.length > 0) {
          const [prompt] = left.splice((order.next().value as number) % left.length, 1) as [number];
          const form = forms.next().value;
          if (form === 'padded') begun.push(step.score(prompt, columnOf(small, prompt)));
          else if (form === 'packed') begun.push(step.score(prompt, packed(small, prompt)));
          else if (form === 'sums') begun.push(step.score(prompt, await sumsOf(small, prompt)));
          else {
            const [P, R, T] = logprobs.shape;
            const turned = new Float32Array(T * R * P);
            for (let t = 0; t < T; t++) {
              for (let r = 0; r < R; r++) turned[t * R + r] = logprobs.data[(prompt * R + r) * T + t] as number;
            }
            begun.push(step.score(prompt, { data: turned, dtype: 'float32', shape: [R, T], strides: [1, R] }));
          }
        }
        // finish() waits for what was begun.
        const found = metricsOf(step);
        await Promise.all(begun);
        expect(await found).toBe(wanted);
      }),
      { numRuns: 60 },
    );
  });

  it('know prompts by the order of columnGroups', async () => {
    const small = smallStep(5);
    const order = [30, 0, 20, 10];
    const step = new Monitor({ engine, permutations: 19 }).step(1, { ...small.labels, columnGroups: order });
    for (const [prompt, group] of order.entries()) await step.score(prompt, columnOf(small, group / 10));
    const plain = open(small);
    await scorePrompts(plain, small);
    expect(await metricsOf(step)).toBe(await metricsOf(plain));
  });

  it('are copied: the trainer may use its arrays again', async () => {
    const small = smallStep(6);
    const labels = { ...small.labels, groups: small.labels.groups.slice(), lengths: small.labels.lengths.slice() };
    const step = new Monitor({ engine, permutations: 19 }).step(1, labels);
    for (let prompt = 0; prompt < 4; prompt++) {
      const sums = await sumsOf(small, prompt);
      const scored = step.score(prompt, sums);
      sums.fill(Number.NaN);
      await scored;
    }
    labels.groups.fill(0);
    labels.lengths.fill(0);
    const plain = open(small);
    await scorePrompts(plain, small);
    expect(await metricsOf(step)).toBe(await metricsOf(plain));
  });

  it('may hold a NaN: the row is left out and named', async () => {
    const small = smallStep(7);
    small.logprobs.data[4 * 5] = Number.NaN; // prompt 0, row 5, token 0
    const step = open(small);
    await scorePrompts(step, small);
    const report = await step.finish();
    expect(report.stepMetrics?.rows.nonFinite).toEqual([5]);
    expect(report.notes.join()).toContain('1 (row 5)');
  });
});

describe('wanted pairs', () => {
  const sampled = (sampler: SamplerOptions | SamplerOptions[], step = 1) =>
    open(smallStep(11, { prompts: 8, responses: 4, turns: true }), { sampler }, step).pairs();

  it('are those rows under all prompts for first turns', () => {
    const { byPrompt, rows, prompts } = sampled({ kind: 'first_turn' });
    const first = Array.from({ length: 16 }, (_, episode) => 2 * episode);
    expect(byPrompt.map(({ prompt, rows: of }) => [prompt, [...of]])).toEqual(
      [0, 1, 2, 3, 4, 5, 6, 7].map((p) => [p, first]),
    );
    expect([rows.length, prompts.length]).toEqual([128, 128]);
    expect([prompts[16], rows[16], byPrompt[1]?.first]).toEqual([1, 0, 16]);
  });

  it('of n draws: n rows under their prompts, drawn anew each step, the same when a step is opened again', () => {
    const draws = [1, 5, 10, 15].map((step) => sampled({ kind: 'turn', n: 5 }, step));
    for (const { byPrompt } of draws) {
      const rows = byPrompt[0]?.rows as Int32Array;
      expect(rows.length).toBe(5);
      expect(byPrompt.map(({ prompt }) => prompt)).toEqual([
        ...new Set(Array.from(rows, (row) => Math.floor(row / 4))),
      ]);
    }
    expect(new Set(draws.map(({ rows }) => rows.join())).size).toBe(4);
    expect(sampled({ kind: 'turn', n: 5 }, 10).rows).toEqual(draws[2]?.rows);
  });

  it('of several samplers: what any of them reads', async () => {
    const small = smallStep(12, { prompts: 8, responses: 4, turns: true });
    const samplers: SamplerOptions[] = [{ kind: 'first_turn' }, { kind: 'trajectory', n: 6 }, { kind: 'turn', n: 4 }];
    const step = open(small, { sampler: samplers }, 5);
    await scorePrompts(step, small);
    const report = await step.finish();
    expect(report.samples?.map(({ label }) => label)).toEqual([
      'collapse_first_turn_sample',
      'collapse_trajectory_sample',
      'collapse_turn_sample',
    ]);
    for (const [at, sampler] of samplers.entries()) {
      const { labels, logprobs } = small;
      const options = { sampler: { ...sampler, seed: 5 }, permutations: 19, step: 5 };
      const wanted = await crossScoreMetrics(engine, { ...labels, logprobs }, options);
      expect(JSON.stringify(report.samples?.[at])).toBe(JSON.stringify(wanted));
      expect({ ...report.metrics, ...report.certainty }).toMatchObject(wanted.logged);
    }
  });

  it('can be all that is given: padded, packed or sums, the same bits', async () => {
    const small = smallStep(13, { prompts: 8, responses: 4, turns: true });
    const sampler: SamplerOptions = { kind: 'turn', n: 5 };
    const plain = open(small, { sampler });
    await scorePrompts(plain, small);
    const wanted = await metricsOf(plain);
    const [, R, T] = small.logprobs.shape;
    const sums = await Promise.all(Array.from({ length: 8 }, (_, prompt) => sumsOf(small, prompt)));
    const forms = {
      padded(prompt: number, rows: Int32Array) {
        const data = new Float32Array(rows.length * T);
        rows.forEach((row, at) => {
          const first = (prompt * R + row) * T;
          data.set(small.logprobs.data.subarray(first, first + T), at * T);
        });
        return { data, dtype: 'float32' as const, shape: [rows.length, T] };
      },
      packed: (prompt: number, rows: Int32Array) => packed(small, prompt, rows),
      sums: (prompt: number, rows: Int32Array) => Array.from(rows, (row) => sums[prompt]?.[row] as number),
    };
    for (const form of Object.values(forms)) {
      const step = open(small, { sampler });
      for (const { prompt, rows } of step.pairs().byPrompt) await step.score(prompt, form(prompt, rows));
      expect(await metricsOf(step)).toBe(wanted);
    }
  });

  it('are the plan of planScores for few negatives, and give its estimates', async () => {
    const small = smallStep(14, { prompts: 8, responses: 4 });
    const { groups, lengths } = small.labels;
    const step = open(small, { negatives: 3, seed: 2 }, 5);
    const plan = planScores({ groups, lengths }, { negatives: 3, seed: 7 });
    expect(step.pairs().rows).toEqual(plan.rows);
    for (const { prompt, rows } of step.pairs().byPrompt) {
      const sums = await sumsOf(small, prompt);
      await step.score(
        prompt,
        Array.from(rows, (row) => sums[row] as number),
      );
    }
    const report = await step.finish();
    const sums = await Promise.all(Array.from({ length: 8 }, (_, prompt) => sumsOf(small, prompt)));
    const found = await estimateFromPairs(engine, plan, {
      sums: Array.from(plan.rows, (row, at) => sums[plan.prompts[at] as number]?.[row] as number),
    });
    expect(report.stepMetrics?.values).toEqual(found.values);
    expect(report.stepMetrics?.certainty).toEqual(found.certainty);
    expect(report.metrics['collapse_first_turn_sample/mi_seq_estimate']).toBe(found.values.mi_seq_estimate);
    expect(report.metrics['collapse_first_turn_sample/scored_pairs']).toBe(32 * 4);
  });

  it('of few negatives are too few for figures of environments, which a note says', async () => {
    const small = smallStep(14, { prompts: 8, responses: 4 });
    const notesOf = async (options: MonitorOptions, environments: string[]) => {
      const { labels } = small;
      const step = open({ ...small, labels: { ...labels, environments } }, options);
      for (const { prompt, rows } of step.pairs().byPrompt) {
        const sums = await sumsOf(small, prompt);
        await step.score(
          prompt,
          Array.from(rows, (row) => sums[row] as number),
        );
      }
      return (await step.finish()).notes.filter((note) => note.includes('environments have no figures'));
    };
    const names = Array.from(small.labels.groups as ArrayLike<number>, (group) => `env-${group % 20}`);
    const [said, ...others] = await notesOf({ negatives: 3 }, names);
    expect(said).toMatch(/^the 2 environments have no figures .* 128 of 256 are scored; without `negatives`/);
    expect(others).toEqual([]);
    expect(await notesOf({}, names)).toEqual([]);
    expect(await notesOf({ negatives: 7 }, names)).toEqual([]);
    expect(await notesOf({ negatives: 3 }, names.fill('one'))).toEqual([]);
  });

  it('of few negatives have every row under its own prompt, which is what grounding needs', async () => {
    const small = smallStep(14, { prompts: 8, responses: 4 });
    // Two prompts are the same: one of them is scored for both. A row has no reasoning, another a NaN.
    const promptTokens = Array.from({ length: 8 }, (_, prompt) => [prompt === 5 ? 2 : prompt]);
    small.labels.lengths[7] = 0;
    small.logprobs.data[(2 * 32 + 9) * 4] = Number.NaN;
    small.logprobs.data.copyWithin(5 * 32 * 4, 2 * 32 * 4, 3 * 32 * 4);
    const labels = { ...small.labels, promptTokens };
    const ablated = Array.from({ length: 32 }, (_, row) => -9 - (row % 5));
    const [whole, few] = await Promise.all(
      [{}, { negatives: 3 }].map(async (options) => {
        const step = open({ ...small, labels }, options);
        await scorePrompts(step, small);
        return (await step.finish({ ablated })).judgement?.grounding;
      }),
    );
    expect(whole?.rows).toBe(30);
    expect(few).toEqual(whole);
  });

  it('of negatives of the own turn need it of every prompt, as its rows tell it', () => {
    const { labels } = smallStep(14, { prompts: 6, responses: 2 });
    const monitor = new Monitor({ engine, negatives: 4, hardShare: 0.5 });
    const turns = labels.groups.map((group) => (group < 30 ? 0 : 1));
    expect(monitor.step(1, { ...labels, turns }).pairs().rows).toHaveLength(12 * 5);
    const columnGroups = [...new Set(labels.groups), 99];
    const advice = 'construct it without `hardShare`';
    expect(() => monitor.step(1, { ...labels, turns, columnGroups })).toThrow(advice);
    expect(() => monitor.step(1, { ...labels, turns: labels.groups.map((_, row) => row) })).toThrow(advice);
  });

  it('of as many negatives as there are: everything, and the whole metrics', async () => {
    const small = smallStep(15);
    const step = open(small, { negatives: 3 });
    await scorePrompts(step, small);
    const plain = open(small);
    await scorePrompts(plain, small);
    expect(await metricsOf(step)).toBe(await metricsOf(plain));
  });

  it('are none where nothing can be told apart', async () => {
    const one = smallStep(16, { prompts: 1 });
    const step = open(one);
    expect(step.pairs().byPrompt).toEqual([]);
    const report = await step.finish();
    expect(report.absent['collapse_first_turn_sample/mi_seq_estimate']).toContain('at least 2 prompts');
    const silent = smallStep(17);
    const none = { ...silent, labels: { ...silent.labels, lengths: new Int32Array(12) } };
    expect(open(none).pairs().rows.length).toBe(0);
    expect((await open(none).finish()).absent['collapse_first_turn_sample/mi_estimate']).toContain(
      'no row has reasoning',
    );
  });
});

describe('refused scores', () => {
  const small = smallStep(21);
  const refused = async (work: Promise<unknown>, argument: string, words: string): Promise<void> => {
    const error = await work.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(ArgumentError);
    expect((error as ArgumentError).argument).toBe(argument);
    expect((error as ArgumentError).message).toContain(words);
  };

  it('of a prompt twice, also while the first is under way, or after all', async () => {
    const step = open(small);
    const first = step.score(1, columnOf(small, 1));
    await refused(step.score(1, columnOf(small, 1)), 'prompt', 'prompt 1 was scored before');
    await first;
    await refused(step.scoreAll({ logprobs: small.logprobs }), 'prompt', 'prompt 1 was scored before');
    const whole = open(small);
    await whole.scoreAll({ logprobs: small.logprobs });
    await refused(whole.score(0, columnOf(small, 0)), 'prompt', 'prompt 0 was scored before');
  });

  it('never given: the prompts are named, and the step can still be finished', async () => {
    const step = open(small);
    await step.score(2, columnOf(small, 2));
    await refused(step.finish(), 'scores', '3 of 4 prompts were never scored: 0 (group 0), 1 (group 10), 3 (group 30)');
    for (const prompt of [0, 1, 3]) await step.score(prompt, columnOf(small, prompt));
    expect((await step.finish()).stepMetrics?.rows.used).toBe(12);
  });

  it('that failed or were aborted can be given again', async () => {
    const step = open(small);
    const aborted = AbortSignal.abort(new Error('enough'));
    await expect(step.score(0, columnOf(small, 0), { signal: aborted })).rejects.toThrow('enough');
    await expect(step.score(1, { data: new Float32Array(3), dtype: 'float32', shape: [12, 4] })).rejects.toThrow(
      ArgumentError,
    );
    await scorePrompts(step, small);
    const plain = open(small);
    await scorePrompts(plain, small);
    expect(await metricsOf(step)).toBe(await metricsOf(plain));
  });

  it.each<[unknown, unknown, string, string]>([
    [4, [], 'prompt', '0 to 3'],
    [-1, [], 'prompt', '0 to 3'],
    [0.5, [], 'prompt', '0.5'],
    ['0', [], 'prompt', '"0"'],
    [0, [1, 2], 'sums', 'got 2 rows, expected all 12 rows'],
    [0, Array(12).fill('x'), 'sums', 'entry 0 is "x"'],
    [0, { data: new Float32Array(12), dtype: 'float32', shape: [3, 4] }, 'logprobs', 'got 3 rows'],
    [0, { data: new Float32Array(5), dtype: 'float32', shape: [5] }, 'logprobs', 'got 5 packed tokens'],
    [0, { data: new Float32Array(48), dtype: 'float32', shape: [1, 12, 4] }, 'logprobs.shape', '[1, 12, 4]'],
    [0, undefined, 'scores', 'undefined'],
    [0, { sums: [] }, 'scores', 'expected a Tensor'],
  ])('score(%j, %j)', async (prompt, scores, argument, words) => {
    await refused(open(small).score(prompt as number, scores as number[]), argument, words);
  });

  it.each<[object, string, string]>([
    [{}, 'scores', 'exactly one'],
    [{ logprobs: small.logprobs, sums: small.logprobs }, 'scores', 'exactly one'],
    [{ sums: { data: new Float64Array(44), dtype: 'float64', shape: [11, 4] } }, 'scores.sums', '[11, 4]'],
    [{ logprobs: { ...small.logprobs, shape: [3, 16, 4] } }, 'scores.logprobs', '[3, 16, 4]'],
    [{ logprobs: { ...small.logprobs, shape: [3, 64] } }, 'scores.logprobs', '[3, 64]'],
    [{ logprobs: { ...small.logprobs, shape: [192] } }, 'scores.logprobs', '[192]'],
  ])('scoreAll(%j)', async (scores, argument, words) => {
    await refused(open(small).scoreAll(scores), argument, words);
  });

  it('at a step that is not due', async () => {
    const step = open(small, { judge: false }, 3);
    expect([step.due, step.pairs().rows.length]).toEqual([false, 0]);
    await refused(step.score(0, columnOf(small, 0)), 'prompt', 'step 3 is not due (everySteps is 5)');
    await refused(step.scoreAll({ logprobs: small.logprobs }), 'prompt', '{ due: true }');
  });
});
