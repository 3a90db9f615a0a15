// Gradient norms of a monitor -> results on disk -> the report, whole and appended.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { openSink } from '../../src/exports/sinks.js';
import { type GradientDecomposition, Monitor } from '../../src/index.js';
import {
  gradientSentence,
  gradientsHeight,
  gradientsOption,
  gradientsTable,
  shownGradients,
} from '../../src/report/charts/gradients.js';
import { LIGHT } from '../../src/report/charts/theme.js';
import { svgOf } from '../../src/report/figures/echarts.js';
import { appended } from '../../src/report/payload/append.js';
import { decodeReport, encodeReport } from '../../src/report/payload/payload.js';
import { readResults } from '../../src/report/read-results.js';
import type { GradientStep } from '../../src/report/report.js';
import { collapsar } from '../cli/cli-streams.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { headOf, reportOf, runOf } from './reports.js';

vi.setConfig({ testTimeout: 60_000 });

const folder = temporaryDirectory();
const groups = Array.from({ length: 48 }, (_, row) => row >> 2);
/** The later the prompt, the more its rewards spread. */
const rewards = groups.map((group, row) => (group * (row % 4)) / 8);

/** @returns what the monitor itself said of each step's gradients */
async function monitored(to: string, steps: readonly number[]): Promise<Map<number, GradientDecomposition>> {
  const sinks = [openSink(to)];
  await using monitor = new Monitor({ buckets: { count: 4 }, everySteps: 'never', sinks, run: 'grpo/7b' });
  const said = new Map<number, GradientDecomposition>();
  for (const number of steps) {
    const step = monitor.step(number, { groups });
    const norms = step.buckets({ rewards }).map(({ name, rows }, at) => {
      return [name, { task: at / 4, kl: 1 / (number + 1), entropy: rows.length / 100 }] as const;
    });
    // Every third step alone is taken apart.
    const gradientNorms = number % 3 === 0 ? Object.fromEntries(norms) : undefined;
    const { gradients } = await step.finish({ rewards, gradientNorms });
    if (gradients !== undefined) said.set(number, gradients);
  }
  return said;
}

/** The folder of the one run, whose name is no file's and is marked for it. */
const resultsIn = (folder: string): string =>
  join(folder, readdirSync(folder).find((name) => name.startsWith('grpo_7b')) as string);

describe('gradients of a monitor', () => {
  it('are in the results that it leaves, as it said them', async () => {
    const steps = Array.from({ length: 13 }, (_, at) => at);
    const said = await monitored(`results:${folder}`, steps);
    expect([...said.keys()]).toEqual([0, 3, 6, 9, 12]);
    const report = await readResults(resultsIn(folder), 'collapsar report');
    const [run] = report.runs;
    expect(run?.head.name).toBe('grpo/7b');
    expect(Array.from(run?.steps ?? [])).toEqual(steps);
    expect(run?.gradients.map(({ step }) => step)).toEqual([...said.keys()]);
    for (const { step, buckets } of run?.gradients ?? []) {
      const { all, buckets: split } = said.get(step) as GradientDecomposition;
      const expected = [all, ...split].map((of) => [of?.bucket, of?.rewardStd, of?.task, of?.regularization]);
      expect(
        buckets.map(({ name, spread, task, regularization }) => [name, spread.mean, task, regularization]),
      ).toEqual(expected);
      for (const { spread } of buckets) {
        expect(spread.least).toBeLessThanOrEqual(spread.mean);
        expect(spread.most).toBeGreaterThanOrEqual(spread.mean);
      }
    }
    expect(decodeReport(encodeReport(report)).runs[0]?.gradients).toEqual(run?.gradients);
    // One that goes on writes no step twice.
    await monitored(`results:${folder}`, [12, 13, 14, 15]);
    const longer = await readResults(resultsIn(folder), 'collapsar report');
    expect(Array.from(longer.runs[0]?.steps ?? [])).toEqual([...steps, 13, 14, 15]);
    expect(longer.runs[0]?.gradients.at(-1)?.step).toBe(15);
  });

  it('are drawn by collapsar report --figures', async () => {
    await monitored(`results:${join(folder, 'figures')}`, [3, 6]);
    const { status, out } = await collapsar([
      ...['report', resultsIn(join(folder, 'figures')), '-o', join(folder, 'a.html')],
      ...['--figures', join(folder, 'svg')],
    ]);
    expect([status, out]).toEqual([0, expect.stringContaining('figures')]);
    expect(readFileSync(join(folder, 'svg', '01-grpo_7b-gradients.svg'), 'utf8')).toContain('step 6');
  });
});

const stepOf = (step: number, norms: readonly (readonly [task: number, regularization: number])[]): GradientStep => ({
  step,
  buckets: norms.map(([task, regularization], at) => {
    const spread = { mean: at / 2, least: at / 4, most: at };
    return { name: at === 0 ? 'all' : `bucket_${at}`, spread, task, regularization };
  }),
});

describe('the chart of gradients', () => {
  const steps = Array.from({ length: 30 }, (_, at) =>
    stepOf(at, [
      [2, 1],
      [0, 0],
      [0.5, 0.5],
      [3, 1],
    ]),
  );

  it('has a row a step, at most five, the first and the last among them', () => {
    expect(shownGradients(steps).map(({ step }) => step)).toEqual([0, 7, 15, 22, 29]);
    expect(shownGradients(steps.slice(0, 3))).toHaveLength(3);
    const size = { width: 900, height: gradientsHeight(steps) };
    const svg = svgOf(gradientsOption(steps, LIGHT, size), size);
    for (const { step } of shownGradients(steps)) expect(svg).toContain(`>step ${step}<`);
    expect(svg).not.toContain('NaN');
    // Two norms of three buckets in five rows; `all` is not one of them.
    expect(svg.match(new RegExp(`fill="${LIGHT.mi}"`, 'g'))).toHaveLength(15);
    expect(svg.match(new RegExp(`fill="${LIGHT.entropy}"`, 'g'))).toHaveLength(15);
  });

  it('draws norms that are all 0, and buckets without any spread', () => {
    const size = { width: 400, height: 200 };
    expect(
      svgOf(
        gradientsOption(
          [
            stepOf(1, [
              [0, 0],
              [0, 0],
            ]),
          ],
          LIGHT,
          size,
        ),
        size,
      ),
    ).not.toContain('NaN');
  });

  it('has every number in its table, and says which buckets the task does not move', () => {
    expect(gradientsTable(steps.slice(0, 1)).rows[3]).toEqual([0, '3', 1.5, 0.75, 3, 3, 1, 0.75]);
    expect(gradientsTable(steps.slice(0, 1)).rows[1]?.at(-1)).toBeNaN();
    expect(gradientSentence(steps)).toMatch(/^At step 29 .* in 1 of 2 buckets \(2\)/);
    expect(
      gradientSentence([
        stepOf(1, [
          [1, 0],
          [1, 0.5],
        ]),
      ]),
    ).toMatch(/larger one in every bucket/);
  });

  it('is appended to', () => {
    const [first, second] = [0, 1].map((at) => {
      const run = runOf([at], { mi: [1] }, headOf('a'));
      const report = reportOf({ ...run, gradients: [stepOf(at, [[1, 1]])] });
      return { ...report, head: { ...report.head, after: at === 0 ? '' : 'c', cursor: 'c' } };
    });
    const both = appended(first as never, second as never);
    expect(both.runs[0]?.gradients.map(({ step }) => step)).toEqual([0, 1]);
  });
});
