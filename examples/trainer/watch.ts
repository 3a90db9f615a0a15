// Where the trainer meets collapsar. One step's rollouts and rewards in; which rollouts to train on, the metrics and the
// verdicts out, and at every few steps a step file that `collapsar analyze` reads.
import { join } from 'node:path';
import { type FilterOptions, type FilterResult, Monitor, type StepReport, writeStep } from 'collapsar';
import { CrossScorer } from './cross-scores.js';
import { type Board, features, promptTokens } from './grid-task.js';
import type { Weights } from './policy.js';
import { MOST_WORDS } from './reasoning.js';
import type { Rollout } from './rollouts.js';

export interface WatchOptions {
  /** Name of the run. */
  run: string;
  /** Folder of the step files; it must be there. */
  folder: string;
  /** Cross-scores are taken at step 1 and every so many steps. */
  everySteps: number;
  filter: FilterOptions | undefined;
  seed: number;
  /** What the step files say about the run besides. */
  metadata: Readonly<Record<string, string>>;
}

/** A step's rollouts, judged. R rollouts, the same number for each board, board after board. */
export interface JudgedRollouts {
  readonly boards: readonly Board[];
  readonly rollouts: readonly Rollout[];
  /** [R] what the policy is trained on. */
  readonly rewards: Float32Array;
  /** [R] 1 where the move was right. */
  readonly correct: Uint8Array;
}

export class Watch {
  readonly #monitor: Monitor;
  readonly #options: WatchOptions;

  constructor(options: WatchOptions) {
    const { everySteps, filter, seed } = options;
    this.#options = options;
    this.#monitor = new Monitor({ everySteps, filter, seed });
  }

  /** To be called at every step, before the update: the report says which rollouts to train on. Keeps the weights. */
  async look(step: number, weights: Weights, judged: JudgedRollouts): Promise<StepReport<FilterResult>> {
    const { boards, rollouts, rewards, correct } = judged;
    const perBoard = rollouts.length / boards.length;
    const labels = {
      groups: Int32Array.from(rollouts, (_, row) => Math.floor(row / perBoard)),
      lengths: Int32Array.from(rollouts, ({ reasoning }) => reasoning.length),
      promptTokens: boards.map(promptTokens),
    };
    const outcomes = {
      rewards,
      outcomes: Float32Array.from(correct),
      actions: Int32Array.from(rollouts, ({ move }) => move),
      valid: Uint8Array.from(rollouts, ({ ended, reasoning }) => (ended && reasoning.length > 0 ? 1 : 0)),
      responseLengths: Float32Array.from(labels.lengths),
    };
    const open = this.#monitor.step(step, labels);
    if (!open.due) return open.finish(outcomes);

    // The step that costs: the policy scores every reasoning under every prompt, one prompt at a time.
    const scorer = new CrossScorer(weights, rollouts);
    const shape = [rollouts.length, MOST_WORDS];
    const all = new Float32Array(boards.length * rollouts.length * MOST_WORDS);
    for (const [prompt, board] of boards.entries()) {
      const logprobs = await scorer.under(features(board));
      all.set(logprobs, prompt * logprobs.length);
      await open.score(prompt, { data: logprobs, dtype: 'float32', shape });
    }
    const entropies = await scorer.entropies();
    scorer.dispose();

    const { folder, run, metadata } = this.#options;
    await writeStep(join(folder, `step_${String(step).padStart(5, '0')}.safetensors`), {
      step,
      run,
      metadata,
      logprobs: { data: all, dtype: 'float32', shape: [boards.length, ...shape] },
      lengths: labels.lengths,
      group: labels.groups,
      prompts: labels.promptTokens,
      responseIds: { data: padded(rollouts), shape: [rollouts.length, MOST_WORDS] },
      rewards,
      outcome: outcomes.outcomes,
      correct,
      valid: outcomes.valid,
      actions: outcomes.actions,
      tokenEntropy: { data: entropies, dtype: 'float32', shape },
    });
    return open.finish({ ...outcomes, entropies: meanEntropies(entropies, labels.lengths) });
  }

  async dispose(): Promise<void> {
    await this.#monitor.dispose();
  }
}

/** Word ids [R, MOST_WORDS]. */
function padded(rollouts: readonly Rollout[]): Int32Array {
  const ids = new Int32Array(rollouts.length * MOST_WORDS);
  for (const [row, { reasoning }] of rollouts.entries()) ids.set(reasoning, row * MOST_WORDS);
  return ids;
}

/** [R, MOST_WORDS] -> [R], over the words that are there. */
function meanEntropies(entropies: Float32Array, lengths: Int32Array): Float32Array {
  return Float32Array.from(lengths, (length, row) => {
    const words = entropies.subarray(row * MOST_WORDS, row * MOST_WORDS + length);
    return words.reduce((sum, entropy) => sum + entropy, 0) / Math.max(1, length);
  });
}
