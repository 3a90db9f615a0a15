// Small runs for the tests of the monitor: any numbers that differ from cell to cell, and what a trainer knows beside
// them.
import { Random } from '../../src/metrics/sampling/random.js';
import type { ColumnScores } from '../../src/monitor/collected-scores.js';
import type { MonitorStep } from '../../src/monitor/monitor-step.js';
import type { StepLabels } from '../../src/monitor/outcomes/step-labels.js';
import type { StepOutcomes } from '../../src/monitor/outcomes/step-outcomes.js';

export interface SmallStep {
  readonly labels: StepLabels & { groups: Int32Array; lengths: Int32Array };
  /** float32 [P, R, T]; NaN past a row's length */
  readonly logprobs: { data: Float32Array; dtype: 'float32'; shape: [number, number, number] };
  readonly outcomes: StepOutcomes & { rewards: Float64Array };
}

export interface SmallShape {
  readonly prompts?: number;
  readonly responses?: number;
  readonly tokens?: number;
  /** nats a token by which a row fits its own prompt better */
  readonly excess?: number;
  readonly collapsed?: boolean;
  /** Rows are turns: two of each episode. */
  readonly turns?: boolean;
}

/** Prompts × responses rows, in the order of prompts. Rewards are 0 or 1; all 0 where the step is `collapsed`. */
export function smallStep(seed: number, shape: SmallShape = {}): SmallStep {
  const { prompts: P = 4, responses = 3, tokens: T = 4, excess = 0.5, collapsed = false, turns = false } = shape;
  const random = new Random(seed);
  const uniform = (): number => random.below(2 ** 32) / 2 ** 32;
  const R = P * responses;
  const groups = Int32Array.from({ length: R }, (_, row) => 10 * Math.floor(row / responses));
  const lengths = Int32Array.from({ length: R }, () => 1 + random.below(T));
  const data = new Float32Array(P * R * T).fill(Number.NaN);
  for (let p = 0; p < P; p++) {
    for (let r = 0; r < R; r++) {
      for (let t = 0; t < (lengths[r] as number); t++) {
        data[(p * R + r) * T + t] = -2 * uniform() + (groups[r] === 10 * p ? excess : 0) - Math.max(1, excess);
      }
    }
  }
  const solved = Float64Array.from({ length: R }, () => (collapsed ? 0 : random.below(2)));
  // The rows of one episode are of one rollout and have its reward.
  const rewards = turns ? solved.map((_, row) => solved[row - (row % 2)] as number) : solved;
  return {
    labels: {
      groups,
      lengths,
      ...(turns && {
        episodes: Int32Array.from({ length: R }, (_, row) => Math.floor(row / 2)),
        turns: Int32Array.from({ length: R }, (_, row) => row % 2),
      }),
    },
    logprobs: { data, dtype: 'float32', shape: [P, R, T] },
    outcomes: {
      rewards,
      actions: Int32Array.from({ length: R }, () => random.below(3)),
      valid: Uint8Array.from({ length: R }, () => random.below(2)),
      entropies: Float64Array.from({ length: R }, () => uniform()),
      responseLengths: Array.from({ length: R }, () => 5 + random.below(20)),
      ...(random.below(3) === 0 && { success: collapsed ? 0 : uniform() }),
    },
  };
}

/** The scores of one prompt: [R, T]. */
export function columnOf({ logprobs }: SmallStep, prompt: number): ColumnScores {
  const [, R, T] = logprobs.shape;
  const data = logprobs.data.subarray(prompt * R * T, (prompt + 1) * R * T);
  return { data, dtype: 'float32', shape: [R, T] };
}

/** Scores all that the step wants, prompt by prompt. */
export async function scorePrompts(step: MonitorStep, small: SmallStep): Promise<void> {
  for (const { prompt } of step.pairs().byPrompt) await step.score(prompt, columnOf(small, prompt));
}
