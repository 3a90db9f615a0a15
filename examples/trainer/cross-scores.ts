// Rollouts and prompts in, cross-scores out: every reasoning scored under every prompt by the policy's own forward pass.
import { jit, numpy as np, tree } from '@jax-js/jax';
import { FEATURES } from './grid-task.js';
import { choiceEntropies, encode, predict, type Weights } from './policy.js';
import { MOST_WORDS } from './reasoning.js';
import type { Rollout } from './rollouts.js';

/** log p of each word of each reasoning [POSITIONS, R], as if every rollout had seen `board` [FEATURES]. */
const underBoard = jit((weights: Weights, board: np.Array, read: np.Array, wordsChosen: np.Array): np.Array => {
  const boards = np.broadcastTo(board.reshape([1, FEATURES]), [read.shape[1] as number, FEATURES]);
  return np.sum(predict(weights, boards, read).words.mul(wordsChosen), -1);
});

const entropies = jit((weights: Weights, batch: ReturnType<typeof encode>): np.Array => {
  return choiceEntropies(predict(weights, batch.boards.ref, batch.read.ref), batch);
});

/** Scores of one step's rollouts under any prompt. `using` it frees its memory. */
export class CrossScorer {
  readonly #weights: Weights;
  readonly #encoded: ReturnType<typeof encode>;
  readonly #rows: number;

  constructor(weights: Weights, rollouts: readonly Rollout[]) {
    this.#weights = weights;
    this.#encoded = encode(rollouts);
    this.#rows = rollouts.length;
  }

  /** log p(word t of rollout r | board, the words before it) [R, MOST_WORDS], row-major. Past a reasoning's end: whatever. */
  async under(board: Float32Array): Promise<Float32Array> {
    const { read, wordsChosen } = this.#encoded;
    const scores = underBoard(tree.ref(this.#weights), np.array(board), read.ref, wordsChosen.ref);
    return this.#rowMajor((await scores.data()) as Float32Array);
  }

  /** The policy's entropy where it chose word t of rollout r [R, MOST_WORDS]. */
  async entropies(): Promise<Float32Array> {
    const found = entropies(tree.ref(this.#weights), tree.ref(this.#encoded));
    return this.#rowMajor((await found.data()) as Float32Array);
  }

  dispose(): void {
    tree.dispose(this.#encoded);
  }

  /** [POSITIONS, R] -> [R, MOST_WORDS]. */
  #rowMajor(positions: Float32Array): Float32Array {
    const rows = new Float32Array(this.#rows * MOST_WORDS);
    for (let row = 0; row < this.#rows; row++) {
      for (let word = 0; word < MOST_WORDS; word++) {
        rows[row * MOST_WORDS + word] = positions[word * this.#rows + row] as number;
      }
    }
    return rows;
  }
}
