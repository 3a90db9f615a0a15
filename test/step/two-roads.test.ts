// The same steps given to a Monitor and, as step files or rollout logs, to analyze: both say the same to the bit.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { analyze } from '../../src/analysis/analyze.js';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import { writeStep } from '../../src/logs/steps/write-step.js';
import { Monitor } from '../../src/monitor/monitor.js';
import type { StepReport } from '../../src/step/step-report.js';
import { smallStep } from '../monitor/monitor-run.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const folder = temporaryDirectory();
let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ threads: 1 });
});
afterAll(() => engine.dispose());

const FILTER = { nonFinite: 'exclude' } as const;

async function analyzed(source: string): Promise<StepReport[]> {
  const reports: StepReport[] = [];
  for await (const report of analyze(source, { engine, permutations: 19 })) reports.push(report);
  return reports;
}

/** Keys that both have. */
function common(one: StepReport, other: StepReport): string[] {
  return Object.keys(figuresOf(one)).filter((key) => key in figuresOf(other));
}

function figuresOf({ metrics, certainty }: StepReport): Record<string, number> {
  return { ...metrics, ...certainty };
}

describe('a step of a monitor and of a step file', () => {
  it.each([4, 11])('has the same figures, verdicts, reasons and prompts, from seed %i', async (seed) => {
    const monitor = new Monitor({
      ...{ engine, permutations: 19, everySteps: 1, filter: FILTER },
      sinks: [{ readsPrompts: true, step: async () => {}, close: async () => {} }],
    });
    const runs = join(folder, `scores-${seed}`);
    mkdirSync(runs);
    const watched: StepReport[] = [];
    for (let step = 1; step <= 7; step++) {
      const { labels, logprobs, outcomes } = smallStep(seed + 100 * step, {
        prompts: 6,
        responses: 4,
        excess: 2 - step / 4,
      });
      const { groups: group, lengths } = labels;
      // From the fourth on nothing is kept.
      const rewards = step < 4 ? outcomes.rewards : outcomes.rewards.map(() => 1);
      const actions = outcomes.actions as Int32Array;
      await writeStep(join(runs, `step_${step}.safetensors`), { step, group, lengths, logprobs, rewards, actions });
      const open = monitor.step(step, labels);
      await open.scoreAll({ logprobs });
      watched.push(await open.finish({ rewards, actions }));
    }
    const found = await analyzed(runs);
    expect(found.map(({ step }) => step)).toEqual(watched.map(({ step }) => step));
    for (const [at, one] of watched.entries()) {
      const other = found[at] as StepReport;
      const keys = common(one, other);
      expect(keys.length).toBeGreaterThan(90);
      // The monitor has more: what a trainer knows of its rollouts.
      expect(Object.keys(figuresOf(other)).filter((key) => !keys.includes(key))).toEqual([]);
      for (const key of keys) expect(figuresOf(other)[key], `${key} at step ${one.step}`).toBe(figuresOf(one)[key]);
      expect(other.absent).toEqual(one.absent);
      expect(other.judgement).toEqual(one.judgement);
      expect(other.prompts).toEqual(one.prompts);
      expect(other.filter?.dropped).toEqual(one.filter?.dropped);
    }
    const empty = watched.map(({ metrics }) => metrics['rollout/consecutive_empty_after_filter_steps']);
    expect(empty).toEqual([0, 0, 0, 1, 2, 3, 4]);
  });
});

describe('a step of a monitor and of a rollout log', () => {
  it('has the same text figures, filter, verdicts and excerpts', async () => {
    const told: StepReport[] = [];
    const sink = {
      readsPrompts: true,
      step: async (report: StepReport) => void told.push(report),
      close: async () => {},
    };
    const monitor = new Monitor({ engine, permutations: 19, everySteps: 'never', filter: FILTER, sinks: [sink] });
    const lines: string[] = [];
    for (let step = 1; step <= 6; step++) {
      const groups = Int32Array.from({ length: 24 }, (_, row) => Math.floor(row / 4));
      // Two turns of each episode, the later one first.
      const episodes = Int32Array.from(groups, (_, row) => Math.floor(row / 2));
      const turns = Int32Array.from(groups, (_, row) => 1 - (row % 2));
      const texts = Array.from(groups, (group, row) =>
        Array.from({ length: 12 }, (_, word) => `w${(row * 7 + word * (step > 3 ? 1 : group + 1) + step) % 19}`).join(
          ' ',
        ),
      );
      const prompts = Array.from(groups, (group) => `What is ${group} of ${step}?`);
      const rewards = Float64Array.from(groups, (_, row) => Number((row >> 1) % 3 === 0));
      for (const [row, text] of texts.entries()) {
        const [group, episode, turn] = [groups[row], `e${episodes[row]}`, turns[row]];
        const line = { step, group, episode, turn, prompt: prompts[row], output: text, reward: rewards[row] };
        lines.push(JSON.stringify(line));
      }
      const open = monitor.step(step, { groups, episodes, turns, due: false });
      await open.rollouts({ texts, prompts });
      await open.finish({ rewards });
    }
    await monitor.dispose();
    const log = join(folder, 'rollouts.jsonl');
    writeFileSync(log, `${lines.join('\n')}\n`);
    const found = await analyzed(log);
    expect(found).toHaveLength(told.length);
    for (const [at, one] of told.entries()) {
      const other = found[at] as StepReport;
      const keys = common(one, other);
      expect(keys).toEqual(
        expect.arrayContaining(['text/mi_bound', 'rollout/filter_kept_ratio', 'rollout/empty_after_filter']),
      );
      for (const key of keys) expect(figuresOf(other)[key], `${key} at step ${one.step}`).toBe(figuresOf(one)[key]);
      expect(other.texts?.phrases).toEqual(one.texts?.phrases);
      expect(other.judgement?.verdicts).toEqual(one.judgement?.verdicts);
      expect(other.judgement?.triage).toEqual(one.judgement?.triage);
      expect(other.excerpts).toEqual(one.excerpts);
      expect(other.prompts).toEqual(one.prompts);
    }
  });
});
