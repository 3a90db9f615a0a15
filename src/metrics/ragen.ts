// One step's metrics exactly as the reference computes them, key for key (metrics.md §3), defects included.
import { type MeasuredStep, RETRIEVAL_AT } from './measured-step.js';
import type { RunningState } from './running-state.js';
import { sharedValues } from './shared-values.js';
import type { SampleLabel } from './step-metrics.js';

/** Added to a standard deviation before dividing by it. */
const STD_EPS = 1e-3;

export function ragenValues(step: MeasuredStep, label: SampleLabel, state: RunningState): Record<string, number> {
  const { moments } = step;
  const columns = step.signatures.length;
  const values = sharedValues(step);
  values.mi_upper_bound = Math.log(columns);

  for (const { k, hits } of RETRIEVAL_AT) {
    const accuracy = moments.hits[hits] / moments.rows;
    const chance = Math.min(1, (values.retrieval_chance_level as number) * Math.min(k, columns));
    values[`retrieval_accuracy@${k}`] = accuracy;
    values[`retrieval_chance_level@${k}`] = chance;
    values[`retrieval_above_chance@${k}`] = accuracy - chance;
  }

  const current = { std: moments.marginalToken.std, stdSeq: moments.marginalSeq.std };
  const average = state.update('ragen', label, current, undefined);
  values.marginal_std_ema = average.std;
  values.marginal_std_ema_seq = average.stdSeq;
  values.mi_zscore = moments.excessToken.mean / (current.std + STD_EPS);
  values.mi_zscore_seq = moments.excessSeq.mean / (current.stdSeq + STD_EPS);
  values.mi_zscore_ema = moments.excessToken.mean / (average.std + STD_EPS);
  values.mi_zscore_ema_seq = moments.excessSeq.mean / (average.stdSeq + STD_EPS);
  return values;
}
