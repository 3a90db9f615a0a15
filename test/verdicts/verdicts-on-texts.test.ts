// What the judge says of runs whose texts are all there is: a real one of TRL, and ones whose dependence on the prompt
// is known.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readRollouts } from '../../src/exports/logs.js';
import {
  type Engine,
  Judge,
  openEngine,
  type StepMetrics,
  type TextMetrics,
  textMetrics,
  type Verdict,
} from '../../src/index.js';
import { exampleRollouts } from '../support/analysis-logs.js';
import { uniformNumbers } from '../support/random-numbers.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine();
});
afterAll(() => engine.dispose());

interface TextsOfStep {
  readonly step: number;
  readonly texts: TextMetrics;
}

let falling: readonly TextsOfStep[] | undefined;

async function fallingRun(): Promise<readonly TextsOfStep[]> {
  if (falling !== undefined) return falling;
  const steps: TextsOfStep[] = [];
  for await (const { step, reasoning, prompt } of readRollouts(exampleRollouts)) {
    const rows = { texts: reasoning as string[], groups: prompt as string[], prompts: prompt as string[] };
    steps.push({ step, texts: await textMetrics(engine, rows, { permutations: 99 }) });
  }
  falling = steps;
  return steps;
}

/** New verdicts of a run, and those that became graver. */
function said(steps: Iterable<TextsOfStep>, judge = new Judge()): Verdict[] {
  const held = new Map<string, string>();
  const found: Verdict[] = [];
  for (const evidence of steps) {
    const { verdicts } = judge.add(evidence);
    for (const verdict of verdicts) {
      if (held.get(verdict.kind) !== verdict.severity) found.push(verdict);
      held.set(verdict.kind, verdict.severity);
    }
    for (const kind of held.keys()) if (!verdicts.some((verdict) => verdict.kind === kind)) held.delete(kind);
  }
  return found;
}

const alarms = (verdicts: readonly Verdict[]) => verdicts.filter(({ severity }) => severity !== 'info');

/**
 * Texts of 16 prompts × 4 with ten words each of which some are the prompt's own.
 * @param moved share of rows that lie under another prompt than the one that they are about
 */
function stepOf(step: number, moved: number, more: { ending?: string } = {}) {
  const uniform = uniformNumbers(step);
  const prompts = Array.from({ length: 16 }, (_, at) => `question ${step * 16 + at} of topic${at}`);
  const texts: string[] = [];
  const groups: string[] = [];
  for (const [at, prompt] of prompts.entries()) {
    for (let row = 0; row < 4; row++) {
      const about = uniform() < moved ? Math.floor(uniform() * 16) : at;
      const words = Array.from({ length: 12 }, () =>
        uniform() < 0.7
          ? `topic${about} word${Math.floor(uniform() * 6) + about * 6}`
          : `common${Math.floor(uniform() * 40)}`,
      );
      texts.push(words.join(' ') + (more.ending ?? ''));
      groups.push(prompt);
    }
  }
  return { texts, groups, prompts: groups };
}

async function measured(
  moved: (step: number) => number,
  steps: number,
  more: (step: number) => { ending?: string } = () => ({}),
): Promise<TextsOfStep[]> {
  const found: TextsOfStep[] = [];
  for (let step = 1; step <= steps; step++) {
    found.push({ step, texts: await textMetrics(engine, stepOf(step, moved(step), more(step)), { permutations: 99 }) });
  }
  return found;
}

/** A step with these figures. */
const figures = (values: Record<string, number>): TextMetrics => ({
  values: { prompts_used: 16, rows_used: 64, ...values },
  absent: { mi_bound: 'none here' },
  interval: { absent: 'none here' },
  pValue: { absent: 'none here' },
  notes: [],
  rows: { total: 64, used: 64, empty: 0, repeated: 0 },
  prompts: { used: 16, known: true },
  byPrompts: false,
  phrases: [],
  logged: {},
});

describe('a run of TRL, from its completions alone', () => {
  it.each([
    ['every step', (_: number) => true, 15],
    ['the first five and every fifth', (step: number) => step <= 5 || step % 5 === 0, 20],
    ['every fifth alone', (step: number) => step % 5 === 0, 25],
    ['the first and every fifth', (step: number) => step === 1 || step % 5 === 0, 25],
  ])('is warned of no later than from cross-scores, with %s', async (_, taken, by) => {
    const found = alarms(said((await fallingRun()).filter(({ step }) => taken(step))));
    expect(found[0]?.raised).toBeLessThanOrEqual(by);
    expect(found.map(({ kind, severity }) => `${kind} ${severity}`)).toContain('template_collapse critical');
  });

  it('shows the phrases of the template that grows', async () => {
    const [grows] = said(await fallingRun()).filter(({ kind }) => kind === 'template_grows');
    expect(grows).toMatchObject({ severity: 'info' });
    expect(grows?.raised).toBeLessThanOrEqual(25);
    const { phrase1 } = grows?.evidence ?? {};
    expect(String(phrase1).split(' ').length).toBeGreaterThanOrEqual(4);
    expect(grows?.sentence).toContain(`“${phrase1}”`);
  });

  it('goes on to the bit from what was saved', async () => {
    const steps = await fallingRun();
    const whole = new Judge();
    let saved = new Judge();
    for (const evidence of steps) {
      const judgement = whole.add(evidence);
      saved = Judge.from(JSON.parse(JSON.stringify(saved)));
      expect(saved.add(evidence)).toEqual(judgement);
    }
    expect(JSON.stringify(saved)).toBe(JSON.stringify(whole));
  });
});

describe('texts of a policy that never changes', () => {
  /** Each text begins with a word that is its prompt's. */
  const marked = (uniform: () => number, prompts: number, each: number) => {
    const groups = Array.from({ length: prompts * each }, (_, row) => Math.floor(row / each));
    const tokens = groups.map((prompt) => [
      1000 + prompt,
      ...Array.from({ length: 20 }, () => Math.floor(uniform() * 50)),
    ]);
    return textMetrics(engine, { tokens, groups }, { permutations: 99 });
  };

  it.each([
    [4, 4],
    [6, 4],
  ])('are called a collapse in no run of 200 steps, with %i prompts × %i rows', async (prompts, each) => {
    let grave = 0;
    for (let run = 0; run < 8; run++) {
      const uniform = uniformNumbers(1000 + run);
      const judge = new Judge();
      for (let step = 1; step <= 200; step++) judge.add({ step, texts: await marked(uniform, prompts, each) });
      grave += judge.summary().verdicts.filter(({ severity }) => severity === 'critical').length;
    }
    expect(grave).toBe(0);
  });

  it('and then ignores its prompts is called a collapse, with 4 prompts × 8 rows', async () => {
    const uniform = uniformNumbers(7);
    const judge = new Judge();
    for (let step = 1; step <= 20; step++) judge.add({ step, texts: await marked(uniform, 4, 8) });
    expect(judge.summary().verdicts).toEqual([]);
    for (let step = 21; step <= 60; step++) {
      const groups = Array.from({ length: 32 }, (_, row) => Math.floor(row / 8));
      const tokens = groups.map(() => Array.from({ length: 21 }, () => Math.floor(uniform() * 50)));
      judge.add({ step, texts: await textMetrics(engine, { tokens, groups }, { permutations: 99 }) });
    }
    const collapse = judge.summary().verdicts.find(({ kind }) => kind === 'template_collapse');
    expect(collapse).toMatchObject({ severity: 'critical', holds: true });
  });
});

describe('texts whose labels are moved', () => {
  it('are warned of, and called a collapse when none is left', async () => {
    const found = alarms(said(await measured((step) => Math.max(0, (step - 6) / 14), 20)));
    expect(found[0]?.raised).toBeLessThanOrEqual(13);
    const grave = found.find(({ severity }) => severity === 'critical');
    expect(grave?.sentence).toContain('the text bound of I(X;Z)');
    expect(grave?.sentence).toContain('Measured on texts alone, by a lower bound.');
    expect(grave?.sentence).toContain('sibling novelty');
  });

  it('are a warning while some dependence is left beyond doubt, and stay critical once none was', () => {
    const of = (mi: number, half: number, p: number): TextMetrics => {
      const told = { retrieval_accuracy: 0.9, retrieval_chance_level: 0.0625 };
      const { values, ...rest } = figures({ mi_bound: mi, sibling_novelty: 0.5, ...told });
      return { ...rest, values, absent: {}, interval: { low: mi - half, high: mi + half, error: half / 2 }, pValue: p };
    };
    const start = Array.from({ length: 8 }, (_, at) => of(2.5 + 0.02 * (at % 3), 0.2, 0.01));
    const judge = new Judge();
    const severities = [...start, of(0.8, 0.2, 0.01), of(0.7, 0.2, 0.01), of(0.2, 0.2, 0.01), of(0.7, 0.2, 0.01)].map(
      (texts, at) => judge.add({ step: at + 1, texts }).verdicts.find(({ kind }) => kind === 'template_collapse'),
    );
    expect(severities.map((verdict) => verdict?.severity).slice(8)).toEqual([
      'warning',
      'warning',
      'critical',
      'critical',
    ]);
    expect(severities[8]?.sentence).toContain('At step 9 some dependence is left beyond doubt');
    const other = new Judge();
    for (const [at, texts] of start.entries()) other.add({ step: at + 1, texts });
    // The interval does not reach 0, but the permutations cannot tell.
    expect(other.add({ step: 9, texts: of(0.8, 0.2, 0.2) }).verdicts[0]?.severity).toBe('critical');
    const third = new Judge();
    for (const [at, texts] of start.entries()) third.add({ step: at + 1, texts });
    // The interval reaches 0, but p and retrieval say that texts still tell their prompts.
    const wide = third.add({ step: 9, texts: of(0.45, 0.4, 0.01) }).verdicts[0];
    expect(wide?.severity).toBe('warning');
    expect(wide?.sentence).toMatch(/^The bound fell: .*still tell their prompts .*makes it a warning/);
  });

  it('that stay in place are called diverse, and nothing else, whether each step has as many prompts or not', async () => {
    const judge = new Judge();
    const steps = await measured(() => 0, 20);
    expect(said(steps, judge)).toEqual([]);
    expect(judge.summary().regime).toEqual({ name: 'diverse', since: 6 });
    const uneven: TextsOfStep[] = [];
    for (let step = 1; step <= 20; step++) {
      const { texts, groups } = stepOf(step, 0);
      const kept = groups.map((group) => group !== groups[0] || step % 3 !== 0);
      const rows = texts.filter((_, at) => kept[at]);
      const labels = groups.filter((_, at) => kept[at]);
      uneven.push({ step, texts: await textMetrics(engine, { texts: rows, groups: labels }, { permutations: 0 }) });
    }
    const other = new Judge();
    expect(said(uneven, other)).toEqual([]);
    expect(other.summary().regime?.name).toBe('diverse');
  });
});

describe('what texts look like', () => {
  const kindsAt = (values: readonly Record<string, number>[]) => {
    const judge = new Judge();
    return values.map((step, at) =>
      judge.add({ step: at + 1, texts: figures(step) }).verdicts.map(({ kind, severity }) => `${kind} ${severity}`),
    );
  };
  const start = (key: string, value: number) =>
    Array.from({ length: 6 }, (_, at) => ({ [key]: value + 0.001 * (at % 2) }));

  it.each([
    ['template_share', 0.2, 0.9, 0.35, 'template_grows info'],
    ['repetition', 0.05, 0.7, 0.15, 'repetition_loop warning'],
    ['truncated_share', 0.05, 0.6, 0.12, 'repetition_loop warning'],
  ])('%s from %f is told at %f, not at %f', (key, low, high, less, told) => {
    const last = (value: number) => kindsAt([...start(key, low), { [key]: value }, { [key]: value }]).at(-1);
    expect(last(high)).toEqual([told]);
    expect(last(less)).toEqual([]);
  });

  it('needs a multiple of the start as well', () => {
    expect(kindsAt([...start('repetition', 0.4), { repetition: 0.6 }, { repetition: 0.6 }]).at(-1)).toEqual([]);
    expect(
      kindsAt([...start('truncated_share', 0.3), { truncated_share: 0.8 }, { truncated_share: 0.8 }]).at(-1),
    ).toEqual([]);
  });

  it('copies are told at the second step above half in succession, and end at the second below', () => {
    const shares = [0.6, 0.4, 0.6, 0.7, 0.4, 0.6, 0.4, 0.4].map((share) => ({ duplicate_across_share: share }));
    expect(kindsAt(shares).map((kinds) => kinds.length)).toEqual([0, 0, 0, 1, 1, 1, 1, 0]);
    expect(kindsAt(shares)[3]).toEqual(['copies warning']);
  });
});

describe('both cross-scores and texts', () => {
  const scored = (mi: number): StepMetrics => {
    const batch = { low: mi - 0.1, high: mi + 0.1, error: 0.05 };
    return {
      profile: 'strict',
      label: 'collapse_first_turn_sample',
      values: { mi_seq_estimate: mi, conditional_entropy_est: 0.8 },
      absent: {},
      certainty: { mi_seq_estimate: { batch, population: batch, pValue: 0.01 } },
      notes: [],
      rows: { total: 64, used: 64, zeroLength: 0, nonFinite: [] },
      columns: { total: 16, distinct: 16 },
      logged: {},
    };
  };

  it('are judged by cross-scores, which say that nothing is lost', async () => {
    const judge = new Judge();
    for (const { step, texts } of await measured((step) => (step > 6 ? 1 : 0), 12)) {
      const { regime, verdicts } = judge.add({ step, texts, metrics: scored(1.5 + 0.01 * (step % 2)) });
      expect(alarms(verdicts)).toEqual([]);
      expect(regime.instrument).toBeUndefined();
    }
    expect(judge.summary().regime?.name).toBe('diverse');
    expect(judge.add({ step: 13, texts: (await measured(() => 0, 1))[0]?.texts }).regime.sentence).toContain(
      'No regime',
    );
  });

  it('correlates text figures with success', async () => {
    const judge = new Judge();
    for (const { step, texts } of await measured((step) => step / 12, 12))
      judge.add({ step, texts, success: step / 20 });
    const { figures } = judge.summary().correlations;
    expect(figures.find(({ figure }) => figure === 'text/mi_bound')?.spearman.estimate).toBeLessThan(-0.7);
  });
});
