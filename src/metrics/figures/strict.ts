// One step's metrics with the reference's defects repaired: docs/reference/metrics.md says which.

import { figure } from '../../checks/numbers.js';
import { type MeasuredStep, RETRIEVAL_AT } from '../measured-step.js';
import { sharedValues } from '../shared-values.js';
import type { MarginalSpread, StepSpread } from '../step-metrics.js';
import { exactChanceLevel } from './chance.js';
import { isSaturated, mostInformation } from './saturation.js';
import { stepSpread } from './step-spread.js';
import { MARGIN_KEYS, PROMPT_ERROR_KEY } from './subset-figures.js';

/**
 * Smallest spread of marginals, in nats per token, that a z-score is measured against (repair 3). Below it the spread
 * is of the order of a scorer's own rounding (bfloat16 log-probs), and dividing by it would make noise read as health.
 */
const MARGINAL_STD_FLOOR = 0.05;

export interface StrictValues {
  readonly values: Record<string, number>;
  readonly absent: Record<string, string>;
  readonly notes: string[];
  readonly spread: StepSpread;
}

/**
 * With the moving averages of a run's first step.
 * @param retrieval the same rows among each prompt once: `step` has a prompt as often as a sampler drew it
 */
export function strictValues(step: MeasuredStep, retrieval: MeasuredStep): StrictValues {
  const { moments, distinct } = step;
  const columns = retrieval.signatures.length;
  const values = sharedValues(step, retrieval);
  const absent: Record<string, string> = {};
  const notes: string[] = [];

  // Repairs 1 and 2: Eq. 1 per token; leave-one-out beside the saturating estimate; the bound that can be attained.
  values.mi_per_token = moments.excessPerToken.mean;
  values.mi_upper_bound = Math.log(step.prompts);
  values.mi_attainable_bound = Math.log(distinct);
  if (Number.isFinite(moments.looExcessSeq.mean)) values.mi_seq_loo_estimate = moments.looExcessSeq.mean;
  else {
    absent.mi_seq_loo_estimate =
      distinct < 2
        ? 'all columns have the same prompt, so that none is left when the own prompt is left out'
        : 'every other prompt gives some row a log-prob of minus infinity, so that its leave-one-out value is infinite';
  }
  const most = mostInformation(step.rowsByEquivalents);
  const saturated = isSaturated(moments.excessSeq.mean, most);
  values.mi_saturated = saturated ? 1 : 0;
  if (saturated) {
    notes.push(
      `MI is saturated: ${figure(moments.excessSeq.mean)} of at most ${figure(most)} nats; ` +
        'the true value may be larger (leave-one-out gives an upper estimate) and its batch interval cover less than ' +
        'it says, score more prompts to see it',
    );
  }
  values.posterior_entropy_mean = retrieval.moments.posteriorEntropy.mean;

  // Repair 3: a floor under the scale, in units of its own quantity, and a flag where it was needed.
  const meanLength = totalOf(step.lengths) / moments.rows;
  const spread = stepSpread(step, { std: MARGINAL_STD_FLOOR, stdSeq: MARGINAL_STD_FLOOR * meanLength });
  const { current, floor } = spread;
  values.mi_zscore_floored = moments.excessToken.mean / Math.max(current.std, floor.std);
  values.mi_zscore_floored_seq = moments.excessSeq.mean / Math.max(current.stdSeq, floor.stdSeq);
  values.marginal_std_below_floor = current.std < floor.std ? 1 : 0;
  if (current.std < floor.std) {
    notes.push(
      `marginal log-probs hardly differ between rows (std ${figure(current.std)} nats a token): ` +
        `the z-score is measured against a floor of ${floor.std}`,
    );
  }

  Object.assign(values, strictAverages(spread, current));

  // Repair 4: @k against its exact chance, and only where a miss is possible.
  for (const { k, hits } of RETRIEVAL_AT) {
    if (k >= columns) {
      const reason = `the top ${k} of ${columns} columns hold every column: a hit is certain`;
      for (const key of [
        `retrieval_accuracy@${k}`,
        `retrieval_chance_exact@${k}`,
        `retrieval_above_chance_exact@${k}`,
      ]) {
        absent[key] = reason;
      }
      continue;
    }
    const accuracy = retrieval.moments.hits[hits] / moments.rows;
    const chance = exactChanceLevel(retrieval.rowsByEquivalents, k);
    values[`retrieval_accuracy@${k}`] = accuracy;
    values[`retrieval_chance_exact@${k}`] = chance;
    values[`retrieval_above_chance_exact@${k}`] = accuracy - chance;
  }
  return { values, absent, notes, spread };
}

function totalOf(lengths: MeasuredStep['lengths']): number {
  let total = 0;
  for (let row = 0; row < lengths.length; row++) total += Number(lengths[row]);
  return total;
}

/** Repair 7: the average decays with training steps, however irregular the cadence. */
export function strictAverages({ excess, floor }: StepSpread, average: MarginalSpread): Record<string, number> {
  return {
    marginal_std_ema_by_step: average.std,
    marginal_std_ema_by_step_seq: average.stdSeq,
    mi_zscore_ema_by_step: excess.token / Math.max(average.std, floor.std),
    mi_zscore_ema_by_step_seq: excess.seq / Math.max(average.stdSeq, floor.stdSeq),
  };
}

/**
 * Every key that any step has under `strict`: what is absent when nothing can be computed. Those of numbers of prompts
 * are apart.
 */
export const STRICT_KEYS: readonly string[] = [
  'mi_estimate',
  'mi_seq_estimate',
  PROMPT_ERROR_KEY,
  'mi_seq_loo_estimate',
  'mi_per_token',
  ...MARGIN_KEYS,
  'mi_upper_bound',
  'mi_attainable_bound',
  'mi_saturated',
  'matched_log_prob_mean',
  'marginal_log_prob_mean',
  'conditional_entropy_est',
  'reasoning_entropy_est',
  'conditional_entropy_seq_est',
  'reasoning_entropy_seq_est',
  'posterior_entropy_mean',
  'marginal_std',
  'marginal_std_seq',
  'marginal_std_below_floor',
  'marginal_std_ema_by_step',
  'marginal_std_ema_by_step_seq',
  'mi_zscore_floored',
  'mi_zscore_floored_seq',
  'mi_zscore_ema_by_step',
  'mi_zscore_ema_by_step_seq',
  'retrieval_accuracy',
  'retrieval_chance_level',
  'retrieval_above_chance',
  ...RETRIEVAL_AT.flatMap(({ k }) => [
    `retrieval_accuracy@${k}`,
    `retrieval_chance_exact@${k}`,
    `retrieval_above_chance_exact@${k}`,
  ]),
];
