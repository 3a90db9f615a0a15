// Boards in, sampled reasonings and moves out: the policy as it is, temperature 1.
import { numpy as np, tree } from '@jax-js/jax';
import { FEATURES, MOVES } from './grid-task.js';
import { firstState, nextState, POSITIONS, READABLE, type Weights } from './policy.js';
import type { Random } from './random.js';
import { END, MOST_WORDS, START, WORDS } from './reasoning.js';

export interface Rollout {
  readonly board: Float32Array;
  /** Word ids, without the tags. */
  readonly reasoning: readonly number[];
  /** Index into MOVES. */
  readonly move: number;
  /** Whether the policy ended its reasoning itself. */
  readonly ended: boolean;
}

/** One rollout a board: the words are drawn one after the other, all boards at once. Keeps the weights. */
export async function sampleRollouts(
  weights: Weights,
  boards: readonly Float32Array[],
  random: Random,
): Promise<Rollout[]> {
  const rows = boards.length;
  const seen = np.array(Float32Array.from(boards.flatMap((board) => [...board]))).reshape([rows, FEATURES]);
  const rollouts = boards.map((board) => ({ board, reasoning: [] as number[], move: -1, ended: false }));
  const reading: number[] = new Array(rows).fill(START);
  let state = firstState(tree.ref(weights), seen.ref);
  for (let position = 0; position < POSITIONS; position++) {
    const read = new Float32Array(rows * READABLE);
    for (const [at, word] of reading.entries()) read[at * READABLE + word] = 1;
    const next = nextState(tree.ref(weights), seen.ref, state, np.array(read).reshape([rows, READABLE]));
    state = next.state;
    const [words, moves] = (await Promise.all([next.words.data(), next.moves.data()])) as [Float32Array, Float32Array];
    for (const [at, rollout] of rollouts.entries()) {
      if (rollout.move !== -1) continue;
      if (reading[at] === END) {
        rollout.move = random.categorical(moves, at * MOVES.length, MOVES.length);
      } else if (position === MOST_WORDS) {
        reading[at] = END;
      } else {
        const word = random.categorical(words, at * WORDS.length, WORDS.length);
        reading[at] = word;
        if (word === END) rollout.ended = true;
        else rollout.reasoning.push(word);
      }
    }
  }
  state.dispose();
  seen.dispose();
  return rollouts;
}
