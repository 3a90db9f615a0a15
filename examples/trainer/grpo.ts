// Rollouts and rewards in, better weights out: GRPO (Shao et al., arXiv 2402.03300), on-policy, with the entropy bonus and the
// KL penalty against the warm start that trainers of language models use.
import { jit, numpy as np, tree, valueAndGrad } from '@jax-js/jax';
import { Adam } from './adam.js';
import { choiceEntropies, chosenLogprobs, type Encoded, encode, predict, type Weights } from './policy.js';
import type { Rollout } from './rollouts.js';

export interface GrpoOptions {
  learningRate: number;
  /** Weight of the entropy bonus, a nat. */
  entropyBonus: number;
  /** Weight of the KL penalty, a nat. */
  klPenalty: number;
}

/** Advantage of each rollout: its reward against its group's mean, in the group's standard deviations. */
export function groupAdvantages(rewards: ArrayLike<number>, perGroup: number): Float32Array {
  const advantages = new Float32Array(rewards.length);
  for (let start = 0; start < rewards.length; start += perGroup) {
    const group = Array.prototype.slice.call(rewards, start, start + perGroup) as number[];
    const mean = group.reduce((sum, reward) => sum + reward, 0) / perGroup;
    const spread = Math.sqrt(group.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / perGroup);
    for (const [at, reward] of group.entries()) advantages[start + at] = (reward - mean) / (spread + 1e-6);
  }
  return advantages;
}

/** What one update learns from. */
export interface Batch extends Encoded {
  /** [R] advantage of each rollout. */
  advantages: np.Array;
  /** [R] 1 for rollouts that are trained on, 0 for those that the filter dropped. */
  kept: np.Array;
  /** [POSITIONS, R] log p of what was chosen, under the warm start. */
  reference: np.Array;
}

/**
 * The loss, a mean over the kept rollouts' tokens. There is one update a batch, so the ratio of new to old probabilities is
 * one and its clipping never acts: the gradient is that of −A · log p.
 */
export function grpoLoss(
  weights: Weights,
  batch: Batch,
  entropyBonus: number | np.Array,
  klPenalty: number | np.Array,
): np.Array {
  const predictions = predict(weights, batch.boards.ref, batch.read.ref);
  const logprobs = chosenLogprobs(predictions, batch);
  const chosen = np.sum(batch.wordsChosen.ref, -1).add(np.sum(batch.movesChosen.ref, -1));
  const counted = chosen.mul(batch.kept.ref);
  const tokens = np.sum(counted.ref);
  const task = np.sum(logprobs.ref.mul(batch.advantages.ref).mul(batch.kept.ref)).neg();
  const entropy = np.sum(choiceEntropies(predictions, batch).mul(batch.kept.ref));
  // k3 of Schulman, "Approximating KL divergence": never negative, without bias.
  const difference = batch.reference.ref.sub(logprobs);
  const kl = np.sum(np.exp(difference.ref).sub(difference).sub(1).mul(counted));
  return task.sub(entropy.mul(entropyBonus)).add(kl.mul(klPenalty)).div(tokens);
}

/** Compiled once for all runs of a process, hence coefficients as arrays. */
const lossAndGradient = jit(valueAndGrad(grpoLoss)) as (
  weights: Weights,
  batch: Batch,
  entropyBonus: np.Array,
  klPenalty: np.Array,
) => [np.Array, Weights];

const referenceLogprobs = jit((weights: Weights, batch: Encoded): np.Array => {
  return chosenLogprobs(predict(weights, batch.boards.ref, batch.read.ref), batch);
});

export class Grpo {
  readonly #adam: Adam;
  readonly #reference: Weights;
  readonly #entropyBonus: number;
  readonly #klPenalty: number;
  #weights: Weights;

  /** Takes the weights. */
  constructor(warmStart: Weights, { learningRate, entropyBonus, klPenalty }: GrpoOptions) {
    this.#adam = new Adam(learningRate);
    this.#reference = tree.ref(warmStart);
    this.#weights = warmStart;
    this.#entropyBonus = entropyBonus;
    this.#klPenalty = klPenalty;
  }

  /** The policy as it is now; lent, valid until the next update. */
  get weights(): Weights {
    return this.#weights;
  }

  /** One update. `kept` has a 1 for each rollout to train on. Gives the gradient's norm. */
  async update(rollouts: readonly Rollout[], advantages: Float32Array, kept: ArrayLike<number>): Promise<number> {
    const encoded = encode(rollouts);
    const batch: Batch = {
      ...tree.ref(encoded),
      advantages: np.array(advantages),
      kept: np.array(Float32Array.from(kept)),
      reference: referenceLogprobs(tree.ref(this.#reference), encoded),
    };
    const coefficients = [np.array(this.#entropyBonus), np.array(this.#klPenalty)] as const;
    const [loss, gradients] = lossAndGradient(tree.ref(this.#weights), batch, ...coefficients);
    loss.dispose();
    const next = await this.#adam.step(this.#weights, gradients);
    this.#weights = next.weights;
    return next.norm;
  }

  dispose(): void {
    this.#adam.dispose();
    tree.dispose(this.#weights);
    tree.dispose(this.#reference);
  }
}
