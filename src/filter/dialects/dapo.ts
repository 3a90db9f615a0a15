// DAPO's dynamic sampling: groups in which all rollouts succeed or all fail have no advantage and are dropped. A
// group's accuracy is 0 or 1 if all its outcomes are the worst or the best of the batch.
import type { DropReason } from '../filter-result.js';
import type { SpreadStatistics } from '../group-statistics.js';

/**
 * Groups whose outcomes are all the same but neither best nor worst are dropped too: their advantage is 0 as well
 * (verl's filter_groups does so).
 * @param outcomes [rollouts] measure of success: rewards if there are no outcomes
 * @param members groups that may be kept, ascending
 * @param reasons [groups] gets why each is dropped
 * @returns kept groups, and whether there are more than two outcomes, so that accuracy is not defined
 */
export function selectDapo(
  outcomes: Float64Array,
  { constant, max }: SpreadStatistics,
  members: Uint32Array,
  reasons: (DropReason | undefined)[],
): { readonly kept: Uint32Array; readonly isGraded: boolean } {
  const distinct = new Set<number>();
  let worst = Number.POSITIVE_INFINITY;
  let best = Number.NEGATIVE_INFINITY;
  for (const outcome of outcomes) {
    if (outcome < worst) worst = outcome;
    if (outcome > best) best = outcome;
    if (distinct.size < 3) distinct.add(outcome);
  }
  const kept = members.filter((group) => {
    if (constant[group] !== 1) return true;
    const outcome = max[group] as number;
    if (outcome === best && (best > worst || best > 0)) reasons[group] = 'all_succeed';
    else reasons[group] = outcome === worst ? 'all_fail' : 'same_outcome';
    return false;
  });
  return { kept, isGraded: distinct.size > 2 };
}
