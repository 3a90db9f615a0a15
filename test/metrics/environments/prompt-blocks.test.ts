// The note on a batch whose prompts fall into groups that nobody named, on policies that are known exactly.
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as mixed from '../../../bench/mixed-runs.mjs';
import { analyze, type CrossScores, crossScoreMetrics, type Engine, openEngine } from '../../../src/index.js';
import { exampleRuns } from '../../support/analysis-logs.js';
import { uniformNumbers } from '../../support/random-numbers.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ device: 'cpu' });
});
afterAll(() => engine.dispose());

async function groupsSaid(scores: CrossScores): Promise<number | undefined> {
  const { notes } = await crossScoreMetrics(engine, scores, { permutations: 99 });
  const said = notes.flatMap((note) => /prompts fall into about (\d+) groups/.exec(note)?.[1] ?? []);
  expect(said.length).toBeLessThanOrEqual(1);
  return said[0] === undefined ? undefined : Number(said[0]);
}

const unnamed = ({ environments: _, ...scores }: CrossScores): CrossScores => scores;

/** What is said at each of so many seeds. */
async function saidOf(seeds: number, make: (uniform: () => number) => CrossScores): Promise<(number | undefined)[]> {
  const said: (number | undefined)[] = [];
  for (let seed = 1; seed <= seeds; seed++) said.push(await groupsSaid(unnamed(make(uniformNumbers(seed * 7919)))));
  return said;
}

/** A policy of one batch: log-probs of 48 responses by prompt, from which rows are drawn. */
function policy(prompts: number, rows: number, logits: (kind: number) => number, uniform: () => number): CrossScores {
  const tables = Array.from({ length: prompts }, () => {
    const table = Array.from({ length: 48 }, (_, kind) => logits(kind));
    const norm = Math.log(table.reduce((sum, logit) => sum + Math.exp(logit), 0));
    return table.map((logit) => logit - norm);
  });
  const groups = tables.flatMap((_, prompt) => new Array<number>(rows).fill(prompt));
  const data = groups.flatMap((group) => {
    const own = tables[group] as number[];
    let left = uniform();
    let kind = 0;
    while (kind < 47 && left > Math.exp(own[kind] as number)) left -= Math.exp(own[kind++] as number);
    return tables.map((table) => table[kind] as number);
  });
  return {
    sums: { data: Float64Array.from(data), dtype: 'float64', shape: [groups.length, prompts] },
    lengths: groups.map(() => 8),
    groups,
  };
}

const bell = (uniform: () => number) => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());

describe('the note on groups of prompts that the reasoning tells apart', () => {
  for (const [environments, prompts] of [
    [8, 4],
    [8, 2],
    [16, 4],
    [4, 8],
    [2, 16],
  ] as const) {
    for (const own of [0.05, 0.3]) {
      it(`counts ${environments} collapsed environments of ${prompts} prompts (scatter ${own})`, async () => {
        const counts = mixed.even(mixed.namesOf(environments), prompts);
        const said = await saidOf(20, (uniform) => mixed.mixedScores(counts, 6, () => own, uniform));
        expect(said.filter((groups) => groups === environments).length).toBeGreaterThanOrEqual(19);
        expect(said.filter((groups) => groups !== undefined && groups !== environments)).toEqual([]);
      });
    }
  }

  it('comes at no step of a batch whose prompts are told apart, of one environment or of several', async () => {
    for (const counts of [mixed.even(mixed.namesOf(8), 4), mixed.even(mixed.namesOf(4), 4), { one: 16 }, { one: 32 }]) {
      const said = await saidOf(50, (uniform) => mixed.mixedScores(counts, 6, () => 1.8, uniform));
      expect(said.filter((groups) => groups !== undefined)).toEqual([]);
    }
  });

  it('comes at no more than 1% of steps that tell prompts apart by degrees, or forget some or all of them', async () => {
    let said = 0;
    let steps = 0;
    for (const prompts of [8, 16, 32]) {
      for (const own of [0.1, 0.5, 0.8, 1.2, 1.8, 2.5]) {
        const found = await saidOf(12, (uniform) => policy(prompts, 4, () => own * bell(uniform), uniform));
        said += found.filter((groups) => groups !== undefined).length;
        steps += found.length;
      }
      for (const share of [0.5, 0.7, 0.9]) {
        const found = await saidOf(12, (uniform) => {
          const template = Array.from({ length: 48 }, () => 1.5 * bell(uniform));
          let own = 0;
          const logits = (kind: number) => {
            if (kind === 0) own = uniform() < share ? 0.1 : 2.5;
            return (template[kind] as number) + own * bell(uniform);
          };
          return policy(prompts, 6, logits, uniform);
        });
        said += found.filter((groups) => groups !== undefined).length;
        steps += found.length;
      }
    }
    expect(steps).toBe(324);
    expect(said).toBeLessThanOrEqual(0.01 * steps);
  });

  it('comes at no step of the shipped runs, whose reasoning is of one task', async () => {
    for (const run of ['healthy', 'collapse', 'filtered']) {
      for await (const { step, samples } of analyze(join(exampleRuns, run), { engine, permutations: 99 })) {
        expect(samples[0]?.notes.join(), `${run}, step ${step}`).not.toMatch(/groups/);
      }
    }
  });

  it('does not come where environments are named, or where no p-value says that there is dependence', async () => {
    const counts = mixed.even(mixed.namesOf(8), 4);
    const scores = mixed.mixedScores(counts, 6, () => 0.1, uniformNumbers(3));
    expect(await groupsSaid(unnamed(scores))).toBe(8);
    expect(await groupsSaid(scores)).toBeUndefined();
    const one = (scores.groups as number[]).map(() => 'all of one');
    expect(await groupsSaid({ ...scores, environments: one })).toBeUndefined();
    const { notes } = await crossScoreMetrics(engine, unnamed(scores), { permutations: 0 });
    expect(notes.join()).not.toMatch(/groups/);
  });

  it('does not come where the prompts of a group are equal', async () => {
    const counts = mixed.even(mixed.namesOf(8), 4);
    const scores = unnamed(mixed.mixedScores(counts, 6, () => 0.1, uniformNumbers(3)));
    const promptTokens = Array.from({ length: 32 }, (_, prompt) => [Math.floor(prompt / 4)]);
    expect(await groupsSaid({ ...scores, promptTokens })).toBeUndefined();
    expect(await groupsSaid({ ...scores, promptTokens: promptTokens.map((_, prompt) => [prompt]) })).toBe(8);
    expect(await groupsSaid(unnamed(mixed.mixedScores(counts, 6, () => 0, uniformNumbers(3))))).toBeUndefined();
  });

  it('depends on the order of neither rows nor prompts, and says how to name them', async () => {
    const counts = mixed.even(mixed.namesOf(8), 4);
    const { sums, groups, lengths } = mixed.mixedScores(counts, 6, () => 0.3, uniformNumbers(5));
    const [rows, prompts] = [groups.length, 32];
    const data = sums?.data as Float64Array;
    const rowOrder = Array.from({ length: rows }, (_, row) => (row * 5 + 3) % rows);
    const order = Array.from({ length: prompts }, (_, at) => (at * 11 + 7) % prompts);
    // Prompts take other ids, which is what they are ordered by.
    const turned: CrossScores = {
      sums: {
        data: Float64Array.from(rowOrder.flatMap((row) => order.map((at) => data[row * prompts + at] as number))),
        dtype: 'float64',
        shape: [rows, prompts],
      },
      lengths,
      groups: rowOrder.map((row) => order.indexOf((groups as number[])[row] as number)),
    };
    const notesOf = async (scores: CrossScores) =>
      (await crossScoreMetrics(engine, scores, { permutations: 99 })).notes.filter((note) => note.includes('groups'));
    const said = await notesOf({ sums, groups, lengths });
    expect(said).toEqual([
      'the 32 prompts fall into about 8 groups that the reasoning tells apart, and within them it does not: is this a ' +
        'batch of several environments? Name the environment of each row, and each is judged by itself (`environments` ' +
        'of rows, a Monitor or a step file; --columns environment=NAME; in Python environment=NAME)',
    ]);
    expect(await notesOf(turned)).toEqual(said);
  });

  it('does not come of prompts without rows, or of fewer than eight prompts', async () => {
    const scores = unnamed(mixed.mixedScores({ a: 3, b: 3 }, 6, () => 0.1, uniformNumbers(3)));
    expect(await groupsSaid(scores)).toBeUndefined();
    const of = unnamed(mixed.mixedScores({ a: 8, b: 8 }, 6, () => 0.1, uniformNumbers(3)));
    const columnGroups = Array.from({ length: 16 }, (_, at) => at);
    // All rows are of four prompts.
    const groups = (of.groups as number[]).map((group) => (group < 8 ? group % 2 : 8 + (group % 2)));
    expect(await groupsSaid({ ...of, groups, columnGroups })).toBeUndefined();
  });
});
