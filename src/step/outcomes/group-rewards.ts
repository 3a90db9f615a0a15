// Gives the rewards of each group of the filter's view. The filter may rank by another score; early stops and buckets
// look at the reward itself.

import { idOf } from '../../checks/ids.js';
import type { Integers } from '../../engine/tensor/tensor.js';
import type { FilterResult } from '../../filter/filter-result.js';
import { rowsByGroup } from '../../verdicts/evidence/group-outcomes.js';

export interface GroupRewards {
  /** As the filter names it: a bigint beyond 2^53. */
  readonly id: number | bigint;
  /** Its rows, ascending. */
  readonly rows: readonly number[];
  /** Sample std (ddof 1) of the reward over the group's rollouts; NaN if there is one rollout only. */
  readonly std: number;
}

/**
 * Groups in order of first appearance, as the filter measured them: episodes count once, and what it left out not at
 * all.
 */
export function groupRewards(result: FilterResult, groups: Integers): GroupRewards[] {
  const rowsOf = rowsByGroup(groups);
  return [...result.groups].map((id, index) => {
    const alone = (result.rollouts[index] as number) < 2;
    return {
      id,
      rows: rowsOf.get(idOf([id], 0)) as number[],
      std: alone ? Number.NaN : Math.sqrt(result.rewardVariances[index] as number),
    };
  });
}

/** Mean in-group std over the groups that have one; undefined if none has. */
export function meanRewardStd(groups: readonly GroupRewards[]): number | undefined {
  const stds = groups.map(({ std }) => std).filter((std) => Number.isFinite(std));
  return stds.length === 0 ? undefined : stds.reduce((total, std) => total + std, 0) / stds.length;
}
