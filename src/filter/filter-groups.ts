// The variance-based (SNR-aware) filter: chooses the groups of rollouts whose rewards carry a learning signal.
import { chooseGroups } from './dialects/choose.js';
import { filterMetrics } from './filter-metrics.js';
import type { DroppedGroup, FilterResult } from './filter-result.js';
import { FLOAT32_SPLIT } from './float32-sums.js';
import { type FilterInput, type NumberIds, readRows } from './input/filter-input.js';
import { type FilterOptions, lossScale, resolveFilterOptions } from './input/filter-options.js';
import { groupRollouts } from './input/group-rollouts.js';
import { atDoor, type Spelling, spelt } from './input/sentences.js';
import { mergeTurns } from './input/turn-rewards.js';
import { measureColumns } from './measure-columns.js';
import { looksNormalised, NORMALISED_WARNING, shapingWarning, variesByShapingAlone } from './shaping.js';

/**
 * Chooses the groups (prompts) whose rollouts still differ in reward.
 *
 * @param input rewards as groups (`number[][]`, even or not), as `{ values, groupSize }`, or as rows `{ values, groups,
 *   episodes?, turns? }`; turn rows of an episode count once. `outcomes` beside shaped rewards; `entropies` (nats) and
 *   `lengths` (tokens) for the metrics of those names
 * @param options see FilterOptions; docs/reference/filter.md has each dialect's formulas
 * @throws ArgumentError naming the argument, row or option, and what to do: bad options, an unknown key, columns of
 *   different lengths, a reward that is null, NaN or infinite, an empty group, turns of an episode that disagree, a
 *   singleton under `singletons: 'error'`
 * @example
 * import { filterGroups } from 'collapsar';
 *
 * const rewards = [[0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 1]];
 * const { kept, dropped } = filterGroups({ rewards }, { strategy: 'top_p', value: 0.9 });
 * console.log(kept, dropped); // [0, 2], [{ group: 1, reason: 'zero_score' }]
 */
export function filterGroups(input: FilterInput<NumberIds>, options?: FilterOptions): FilterResult<number>;
export function filterGroups(input: FilterInput, options?: FilterOptions): FilterResult;
export function filterGroups(input: FilterInput, options: FilterOptions = {}): FilterResult {
  return filterGroupsAs({}, input, options);
}

/** The same, with warnings and errors in the words of another door. */
export function filterGroupsAs(spelling: Spelling, input: FilterInput, options: FilterOptions): FilterResult {
  const settings = resolveFilterOptions(options);
  return atDoor(spelling, () => {
    const rows = readRows(input, settings.metric);
    const { ids } = rows;
    const { offsets, columns, rowGroup, warnings } = groupRollouts(
      rows,
      mergeTurns(rows, settings.turnRewards),
      settings.nonFinite,
    );
    const measured = measureColumns(columns, offsets, rows.float32, settings);
    const { rewards, outcomes, scores } = measured;
    const choice = chooseGroups(ids, columns, measured, settings);
    const { isKept } = choice;
    const inOrder = choice.kept.slice().sort();
    const shaped = outcomes && variesByShapingAlone(rewards, outcomes);
    const shapingOnly = shaped?.reduce((total, flag) => total + flag, 0) ?? null;
    const remarks = [
      ...warnings,
      ...choice.warnings,
      shaped && shapingWarning(shaped, inOrder, ids),
      looksNormalised(rewards) ? NORMALISED_WARNING : null,
    ];
    // The reference's float32 means depend on the order in which it adds, as long as it adds one by one.
    const kept = settings.dialect === 'ragen' && ids.length <= FLOAT32_SPLIT ? choice.kept : inOrder;
    const groups = { metric: settings.metric, scores, ranked: measured.ranked, kept };
    let dropped: DroppedGroup[] | undefined;
    return {
      kept: Array.from(inOrder, (group) => ids[group] as number | bigint),
      get dropped() {
        dropped ??= choice.dropped();
        return dropped;
      },
      groups: ids,
      scores,
      rewardVariances: rewards.variance,
      rollouts: rewards.counts,
      rowMask: new Uint8Array(rowGroup.length).map((_, row) => isKept[rowGroup[row] as number] ?? 0),
      lossScale: lossScale(kept.length, ids.length, settings),
      metrics: filterMetrics(settings.dialect, groups, rewards.constant, shapingOnly),
      warnings: remarks.flatMap((remark) => (remark ? [spelt(remark, spelling)] : [])),
      empty: kept.length === 0,
    };
  });
}
