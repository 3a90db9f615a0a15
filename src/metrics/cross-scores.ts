// Input of crossScoreMetrics: one step's cross-scores with the ids of rows and columns, and the options.
import type { OperationOptions } from '../checks/operation-options.js';
import type { EnvironmentLabels, RowEnvironments } from '../checks/row-environments.js';
import type { Integers, Tensor } from '../engine/tensor/tensor.js';
import type { RunningState } from './reporting/running-state.js';
import type { SamplerKind, SamplerOptions } from './sampling/samplers.js';
import type { Profile, SampleLabel } from './step-metrics.js';

/** One step's cross-scores (docs/reference/metrics.md). Exactly one of `logprobs` and `sums` is given. */
export interface CrossScores {
  /**
   * [P, R, T] (any strides) or packed [P, N]: log p(z_r,t | x_p, z_r,<t), nats. Content past a row's length is ignored.
   */
  logprobs?: Tensor | undefined;
  /** The same already summed over tokens, [R, P]. */
  sums?: Tensor | undefined;
  /** Reasoning tokens of each row. */
  lengths: Integers;
  /** Group id of each row: names the column that the row was sampled from. */
  groups: Integers;
  /** Group id of each column. Default: the sorted distinct ids of `groups`. */
  columnGroups?: Integers | undefined;
  /** Prompt token ids of each column; columns with equal tokens are equivalent. Default: all columns differ. */
  promptTokens?: readonly (readonly number[] | Int32Array | BigInt64Array)[] | undefined;
  /** Rows that are turns of trajectories: trajectory of each row … */
  episodes?: Integers | undefined;
  /** … and its turn number within it. */
  turns?: Integers | undefined;
  /**
   * Name of each row's environment, null if it has none; a prompt has one. With two or more the metrics also say what
   * each shows by itself, and how much of MI is between prompts of one environment (strict).
   */
  environments?: EnvironmentLabels | RowEnvironments | undefined;
}

/** Options of `crossScoreMetrics`. */
export interface MetricOptions extends OperationOptions {
  /** `strict` (default): defects of the reference repaired; `ragen`: the reference's numbers, key for key. */
  profile?: Profile | undefined;
  /** Draws rows before computing; needs `episodes` and `turns`. Default: all rows. */
  sampler?: SamplerKind | SamplerOptions | undefined;
  /** Prefix of the logged keys. Default: the sampler's, else `collapse_first_turn_sample`. */
  label?: SampleLabel | undefined;
  /** Training step, for the time-aware EMA of `strict`. Default: one more than the last. */
  step?: number | undefined;
  /** @internal Carries the EMAs from step to step. Default: a fresh one, so that the EMA equals the value. */
  state?: RunningState | undefined;
  /** Also gives each row's own score and whether it was retrieved. Default false. */
  perRow?: boolean | undefined;
  /**
   * Also gives each prompt's figures and, of no more than 1,024 prompts, the matrices of prompts by prompts (strict).
   * Default false.
   */
  perPrompt?: boolean | undefined;
  /** Label permutations for the p-values (strict). Default 999; 0 gives none. */
  permutations?: number | undefined;
  /** Seed of the permutations. Default 0. */
  seed?: number | undefined;
}
