// Runs whose batches mix environments through a Monitor: which of them its verdicts name, and its notes.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as mixed from '../../bench/mixed-runs.mjs';
import { type Engine, Monitor, openEngine, type StepReport, type Tensor } from '../../src/index.js';
import { uniformNumbers } from '../support/random-numbers.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ threads: 1 });
});
afterAll(() => engine.dispose());

type Told = 'scores' | 'texts';
const WORDS = { scores: { own: 1.8, gone: 0.03 }, texts: { own: 0.3, gone: 0 } };

/** Eight environments, or those that a step has, of which some collapse at step 10. */
async function watched(
  told: Told,
  steps: number,
  collapsing: readonly string[],
  namesAt: (step: number) => readonly string[] = () => mixed.namesOf(8),
): Promise<StepReport[]> {
  const monitor = new Monitor({ engine, permutations: 99 });
  const uniform = uniformNumbers(21);
  const reports: StepReport[] = [];
  const { own, gone } = WORDS[told];
  for (let step = 1; step <= steps; step++) {
    const of = (name: string) => (step >= 10 && collapsing.includes(name) ? gone : own);
    const counts = mixed.even(namesAt(step), 4);
    if (told === 'scores') {
      const { sums, groups, lengths, environments } = mixed.mixedScores(counts, 6, of, uniform);
      const open = monitor.step(step, { groups, lengths, environments, due: true });
      await open.scoreAll({ sums: sums as Tensor });
      reports.push(await open.finish());
      continue;
    }
    const { environments, groups: ofRows, tokens, promptTokens } = mixed.mixedTexts(counts, 6, of, uniform);
    const groups = ofRows as number[];
    const lengths = (tokens as number[][]).map(({ length }) => length);
    const open = monitor.step(step, { groups, lengths, environments, due: false });
    await open.rollouts({ tokens, promptTokens });
    reports.push(await open.finish());
  }
  return reports;
}

const alarmsOf = ({ judgement }: StepReport) =>
  (judgement?.verdicts ?? []).filter(({ severity }) => severity !== 'info');
const namesIn = (report: StepReport | undefined) =>
  [
    ...new Set(
      alarmsOf(report as StepReport).flatMap(({ environment, environments = [] }) => environment ?? environments),
    ),
  ].sort();

describe.each([
  ['scores', 15],
  ['texts', 18],
] as const)('a monitor of a run of eight environments, by %s', (told, latest) => {
  it('names all of them where each collapses to a template of its own', async () => {
    const names = mixed.namesOf(8);
    const reports = await watched(told, latest, names);
    expect(reports.slice(0, 9).flatMap(alarmsOf)).toEqual([]);
    expect(namesIn(reports.at(-1))).toEqual(names);
    const collapse = alarmsOf(reports.at(-1) as StepReport).find(({ kind }) => kind === 'template_collapse');
    expect(collapse?.severity).toBe('critical');
    expect(collapse?.sentence).toMatch(/^Template collapse in 8 of 8 environments \(env-0, env-1, /);
  });

  it('names the three that collapse', async () => {
    const collapsing = ['env-1', 'env-4', 'env-6'];
    const reports = await watched(told, 18, collapsing);
    expect(reports.slice(0, 9).flatMap(alarmsOf)).toEqual([]);
    expect(reports.slice(0, latest).some((report) => alarmsOf(report).length > 0)).toBe(true);
    expect(namesIn(reports.at(-1))).toEqual(collapsing);
  });

  it('says in a note that the run has a new start where all are replaced', async () => {
    const names = mixed.namesOf(8);
    const reports = await watched(told, 14, [], (step) => (step < 8 ? names.slice(0, 4) : names.slice(4)));
    const said = reports.flatMap(({ step, notes }) =>
      notes.filter((note) => note.includes('compared with')).map((note) => `${step}: ${note}`),
    );
    expect(said).toEqual([
      expect.stringMatching(/^12: too little is left .*with steps 8 to 12 \(env-4, env-5, env-6, env-7\)/),
    ]);
    expect(reports.flatMap(alarmsOf)).toEqual([]);
  });
});

describe('a monitor of a run whose environments nobody named', () => {
  it('says in a note into how many groups its texts fall, from when they collapse', async () => {
    const monitor = new Monitor({ engine, permutations: 99 });
    const uniform = uniformNumbers(5);
    const counts = mixed.even(mixed.namesOf(8), 4);
    for (const own of [WORDS.texts.own, WORDS.texts.own, WORDS.texts.gone]) {
      const { groups, tokens, promptTokens } = mixed.mixedTexts(counts, 6, () => own, uniform);
      const lengths = (tokens as number[][]).map(({ length }) => length);
      const open = monitor.step((monitor.lastStep ?? 0) + 1, { groups: groups as number[], lengths, due: false });
      await open.rollouts({ tokens, promptTokens });
      const { notes } = await open.finish();
      const said = notes.filter((note) => note.startsWith('the 32 prompts fall into about 8 groups'));
      expect(said).toHaveLength(own === WORDS.texts.gone ? 1 : 0);
    }
  });
});
