// Measures the rollouts of a step without any score, under the keys that trainers log them by
// (docs/reference/metrics.md).
import type { Profile } from '../../metrics/step-metrics.js';
import type { StepRows } from '../step-input.js';

/** @param std mean in-group std of the rewards; undefined if there is none */
export function rolloutMetrics(
  { groups, valid, entropies, responseLengths, success, lengths: given }: Omit<StepRows, 'rewards' | 'outcomes'>,
  profile: Profile,
  std: number | undefined,
): Record<string, number> {
  const metrics: Record<string, number> = {};
  const rows = groups.length;
  const lengths = given && Float64Array.from(given, Number);
  if (rows > 0) {
    // Turns with reasoning: as the trainer judged it, else those that have reasoning tokens. The reference gives it
    // only with the cross-scores of multi-turn samples, which bring it along.
    if (valid !== undefined) metrics['collapse/valid_thinking_rate'] = sum(valid) / rows;
    else if (lengths !== undefined && profile === 'strict') {
      metrics['collapse/valid_thinking_rate'] = lengths.filter((length) => length > 0).length / rows;
    }
    if (entropies !== undefined) {
      const weights = responseLengths ?? lengths;
      const tokens = weights === undefined ? 0 : sum(weights);
      // A mean over tokens, as verl's `token-mean`; without token counts over rows.
      metrics['actor/entropy'] =
        weights !== undefined && tokens > 0
          ? sum(entropies.map((entropy, row) => entropy * (weights[row] as number))) / tokens
          : sum(entropies) / rows;
    }
    if (responseLengths !== undefined) {
      metrics['response_length/mean'] = sum(responseLengths) / rows;
      metrics['response_length/max'] = responseLengths.reduce((most, length) => Math.max(most, length));
      metrics['response_length/min'] = responseLengths.reduce((least, length) => Math.min(least, length));
    }
  }
  if (std !== undefined) metrics['rollout/in_group_reward_std'] = std;
  for (const [task, rate] of Object.entries(success ?? {})) {
    metrics[task === '' ? 'val-env/success' : `val-env/${task}/success`] = rate;
  }
  return metrics;
}

function sum(values: Float64Array | Uint8Array): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}
