// Evidence of one step for the judge. Everything but the step number may be missing: verdicts that need it are then not
// given.
import type { Integers } from '../../engine/tensor/tensor.js';
import type { StepMetrics } from '../../metrics/step-metrics.js';
import type { TextMetrics } from '../../metrics/text-metrics.js';

/** One group of rollouts, for callers that have rewards by group; `RowEvidence` says the same row by row. */
export interface GroupEvidence {
  readonly group: number | bigint;
  /** Reward of each rollout of the group. */
  readonly rewards: ArrayLike<number>;
  /** Task success or outcome reward of each rollout, where the reward is shaped. */
  readonly outcomes?: ArrayLike<number> | undefined;
  /** What each rollout did: a discrete action or answer, or its hash. */
  readonly actions?: Integers | undefined;
}

/** One value a row (response) in each array. */
export interface RowEvidence {
  /** Group id of each row, [R]. */
  readonly groups: Integers;
  /** Turns of an episode have its reward, all the same one: `episodeRewards()` makes that of rewards that differ. */
  readonly rewards?: ArrayLike<number> | undefined;
  /** Task success or outcome reward, where the reward is shaped. Turns of an episode have the same one. */
  readonly outcomes?: ArrayLike<number> | undefined;
  /** A discrete action (or its hash). */
  readonly actions?: Integers | undefined;
  /** Rows that are turns of trajectories: trajectory of each row … */
  readonly episodes?: Integers | undefined;
  /** … and its turn number within it. */
  readonly turns?: Integers | undefined;
  /** log p(z|x) summed over tokens, nats; for grounding. Default: of `metrics.perRow`, where that was asked for. */
  readonly matched?: ArrayLike<number> | undefined;
  /** The same with the state or image removed from x. */
  readonly ablated?: ArrayLike<number> | undefined;
  /** Log-probs of actions under swapped reasoning, for I(Z;A|X). */
  readonly reasoningSwaps?: ReasoningSwaps | undefined;
}

/** log p(a_r | x_r, z_q): how likely row r's action is, had it followed reasoning q. */
export interface ReasoningSwaps {
  /** [Q, R], row-major, nats. Only reasonings of the row's own group are read. */
  readonly logprobs: ArrayLike<number>;
  /**
   * Q. Either R: reasoning q is row q's. Or the size that all groups have: reasoning q is that of the q-th row of the
   * row's own group.
   */
  readonly reasonings: number;
}

/** The filter's view of the step; a `FilterResult` is one. */
export interface FilterEvidence {
  readonly kept: readonly (number | bigint)[];
  readonly dropped: readonly { readonly group: number | bigint; readonly reason: string }[];
}

/** What a judge takes of one step; verdicts whose evidence is missing are not given. */
export interface StepEvidence {
  /** Training step; must be later than that of the evidence before. */
  readonly step: number;
  /**
   * The step's metrics; regimes and trends need `strict` ones, for their intervals. Made with the option `perRow`, they
   * also serve retrieval split by reward.
   */
  readonly metrics?: StepMetrics | undefined;
  /** Text figures of the step (`textMetrics`): regimes and warnings rest on them in a run that has no cross-scores. */
  readonly texts?: TextMetrics | undefined;
  readonly groups?: readonly GroupEvidence[] | undefined;
  readonly rows?: RowEvidence | undefined;
  readonly filter?: FilterEvidence | undefined;
  /** Share of tasks solved, in [0, 1]. Default: the mean of the outcomes where all are 0 or 1. */
  readonly success?: number | undefined;
  /** Any other figures of the step, to be correlated with success. */
  readonly figures?: Readonly<Record<string, number>> | undefined;
}
