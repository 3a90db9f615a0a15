// The `ragen` profile against answers of the reference code itself: 40 matrices, and every step of three real runs.
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { readStepFile } from '../../src/exports/logs.js';
import { crossScoreMetrics, type Engine, openEngine } from '../../src/index.js';
import { RunningState } from '../../src/metrics/reporting/running-state.js';
import { expectSameMetrics } from '../support/golden.js';

interface Case {
  P: number;
  R: number;
  T: number;
  group_ids: number[];
  prompts: number[][];
  lengths: number[];
  cross_logprobs: number[][][];
  metrics: Record<string, number>;
}

const golden = (name: string) => JSON.parse(readFileSync(new URL(`../golden/${name}`, import.meta.url), 'utf8'));

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine();
});
afterAll(() => engine.dispose());

describe('ragen profile', () => {
  const cases = golden('collapse_cases.json') as Case[];
  it.each(cases.map((c, i) => [i, c] as const))('golden case %i', async (_, c) => {
    const metrics = await crossScoreMetrics(
      engine,
      {
        logprobs: { data: Float32Array.from(c.cross_logprobs.flat(2)), dtype: 'float32', shape: [c.P, c.R, c.T] },
        lengths: c.lengths,
        groups: c.group_ids,
        promptTokens: c.prompts,
      },
      { profile: 'ragen' },
    );
    expectSameMetrics(metrics.values, c.metrics);
  });

  it.each(['collapse', 'filtered', 'healthy'])('every step of the run %s, averages carried along', async (run) => {
    const state = new RunningState();
    for (const { file, metrics } of golden(`tiny-rl.${run}.json`) as {
      file: string;
      metrics: Record<string, number>;
    }[]) {
      const step = await readStepFile(new URL(`../../examples/data/${run}/${file}`, import.meta.url).pathname);
      if (step.scores.kind !== 'logprobs') throw new Error('expected token log-probs');
      for await (const { logprobs } of step.scores.blocks()) {
        const found = await crossScoreMetrics(
          engine,
          {
            logprobs,
            lengths: step.lengths,
            groups: step.group,
            columnGroups: step.columnGroup,
            promptTokens: step.prompts,
          },
          { profile: 'ragen', state, step: step.step },
        );
        expectSameMetrics(found.logged, metrics);
      }
    }
  });
});
