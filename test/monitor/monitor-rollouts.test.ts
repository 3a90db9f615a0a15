// A trainer that scores nothing, or not at every step, gives what its rows say: text figures, and verdicts that rest on
// them.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TextRows } from '../../src/exports/engine.js';
import {
  ArgumentError,
  type Engine,
  Monitor,
  openEngine,
  type Sink,
  type StepReport,
  textMetrics,
} from '../../src/index.js';
import { uniformNumbers } from '../support/random-numbers.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine();
});
afterAll(() => engine.dispose());

const PROMPTS = 16;
const EACH = 4;

/** Rows whose words are partly their prompt's. @param moved share of them that are about another prompt */
function rowsOf(step: number, moved: number) {
  const uniform = uniformNumbers(step);
  const groups = Int32Array.from({ length: PROMPTS * EACH }, (_, row) => Math.floor(row / EACH));
  const prompts = Array.from(groups, (group) => `question ${step} on topic${group}`);
  const texts = Array.from(groups, (group) => {
    const about = uniform() < moved ? Math.floor(uniform() * PROMPTS) : group;
    const word = () =>
      uniform() < 0.5 ? `topic${about} w${about * 6 + Math.floor(uniform() * 6)}` : `c${Math.floor(uniform() * 40)}`;
    return Array.from({ length: 20 }, word).join(' ');
  });
  return { groups, prompts, texts };
}

const options = { everySteps: 'never', permutations: 99 } as const;

describe('Monitor.step().rollouts()', () => {
  it('gives the text figures of textMetrics, verdicts and the judge’s correlations, and goes on from a saved state', async () => {
    let monitor = new Monitor({ engine, ...options });
    const whole = new Monitor({ engine, ...options });
    const kinds: string[] = [];
    for (let number = 1; number <= 14; number++) {
      const { groups, ...rows } = rowsOf(number, number <= 7 ? 0 : 1);
      const rewards = Array.from(groups, (_, row) => row % 2);
      const reports = [];
      for (const one of [monitor, whole]) {
        const step = one.step(number, { groups });
        expect(step.due).toBe(false);
        await step.rollouts(rows);
        reports.push(await step.finish({ rewards }));
      }
      const [report, other] = reports;
      expect(report).toEqual(other);
      const expected = await textMetrics(engine, { ...rows, groups: Array.from(groups) }, { permutations: 99 });
      expect(report?.texts).toEqual(expected);
      expect({ ...report?.metrics, ...report?.certainty }).toMatchObject(expected.logged);
      expect(report?.absent['text/truncated_share']).toContain('does not say');
      kinds.push(
        ...(report?.judgement?.verdicts ?? []).filter(({ raised }) => raised === number).map(({ kind }) => kind),
      );
      monitor = Monitor.restore(JSON.parse(JSON.stringify(monitor.save())), { engine, ...options });
    }
    expect(kinds).toContain('template_collapse');
  });

  describe.each(['texts', 'tokens'] as const)('of %s', (kind) => {
    /** So many rows of each prompt end with a template. */
    const templated = (step: number, many: number) => {
      const { groups, texts } = rowsOf(step, 0);
      const template = Array.from({ length: 12 }, (_, at) => `t${at}`).join(' ');
      const whole = texts.map((text, row) => (row % EACH < many ? `${text} ${template}` : text));
      const id = (word: string) => [...word].reduce((sum, letter) => sum * 31 + letter.charCodeAt(0), 7);
      const tokens = whole.map((text) => text.split(' ').map(id));
      return { groups: Array.from(groups), ...(kind === 'texts' ? { texts: whole } : { tokens }) } as TextRows & {
        groups: number[];
      };
    };

    it('holds phrases of a template against the first step that had figures, and after a restore', async () => {
      let monitor = new Monitor({ engine, ...options, permutations: 0 });
      const report = async (number: number, { groups, ...rows }: ReturnType<typeof templated>) => {
        const step = monitor.step(number, { groups });
        await step.rollouts(rows);
        const { texts } = await step.finish();
        monitor = Monitor.restore(JSON.parse(JSON.stringify(monitor.save())), { engine, ...options, permutations: 0 });
        return texts?.phrases;
      };
      // No figures: every row is of one prompt.
      const alone = templated(1, 1);
      await report(1, { ...alone, groups: alone.groups.map(() => 0) });
      expect(monitor.save().firstTexts).toBeNull();
      const first = templated(2, 1);
      await report(2, first);
      const later = templated(3, EACH);
      const phrases = await report(3, later);
      const expected = await textMetrics(engine, later, { permutations: 0, firstStep: first });
      expect(phrases).toEqual(expected.phrases);
      const [{ share, shareAtFirstStep = Number.NaN } = { share: 0 }] = phrases ?? [];
      expect(shareAtFirstStep).toBeLessThan(share);
      expect(shareAtFirstStep).toBeGreaterThan(0.05);
    });

    it('carries a step that is too large for a state in part, and as many rows of each prompt', async () => {
      const monitor = new Monitor({ engine, ...options, permutations: 0 });
      const { groups, ...rows } = templated(1, EACH);
      const long = (row: unknown) => Array.from({ length: kind === 'texts' ? 130 : 150 }, () => row);
      const larger =
        kind === 'texts'
          ? { texts: rows.texts?.map((text) => long(text).join(' ')) }
          : { tokens: rows.tokens?.map((ids) => long(Array.from(ids as number[])).flat() as number[]) };
      const step = monitor.step(1, { groups });
      await step.rollouts(larger);
      await step.finish();
      const held = monitor.save().firstTexts;
      expect(held?.groups).toEqual(
        Array.from(
          groups.filter((_, row) => row % EACH < 2),
          (group) => String(group),
        ),
      );
      expect(JSON.stringify(held).length).toBeLessThan(4 * 2 ** 20);
    });
  });

  it('refuses a state whose first texts are damaged or missing', () => {
    const before = new Monitor({ engine, ...options }).save();
    expect(Monitor.restore(before, { engine }).save().firstTexts).toBeNull();
    for (const firstTexts of [
      undefined,
      7,
      {},
      { groups: ['1'], texts: [] },
      { groups: ['1'], tokens: [[0.5]] },
      { groups: [1], texts: [''] },
    ]) {
      expect(() => Monitor.restore({ ...before, firstTexts }, { engine })).toThrow(/damaged: firstTexts/);
    }
  });

  it('with scores gives both, and cross-scores decide', async () => {
    const monitor = new Monitor({ engine, permutations: 0 });
    const { groups, ...rows } = rowsOf(1, 0);
    const step = monitor.step(1, { groups, lengths: Int32Array.from(groups, () => 20) });
    const sums = Float64Array.from({ length: groups.length * PROMPTS }, (_, at) =>
      Math.floor(at / PROMPTS / EACH) === at % PROMPTS ? -20 : -40 - (at % 7),
    );
    await Promise.all([
      step.scoreAll({ sums: { data: sums, dtype: 'float64', shape: [groups.length, PROMPTS] } }),
      step.rollouts(rows),
    ]);
    const report = await step.finish();
    expect(report.stepMetrics?.values.mi_seq_estimate).toBeGreaterThan(1);
    expect(report.texts?.values.mi_bound).toBeGreaterThan(1);
    expect(report.judgement?.regime.instrument).toBeUndefined();
  });

  it('takes the first turn of every episode', async () => {
    const { groups, ...rows } = rowsOf(2, 0);
    const twice = Int32Array.from([...groups, ...groups]);
    const episodes = Int32Array.from({ length: twice.length }, (_, row) => row % groups.length);
    const turns = Int32Array.from({ length: twice.length }, (_, row) => (row < groups.length ? 1 : 0));
    const step = new Monitor({ engine, ...options }).step(1, { groups: twice, episodes, turns });
    const later = rows.texts.map(() => 'the same for all of them');
    await step.rollouts({ texts: [...later, ...rows.texts], prompts: [...rows.prompts, ...rows.prompts] });
    const { texts } = await step.finish();
    const expected = await textMetrics(engine, { ...rows, groups: Array.from(groups) }, { permutations: 99 });
    expect(texts?.values).toEqual(expected.values);
  });

  it('gives a sink that reads prompts some rollouts to be read, with rewards, and no other sink', async () => {
    const { groups, prompts, texts } = rowsOf(2, 0);
    const twice = Int32Array.from([...groups, ...groups]);
    const episodes = Int32Array.from({ length: twice.length }, (_, row) => row % groups.length);
    const turns = Int32Array.from({ length: twice.length }, (_, row) => (row < groups.length ? 1 : 0));
    const all = [...texts.map(() => 'a later turn'), ...texts];
    const rewards = Array.from(twice, (_, row) => (row % groups.length) / 64);
    for (const readsPrompts of [true, false]) {
      const told: StepReport[] = [];
      const sink: Sink = { readsPrompts, step: async (report) => void told.push(report), close: async () => {} };
      const monitor = new Monitor({ engine, ...options, sinks: [sink] });
      const step = monitor.step(1, { groups: twice, episodes, turns });
      await step.rollouts({ texts: all, prompts: [...prompts, ...prompts] });
      const report = await step.finish({ rewards });
      expect(report.texts).not.toHaveProperty('readings');
      await monitor.dispose();
      const { excerpts } = told[0] as StepReport;
      if (!readsPrompts) expect(excerpts).toBeUndefined();
      else {
        expect([excerpts?.rows, excerpts?.rollouts.length]).toEqual([64, 16]);
        for (const { row, group, prompt, reasoning, reward, nats } of excerpts?.rollouts ?? []) {
          expect(row).toBeGreaterThanOrEqual(64);
          expect([reasoning, prompt, group]).toEqual([all[row], prompts[row - 64], String(twice[row])]);
          expect(reward).toBe(rewards[row]);
          expect(nats).not.toBe('');
        }
      }
    }
  });

  it('shows a sink bytes as texts, without what each word is worth', async () => {
    const { groups, texts } = rowsOf(5, 0);
    const told: StepReport[] = [];
    const sink: Sink = { readsPrompts: true, step: async (report) => void told.push(report), close: async () => {} };
    const monitor = new Monitor({ engine, ...options, sinks: [sink] });
    const step = monitor.step(1, { groups });
    await step.rollouts({ texts: texts.map((text) => new TextEncoder().encode(text)) });
    await step.finish();
    await monitor.dispose();
    for (const { row, reasoning, nats, specificity } of told[0]?.excerpts?.rollouts ?? []) {
      expect([reasoning, nats, typeof specificity]).toEqual([texts[row], '', 'number']);
    }
    expect(told[0]?.excerpts?.rollouts).toHaveLength(16);
  });

  it('comes through reports() as well', async () => {
    const { groups, ...rollouts } = rowsOf(3, 0);
    const monitor = new Monitor({ engine, ...options });
    const inputs = [{ step: 1, labels: { groups }, rollouts }];
    for await (const { texts } of monitor.reports(inputs)) expect(texts?.values.mi_bound).toBeGreaterThan(1);
    expect(monitor.lastStep).toBe(1);
  });

  it('refuses what does not fit, and may then be called again', async () => {
    const { groups, texts } = rowsOf(4, 0);
    const step = new Monitor({ engine, ...options }).step(1, { groups });
    for (const [rows, problem] of [
      [{ texts: texts.slice(1) }, '63 entries for the 64 rows'],
      [{ texts, tokens: texts.map(() => [1]) }, 'one of the two'],
      [{ words: texts }, 'words'],
      [{ texts: texts.map(() => 1) }, 'expected a string'],
    ] as const) {
      await expect(step.rollouts(rows as never)).rejects.toThrow(ArgumentError);
      await expect(step.rollouts(rows as never)).rejects.toThrow(problem);
    }
    await step.rollouts({ texts });
    await expect(step.rollouts({ texts })).rejects.toThrow('given before');
    expect((await step.finish()).texts?.rows.total).toBe(64);
  });
});
