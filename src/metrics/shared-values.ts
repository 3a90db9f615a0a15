// The metrics that both profiles define the same way (docs/reference/metrics.md), under their common names.
import { withoutRounding } from '../checks/numbers.js';
import { chanceLevel } from './figures/chance.js';
import type { MeasuredStep } from './measured-step.js';

/** @param retrieval the same rows among the columns that retrieval is asked of */
export function sharedValues({ moments }: MeasuredStep, retrieval: MeasuredStep): Record<string, number> {
  const chance = chanceLevel(retrieval.rowsByEquivalents);
  const accuracy = retrieval.moments.hits[0] / moments.rows;
  return {
    mi_estimate: moments.matchedToken.mean - moments.marginalToken.mean,
    mi_seq_estimate: withoutRounding(moments.excessSeq.mean),
    matched_log_prob_mean: moments.matchedToken.mean,
    marginal_log_prob_mean: moments.marginalToken.mean,
    conditional_entropy_est: -moments.matchedToken.mean,
    reasoning_entropy_est: -moments.marginalToken.mean,
    conditional_entropy_seq_est: -moments.matchedSeq.mean,
    reasoning_entropy_seq_est: -moments.marginalSeq.mean,
    marginal_std: moments.marginalToken.std,
    marginal_std_seq: moments.marginalSeq.std,
    retrieval_accuracy: accuracy,
    retrieval_chance_level: chance,
    retrieval_above_chance: accuracy - chance,
  };
}
