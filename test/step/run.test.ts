// What a run reports of a step: under `strict` each figure once, and how sure it is in a part of its own.
import { describe, expect, it } from 'vitest';
import { analyze } from '../../src/analysis/analyze.js';
import { metricsOnce } from '../../src/filter/filter-metrics.js';
import { isCertaintyKey } from '../../src/metrics/figures/certainty.js';
import { allFigures } from '../../src/step/step-record.js';
import type { StepReport } from '../../src/step/step-report.js';
import { exampleRuns } from '../support/analysis-logs.js';

const LABEL = 'collapse_first_turn_sample';

async function firstReport(options: Parameters<typeof analyze>[1]): Promise<StepReport> {
  for await (const report of analyze(`${exampleRuns}collapse/step_00001.safetensors`, options)) return report;
  throw new Error('no step');
}

describe('a report under strict', () => {
  it('has at most 60 figures of a step of sixteen prompts, and none of them twice', async () => {
    const { metrics } = await firstReport({ permutations: 19 });
    const keys = Object.keys(metrics);
    expect(keys.length).toBeLessThanOrEqual(60);
    expect(keys.filter(isCertaintyKey)).toEqual([]);
    expect(keys).toEqual(expect.arrayContaining([`${LABEL}/conditional_entropy_est`, 'rollout/filter_kept_count']));
    for (const key of [`${LABEL}/matched_log_prob_mean`, `${LABEL}/marginal_log_prob_mean`, 'rollout/in_group_std'])
      expect(keys).not.toContain(key);
    expect(keys.filter((key) => key.startsWith('reward_variance_filtering/'))).toEqual([]);
    // A figure that is another one or its negative, to the bit, by more than chance.
    const entropy = metrics[`${LABEL}/conditional_entropy_est`] as number;
    expect(Object.values(metrics).filter((value) => Math.abs(value) === entropy)).toHaveLength(1);
  });

  it('says in its certainty, and nowhere else, how sure they are', async () => {
    const { certainty, stepMetrics, record, metrics } = await firstReport({ permutations: 19 });
    const { batch, pValue } = stepMetrics?.certainty.mi_seq_estimate ?? {};
    expect(batch).toHaveProperty('low', certainty[`${LABEL}/mi_seq_estimate_batch_low`]);
    expect(certainty[`${LABEL}/mi_seq_estimate_p_value`]).toBe(pValue);
    expect(certainty[`${LABEL}/mi_seq_standard_error`]).toBeGreaterThan(0);
    expect(Object.keys(certainty).filter((key) => !isCertaintyKey(key))).toEqual([]);
    expect(record.certainty).toEqual(certainty);
    expect(Object.keys(record).filter(isCertaintyKey)).toEqual([]);
    expect(allFigures(record)).toMatchObject({ ...metrics, ...certainty });
  });

  it('has of the certainty what is chosen by name, or all by its own', async () => {
    const one = await firstReport({ permutations: 0, metrics: ['mi_seq_estimate_batch_low'] });
    expect([Object.keys(one.metrics), Object.keys(one.record.certainty ?? {})]).toEqual([
      [],
      [`${LABEL}/mi_seq_estimate_batch_low`],
    ]);
    const none = await firstReport({ permutations: 0, metrics: ['mi_seq_estimate'] });
    expect(none.record).not.toHaveProperty('certainty');
    expect(none.record[`${LABEL}/mi_seq_estimate`]).toBeGreaterThan(0);
    const all = await firstReport({ permutations: 0, metrics: ['certainty'] });
    expect(all.metrics).toEqual({});
    expect(Object.keys(all.record.certainty ?? {}).length).toBeGreaterThan(40);
  });
});

describe('a report under ragen', () => {
  it("has the reference's keys and no certainty", async () => {
    const { metrics, certainty, record } = await firstReport({ profile: 'ragen' });
    expect(metrics[`${LABEL}/matched_log_prob_mean`]).toBe(-(metrics[`${LABEL}/conditional_entropy_est`] as number));
    expect(metrics[`${LABEL}/marginal_log_prob_mean`]).toBe(-(metrics[`${LABEL}/reasoning_entropy_est`] as number));
    expect(certainty).toEqual({});
    expect(record).not.toHaveProperty('certainty');
  });
});

describe("the filter's metrics", () => {
  it('are left as they are where a dialect has one name of each', () => {
    const ragen = { 'rollout/in_group_std': 1, 'rollout/in_group_reward_std': 1, 'rollout/filter_kept_count': 2 };
    const upstream = { 'reward_variance_filtering/num_groups': 3, 'reward_variance_filtering/num_kept_groups': 2 };
    expect(metricsOnce(ragen)).toBe(ragen);
    expect(metricsOnce(upstream)).toBe(upstream);
    expect(metricsOnce({ ...ragen, ...upstream })).toEqual({
      'rollout/in_group_reward_std': 1,
      'rollout/filter_kept_count': 2,
    });
  });
});
