// When a certain fall is said of real runs, at several cadences, by scores and by texts; restored in the middle, and in
// whatever order the steps come.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { analyze, type Engine, openEngine, type StepMetrics } from '../../src/index.js';
import { Judge } from '../../src/verdicts/index.js';
import { exampleRuns, trlRuns } from '../support/analysis-logs.js';

const root = fileURLToPath(new URL('../../', import.meta.url));
const runs = trlRuns();
const shared = ['shared', '../shared', '../../shared'].map((folder) => join(root, folder, 'data')).find(existsSync);

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine();
});
afterAll(() => engine.dispose());

interface Step {
  readonly step: number;
  readonly metrics: StepMetrics;
}

async function measured(source: string): Promise<Step[]> {
  const steps: Step[] = [];
  for await (const { step, samples } of analyze([source], { engine, permutations: 0 })) {
    steps.push({ step, metrics: samples[0] as StepMetrics });
  }
  return steps;
}

/** First steps at which it is said, and at which it is a warning. */
function saidAt(steps: readonly Step[], restoredAt?: number): { info?: number; warning?: number } {
  let judge = new Judge();
  const found: { info?: number; warning?: number } = {};
  for (const { step, metrics } of steps) {
    if (step === restoredAt) judge = Judge.from(JSON.parse(JSON.stringify(judge)));
    const verdict = judge.add({ step, metrics }).verdicts.find(({ kind }) => kind === 'dependence_lower');
    if (verdict === undefined) continue;
    found.info ??= step;
    if (verdict.severity === 'warning') found.warning ??= step;
  }
  return found;
}

const taken: Record<string, (step: number) => boolean> = {
  'every step': () => true,
  'the first five and every fifth': (step) => step <= 5 || step % 5 === 0,
  'every fifth': (step) => step % 5 === 0,
};

describe('a certain fall of a run of TRL', () => {
  it.each([
    ['falling', 'every step', { info: 8, warning: 12 }],
    ['falling', 'the first five and every fifth', { info: 15, warning: 20 }],
    ['falling', 'every fifth', { info: 30 }],
    ['collapse', 'every step', { info: 25, warning: 40 }],
    ['filtered', 'every step', { info: 15, warning: 15 }],
    ['steady', 'every step', {}],
    ['steady', 'every fifth', {}],
  ] as const)('(%s) is said in time from %s', async (run, cadence, wanted) => {
    const steps = (await measured(join(runs, run))).filter(({ step }) => taken[cadence]?.(step));
    expect(saidAt(steps)).toEqual(wanted);
    for (const restoredAt of [5, 10, 15, 20]) expect(saidAt(steps, restoredAt)).toEqual(wanted);
  });
});

describe('a certain fall of a shipped run', () => {
  it.each([
    ['collapse', 1, { info: 140, warning: 140 }],
    ['filtered', 1, { info: 108, warning: 108 }],
    ['healthy', 1, {}],
    ['collapse', 5, { info: 160, warning: 160 }],
    ['filtered', 5, { info: 120, warning: 140 }],
    ['healthy', 5, {}],
  ] as const)('(%s) is said in time from every %d of its steps', async (run, every, wanted) => {
    const steps = (await measured(join(exampleRuns, run))).filter((_, at) => at % every === 0);
    expect(saidAt(steps)).toEqual(wanted);
  });

  it('is said alike whatever the order in which its steps are named', async () => {
    const run = join(exampleRuns, 'filtered');
    const said = async (sources: readonly string[]) => {
      const found: (string | undefined)[] = [];
      for await (const { judgement } of analyze(sources, { engine, permutations: 0 })) {
        found.push(judgement?.verdicts.find(({ kind }) => kind === 'dependence_lower')?.sentence);
      }
      return found;
    };
    const steps = (await measured(run)).map(({ step }) =>
      join(run, `step_${String(step).padStart(5, '0')}.safetensors`),
    );
    expect(steps.every((path) => existsSync(path))).toBe(true);
    expect(await said(steps.toReversed())).toEqual(await said([run]));
  });
});

describe.skipIf(shared === undefined)('a certain fall that texts tell (gsm-verl, trl-runs)', () => {
  it.each([
    ['gsm-verl/drift', 8],
    ['gsm-verl/steady', undefined],
    ['trl-runs/steady/completions', undefined],
  ])('(%s) is said in time, or never', async (source, by) => {
    let said: number | undefined;
    for await (const { step, judgement } of analyze([join(shared ?? '', source)], { engine, permutations: 19 })) {
      if (judgement?.verdicts.some(({ kind }) => kind === 'dependence_lower')) said ??= step;
    }
    expect(said).toBe(by);
  });
});
