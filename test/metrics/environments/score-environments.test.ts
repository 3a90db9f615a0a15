import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CrossScores, crossScoreMetrics, type Engine, openEngine } from '../../../src/index.js';
import { environmentPrefix } from '../../../src/metrics/environments/environment-figures.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ device: 'cpu' });
});
afterAll(() => engine.dispose());

function uniformNumbers(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let z = Math.imul(state ^ (state >>> 15), state | 1);
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61);
    return ((z ^ (z >>> 14)) >>> 0) / 4294967296;
  };
}

/** Prompts of the environments one after the other, each with its rows; the own prompt is a few nats likelier. */
function batch(prompts: readonly number[], rows: number, seed: number, scale = 3) {
  const uniform = uniformNumbers(seed);
  const ofPrompt = prompts.flatMap((count, environment) => new Array<number>(count).fill(environment));
  const columns = ofPrompt.length;
  const groups = ofPrompt.flatMap((_, prompt) => new Array<number>(rows).fill(prompt * 3 + 1));
  const data = new Float64Array(groups.length * columns);
  groups.forEach((group, row) => {
    for (let column = 0; column < columns; column++) {
      const own = (group - 1) / 3 === column;
      data[row * columns + column] = -40 - 6 * uniform() + (own ? scale * uniform() : 0);
    }
  });
  const environments = groups.map((group) => `env ${ofPrompt[(group - 1) / 3]}`);
  const scores: CrossScores = {
    sums: { data, dtype: 'float64', shape: [groups.length, columns] },
    lengths: groups.map(() => 10),
    groups,
  };
  return { scores, environments, columns };
}

const logSumExp = (values: readonly number[]): number => {
  const most = Math.max(...values);
  return most + Math.log(values.reduce((sum, value) => sum + Math.exp(value - most), 0));
};

describe('the chain rule of MI over environments', () => {
  for (const prompts of [
    [4, 4, 4],
    [2, 7, 1],
    [1, 1, 1],
    [3, 1],
    [16, 2],
  ]) {
    it(`adds up, and is what a plain reckoning gives, for ${prompts.join(', ')} prompts`, async () => {
      const { scores, environments, columns } = batch(prompts, 5, 7);
      const { values } = await crossScoreMetrics(engine, { ...scores, environments }, { permutations: 9 });
      const { mi_within: within = Number.NaN, mi_between: between = Number.NaN, mi_seq_estimate: mi } = values;
      expect(Math.abs(within + between - (mi as number))).toBeLessThanOrEqual(1e-12);
      const data = scores.sums?.data as Float64Array;
      let sum = 0;
      const ends = prompts.map((_, at) => prompts.slice(0, at + 1).reduce((a, b) => a + b, 0));
      for (let row = 0; row < environments.length; row++) {
        const own = ((scores.groups as number[])[row] as number) / 3;
        const prompt = Math.floor(own);
        const environment = ends.findIndex((end) => prompt < end);
        const end = ends[environment] as number;
        const begin = end - (prompts[environment] as number);
        const all = Array.from(data.subarray(row * columns + begin, row * columns + end));
        sum += (data[row * columns + prompt] as number) - logSumExp(all) + Math.log(end - begin);
      }
      expect(within).toBeCloseTo(sum / environments.length, 11);
      if (prompts.every((count) => count === 1)) expect(within).toBe(0);
    });
  }

  it('does not depend on the order of rows and columns', async () => {
    const { scores, environments, columns } = batch([4, 3], 4, 11);
    const { values } = await crossScoreMetrics(engine, { ...scores, environments }, { permutations: 9 });
    const rows = environments.map((_, row) => row).reverse();
    const order = Array.from({ length: columns }, (_, column) => (column * 3) % columns);
    const data = scores.sums?.data as Float64Array;
    const groups = scores.groups as number[];
    const turned = {
      sums: {
        data: Float64Array.from(rows.flatMap((row) => order.map((column) => data[row * columns + column] as number))),
        dtype: 'float64' as const,
        shape: [rows.length, columns],
      },
      lengths: rows.map(() => 10),
      groups: rows.map((row) => groups[row] as number),
      columnGroups: order.map((column) => column * 3 + 1),
      environments: rows.map((row) => environments[row] as string),
    };
    const again = await crossScoreMetrics(engine, turned, { permutations: 9 });
    expect(again.values.mi_within).toBeCloseTo(values.mi_within as number, 12);
    expect(again.environments?.map(({ figures }) => figures?.values.mi_seq_estimate)).toEqual(
      (await crossScoreMetrics(engine, { ...scores, environments }, { permutations: 9 })).environments?.map(
        ({ figures }) => figures?.values.mi_seq_estimate,
      ),
    );
  });
});

describe('figures of an environment', () => {
  it('are those of its rows under its columns alone', async () => {
    const { scores, environments, columns } = batch([4, 5], 6, 3);
    const { environments: found, logged } = await crossScoreMetrics(engine, { ...scores, environments });
    expect(found?.map(({ name, rows, prompts }) => ({ name, rows, prompts }))).toEqual([
      { name: 'env 0', rows: 24, prompts: 4 },
      { name: 'env 1', rows: 30, prompts: 5 },
    ]);
    const data = scores.sums?.data as Float64Array;
    const own = Array.from({ length: 30 }, (_, at) =>
      Array.from(data.subarray((24 + at) * columns + 4, (25 + at) * columns)),
    );
    const alone = await crossScoreMetrics(engine, {
      sums: { data: Float64Array.from(own.flat()), dtype: 'float64', shape: [30, 5] },
      lengths: own.map(() => 10),
      groups: (scores.groups as number[]).slice(24),
    });
    expect(found?.[1]?.figures?.values).toEqual(alone.values);
    expect(found?.[1]?.figures?.certainty).toEqual(alone.certainty);
    expect(logged['environment/env 1/collapse_first_turn_sample/mi_seq_estimate']).toBe(alone.values.mi_seq_estimate);
    expect(logged['collapse_first_turn_sample/mi_within']).toBeDefined();
  });

  it('are those of the labels given with token log-probs, too', async () => {
    const { scores, environments, columns } = batch([2, 3], 4, 5);
    const data = scores.sums?.data as Float64Array;
    const rows = environments.length;
    const logprobs = Float64Array.from(
      { length: columns * rows },
      (_, at) => data[(at % rows) * columns + Math.floor(at / rows)] as number,
    );
    const lengths = environments.map(() => 1);
    const bySums = await crossScoreMetrics(engine, { ...scores, lengths, environments });
    const byTokens = await crossScoreMetrics(engine, {
      logprobs: { data: logprobs, dtype: 'float64', shape: [columns, rows, 1] },
      lengths,
      groups: scores.groups,
      environments,
    });
    expect(byTokens).toEqual(bySums);
  });

  it('change nothing of the batch as a whole', async () => {
    const { scores, environments } = batch([4, 5], 6, 3);
    const plain = await crossScoreMetrics(engine, scores);
    const { mi_within, mi_between, ...values } = (await crossScoreMetrics(engine, { ...scores, environments })).values;
    expect(values).toEqual(plain.values);
    const one = await crossScoreMetrics(engine, { ...scores, environments: environments.map(() => 'math') });
    expect({ ...one, environments: undefined }).toEqual({ ...plain, environments: undefined });
    expect(one.environments).toEqual([{ name: 'math', rows: 54, prompts: 9 }]);
    const none = await crossScoreMetrics(engine, { ...scores, environments: environments.map(() => null) });
    expect(none).toEqual(plain);
  });

  it('see a collapse to the last bit as one, not as equal prompts', async () => {
    const { scores, environments, columns } = batch([4, 4], 6, 9);
    const data = scores.sums?.data as Float64Array;
    for (let row = 0; row < environments.length; row++)
      data.fill(row < 24 ? -40 : -70, row * columns, row * columns + 4);
    const { environments: found } = await crossScoreMetrics(engine, { ...scores, environments });
    expect(found?.[0]?.figures?.values.mi_seq_estimate).toBeCloseTo(0, 12);
    expect(found?.[0]?.figures?.columns.distinct).toBe(4);
  });

  it('are of the 64 largest by rows, and all count in mi_within', async () => {
    const { scores, environments } = batch(new Array(70).fill(2), 2, 13);
    const { environments: found, values } = await crossScoreMetrics(
      engine,
      { ...scores, environments },
      { permutations: 9 },
    );
    expect(found).toHaveLength(70);
    expect(found?.filter(({ figures }) => figures !== undefined)).toHaveLength(64);
    expect(values.mi_within).toBeGreaterThan(0);
  });

  it('are under escaped names', () => {
    expect(environmentPrefix('a/b 50%')).toBe('environment/a%2Fb 50%25/');
  });
});
