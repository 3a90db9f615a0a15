// Gradients in, better weights out: Adam (Kingma and Ba, arXiv 1412.6980), with the gradient's norm clipped.
import { jit, numpy as np, tree } from '@jax-js/jax';
import type { Weights } from './policy.js';

const DECAY = 0.9;
const SQUARE_DECAY = 0.99;
const EPSILON = 1e-8;
/** Gradients longer than this are shortened to it. */
const LONGEST = 1;

type Name = keyof Weights;
const map = (weights: Weights, change: (name: Name) => np.Array): Weights =>
  Object.fromEntries(Object.keys(weights).map((name) => [name, change(name as Name)])) as Weights;

const move = jit((weights: Weights, gradients: Weights, first: Weights, second: Weights, rate: np.Array) => {
  const squares = Object.values(gradients).map((gradient) => np.sum(np.square(gradient.ref)));
  const norm = np.sqrt(squares.reduce((sum, square) => sum.add(square)));
  const shorten = np.minimum(np.array(1), np.array(LONGEST).div(norm.ref.add(EPSILON)));
  const clipped = map(gradients, (name) => gradients[name].ref.mul(shorten.ref));
  const nextFirst = map(first, (name) => first[name].ref.mul(DECAY).add(clipped[name].ref.mul(1 - DECAY)));
  const nextSecond = map(second, (name) =>
    second[name].ref.mul(SQUARE_DECAY).add(np.square(clipped[name].ref).mul(1 - SQUARE_DECAY)),
  );
  const nextWeights = map(weights, (name) =>
    weights[name].ref.sub(nextFirst[name].ref.div(np.sqrt(nextSecond[name].ref).add(EPSILON)).mul(rate.ref)),
  );
  return { weights: nextWeights, first: nextFirst, second: nextSecond, norm };
});

export class Adam {
  readonly #rate: number;
  #moments: { first: Weights; second: Weights } | undefined;
  #steps = 0;

  constructor(rate: number) {
    this.#rate = rate;
  }

  /** Takes the weights and gradients, gives the next weights and the gradient's norm before clipping. */
  async step(weights: Weights, gradients: Weights): Promise<{ weights: Weights; norm: number }> {
    const zeros = (): Weights => map(weights, (name) => np.zeros(weights[name].shape));
    const { first, second } = this.#moments ?? { first: zeros(), second: zeros() };
    this.#steps++;
    // The moments begin at zero; the correction for that is one factor of the rate.
    const correction = Math.sqrt(1 - SQUARE_DECAY ** this.#steps) / (1 - DECAY ** this.#steps);
    const next = move(weights, gradients, first, second, np.array(this.#rate * correction));
    this.#moments = { first: next.first, second: next.second };
    return { weights: next.weights, norm: (await next.norm.data())[0] as number };
  }

  dispose(): void {
    tree.dispose(this.#moments);
    this.#moments = undefined;
  }
}
