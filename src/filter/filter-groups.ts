// The variance-based (SNR-aware) filter: rewards of groups of rollouts in, the groups that carry a learning signal out.
import { ArgumentError } from '../errors.js';
import { type FilterInput, readInput } from './filter-input.js';
import { columnOf, fullMetrics, type MeasuredGroups, referenceMetrics, upstreamMetrics } from './filter-metrics.js';
import { type FilterOptions, type FilterSettings, isSpread, resolveFilterOptions } from './filter-options.js';
import type { DroppedGroup, DropReason, FilterResult } from './filter-result.js';
import { type FilterWords, LIBRARY_WORDS } from './filter-words.js';
import { FLOAT32_SPLIT } from './float32-sums.js';
import {
  type Float32Statistics,
  float32Statistics,
  type GroupStatistics,
  groupStatistics,
  type SpreadStatistics,
} from './group-statistics.js';
import { type GroupedRollouts, groupRollouts, refuseNonFinite } from './grouped-rollouts.js';
import { lossScale } from './loss-scale.js';
import { selectDapo } from './select-dapo.js';
import { FLOAT32, FLOAT64, REFERENCE_ZERO, selectByReference } from './select-reference.js';
import { selectStrict } from './select-strict.js';
import { selectUpstream } from './select-upstream.js';
import { looksNormalised, NORMALISED_WARNING, shapingWarning, variesByShapingAlone } from './shaping.js';

/**
 * Chooses the groups (prompts) whose rollouts still differ in reward.
 *
 * @param input rewards as groups (`number[][]`, even or not), as `{ values, groupSize }`, or as rows `{ values, groups, episodes?,
 *   turns? }`; turn rows of an episode count once. `outcomes` beside shaped rewards; `entropies` (nats) and `lengths` (tokens)
 *   for the metrics of those names
 * @param options see FilterOptions; docs/filter.md has each dialect's formulas
 * @throws ArgumentError naming the argument, row or option, and what to do: bad options, columns of different lengths, a reward
 *   that is NaN or infinite, an empty group, turns of an episode that disagree, a singleton under `singletons: 'error'`
 */
export function filterGroups(input: FilterInput, options: FilterOptions = {}): FilterResult {
  return filterGroupsInWords(input, options, LIBRARY_WORDS);
}

/** The same, with remarks and errors in the words of who reads them. */
export function filterGroupsInWords(input: FilterInput, options: FilterOptions, words: FilterWords): FilterResult {
  const settings = resolveFilterOptions(options);
  const rows = readInput(input, words);
  const rollouts = groupRollouts(rows, settings, words);
  const columns = measureColumns(rollouts, settings, () => refuseNonFinite(rows, words));
  const choice = choose(rollouts, columns, settings, words);
  return assemble(rollouts, columns, choice, settings, words);
}

interface Columns {
  /** float64, with the relative zero test, whatever the dialect. */
  readonly rewards: SpreadStatistics;
  readonly outcomes: SpreadStatistics | null;
  /** As the dialect computes them. */
  readonly ranked: {
    readonly rewards: GroupStatistics | Float32Statistics;
    readonly entropies: GroupStatistics | Float32Statistics | null;
    readonly lengths: GroupStatistics | Float32Statistics | null;
  };
}

function measureColumns(rollouts: GroupedRollouts, { dialect, metric }: FilterSettings, refuse: () => void): Columns {
  const { offsets, outcomes, entropies, lengths } = rollouts;
  const column = columnOf(metric);
  if (column === 'entropy' && entropies === null) {
    throw new ArgumentError(
      'input.entropies',
      `missing: the metric ${metric} needs the mean token entropy of each row`,
    );
  }
  if (column === 'length' && lengths === null) {
    throw new ArgumentError('input.lengths', 'missing: the metric length needs the response tokens of each row');
  }
  const statisticsOf = (name: string, values: Float64Array | null) =>
    values === null ? null : groupStatistics(name, values, offsets);
  const rewards = groupStatistics('rewards', rollouts.rewards, offsets, refuse);
  const measured = { rewards, outcomes: statisticsOf('outcomes', outcomes) };
  if (dialect === 'ragen') {
    const of = (name: string, values: Float64Array | null) =>
      values === null ? null : float32Statistics(name, values, offsets);
    const ranked = {
      rewards: float32Statistics('rewards', rollouts.rewards, offsets),
      entropies: column === 'entropy' ? of('entropies', entropies) : null,
      lengths: column === 'length' ? of('lengths', lengths) : null,
    };
    return { ...measured, ranked };
  }
  const ranked = {
    rewards,
    entropies: statisticsOf('entropies', entropies),
    lengths: statisticsOf('lengths', lengths),
  };
  // Only strict and dapo know rounding when they see it; paper and upstream test for zero itself.
  if (dialect === 'strict' || dialect === 'dapo') return { ...measured, ranked };
  const withRounding = <T extends SpreadStatistics | null>(statistics: T): T =>
    statistics === null ? statistics : { ...statistics, variance: statistics.exactVariance };
  return {
    ...measured,
    ranked: {
      rewards: withRounding(ranked.rewards),
      entropies: withRounding(ranked.entropies),
      lengths: withRounding(ranked.lengths),
    },
  };
}

interface Choice {
  readonly scores: Float64Array;
  /** Kept groups, in the order in which they were chosen where the dialect has one. */
  readonly kept: Uint32Array;
  reasonOf(group: number): DropReason;
  readonly warnings: readonly string[];
}

function choose(rollouts: GroupedRollouts, columns: Columns, settings: FilterSettings, words: FilterWords): Choice {
  const { dialect, metric, singletons } = settings;
  const { counts } = columns.rewards;
  const groups = counts.length;
  const needsSpread = isSpread(metric) || dialect === 'dapo';
  const fixed = new Map<number, DropReason>();
  const keptAlone: number[] = [];
  const members = new Uint32Array(groups);
  let memberCount = 0;
  let alone = 0;
  for (let group = 0; group < groups; group++) {
    const count = counts[group] as number;
    if (count === 0) fixed.set(group, 'no_rollouts');
    else if (count > 1 || !needsSpread || singletons === 'zero') members[memberCount++] = group;
    else {
      alone++;
      if (singletons === 'error') {
        throw new ArgumentError(
          'rewards',
          `group ${words.group(rollouts.ids[group] as number)} has one rollout, which has no spread: sample more, or say ` +
            `with ${words.options.singletons} whether to drop or keep such groups`,
        );
      }
      if (singletons === 'keep') keptAlone.push(group);
      else fixed.set(group, 'singleton');
    }
  }
  const warnings: string[] = [];
  if (alone > 0) {
    const what = alone === 1 ? '1 group has' : `${alone} groups have`;
    warnings.push(
      `${what} a single rollout, which has no spread: ${singletons === 'keep' ? 'kept' : 'dropped'} without a score`,
    );
  }
  const chosen = chooseAmong(members.subarray(0, memberCount), rollouts, columns, settings, words, fixed, warnings);
  const kept = keptAlone.length === 0 ? chosen.kept : Uint32Array.from([...chosen.kept, ...keptAlone]);
  const otherwise = kept.length === 0 ? 'nothing_selected' : 'below_cut';
  return { scores: chosen.scores, kept, reasonOf: (group) => fixed.get(group) ?? otherwise, warnings };
}

/** By the dialect's rule, among the groups that have what the metric needs. Reasons other than the cut go into `fixed`. */
function chooseAmong(
  members: Uint32Array,
  rollouts: GroupedRollouts,
  columns: Columns,
  settings: FilterSettings,
  words: FilterWords,
  fixed: Map<number, DropReason>,
  warnings: string[],
): { scores: Float64Array; kept: Uint32Array } {
  const { dialect, metric, includeZero } = settings;
  const groups = columns.rewards.counts.length;
  const without = (isZero: (group: number) => boolean): Uint32Array => {
    if (includeZero) return members;
    const candidates = new Uint32Array(members.length);
    let count = 0;
    for (let at = 0; at < members.length; at++) {
      const group = members[at] as number;
      if (isZero(group)) fixed.set(group, 'zero_score');
      else candidates[count++] = group;
    }
    return candidates.subarray(0, count);
  };
  if (dialect === 'dapo') return chooseDapo(members, rollouts, columns, fixed, warnings);
  if (dialect === 'upstream') {
    const scores = withDdof(columns.ranked.rewards, settings.ddof);
    // Marks the reasons; the dialect decides for itself, since includeZero has one more meaning there.
    without((group) => scores[group] === 0);
    return { scores, kept: selectUpstream(scores, members, settings) };
  }
  const scores = scoresOf(columns.ranked, metric);
  if (dialect === 'strict') {
    const candidates = without(strictZero(columns, scores, metric));
    const kind = isSpread(metric) ? 'spread' : metric === 'reward' || metric === 'reward_sum' ? 'position' : 'level';
    const { figures, error } = strictFigures(columns, scores, metric);
    const kept = selectStrict(figures, kind, candidates, groups, error, settings);
    warnOfSoftmax(settings, kept, strictZero(columns, scores, metric), words, warnings);
    return { scores, kept };
  }
  const arithmetic = dialect === 'ragen' ? FLOAT32 : FLOAT64;
  const isZero = (group: number): boolean => Math.abs(scores[group] as number) <= arithmetic.round(REFERENCE_ZERO);
  const kept = selectByReference(scores, without(isZero), groups, settings, arithmetic);
  warnOfSoftmax(settings, kept, isZero, words, warnings);
  return { scores, kept };
}

function chooseDapo(
  members: Uint32Array,
  rollouts: GroupedRollouts,
  columns: Columns,
  fixed: Map<number, DropReason>,
  warnings: string[],
): { scores: Float64Array; kept: Uint32Array } {
  const statistics = columns.outcomes ?? columns.rewards;
  const { kept, reasons, distinctOutcomes } = selectDapo(rollouts.outcomes ?? rollouts.rewards, statistics, members);
  for (const group of members) {
    const reason = reasons[group];
    if (reason !== undefined) fixed.set(group, reason);
  }
  if (columns.outcomes === null && distinctOutcomes > 2) {
    warnings.push(
      'rewards have more than two values, so that accuracy is not defined: groups whose rewards are all the same are dropped; ' +
        'give outcomes',
    );
  }
  return { scores: statistics.mean, kept };
}

function scoresOf({ rewards, entropies, lengths }: Columns['ranked'], metric: FilterSettings['metric']): Float64Array {
  // What the reference calls a variance is the std.
  const spread = (of: GroupStatistics | Float32Statistics) => ('std' in of ? of.std : of.variance);
  switch (metric) {
    case 'reward_variance':
      return spread(rewards);
    case 'reward':
      return rewards.mean;
    case 'reward_sum':
      return rewards.sum;
    case 'entropy':
      return (entropies as GroupStatistics).mean;
    case 'entropy_variance':
      return spread(entropies as GroupStatistics);
    case 'length':
      return (lengths as GroupStatistics).mean;
  }
}

/** A figure is off by a few units in the last place of the values it is made of. */
const VALUE_ERROR = 2 ** -48;

/** What strict ranks by: the scores, but for what overflow or uneven groups would do to them; and how far off they may be. */
function strictFigures(
  columns: Columns,
  scores: Float64Array,
  metric: FilterSettings['metric'],
): { figures: Float64Array; error: number } {
  const spread = ({ rankedVariance, largest, unit }: SpreadStatistics) => ({
    figures: rankedVariance,
    error: (VALUE_ERROR * largest) / unit,
  });
  const { counts, mean, largest } = columns.rewards;
  if (metric === 'reward_variance') return spread(columns.rewards);
  if (metric === 'entropy_variance') return spread(columns.ranked.entropies as SpreadStatistics);
  if (metric === 'reward') return { figures: scores, error: VALUE_ERROR * largest };
  if (metric !== 'reward_sum') return { figures: scores, error: 0 };
  // A constant added to rewards adds more to larger groups: sums are compared as what a group earns beyond the batch's average.
  let total = 0;
  let rollouts = 0;
  let most = 0;
  const lowest = mean.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY);
  for (let group = 0; group < counts.length; group++) {
    const count = counts[group] as number;
    total += ((mean[group] as number) - lowest) * count;
    rollouts += count;
    most = Math.max(most, count);
  }
  const average = rollouts === 0 ? 0 : total / rollouts;
  const figures = mean.map((value, group) => (value - lowest - average) * (counts[group] as number));
  return { figures, error: VALUE_ERROR * largest * most };
}

/** Which groups includeZero: false leaves out under strict. */
function strictZero(
  columns: Columns,
  scores: Float64Array,
  metric: FilterSettings['metric'],
): (group: number) => boolean {
  if (metric === 'entropy_variance') {
    const { constant } = columns.ranked.entropies as SpreadStatistics;
    return (group) => constant[group] === 1;
  }
  if (columnOf(metric) !== 'reward') return (group) => scores[group] === 0;
  // A mean reward of 0 is no sign of anything (another offset, another zero): what teaches nothing is a group without spread.
  return (group) => columns.rewards.constant[group] === 1;
}

/** exp(0) is not 0: under softmax a group without variance still has mass. */
function warnOfSoftmax(
  { strategy, topPMode, metric, value }: FilterSettings,
  kept: Uint32Array,
  isZero: (group: number) => boolean,
  { options }: FilterWords,
  warnings: string[],
): void {
  if (strategy !== 'top_p' || topPMode !== 'softmax' || !isSpread(metric) || value >= 1) return;
  const count = kept.reduce((total, group) => total + (isZero(group) ? 1 : 0), 0);
  if (count === 0) return;
  const what = count === 1 ? '1 kept group has' : `${count} kept groups have`;
  warnings.push(
    `${what} no variance: softmax gives mass to every group; ${options.leaveOutZero} to leave such groups out`,
  );
}

function withDdof({ counts, variance }: GroupStatistics, ddof: number): Float64Array {
  if (ddof === 1) return variance;
  return variance.map((value, group) => {
    const count = counts[group] as number;
    return count > ddof ? (value * (count - 1)) / (count - ddof) : 0;
  });
}

function assemble(
  rollouts: GroupedRollouts,
  columns: Columns,
  { scores, kept: chosen, reasonOf, warnings: found }: Choice,
  settings: FilterSettings,
  words: FilterWords,
): FilterResult {
  const { ids, offsets, rowGroup } = rollouts;
  const groups = ids.length;
  const isKept = new Uint8Array(groups);
  for (let at = 0; at < chosen.length; at++) isKept[chosen[at] as number] = 1;
  const keptInOrder = new Uint32Array(chosen.length);
  const kept: number[] = new Array(chosen.length);
  let keptCount = 0;
  for (let group = 0; group < groups; group++) {
    if (isKept[group] === 0) continue;
    keptInOrder[keptCount] = group;
    kept[keptCount++] = ids[group] as number;
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
    rowMask: maskRows(isKept, offsets, rowGroup),
    lossScale: lossScale(kept.length, groups, settings),
    metrics: metricsOf(measured, columns, settings, shapingOnly),
    warnings,
    empty: kept.length === 0,
  };
}

function droppedGroups(
  ids: Float64Array,
  isKept: Uint8Array,
  kept: number,
  reasonOf: (group: number) => DropReason,
): DroppedGroup[] {
  const dropped: DroppedGroup[] = new Array(ids.length - kept);
  let count = 0;
  for (let group = 0; group < ids.length; group++) {
    if (isKept[group] === 0) dropped[count++] = { group: ids[group] as number, reason: reasonOf(group) };
  }
  return dropped;
}

function metricsOf(
  measured: MeasuredGroups,
  columns: Columns,
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
