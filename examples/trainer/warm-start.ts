// Supervised training on demonstrations, which reinforcement learning starts from: random weights in, weights out that
// reason in sentences about the board before them.
import { jit, type numpy as np, tree, valueAndGrad } from '@jax-js/jax';
import { Adam } from './adam.js';
import { type BoardKind, drawBoard, features } from './grid-task.js';
import { chosenLogprobs, type Encoded, encode, predict, type Weights } from './policy.js';
import type { Random } from './random.js';
import { demonstrate } from './reasoning.js';

export const WARM_START_STEPS = 200;

const BATCH = 128;
const RATE = 0.01;

/** Mean over rollouts of −log p of the demonstration, in nats. */
const imitationLoss = jit(
  valueAndGrad((weights: Weights, batch: Encoded): np.Array => {
    const predictions = predict(weights, batch.boards.ref, batch.read.ref);
    return chosenLogprobs(predictions, batch).sum().div(-BATCH);
  }),
);

export async function warmStart(
  weights: Weights,
  steps: number,
  random: Random,
  onStep?: (step: number, loss: number) => void,
): Promise<Weights> {
  const adam = new Adam(RATE);
  let current = weights;
  const kinds: readonly BoardKind[] = ['open', 'open', 'maze', 'sealed'];
  for (let step = 1; step <= steps; step++) {
    const batch = Array.from({ length: BATCH }, () => {
      const board = drawBoard(random.pick(kinds), random);
      return { board: features(board), ...demonstrate(board, random) };
    });
    const [loss, gradients] = imitationLoss(tree.ref(current), encode(batch));
    current = (await adam.step(current, gradients)).weights;
    onStep?.(step, (await loss.data())[0] as number);
  }
  adam.dispose();
  return current;
}
