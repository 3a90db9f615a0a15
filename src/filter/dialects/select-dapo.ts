// DAPO's dynamic sampling: groups in which all rollouts succeed or all fail have no advantage and are dropped.
import type { DropReason } from '../filter-result.js';
import type { SpreadStatistics } from '../group-statistics.js';

export interface DapoChoice {
  readonly kept: Uint32Array;
  /** By group; undefined for kept ones. */
  readonly reasons: readonly (DropReason | undefined)[];
  /** Different outcomes in the batch: 2 is success and failure; counted up to 3. */
  readonly distinctOutcomes: number;
}

/**
 * A group's accuracy is 0 or 1 where all its outcomes are the worst or the best of the batch. Groups whose outcomes are
 * all the same but neither are dropped too: their advantage is 0 as well (verl's filter_groups does so).
 * @param outcomes [rollouts] in the order of groups
 */
export function selectDapo(outcomes: Float64Array, statistics: SpreadStatistics, groups: Uint32Array): DapoChoice {
  const distinct = new Set<number>();
  let worst = Number.POSITIVE_INFINITY;
  let best = Number.NEGATIVE_INFINITY;
  for (let at = 0; at < outcomes.length; at++) {
    const outcome = outcomes[at] as number;
    if (outcome < worst) worst = outcome;
    if (outcome > best) best = outcome;
    if (distinct.size < 3) distinct.add(outcome);
  }
  const reasons: (DropReason | undefined)[] = new Array(statistics.counts.length);
  const kept = groups.filter((group) => {
    if (statistics.constant[group] !== 1) return true;
    const outcome = statistics.max[group] as number;
    if (outcome === best && (best > worst || best > 0)) reasons[group] = 'all_succeed';
    else if (outcome === worst) reasons[group] = 'all_fail';
    else reasons[group] = 'same_outcome';
    return false;
  });
  return { kept, reasons, distinctOutcomes: distinct.size };
}
