// Result of filterGroups.
import type { GroupIds } from './input/filter-input.js';

/**
 * Why a group was dropped.
 * - `singleton`: one rollout has no spread
 * - `no_rollouts`: all its rewards were left out as NaN or infinite
 * - `zero_score`: includeZero is false and the group scores zero; for spreads: all its rollouts are alike
 * - `below_cut`: the strategy stopped before it
 * - `nothing_selected`: the dialect's rule kept no group at all
 * - `all_succeed`, `all_fail`, `same_outcome` (dapo): every rollout has the best, the worst, or one and the same
 *   outcome
 */
export type DropReason =
  | 'singleton'
  | 'no_rollouts'
  | 'zero_score'
  | 'below_cut'
  | 'nothing_selected'
  | 'all_succeed'
  | 'all_fail'
  | 'same_outcome';

/** A group that the filter dropped, and why. */
export interface DroppedGroup<Id extends number | bigint = number | bigint> {
  /** Id of the group; its index where groups have no ids. */
  readonly group: Id;
  readonly reason: DropReason;
}

/**
 * Which groups are worth an update, and why the others are not. Nothing of it is ever NaN. Groups without bigints are
 * numbers.
 */
export interface FilterResult<Id extends number | bigint = number | bigint> {
  /** Ids of the kept groups, in input order (by first row), as `groups` has them. Without ids: indices. */
  readonly kept: Id[];
  /** The other groups, in input order. */
  readonly dropped: DroppedGroup<Id>[];
  /**
   * Id of every group, in input order; scores and variances go by it. Bigints if one of them is beyond 2^53, else
   * plain numbers, also of ids that came as bigints.
   */
  readonly groups: [Id] extends [number] ? Float64Array : GroupIds;
  /** [groups] what the groups were ranked by, never NaN: a singleton's spread is 0. */
  readonly scores: Float64Array;
  /** [groups] variance of rewards (ddof 1), 0 for singletons and constant groups. */
  readonly rewardVariances: Float64Array;
  /** [groups] rollouts that the group was measured by: without those left out, an episode counting once. */
  readonly rollouts: Int32Array;
  /**
   * [rows] 1 if the row's group is kept, but for rollouts left out as not finite. Rows of a matrix go group by
   * group.
   */
  readonly rowMask: Uint8Array;
  /** What to multiply the loss with. */
  readonly lossScale: number;
  /** Flat, finite numbers under the logged keys (docs/reference/filter.md). */
  readonly metrics: Record<string, number>;
  /** What a reader must know, in sentences. */
  readonly warnings: string[];
  /** No group is kept: skip the step. */
  readonly empty: boolean;
}
