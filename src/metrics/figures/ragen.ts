// One step's metrics exactly as the reference computes them, key for key (docs/reference/metrics.md), defects included.

import { type MeasuredStep, RETRIEVAL_AT } from '../measured-step.js';
import { sharedValues } from '../shared-values.js';
import type { MarginalSpread, StepSpread } from '../step-metrics.js';
import { stepSpread } from './step-spread.js';

/** Added to a standard deviation before dividing by it. */
const STD_EPS = 1e-3;

/** With the moving averages of a run's first step. */
export function ragenValues(step: MeasuredStep): { values: Record<string, number>; spread: StepSpread } {
  const { moments } = step;
  const columns = step.signatures.length;
  const values = sharedValues(step, step);
  values.mi_upper_bound = Math.log(columns);

  for (const { k, hits } of RETRIEVAL_AT) {
    const accuracy = moments.hits[hits] / moments.rows;
    const chance = Math.min(1, (values.retrieval_chance_level as number) * Math.min(k, columns));
    values[`retrieval_accuracy@${k}`] = accuracy;
    values[`retrieval_chance_level@${k}`] = chance;
    values[`retrieval_above_chance@${k}`] = accuracy - chance;
  }

  const spread = stepSpread(step, { std: 0, stdSeq: 0 });
  const { current, excess } = spread;
  values.mi_zscore = excess.token / (current.std + STD_EPS);
  values.mi_zscore_seq = excess.seq / (current.stdSeq + STD_EPS);
  return { values: { ...values, ...ragenAverages(spread, current) }, spread };
}

export function ragenAverages({ excess }: StepSpread, average: MarginalSpread): Record<string, number> {
  return {
    marginal_std_ema: average.std,
    marginal_std_ema_seq: average.stdSeq,
    mi_zscore_ema: excess.token / (average.std + STD_EPS),
    mi_zscore_ema_seq: excess.seq / (average.stdSeq + STD_EPS),
  };
}

/** Every key that `ragenValues` gives. */
export const RAGEN_KEYS: readonly string[] = [
  'mi_estimate',
  'mi_seq_estimate',
  'mi_upper_bound',
  'mi_zscore',
  'mi_zscore_seq',
  'mi_zscore_ema',
  'mi_zscore_ema_seq',
  'matched_log_prob_mean',
  'marginal_log_prob_mean',
  'conditional_entropy_est',
  'reasoning_entropy_est',
  'conditional_entropy_seq_est',
  'reasoning_entropy_seq_est',
  'marginal_std',
  'marginal_std_seq',
  'marginal_std_ema',
  'marginal_std_ema_seq',
  'retrieval_accuracy',
  'retrieval_chance_level',
  'retrieval_above_chance',
  ...RETRIEVAL_AT.flatMap(({ k }) => [
    `retrieval_accuracy@${k}`,
    `retrieval_chance_level@${k}`,
    `retrieval_above_chance@${k}`,
  ]),
];
