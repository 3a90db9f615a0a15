// The note on texts whose prompts fall into groups that nobody named: of templates, and of texts that depend on their
// prompts.
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as mixed from '../../../bench/mixed-runs.mjs';
import {
  type Engine,
  openEngine,
  readSteps,
  type TextMetrics,
  type TextStep,
  textMetrics,
} from '../../../src/index.js';
import { exampleRuns } from '../../support/analysis-logs.js';
import { uniformNumbers } from '../../support/random-numbers.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ device: 'cpu' });
});
afterAll(() => engine.dispose());

const noteIn = ({ notes }: TextMetrics): string | undefined => notes.find((note) => note.includes('groups that'));

async function groupsSaid(step: TextStep): Promise<number | undefined> {
  const note = noteIn(await textMetrics(engine, step, { permutations: 99 }));
  const groups = /prompts fall into about (\d+) groups that the text tells apart/.exec(note ?? '')?.[1];
  expect(groups === undefined).toBe(note === undefined);
  return groups === undefined ? undefined : Number(groups);
}

const unnamed = ({ environments: _, ...step }: TextStep): TextStep => step;

/** Environments × prompts × rows that nobody named, `own` of whose words are the prompt's. */
function batch(environments: number, prompts: number, rows: number, own: number, seed: number): TextStep {
  const counts = mixed.even(mixed.namesOf(environments), prompts);
  return unnamed(mixed.mixedTexts(counts, rows, () => own, uniformNumbers(seed * 7919)));
}

async function saidOf(seeds: number, make: (seed: number) => TextStep): Promise<(number | undefined)[]> {
  const said: (number | undefined)[] = [];
  for (let seed = 1; seed <= seeds; seed++) said.push(await groupsSaid(make(seed)));
  return said;
}

/** The rows in another order, under other names. */
function shuffled(step: TextStep, uniform: () => number): TextStep {
  const { tokens = [], groups = [], promptTokens = [] } = step;
  const order = tokens.map((_, row) => ({ row, key: uniform() })).sort((a, b) => a.key - b.key);
  const name = new Map([...new Set(groups as number[])].map((group) => [group, `p${Math.floor(1e9 * uniform())}`]));
  return {
    tokens: order.map(({ row }) => tokens[row] as number[]),
    groups: order.map(({ row }) => name.get(groups[row] as number) as string),
    promptTokens: order.map(({ row }) => promptTokens[row] as number[]),
  };
}

describe('the note on groups of prompts that texts tell apart', () => {
  it.each([
    [8, 4, 6],
    [8, 2, 8],
    [16, 4, 6],
    [4, 8, 6],
    [2, 16, 6],
  ])('counts %i collapsed environments of %i prompts, %i rows each', async (environments, prompts, rows) => {
    const said = await saidOf(20, (seed) => batch(environments, prompts, rows, 0, seed));
    expect(said.filter((groups) => groups === environments).length).toBeGreaterThanOrEqual(18);
    expect(said.filter((groups) => groups !== undefined && groups !== environments)).toEqual([]);
  });

  it('does not depend on the order of the rows or the names of the prompts', async () => {
    for (let seed = 1; seed <= 5; seed++) {
      for (const own of [0, 0.3]) {
        const step = batch(8, 4, 6, own, seed);
        expect(await groupsSaid(shuffled(step, uniformNumbers(seed)))).toBe(own === 0 ? 8 : undefined);
      }
    }
  });

  it('comes at no more than 1% of steps of one environment, or of several whose prompts are told apart', async () => {
    let [said, steps] = [0, 0];
    for (const [environments, prompts] of [
      [1, 8],
      [1, 16],
      [1, 32],
      [8, 4],
      [4, 4],
    ] as const) {
      for (const own of environments === 1 ? [0, 0.03, 0.06, 0.1, 0.2, 0.3] : [0.1, 0.3]) {
        const found = await saidOf(15, (seed) => batch(environments, prompts, 5, own, seed));
        said += found.filter((groups) => groups !== undefined).length;
        steps += found.length;
      }
    }
    expect(steps).toBe(330);
    expect(said).toBeLessThanOrEqual(0.01 * steps);
  });

  it('comes at no step of the shipped runs, whose texts are of one task', async () => {
    for (const run of ['healthy', 'collapse', 'filtered']) {
      for await (const { step, responseIds, lengths, group, prompts, columnGroup } of readSteps(
        join(exampleRuns, run),
      )) {
        const { data, shape } = responseIds as NonNullable<typeof responseIds>;
        const [rows, most] = shape as [number, number];
        const tokens = Array.from({ length: rows }, (_, row) =>
          (data as Int32Array).slice(row * most, row * most + Number((lengths as ArrayLike<number>)[row])),
        );
        const groups = Array.from(group as ArrayLike<number | bigint>, String);
        const promptOf = new Map(
          Array.from(columnGroup as ArrayLike<number | bigint>, (id, column) => [String(id), prompts?.[column]]),
        );
        const promptTokens = groups.map((id) => promptOf.get(id));
        expect(promptTokens).not.toContain(undefined);
        expect(await groupsSaid({ tokens, groups, promptTokens }), `${run}, step ${step}`).toBeUndefined();
      }
    }
  });

  it('does not come where environments are named, or where no p-value says that there is dependence', async () => {
    const step = batch(8, 4, 6, 0, 3);
    expect(await groupsSaid(step)).toBe(8);
    const labels = (name: string | null) => (step.groups as number[]).map(() => name);
    expect(await groupsSaid({ ...step, environments: labels('all of one') })).toBeUndefined();
    expect(await groupsSaid({ ...step, environments: labels(null) })).toBe(8);
    expect(noteIn(await textMetrics(engine, step, { permutations: 0 }))).toBeUndefined();
  });

  it('does not come where the groups of rows are of one prompt each', async () => {
    const step = batch(8, 4, 6, 0, 3);
    const { groups, promptTokens } = step;
    const prompts = (groups as number[]).map((group) => promptTokens?.[4 * 6 * Math.floor(group / 4)]);
    expect(await groupsSaid({ ...step, promptTokens: prompts })).toBeUndefined();
    // Whose prompts are not known may be of several.
    expect(await groupsSaid({ ...step, promptTokens: undefined })).toBe(8);
  });

  it('leaves figures of single prompts where they were not asked for', async () => {
    const step = batch(8, 4, 6, 0, 3);
    const { notes, ...figures } = await textMetrics(engine, step, { permutations: 99 });
    const { perPrompt, ...asked } = await textMetrics(engine, step, { permutations: 99, perPrompt: true });
    expect(perPrompt?.groups).toHaveLength(32);
    expect(asked).toEqual({ ...figures, notes });
    expect(figures).not.toHaveProperty('perPrompt');
  });
});
