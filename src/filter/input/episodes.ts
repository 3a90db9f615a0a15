// Turn rows -> one rollout an episode, so that a long trajectory counts as often as a short one
// (docs/reference/filter.md).
import type { InputRows } from './filter-input.js';
import type { TurnRewards } from './filter-options.js';
import type { FilterWords } from './filter-words.js';
import { episodeValues, findEpisodes, means, sums } from './turn-rewards.js';

/** One value a rollout, in the order of first rows. */
export interface Rollouts {
  /** [rollouts] index of the group of each. */
  readonly group: Int32Array;
  /** [rollouts] its first row, to name it. */
  readonly firstRow: Int32Array;
  /** [rows] the rollout of each. */
  readonly ofRow: Int32Array;
  readonly rewards: Float64Array;
  readonly outcomes: Float64Array | null;
  /** Mean over turns, as the reference has it. */
  readonly entropies: Float64Array | null;
  /** Sum over turns, as the reference has it. */
  readonly lengths: Float64Array | null;
}

/**
 * @throws ArgumentError under `same` for an episode whose turns have different rewards; for a turn that is there twice
 */
export function mergedTurns(input: InputRows, rowGroup: Int32Array, rule: TurnRewards, words: FilterWords): Rollouts {
  const { index, distinct } = input.episodes as NonNullable<InputRows['episodes']>;
  const { turns, rewards, outcomes, entropies, lengths } = input;
  const episodes = findEpisodes(rowGroup, index, distinct.length, turns, words);
  const { firstRow, ofRow } = episodes;
  return {
    group: firstRow.map((row) => rowGroup[row] as number),
    firstRow,
    ofRow,
    rewards: episodeValues('rewards', rewards, episodes, rule, words),
    outcomes: outcomes && episodeValues('outcomes', outcomes, episodes, rule, words),
    entropies: entropies && means(entropies, episodes),
    lengths: lengths && sums(lengths, episodes),
  };
}
