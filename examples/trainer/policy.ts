// The policy: boards and reasonings in, log-probabilities of words and moves out. A recurrent network (GRU) of a few thousand
// weights: it sees the board, writes a reasoning word by word, and when it has written </think> it moves.
//
// Gradients come from jax-js, JAX for JavaScript. Its arrays are counted by hand: passing one to a function gives it away,
// `x.ref` keeps it for one more use.
import { defaultDevice, init, jit, nn, numpy as np } from '@jax-js/jax';
import { FEATURES, MOVES } from './grid-task.js';
import type { Random } from './random.js';
import { END, MOST_WORDS, START, WORDS } from './reasoning.js';

/** jax-js computes in WebAssembly; once a process. */
export async function openDevice(): Promise<void> {
  await init('wasm');
  defaultDevice('wasm');
}

const HIDDEN = 32;
/** Inputs of one rollout: <think>, at most MOST_WORDS words, </think>. */
export const POSITIONS = MOST_WORDS + 2;

/** What can be read: every word, and <think>. */
export const READABLE = WORDS.length + 1;

const SHAPES = {
  see: [FEATURES, HIDDEN], // board -> what it looks like
  seeUpdate: [HIDDEN, HIDDEN],
  seeState: [HIDDEN, HIDDEN],
  word: [READABLE, HIDDEN], // word read -> its meaning
  wordUpdate: [HIDDEN, HIDDEN],
  wordState: [HIDDEN, HIDDEN],
  stateUpdate: [HIDDEN, HIDDEN],
  stateState: [HIDDEN, HIDDEN],
  speak: [HIDDEN, WORDS.length],
  act: [HIDDEN, MOVES.length],
} as const;

/** The weights; also the shape of their gradients and of the optimizer's moments. */
export type Weights = { [Name in keyof typeof SHAPES]: np.Array };

/** Small random weights, scaled by the square root of what flows in. */
export function initialWeights(random: Random): Weights {
  const draw = ([inputs, outputs]: readonly [number, number]): np.Array => {
    const scale = 1 / Math.sqrt(inputs === FEATURES ? 8 : inputs);
    const data = Float32Array.from({ length: inputs * outputs }, () => scale * random.normal());
    return np.array(data).reshape([inputs, outputs]);
  };
  return Object.fromEntries(Object.entries(SHAPES).map(([name, shape]) => [name, draw(shape)])) as Weights;
}

/** Log-probabilities at every position of every rollout, of the next word and of the move. */
export interface Predictions {
  /** [POSITIONS, R, words] */
  words: np.Array;
  /** [POSITIONS, R, moves] */
  moves: np.Array;
}

/** What the board adds to every step of the network. boards [R, FEATURES] -> [R, HIDDEN] each. */
function look(weights: Weights, boards: np.Array) {
  const seen = np.tanh(np.matmul(boards, weights.see.ref));
  return {
    state: seen.ref,
    update: np.matmul(seen.ref, weights.seeUpdate.ref),
    candidate: np.matmul(seen.ref, weights.seeState.ref),
  };
}

/** One step of the GRU: the state before [R, HIDDEN], the word read [R, READABLE] one-hot -> the state after. */
function advance(weights: Weights, board: ReturnType<typeof look>, state: np.Array, read: np.Array): np.Array {
  const word = np.matmul(read, weights.word.ref);
  const update = nn.sigmoid(
    board.update.ref
      .add(np.matmul(word.ref, weights.wordUpdate.ref))
      .add(np.matmul(state.ref, weights.stateUpdate.ref)),
  );
  const candidate = np.tanh(
    board.candidate.ref.add(np.matmul(word, weights.wordState.ref)).add(np.matmul(state.ref, weights.stateState.ref)),
  );
  return state.ref.add(update.mul(candidate.sub(state)));
}

/** The forward pass. To be called from within `jit` or `grad`, which see to the memory. boards [R, FEATURES]; read [POSITIONS, R, READABLE]. */
export function predict(weights: Weights, boards: np.Array, read: np.Array): Predictions {
  const board = look(weights, boards);
  const states: np.Array[] = [];
  let state = board.state.ref;
  for (let position = 0; position < POSITIONS; position++) {
    state = advance(weights, board, state, read.ref.slice(position));
    states.push(state.ref);
  }
  const all = np.stack(states);
  return {
    words: nn.logSoftmax(np.matmul(all.ref, weights.speak.ref), -1),
    moves: nn.logSoftmax(np.matmul(all, weights.act.ref), -1),
  };
}

/** The first state, and for every one after it the log-probabilities there: for sampling, where each word waits for the one before. */
export const firstState = jit((weights: Weights, boards: np.Array): np.Array => look(weights, boards).state);
export const nextState = jit((weights: Weights, boards: np.Array, state: np.Array, read: np.Array) => {
  const next = advance(weights, look(weights, boards), state, read);
  return {
    state: next.ref,
    words: nn.logSoftmax(np.matmul(next.ref, weights.speak.ref), -1),
    moves: nn.logSoftmax(np.matmul(next, weights.act.ref), -1),
  };
});

/** Rollouts as the network takes them. R rollouts. */
export interface Encoded {
  /** [R, FEATURES] */
  boards: np.Array;
  /** [POSITIONS, R, READABLE], one-hot: the word read at each position; zeros after </think>. */
  read: np.Array;
  /** [POSITIONS, R, words], one-hot: the word chosen there; zeros where none was (</think> after MOST_WORDS is forced). */
  wordsChosen: np.Array;
  /** [POSITIONS, R, moves], one-hot: the move, at the position where </think> is read. */
  movesChosen: np.Array;
}

export interface Spoken {
  readonly board: Float32Array;
  readonly reasoning: readonly number[];
  readonly move: number;
}

export function encode(rollouts: readonly Spoken[]): Encoded {
  const [rows, words, moves] = [rollouts.length, WORDS.length, MOVES.length];
  const boards = new Float32Array(rows * FEATURES);
  const read = new Float32Array(POSITIONS * rows * READABLE);
  const wordsChosen = new Float32Array(POSITIONS * rows * words);
  const movesChosen = new Float32Array(POSITIONS * rows * moves);
  for (const [at, { board, reasoning, move }] of rollouts.entries()) {
    boards.set(board, at * FEATURES);
    const inputs = [START, ...reasoning, END];
    for (const [position, word] of inputs.entries()) {
      read[(position * rows + at) * READABLE + word] = 1;
      const chosen = inputs[position + 1];
      if (chosen !== undefined && position < MOST_WORDS) wordsChosen[(position * rows + at) * words + chosen] = 1;
    }
    movesChosen[((inputs.length - 1) * rows + at) * moves + move] = 1;
  }
  return {
    boards: np.array(boards).reshape([rows, FEATURES]),
    read: np.array(read).reshape([POSITIONS, rows, READABLE]),
    wordsChosen: np.array(wordsChosen).reshape([POSITIONS, rows, words]),
    movesChosen: np.array(movesChosen).reshape([POSITIONS, rows, moves]),
  };
}

/** log p of what was chosen at each position [POSITIONS, R]; zero where nothing was. For use within `jit` or `grad`. */
export function chosenLogprobs({ words, moves }: Predictions, { wordsChosen, movesChosen }: Encoded): np.Array {
  return np.sum(words.ref.mul(wordsChosen.ref), -1).add(np.sum(moves.ref.mul(movesChosen.ref), -1));
}

/** Entropy of the choice at each position [POSITIONS, R]; zero where nothing was chosen. For use within `jit` or `grad`. */
export function choiceEntropies({ words, moves }: Predictions, { wordsChosen, movesChosen }: Encoded): np.Array {
  const entropy = (logprobs: np.Array): np.Array => np.sum(np.exp(logprobs.ref).mul(logprobs.ref), -1).neg();
  const wasChosen = (oneHot: np.Array): np.Array => np.sum(oneHot.ref, -1);
  return entropy(words)
    .mul(wasChosen(wordsChosen))
    .add(entropy(moves).mul(wasChosen(movesChosen)));
}
