// What the judge says of whole runs: real ones of TRL, an exact model with batches of different numbers of prompts, and
// runs that are taken back. No wrong alarm, and no late one.
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  analyze,
  crossScoreMetrics,
  type Engine,
  Judge,
  openEngine,
  type StepMetrics,
  type Verdict,
} from '../../src/index.js';
import { exampleRuns, trlRuns } from '../support/analysis-logs.js';
import { buildIfStale } from '../support/built-command.js';
import { uniformNumbers } from '../support/random-numbers.js';

const trl = trlRuns();

let engine: Engine;
beforeAll(async () => {
  buildIfStale(); // bench/prompt-counts.mjs runs what is in dist/
  engine = await openEngine();
});
afterAll(() => engine.dispose());

/** Metrics of a run's steps. */
async function measured(run: string): Promise<{ step: number; metrics: StepMetrics }[]> {
  const steps: { step: number; metrics: StepMetrics }[] = [];
  for await (const { step, samples } of analyze([run], { engine, permutations: 99 })) {
    steps.push({ step, metrics: samples[0] as StepMetrics });
  }
  return steps;
}

/** New verdicts of a run of these steps, infos left out. */
function alarmsOf(steps: readonly { step: number; metrics: StepMetrics }[], judge = new Judge()): Verdict[] {
  return steps.flatMap(({ step, metrics }) =>
    judge.add({ step, metrics }).verdicts.filter(({ raised, severity }) => raised === step && severity !== 'info'),
  );
}

const every = (all: number, dense = 0) => {
  return ({ step }: { step: number }) => step <= dense || step % all === 0;
};

describe('runs of TRL', () => {
  it.each([
    ['every step', every(1), 15],
    ['the first five and every fifth', every(5, 5), 20],
    ['every fifth alone', every(5), 30],
    ['the first and every fifth', every(5, 1), 30],
  ])('falling is warned of in time from %s', async (_, taken, by) => {
    const alarms = alarmsOf((await measured(join(trl, 'falling'))).filter(taken));
    expect(alarms[0]?.raised).toBeLessThanOrEqual(by);
    expect(alarms.map(({ kind }) => kind)).toContain('template_collapse');
  });

  it.each([
    ['collapse', 45],
    ['filtered', 40],
  ])('%s is warned of in time, with every fifth step all there is', async (run, by) => {
    expect(alarmsOf(await measured(join(trl, run)))[0]?.raised).toBeLessThanOrEqual(by);
  });

  it('steady is called diverse, and nothing else', async () => {
    const judge = new Judge();
    expect(alarmsOf(await measured(join(trl, 'steady')), judge)).toEqual([]);
    expect(judge.summary().regime).toEqual({ name: 'diverse', since: 6 });
  });
});

describe('batches of different numbers of prompts', () => {
  it.each(['ragged', 'halved', 'shrink', 'repeats', 'hidden'])('%s is judged rightly', async (name) => {
    const { alarmsOf: alarmsOfModel, isRight } = await import(
      new URL('../../bench/prompt-counts.mjs', import.meta.url).href
    );
    for (const seed of [7, 8, 9]) {
      const alarms = (await alarmsOfModel(name, seed, engine)) as Verdict[];
      expect(isRight(name, alarms), `seed ${seed}: ${alarms.map(({ kind, raised }) => `${kind} at ${raised}`)}`).toBe(
        true,
      );
    }
  });
});

describe('scores that do not belong to their rows', () => {
  /** Exact scores of a policy with as many answers as prompts, `moved` labels further than the prompt of each row. */
  const stepOf = async (step: number, moved: number, prompts = 8, each = 8): Promise<StepMetrics> => {
    const uniform = uniformNumbers(step);
    const groups = Array.from({ length: prompts * each }, (_, row) => Math.floor(row / each));
    const data = Float64Array.from(
      groups.flatMap((own) => {
        const answer = uniform() < 0.9 ? own : Math.floor(uniform() * prompts);
        return Array.from({ length: prompts }, (_, prompt) => Math.log(prompt === answer ? 0.9 : 0.1 / prompts));
      }),
    );
    return crossScoreMetrics(
      engine,
      {
        sums: { data, dtype: 'float64', shape: [groups.length, prompts] },
        lengths: groups.map(() => 1),
        groups: groups.map((own) => (own + moved) % prompts),
      },
      { permutations: 0 },
    );
  };

  it.each([
    [8, 8],
    [4, 4],
  ])('are said at the second step in succession, and not called a collapse (%i × %i)', async (prompts, each) => {
    const judge = new Judge();
    for (let step = 1; step <= 14; step++) {
      const { verdicts, regime } = judge.add({ step, metrics: await stepOf(step, step < 8 ? 0 : 1, prompts, each) });
      expect(verdicts.map(({ kind, severity, since }) => [kind, severity, since])).toEqual(
        step < 9 ? [] : [['scores_mismatched', 'critical', 8]],
      );
      if (step >= 8)
        expect(regime).toMatchObject({ regime: null, sentence: expect.stringContaining('not those of the rows') });
    }
    expect(judge.summary().verdicts[0]?.sentence).toMatch(
      /^The scores do not belong to the rows: .* is -\d.* below 0 \(p ≤ /,
    );
    // What is right again is judged against the start from before.
    const { verdicts, regime } = judge.add({ step: 15, metrics: await stepOf(15, 0, prompts, each) });
    expect(verdicts).toEqual([]);
    expect(regime.mi?.start).toBeGreaterThan(0.5);
  });

  it('are said from the first steps on, also where texts are there', async () => {
    const judge = new Judge();
    const said = [];
    for (let step = 1; step <= 8; step++) said.push(judge.add({ step, metrics: await stepOf(step, 3) }).verdicts);
    expect(said.map((verdicts) => verdicts.map(({ kind }) => kind).join())).toEqual([
      '',
      ...Array.from({ length: 7 }, () => 'scores_mismatched'),
    ]);
  });

  it('are not those of an exact policy that has nearly collapsed, whose batches may lie below 0 all alike', async () => {
    let below = 0;
    for (let run = 0; run < 10; run++) {
      const judge = new Judge();
      const uniform = uniformNumbers(run);
      for (let step = 1; step <= 30; step++) {
        const shares = Array.from({ length: 8 }, () => 0.02 * uniform());
        const groups = Array.from({ length: 32 }, (_, row) => Math.floor(row / 4));
        const data = groups.flatMap((own) => {
          const isRare = uniform() < (shares[own] as number);
          return shares.map((share, p) => (isRare ? (p === own ? Math.log(share) : -60) : Math.log1p(-share)));
        });
        const sums = { data: Float64Array.from(data), dtype: 'float64', shape: [32, 8] } as const;
        const metrics = await crossScoreMetrics(
          engine,
          { sums, lengths: groups.map(() => 1), groups },
          { permutations: 0 },
        );
        const batch = metrics.certainty.mi_seq_estimate?.batch;
        if (batch !== undefined && 'low' in batch && batch.high < 0) below++;
        expect(judge.add({ step, metrics }).verdicts.map(({ kind }) => kind)).not.toContain('scores_mismatched');
      }
    }
    expect(below).toBeGreaterThan(30);
  });
});

describe('a run that was taken back', () => {
  it('is told nothing that was pending under its collapse', async () => {
    const collapse = (await measured(join(exampleRuns, 'collapse'))).filter(({ step }) => step <= 156);
    const healthy = (await measured(join(exampleRuns, 'healthy'))).filter(({ step }) => step >= 160);
    const judge = new Judge();
    expect(alarmsOf(collapse, judge).map(({ kind }) => kind)).toContain('template_collapse');
    expect(alarmsOf(healthy, judge)).toEqual([]);
    expect(judge.summary().regime?.name).toBe('diverse');
  });
});

describe('informations', () => {
  it('do not flap: what comes back within ten steps is not raised again', async () => {
    const judge = new Judge({ permutations: 0 });
    const raised: number[] = [];
    for (let step = 1; step <= 150; step++) {
      // Half of the prompts are too easy, one more or less from step to step.
      const easy = 7 + (step % 3);
      const groups = Array.from({ length: 16 }, (_, group) => ({ group, rewards: group < easy ? [1, 1] : [0, 1] }));
      const { verdicts } = judge.add({ step, groups });
      raised.push(...verdicts.filter((verdict) => verdict.raised === step).map(() => step));
    }
    expect(raised).toEqual([1]);
  });
});

describe('an absolute statement', () => {
  const metricsOf = (mi: number, retrievalP: number, { prompts = 8, rows = 64 } = {}): StepMetrics => {
    const batch = { low: mi - 0.1, high: mi + 0.1, error: 0.05 };
    const certain = (pValue: number) => ({ batch, population: batch, pValue });
    return {
      profile: 'strict',
      label: 'collapse_first_turn_sample',
      values: {
        mi_seq_estimate: mi,
        conditional_entropy_est: 0.8,
        retrieval_accuracy: 0.1,
        retrieval_chance_level: 0.1,
      },
      absent: {},
      certainty: { mi_seq_estimate: certain(0.2), retrieval_accuracy: certain(retrievalP) },
      notes: [],
      rows: { total: rows, used: rows, zeroLength: 0, nonFinite: [] },
      columns: { total: prompts, distinct: prompts },
      logged: {},
    };
  };
  const said = (steps: readonly StepMetrics[]) => {
    const judge = new Judge();
    return steps.map((metrics, at) =>
      judge.add({ step: at + 1, metrics }).verdicts.filter(({ kind }) => kind === 'input_agnostic'),
    );
  };
  const agnostic = metricsOf(0.02, 0.4);
  const dependent = metricsOf(1.2, 0.01);

  it('is a warning where no step has shown dependence, from the second step on', () => {
    expect(said([agnostic, agnostic, agnostic])).toMatchObject([
      [],
      [{ severity: 'warning', since: 1, raised: 2 }],
      [{ severity: 'warning', since: 1, raised: 2 }],
    ]);
  });

  it('is critical where one has, and ends when one does again', () => {
    expect(said([dependent, agnostic, agnostic, dependent])).toMatchObject([
      [],
      [],
      [{ severity: 'critical', since: 2, raised: 3 }],
      [],
    ]);
  });

  it('needs both figures, two steps in succession, eight prompts and 64 rows', () => {
    for (const steps of [
      [agnostic, metricsOf(0.02, 0.01), agnostic],
      [metricsOf(1.2, 0.4), metricsOf(1.2, 0.4)],
      [agnostic, dependent, agnostic],
      Array(3).fill(metricsOf(0.02, 0.4, { prompts: 7 })),
      Array(3).fill(metricsOf(0.02, 0.4, { rows: 63 })),
    ]) {
      expect(said(steps as StepMetrics[]).flat()).toEqual([]);
    }
  });
});

describe('the contrastive margin', () => {
  const metricsOf = (margin: number, tokens: number, mi = 2.7): StepMetrics => {
    const certain = (value: number, error: number) => {
      const batch = { low: value - 1.96 * error, high: value + 1.96 * error, error };
      return { batch, population: batch, pValue: 0.001 };
    };
    return {
      profile: 'strict',
      label: 'collapse_first_turn_sample',
      values: {
        mi_seq_estimate: mi,
        mi_seq_margin: margin,
        conditional_entropy_est: 0.8,
        conditional_entropy_seq_est: 0.8 * tokens,
      },
      absent: {},
      certainty: { mi_seq_estimate: certain(mi, 0.01), mi_seq_margin: certain(margin, 0.5) },
      notes: [],
      rows: { total: 128, used: 128, zeroLength: 0, nonFinite: [] },
      columns: { total: 16, distinct: 16 },
      logged: {},
    };
  };
  const kinds = (last: StepMetrics) => {
    const judge = new Judge();
    for (let step = 1; step <= 12; step++)
      judge.add({ step, metrics: metricsOf(24 + (step % 3), 14 + (step % 2), 2.7 + 0.01 * (step % 2)) });
    return judge.add({ step: 13, metrics: last }).verdicts.map(({ kind }) => kind);
  };

  it('warns where it has fallen while I(X;Z) stands at its ceiling', () => {
    expect(kinds(metricsOf(8, 14))).toEqual(['margin_falling']);
  });

  it('does not where responses have become shorter alone, and does where I(X;Z) falls with them', () => {
    expect(kinds(metricsOf(8, 4))).toEqual([]);
    expect(kinds(metricsOf(8, 4, 2.4))).toEqual(['margin_falling']);
  });
});
