// What the judge says of runs whose batches mix environments, by cross-scores of an exact policy and by texts alone.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as mixed from '../../bench/mixed-runs.mjs';
import {
  crossScoreMetrics,
  type Engine,
  Judge,
  type JudgeJson,
  openEngine,
  type StepMetrics,
  type TextMetrics,
  textMetrics,
  type Verdict,
} from '../../src/index.js';
import { uniformNumbers } from '../support/random-numbers.js';

type Counts = Readonly<Record<string, number>>;

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine();
});
afterAll(() => engine.dispose());

type Instrument = 'scores' | 'texts';

interface Evidence {
  readonly step: number;
  readonly metrics?: StepMetrics;
  readonly texts?: TextMetrics;
}

interface MixedRun {
  readonly instrument: Instrument;
  readonly names: readonly string[];
  readonly rows: number;
  readonly seed: number;
  readonly steps: number;
  readonly counts: (step: number, uniform: () => number) => Counts;
  /** Environments that collapse at step 10 to a template of their own. */
  readonly collapsing?: readonly string[];
}

async function stepsOf({ instrument, rows, seed, steps, counts, collapsing = [] }: MixedRun): Promise<Evidence[]> {
  const uniform = uniformNumbers(seed);
  const found: Evidence[] = [];
  const isScored = instrument === 'scores';
  for (let step = 1; step <= steps; step++) {
    const isGone = (name: string) => step >= 10 && collapsing.includes(name);
    const own = (name: string) => (isScored ? (isGone(name) ? 0.03 : 1.8) : isGone(name) ? 0 : 0.3);
    const now = counts(step, uniform);
    found.push(
      isScored
        ? {
            step,
            metrics: await crossScoreMetrics(engine, mixed.mixedScores(now, rows, own, uniform), { permutations: 99 }),
          }
        : { step, texts: await textMetrics(engine, mixed.mixedTexts(now, rows, own, uniform), { permutations: 99 }) },
    );
  }
  return found;
}

const alarmsOf = (verdicts: readonly Verdict[]) => verdicts.filter(({ severity }) => severity !== 'info');
const namesIn = (verdicts: readonly Verdict[]) =>
  [...new Set(verdicts.flatMap(({ environment, environments = [] }) => environment ?? environments))].sort();

/** First step with an alarm, and the alarms of the last step. */
function judged(steps: readonly Evidence[], judge = new Judge()) {
  let first: number | undefined;
  let last: Verdict[] = [];
  for (const evidence of steps) {
    last = alarmsOf(judge.add(evidence).verdicts);
    if (last.length > 0) first ??= evidence.step;
  }
  return { first, last, judge };
}

const SHAPES = [
  [8, 4, 6],
  [8, 2, 8],
  [16, 4, 6],
  [4, 8, 6],
] as const;

for (const [instrument, latest] of [
  ['scores', 15],
  ['texts', 18],
] as const) {
  describe(`a run of several environments, by ${instrument}`, () => {
    it.each(SHAPES)(
      'is called collapsed where each of %i × %i prompts, %i rows each, is',
      async (environments, prompts, rows) => {
        const names = mixed.namesOf(environments);
        const counts = () => mixed.even(names, prompts);
        const steps = await stepsOf({
          instrument,
          names,
          rows,
          seed: environments + rows,
          steps: 18,
          counts,
          collapsing: names,
        });
        const { first, last } = judged(steps);
        expect(first).toBeGreaterThanOrEqual(10);
        expect(first).toBeLessThanOrEqual(latest);
        expect(namesIn(last)).toEqual([...names].sort());
        const collapse = last.find(({ kind }) => kind === 'template_collapse');
        expect(collapse?.severity).toBe('critical');
        expect(collapse?.sentence).toMatch(
          new RegExp(`^Template collapse in ${environments} of ${environments} environments \\(`),
        );
      },
    );

    it('names exactly the three of eight that collapse, and since when', async () => {
      const names = mixed.namesOf(8);
      const collapsing = ['env-1', 'env-4', 'env-6'];
      const counts = () => mixed.even(names, 4);
      const { first, last } = judged(
        await stepsOf({ instrument, names, rows: 6, seed: 5, steps: 18, counts, collapsing }),
      );
      expect(first).toBeGreaterThanOrEqual(10);
      expect(first).toBeLessThanOrEqual(latest);
      expect(namesIn(last)).toEqual(collapsing);
      expect(last[0]?.sentence).toContain(
        'Template collapse in 3 of 8 environments (env-1, env-4, env-6) since step 1',
      );
    });

    it.each([1, 2, 3])('says by step 20 which of eight with two prompts each collapse (seed %i)', async (seed) => {
      const names = mixed.namesOf(8);
      const collapsing = ['env-1', 'env-4', 'env-6'];
      const counts = () => mixed.even(names, 2);
      const steps = await stepsOf({ instrument, names, rows: 8, seed, steps: 24, counts, collapsing });
      const judge = new Judge();
      const { first, last } = judged(steps.slice(0, 20), judge);
      expect(first).toBeGreaterThanOrEqual(10);
      const early = namesIn(last);
      expect(early.length).toBeGreaterThanOrEqual(1);
      expect(collapsing).toEqual(expect.arrayContaining(early));
      // Two prompts of one step tell little: their steps are judged two at a time.
      const later = judged(steps.slice(20), judge).last;
      expect(namesIn(later)).toEqual(collapsing);
      const collapse = later.find(({ kind }) => kind === 'template_collapse');
      expect(collapse?.sentence).toContain(`${instrument === 'scores' ? 'I(X;Z)' : 'bound of I(X;Z)'} over 2 steps is`);
    });

    it('says nothing of healthy environments of two prompts, or of one to four by chance', async () => {
      const names = mixed.namesOf(8);
      const run = { instrument, names, rows: 8, seed: 7, steps: 40 } as const;
      expect(judged(await stepsOf({ ...run, counts: () => mixed.even(names, 2) })).first).toBeUndefined();
      const counts = (_: number, uniform: () => number) => mixed.byChance(names, 16, uniform);
      expect(judged(await stepsOf({ ...run, counts })).first).toBeUndefined();
    });

    it.each([1, 2])('says nothing of a healthy mixture, steady or changing (seed %i)', async (seed) => {
      const names = mixed.namesOf(8);
      const steady = await stepsOf({ instrument, names, rows: 6, seed, steps: 16, counts: () => mixed.even(names, 4) });
      expect(judged(steady).first).toBeUndefined();
      const changing = await stepsOf({
        ...{ instrument, names, rows: 6, seed, steps: 16 },
        counts: (_, uniform) => mixed.byChance(names, 32, uniform),
      });
      expect(judged(changing).first).toBeUndefined();
    });

    it('continues to the bit from a saved judge, whose state does not grow', async () => {
      const names = mixed.namesOf(5);
      const counts = (step: number) => (step < 4 ? { 'env-0': 4 } : mixed.even(names, step % 3 === 0 ? 4 : 3));
      const steps = await stepsOf({ instrument, names, rows: 6, seed: 9, steps: 20, counts, collapsing: names });
      const whole = new Judge();
      let parts = new Judge();
      for (const evidence of steps) {
        const saved = JSON.parse(JSON.stringify(parts)) as JudgeJson;
        parts = Judge.from(saved);
        expect(parts.add(evidence)).toEqual(whole.add(evidence));
        expect(JSON.stringify(parts)).toBe(JSON.stringify(whole));
      }
      const sizeOf = ({ scores, texts }: JudgeJson): number => JSON.stringify([scores.mixed, texts.mixed]).length;
      const size = sizeOf(whole.toJSON());
      for (let step = 21; step < 60; step++) whole.add({ ...(steps[18 + (step % 2)] as Evidence), step });
      expect(sizeOf(whole.toJSON())).toBeLessThan(1.5 * size);
    });
  });
}

describe('a run of several environments', () => {
  it('gives a new one its own start, and goes on with the one that it was of before', async () => {
    const names = mixed.namesOf(2);
    const counts = (step: number): Counts => (step <= 7 ? { 'env-0': 8 } : { 'env-0': 8, 'env-1': 8 });
    const run = { instrument: 'scores', names, rows: 8, seed: 3, counts } as const;
    const steps = await stepsOf({ ...run, steps: 14, collapsing: ['env-0'] });
    const { first, last } = judged(steps);
    // The run of two is judged from its sixth step on, its first environment by its own start.
    expect(first).toBeLessThanOrEqual(12);
    expect(namesIn(last)).toEqual(['env-0']);
    expect(last[0]?.environment).toBe('env-0');
    expect(judged(await stepsOf({ ...run, steps: 20 })).first).toBeUndefined();
  });

  it('keeps an alarm over steps that the environment is not in', async () => {
    const names = mixed.namesOf(3);
    const counts = (step: number): Counts => (step < 14 ? mixed.even(names, 4) : { 'env-1': 4, 'env-2': 4 });
    const steps = await stepsOf({
      instrument: 'scores',
      names,
      rows: 8,
      seed: 4,
      steps: 18,
      counts,
      collapsing: ['env-0'],
    });
    expect(namesIn(judged(steps.slice(0, 13)).last)).toEqual(['env-0']);
    expect(namesIn(judged(steps).last)).toEqual(['env-0']);
  });

  it('is judged as one without labels where all are of one environment', async () => {
    const names = mixed.namesOf(1);
    const steps = await stepsOf({
      ...{ instrument: 'scores', names, rows: 8, seed: 6, steps: 16, collapsing: names },
      counts: () => mixed.even(names, 8),
    });
    const [named, plain] = [new Judge(), new Judge()];
    for (const { step, metrics } of steps) {
      const { environments, ...unnamed } = metrics as StepMetrics;
      expect(named.add({ step, metrics: metrics as StepMetrics })).toEqual(plain.add({ step, metrics: unnamed }));
    }
    expect(named.summary()).toEqual(plain.summary());
  });
});

describe('a run whose environments are all replaced', () => {
  const before = ['env-0', 'env-1', 'env-2', 'env-3'];
  const after = ['env-4', 'env-5', 'env-6', 'env-7'];
  const NEW_AT = 12;

  /** From step 12 on other environments, with texts or scores that depend on their prompts by `own`. */
  async function replaced(
    instrument: Instrument,
    { prompts, steps, own }: { prompts: number; steps: number; own: (name: string, step: number) => number },
  ): Promise<Evidence[]> {
    const uniform = uniformNumbers(11);
    const found: Evidence[] = [];
    for (let step = 1; step <= steps; step++) {
      const counts = mixed.even(step < NEW_AT ? before : after, prompts);
      const of = (name: string) => own(name, step);
      if (instrument === 'scores') {
        const scores = mixed.mixedScores(counts, 8, of, uniform);
        found.push({ step, metrics: await crossScoreMetrics(engine, scores, { permutations: 99 }) });
      } else {
        const texts = mixed.mixedTexts(counts, 8, of, uniform);
        found.push({ step, texts: await textMetrics(engine, texts, { permutations: 99 }) });
      }
    }
    return found;
  }

  it.each([
    ['scores', 1.8],
    ['texts', 0.3],
  ] as const)('gets a new start, by %s, which a note says once', async (instrument, healthy) => {
    const judge = new Judge();
    const notes: string[] = [];
    const regimes: (string | null)[] = [];
    for (const evidence of await replaced(instrument, { prompts: 4, steps: 22, own: () => healthy })) {
      const { step } = evidence;
      const restored = Judge.from(JSON.parse(JSON.stringify(judge)));
      const judgement = judge.add(evidence);
      expect(restored.add(evidence)).toEqual(judgement);
      expect(JSON.stringify(restored)).toBe(JSON.stringify(judge));
      expect(alarmsOf(judgement.verdicts)).toEqual([]);
      for (const note of judgement.notes ?? []) notes.push(`${step}: ${note}`);
      regimes.push(judgement.regime.regime);
    }
    expect(notes).toEqual([
      '16: too little is left of the environments that the run was compared with (env-0, env-1, env-2, env-3): from now on it ' +
        'is compared with steps 12 to 16 (env-4, env-5, env-6, env-7), as if it had started there; each environment ' +
        'keeps its own start',
    ]);
    expect(regimes.slice(5, 11)).not.toContain(null);
    expect(regimes.slice(11, 16)).toEqual(new Array(5).fill(null));
    expect(regimes.at(-1)).toBe('diverse');
  });

  it.each([
    ['scores', 1.8, 0.03],
    ['texts', 0.3, 0],
  ] as const)('is compared with it as a whole, by %s', async (instrument, healthy, gone) => {
    const own = (_: string, step: number) => (step < 22 ? healthy : gone);
    const steps = await replaced(instrument, { prompts: 2, steps: 26, own });
    const judge = new Judge();
    expect(judged(steps.slice(0, 21), judge).first).toBeUndefined();
    // The level of all comes down at once; each by itself needs two steps of two prompts.
    const { first, last } = judged(steps.slice(21), judge);
    expect(first).toBeLessThanOrEqual(24);
    expect(namesIn(last)).toEqual(after);
  });

  it('keeps what was said of it until it stands against the new start', async () => {
    const healthyAfter = (_: string, step: number) => (step < 10 || step >= NEW_AT ? 1.8 : 0.03);
    const goneAfter = (_: string, step: number) => (step < 10 ? 1.8 : 0.03);
    const heldAt = async (own: (name: string, step: number) => number): Promise<number[]> => {
      const judge = new Judge();
      const held: number[] = [];
      for (const evidence of await replaced('scores', { prompts: 2, steps: 22, own })) {
        const { verdicts } = judge.add(evidence);
        if (verdicts.some(({ kind, severity }) => kind === 'template_collapse' && severity === 'critical'))
          held.push(evidence.step);
      }
      return held;
    };
    expect(await heldAt(healthyAfter)).toEqual([11, 12, 13, 14, 15, 16]);
    expect((await heldAt(goneAfter)).slice(-6)).toEqual([17, 18, 19, 20, 21, 22]);
  });

  it('is compared with its first start where environments of it stay or come back', async () => {
    const names = [...before, ...after];
    const counts = (step: number) => mixed.even(step < 8 ? before : step % 4 === 3 ? names : after, 4);
    const run = { instrument: 'scores', names, rows: 6, seed: 2, steps: 24, counts } as const;
    const judge = new Judge();
    for (const evidence of await stepsOf(run)) {
      const { notes, verdicts } = judge.add(evidence);
      expect(notes).toBeUndefined();
      expect(alarmsOf(verdicts)).toEqual([]);
    }
  });
});
