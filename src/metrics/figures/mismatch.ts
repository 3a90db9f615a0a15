// Measures how far the sampling policy is from the trained one by the log-probs of both: the formulas of verl's
// `rollout_corr/*` (verl 0.9.1, verl/trainer/ppo/rollout_corr_helper.py), over all tokens of the step.
import type { FigureWords, NamedFigure } from './figure.js';

const KL: FigureWords = {
  definition:
    'How far inference is from training, in nats a token: KL of the policy that sampled from the trained one.',
  formula: 'mean of −ln ρ, and of ρ − ln ρ − 1, ρ = p of the trainer / p of inference',
  advice:
    'The second is never negative and less noisy. One that rises, or that is far above 1e-3, spoils the gradient.',
};
const SEQUENCES: FigureWords = {
  definition: 'How far inference is from training in a response as a whole.',
  formula: 'mean over responses of |mean over its tokens of ln ρ|',
  advice: 'Far above the size of one token’s noise, whole responses are off: other weights, another template.',
};
const SPREAD: FigureWords = {
  definition: 'Spread of the weights that correct for the mismatch.',
  formula: 'mean of ρ² − 1, ln ρ within ±20',
  advice: 'Where it is large a few tokens carry the correction.',
};
const TAILS: FigureWords = {
  definition: 'Tokens that the trainer thinks more than twice, or less than half, as likely as inference did.',
  formula: 'such tokens / all tokens',
  advice: 'A tail below alone points at tokens that inference should not have sampled.',
};
const EFFECTIVE: FigureWords = {
  definition: 'Share of the tokens that is left of the sample once it is weighed by ρ, cut at 2.',
  formula: '1 / mean of (w / mean w)², w = min(ρ, 2)',
  advice: 'Below 0.5 half of the batch is wasted.',
};
const PLACES: FigureWords = {
  definition: 'The mismatch at the beginning and at the end of responses.',
  formula: 'mean of ρ − ln ρ − 1 over the first and the last quarter of each response’s tokens',
  advice: 'One that grows along the response points at long contexts: position embeddings, caches, sliding windows.',
};

export const MISMATCH_FIGURES: readonly NamedFigure[] = [
  { key: 'mismatch_kl', words: KL },
  { key: 'mismatch_k3_kl', words: KL },
  { key: 'mismatch_log_ppl_abs_diff', words: SEQUENCES },
  { key: 'mismatch_chi2_token', words: SPREAD },
  { key: 'mismatch_ratio_fraction_high', words: TAILS },
  { key: 'mismatch_ratio_fraction_low', words: TAILS },
  { key: 'mismatch_eff_sample_size', words: EFFECTIVE },
  { key: 'mismatch_k3_kl_first_quarter', words: PLACES },
  { key: 'mismatch_k3_kl_last_quarter', words: PLACES },
];

/** verl's `rollout_is_threshold`. */
const THRESHOLD = 2;
/** verl's SAFETY_BOUND of ln ρ. */
const MOST_LOG_RATIO = 20;

type Lists = readonly (ArrayLike<number> | undefined)[];

class Mean {
  #sum = 0;
  #count = 0;

  add(value: number): void {
    this.#sum += value;
    this.#count++;
  }

  /** NaN of nothing. */
  get value(): number {
    return this.#sum / this.#count;
  }
}

/** @returns in the order of MISMATCH_FIGURES; tokens of which either is not finite are left out */
export function mismatchOf(sampled: Lists, trained: Lists): readonly number[] | string {
  const [kl, k3, sequence, chi2, high, low, weight, squared, first, last] = Array.from(
    { length: 10 },
    () => new Mean(),
  ) as [Mean, Mean, Mean, Mean, Mean, Mean, Mean, Mean, Mean, Mean];
  for (const [row, own] of sampled.entries()) {
    const other = trained[row];
    if (own === undefined || other === undefined || own.length !== other.length) continue;
    const inRow = new Mean();
    for (let at = 0; at < own.length; at++) {
      const log = (other[at] as number) - (own[at] as number);
      if (!Number.isFinite(log)) continue;
      const ratio = Math.exp(Math.max(-MOST_LOG_RATIO, Math.min(MOST_LOG_RATIO, log)));
      // Without the loss of digits that exp(x) − x − 1 has near 0.
      const divergence = Math.expm1(log) - log;
      const cut = Math.min(ratio, THRESHOLD);
      kl.add(-log);
      k3.add(divergence);
      inRow.add(log);
      chi2.add(ratio * ratio - 1);
      high.add(ratio > THRESHOLD ? 1 : 0);
      low.add(ratio < 1 / THRESHOLD ? 1 : 0);
      weight.add(cut);
      squared.add(cut * cut);
      // Of a short response at least a token each.
      if (4 * at < own.length) first.add(divergence);
      if (4 * (own.length - 1 - at) < own.length) last.add(divergence);
    }
    if (!Number.isNaN(inRow.value)) sequence.add(Math.abs(inRow.value));
  }
  if (Number.isNaN(kl.value)) return 'no row has a token with finite log-probs of both inference and trainer';
  const means = [kl, k3, sequence, chi2, high, low].map(({ value }) => value);
  const effective = (weight.value * weight.value) / squared.value;
  return [...means, effective, first.value, last.value];
}
