// A page that is alive for days: the curves grow, and nothing else does.
import { expect, it } from 'vitest';
import { PromptColumns } from '../../src/report/collect/prompt-columns.js';
import { appended } from '../../src/report/payload/append.js';
import type { Report, RunData } from '../../src/report/report.js';
import { headOf, reportOf, runOf } from './reports.js';

const MOST = 200;

function stepOf(step: number): RunData {
  const prompts = new PromptColumns();
  for (const name of ['a', 'b']) {
    const none = { mi: null, mi_low: null, mi_high: null, reward_std: null, retrieval: null };
    const known = { rows: 2, reward_mean: step, kept: true, drop_reason: null, cause: 'varied' as const };
    prompts.add({ ...none, ...known, step, prompt: `${step} ${name}` });
  }
  const matrix = {
    step,
    source: 'scores' as const,
    ids: ['a'],
    prompts: 1,
    posterior: Uint8Array.of(9),
    nats: Uint16Array.of(0),
  };
  const bucket = { name: 'bucket_1', spread: { mean: 1, least: 1, most: 1 }, task: 1, regularization: 1 };
  return {
    ...runOf([step], { mi: [step] }, headOf('a')),
    prompts: prompts.table(Number.NEGATIVE_INFINITY),
    matrices: [matrix],
    gradients: [{ step, buckets: [bucket] }],
  };
}

it('appended holds the curves of all steps, and of the rest no more than the server does, each with its own values', () => {
  const STEPS = 1500;
  let page: Report | undefined;
  for (let step = 1; step <= STEPS; step++) {
    const more = reportOf(stepOf(step));
    const head = { ...more.head, after: step === 1 ? '' : String(step - 1), cursor: String(step) };
    page = page === undefined ? { ...more, head } : appended(page, { ...more, head });
  }
  const [run] = (page as Report).runs as [RunData];
  expect(run.steps).toHaveLength(STEPS);
  expect(run.figures.mi?.at(-1)).toBe(STEPS);
  const { prompts, matrices, gradients } = run;
  const steps = [...new Set(prompts?.step)];
  for (const kept of [steps, matrices, gradients]) {
    expect(kept.length).toBeLessThanOrEqual(MOST);
    expect(kept.length).toBeGreaterThan(MOST / 2);
  }
  // The first and the last ones all.
  expect(steps.slice(0, 5)).toEqual([1, 2, 3, 4, 5]);
  expect(steps.slice(-50)).toEqual(Array.from({ length: 50 }, (_, at) => STEPS - 49 + at));
  expect(prompts?.ids).toHaveLength(2 * steps.length);
  for (const [row, step] of (prompts?.step ?? []).entries()) {
    expect(prompts?.ids[prompts.prompt[row] as number]).toBe(`${step} ${row % 2 === 0 ? 'a' : 'b'}`);
    expect(prompts?.rewardMean[row]).toBe(step);
  }
});
