// The variance-based (SNR-aware) filter: rewards of groups of rollouts in, the groups that carry a learning signal out.
import { type Choice, chooseGroups, lossScale } from './dialects/choose.js';
import { looksNormalised, NORMALISED_WARNING, shapingWarning, variesByShapingAlone } from './dialects/shaping.js';
import { fullMetrics, type MeasuredGroups, referenceMetrics, upstreamMetrics } from './filter-metrics.js';
import type { DroppedGroup, DropReason, FilterResult } from './filter-result.js';
import { FLOAT32_SPLIT } from './float32-sums.js';
import { type FilterColumns, measureColumns } from './input/filter-columns.js';
import { type FilterInput, readInput } from './input/filter-input.js';
import { type FilterOptions, type FilterSettings, resolveFilterOptions } from './input/filter-options.js';
import { type FilterWords, LIBRARY_WORDS } from './input/filter-words.js';
import { type GroupedRollouts, groupRollouts, refuseNonFinite } from './input/grouped-rollouts.js';
import type { GroupIds, NumberIds } from './input/row-ids.js';

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
  return filterGroupsInWords(input, options, LIBRARY_WORDS);
}

/** The same, with remarks and errors in the words of who reads them. */
export function filterGroupsInWords(input: FilterInput, options: FilterOptions, words: FilterWords): FilterResult {
  const settings = resolveFilterOptions(options);
  const rows = readInput(input, words);
  const rollouts = groupRollouts(rows, settings, words);
  const columns = measureColumns(rollouts, settings, words, () => refuseNonFinite(rows, words));
  const choice = chooseGroups(rollouts, columns, settings, words);
  return assemble(rollouts, columns, choice, settings, words);
}

function assemble(
  rollouts: GroupedRollouts,
  columns: FilterColumns,
  { scores, kept: chosen, reasonOf, warnings: found }: Choice,
  settings: FilterSettings,
  words: FilterWords,
): FilterResult {
  const { ids, offsets, rowGroup } = rollouts;
  const groups = ids.length;
  const isKept = new Uint8Array(groups);
  for (let at = 0; at < chosen.length; at++) isKept[chosen[at] as number] = 1;
  const keptInOrder = new Uint32Array(chosen.length);
  const kept: (number | bigint)[] = new Array(chosen.length);
  let keptCount = 0;
  for (let group = 0; group < groups; group++) {
    if (isKept[group] === 0) continue;
    keptInOrder[keptCount] = group;
    kept[keptCount++] = ids[group] as number | bigint;
  }
  const warnings = [...rollouts.warnings, ...found];
  let shapingOnly: number | null = null;
  if (columns.outcomes !== null) {
    const shaped = variesByShapingAlone(columns.rewards, columns.outcomes);
    shapingOnly = shaped.reduce((total, flag) => total + flag, 0);
    const warning = shapingWarning(shaped, keptInOrder, ids, words);
    if (warning !== undefined) warnings.push(warning);
  }
  if (looksNormalised(columns.rewards)) warnings.push(NORMALISED_WARNING);
  const measured: MeasuredGroups = {
    metric: settings.metric,
    scores,
    ...columns.ranked,
    // The reference's float32 means depend on the order in which it adds, as long as it adds one by one.
    kept: settings.dialect === 'ragen' && groups <= FLOAT32_SPLIT ? chosen : keptInOrder,
    isKept,
    float32: settings.dialect === 'ragen',
  };
  let dropped: DroppedGroup[] | undefined;
  return {
    kept,
    // Of a large batch hundreds of thousands of objects: made when somebody looks.
    get dropped() {
      dropped ??= droppedGroups(ids, isKept, chosen.length, reasonOf);
      return dropped;
    },
    groups: ids,
    scores,
    rewardVariances: columns.rewards.variance,
    rollouts: columns.rewards.counts,
    rowMask: maskRows(isKept, offsets, rowGroup),
    lossScale: lossScale(kept.length, groups, settings),
    metrics: metricsOf(measured, columns, settings, shapingOnly),
    warnings,
    empty: kept.length === 0,
  };
}

function droppedGroups(
  ids: GroupIds,
  isKept: Uint8Array,
  kept: number,
  reasonOf: (group: number) => DropReason,
): DroppedGroup[] {
  const dropped: DroppedGroup[] = new Array(ids.length - kept);
  let count = 0;
  for (let group = 0; group < ids.length; group++) {
    if (isKept[group] === 0) dropped[count++] = { group: ids[group] as number | bigint, reason: reasonOf(group) };
  }
  return dropped;
}

function metricsOf(
  measured: MeasuredGroups,
  columns: FilterColumns,
  { dialect }: FilterSettings,
  shapingOnly: number | null,
): Record<string, number> {
  if (dialect === 'ragen') return referenceMetrics(measured);
  if (dialect === 'upstream') return upstreamMetrics(measured.scores, measured.kept);
  return fullMetrics(measured, columns.rewards.constant, shapingOnly);
}

function maskRows(isKept: Uint8Array, offsets: Int32Array, rowGroup: Int32Array | null): Uint8Array {
  const mask = new Uint8Array(rowGroup === null ? (offsets[offsets.length - 1] as number) : rowGroup.length);
  if (rowGroup !== null) {
    for (let row = 0; row < mask.length; row++) mask[row] = isKept[rowGroup[row] as number] ?? 0;
    return mask;
  }
  for (let group = 0; group < isKept.length; group++) {
    if (isKept[group] === 0) continue;
    mask.fill(1, offsets[group], offsets[group + 1]);
  }
  return mask;
}
