// The shipped runs through the monitor, as a trainer would have fed it: what analyze says of the files, and the alarm
// in time.
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readStepFile } from '../../src/exports/logs.js';
import { analyze, type Engine, Monitor, openEngine } from '../../src/index.js';
import type { StepReport } from '../../src/step/step-report.js';
import { exampleRuns } from '../support/analysis-logs.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine();
});
afterAll(() => engine.dispose());

async function watch(run: string): Promise<{ reports: StepReport[]; metrics: string[] }> {
  const monitor = new Monitor({ engine, everySteps: 1, permutations: 19, filter: { value: 0.9 } });
  const reports: StepReport[] = [];
  const metrics: string[] = [];
  for await (const { file, step, samples: found } of analyze(join(exampleRuns, run), { engine, permutations: 19 })) {
    const data = await readStepFile(file);
    const { lengths, group: groups, columnGroup: columnGroups, prompts: promptTokens } = data;
    const opened = monitor.step(step, { groups, lengths, columnGroups, promptTokens });
    if (data.scores.kind !== 'logprobs') throw new Error('the shipped files hold log-probs');
    const [, R, T] = data.scores.shape;
    for await (const { firstPrompt, logprobs } of data.scores.blocks()) {
      const count = logprobs.shape[0] as number;
      for (let p = 0; p < count; p++) {
        const column = {
          data: logprobs.data.subarray(p * R * T, (p + 1) * R * T),
          dtype: logprobs.dtype,
          shape: [R, T],
        };
        await opened.score(firstPrompt + p, column);
      }
    }
    reports.push(
      await opened.finish({
        rewards: data.rewards,
        outcomes: data.correct,
        actions: data.actions,
        valid: data.valid,
      }),
    );
    metrics.push(JSON.stringify(found[0]));
  }
  return { reports, metrics };
}

const raised = (reports: readonly StepReport[], kind: string) =>
  reports.flatMap(({ judgement }) => judgement?.verdicts ?? []).find((verdict) => verdict.kind === kind);

describe('the shipped runs', () => {
  it('collapse: template collapse is called before retrieval reaches chance', async () => {
    const { reports, metrics } = await watch('collapse');
    expect(reports.map(({ stepMetrics }) => JSON.stringify(stepMetrics))).toEqual(metrics.map(withoutRows));
    const verdict = raised(reports, 'template_collapse');
    const atChance = reports.find(({ stepMetrics }) => {
      const { certainty } = stepMetrics as NonNullable<typeof stepMetrics>;
      const batch = certainty.retrieval_above_chance?.batch;
      return batch !== undefined && 'low' in batch && batch.low <= 0;
    });
    expect(verdict?.raised).toBeLessThan(atChance?.step ?? Number.POSITIVE_INFINITY);
  });

  it('healthy: no alarm, no stop', async () => {
    const { reports } = await watch('healthy');
    for (const kind of ['template_collapse', 'low_entropy_collapse', 'mi_falling', 'mi_overshoot']) {
      expect(raised(reports, kind), kind).toBeUndefined();
    }
    expect(reports.flatMap(({ stops }) => stops)).toEqual([]);
  });
});

/** Reports leave out what is row by row. */
function withoutRows(metrics: string): string {
  const { perRow: _, ...rest } = JSON.parse(metrics);
  return JSON.stringify(rest);
}
