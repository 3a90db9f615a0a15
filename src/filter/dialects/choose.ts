// Statistics of groups -> the groups that are kept under the dialect asked for, and why the others are not.
import { ArgumentError } from '../../checks/errors.js';
import type { DropReason } from '../filter-result.js';
import { scoresOf, strictFigures, strictZero, withDdof } from '../group-scores.js';
import type { FilterColumns } from '../input/filter-columns.js';
import { type FilterSettings, isSpread } from '../input/filter-options.js';
import type { FilterWords } from '../input/filter-words.js';
import type { GroupedRollouts } from '../input/grouped-rollouts.js';
import { bestGroups, type RankedGroups } from './best-groups.js';
import { FLOAT32, FLOAT64, REFERENCE_ZERO, selectByReference } from './select-reference.js';
import { selectStrict } from './select-strict.js';

export interface Choice {
  readonly scores: Float64Array;
  /** Kept groups, in the order in which they were chosen where the dialect has one. */
  readonly kept: Uint32Array;
  reasonOf(group: number): DropReason;
  readonly warnings: readonly string[];
}

/** [groups] why a group is not kept; undefined where the cut decides. */
type Reasons = (DropReason | undefined)[];

export function chooseGroups(
  rollouts: GroupedRollouts,
  columns: FilterColumns,
  settings: FilterSettings,
  words: FilterWords,
): Choice {
  const { dialect, metric, singletons } = settings;
  const { counts } = columns.rewards;
  const groups = counts.length;
  const needsSpread = isSpread(metric) || dialect === 'dapo';
  const reasons: Reasons = new Array(groups);
  const keptAlone: number[] = [];
  const members = new Uint32Array(groups);
  let memberCount = 0;
  let alone = 0;
  for (let group = 0; group < groups; group++) {
    const count = counts[group] as number;
    if (count === 0) reasons[group] = 'no_rollouts';
    else if (count > 1 || !needsSpread || singletons === 'zero') members[memberCount++] = group;
    else {
      alone++;
      if (singletons === 'error') {
        throw new ArgumentError(
          words.argument('rewards'),
          `group ${words.group(rollouts.ids[group] as number | bigint)} has one rollout, which has no spread: sample more, or say ` +
            `with ${words.options.singletons} whether to drop or keep such groups`,
        );
      }
      if (singletons === 'keep') keptAlone.push(group);
      else reasons[group] = 'singleton';
    }
  }
  const warnings: string[] = [];
  if (alone > 0) {
    const what = alone === 1 ? '1 group has' : `${alone} groups have`;
    warnings.push(
      `${what} a single rollout, which has no spread: ${singletons === 'keep' ? 'kept' : 'dropped'} without a score`,
    );
  }
  const chosen = chooseAmong(members.subarray(0, memberCount), rollouts, columns, settings, words, reasons, warnings);
  const kept = keptAlone.length === 0 ? chosen.kept : Uint32Array.from([...chosen.kept, ...keptAlone]);
  const otherwise = kept.length === 0 ? 'nothing_selected' : 'below_cut';
  return { scores: chosen.scores, kept, reasonOf: (group) => reasons[group] ?? otherwise, warnings };
}

/**
 * By the dialect's rule, among the groups that have what the metric needs. Reasons other than the cut go into
 * `reasons`.
 */
function chooseAmong(
  members: Uint32Array,
  rollouts: GroupedRollouts,
  columns: FilterColumns,
  settings: FilterSettings,
  words: FilterWords,
  reasons: Reasons,
  warnings: string[],
): { scores: Float64Array; kept: Uint32Array } {
  const { dialect, metric, includeZero } = settings;
  const groups = columns.rewards.counts.length;
  const without = (isZero: (group: number) => boolean): Uint32Array => {
    if (includeZero) return members;
    return members.filter((group) => {
      if (isZero(group)) reasons[group] = 'zero_score';
      return reasons[group] === undefined;
    });
  };
  if (dialect === 'dapo') return chooseDapo(members, rollouts, columns, reasons, warnings);
  if (dialect === 'upstream') {
    const scores = withDdof(columns.ranked.rewards, settings.ddof);
    // Marks the reasons; the dialect decides for itself, since includeZero has one more meaning there.
    without((group) => scores[group] === 0);
    return { scores, kept: selectUpstream(scores, members, settings) };
  }
  const scores = scoresOf(columns.ranked, metric);
  if (dialect === 'strict') {
    const isZero = strictZero(columns, scores, metric);
    const candidates = without(isZero);
    const kind = isSpread(metric) ? 'spread' : metric === 'reward' || metric === 'reward_sum' ? 'position' : 'level';
    const { figures, error } = strictFigures(columns, scores, metric);
    const kept = selectStrict(figures, kind, candidates, groups, error, settings);
    warnOfSoftmax(settings, kept, isZero, words, warnings);
    return { scores, kept };
  }
  const arithmetic = dialect === 'ragen' ? FLOAT32 : FLOAT64;
  const isZero = (group: number): boolean => Math.abs(scores[group] as number) <= arithmetic.round(REFERENCE_ZERO);
  const kept = selectByReference(scores, without(isZero), groups, settings, arithmetic);
  warnOfSoftmax(settings, kept, isZero, words, warnings);
  return { scores, kept };
}

/**
 * The rule of `reward_variance_filtering`, as it is proposed to verl, TRL and SkyRL.
 * @param variances [groups] 0 for groups with too few rollouts
 * @param groups those that may be kept at all, ascending
 * @returns kept groups, ascending
 */
function selectUpstream(
  variances: Float64Array,
  groups: Uint32Array,
  { strategy, value, includeZero, eps }: FilterSettings,
): Uint32Array {
  const total = variances.reduce((sum, variance) => sum + variance, 0);
  const byCount = strategy !== 'top_p';
  if (!(total > 0)) {
    if (!includeZero) return groups.subarray(0, 0);
    return byCount ? groups.subarray(0, value) : groups;
  }
  if (!byCount && includeZero && value === 1) return groups;
  const candidates = includeZero ? groups : groups.filter((group) => (variances[group] as number) > 0);
  const ranked: RankedGroups = { figures: variances, candidates, direction: 'largest', rounding: () => 0 };
  if (byCount) return bestGroups(ranked, null, value);
  const target = value * total - eps;
  return target > 0 ? bestGroups(ranked, variances, target) : candidates.subarray(0, 0);
}

/**
 * DAPO's dynamic sampling: groups in which all rollouts succeed or all fail have no advantage and are dropped. A
 * group's accuracy is 0 or 1 where all its outcomes are the worst or the best of the batch. Groups whose outcomes are
 * all the same but neither are dropped too: their advantage is 0 as well (verl's filter_groups does so).
 */
function chooseDapo(
  members: Uint32Array,
  rollouts: GroupedRollouts,
  columns: FilterColumns,
  reasons: Reasons,
  warnings: string[],
): { scores: Float64Array; kept: Uint32Array } {
  const { constant, max, mean } = columns.outcomes ?? columns.rewards;
  const distinct = new Set<number>();
  let worst = Number.POSITIVE_INFINITY;
  let best = Number.NEGATIVE_INFINITY;
  for (const outcome of rollouts.outcomes ?? rollouts.rewards) {
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
  if (columns.outcomes === null && distinct.size > 2) {
    warnings.push(
      'rewards have more than two values, so that accuracy is not defined: groups whose rewards are all the same are dropped; ' +
        'give outcomes',
    );
  }
  return { scores: mean, kept };
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

/**
 * What the loss is multiplied with when part of the batch was dropped. none: 1. linear, sqrt: of the kept ratio (the
 * reference's filter_loss_scaling). rho: the share that was asked for, `value` of top_p and top_k (the paper's ρ);
 * strategies without such a share take the kept ratio.
 * @returns 0 where nothing was kept and anything but `none` is asked for
 */
export function lossScale(kept: number, groups: number, settings: FilterSettings): number {
  const { lossScale: rule, strategy, value, dialect } = settings;
  if (rule === 'none') return 1;
  if (kept === 0) return 0;
  const ratio = kept / groups;
  if (rule === 'linear') return ratio;
  if (rule === 'sqrt') return Math.sqrt(ratio);
  const asksForShare = strategy === 'top_p' || (strategy === 'top_k' && dialect !== 'upstream');
  return asksForShare && dialect !== 'dapo' ? Math.min(1, value) : ratio;
}
