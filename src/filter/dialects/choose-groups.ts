// Statistics of groups -> the groups that are kept under the dialect asked for, and why the others are not.
import { ArgumentError } from '../../checks/errors.js';
import type { DropReason } from '../filter-result.js';
import { scoresOf, strictFigures, strictZero, withDdof } from '../group-scores.js';
import type { Columns } from '../input/filter-columns.js';
import { type FilterSettings, isSpread } from '../input/filter-options.js';
import type { FilterWords } from '../input/filter-words.js';
import type { GroupedRollouts } from '../input/grouped-rollouts.js';
import { DropReasons } from './drop-reasons.js';
import { selectDapo } from './select-dapo.js';
import { FLOAT32, FLOAT64, REFERENCE_ZERO, selectByReference } from './select-reference.js';
import { selectStrict } from './select-strict.js';
import { selectUpstream } from './select-upstream.js';

export interface Choice {
  readonly scores: Float64Array;
  /** Kept groups, in the order in which they were chosen where the dialect has one. */
  readonly kept: Uint32Array;
  reasonOf(group: number): DropReason;
  readonly warnings: readonly string[];
}

export function chooseGroups(
  rollouts: GroupedRollouts,
  columns: Columns,
  settings: FilterSettings,
  words: FilterWords,
): Choice {
  const { dialect, metric, singletons } = settings;
  const { counts } = columns.rewards;
  const groups = counts.length;
  const needsSpread = isSpread(metric) || dialect === 'dapo';
  const fixed = new DropReasons(groups);
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
          `group ${words.group(rollouts.ids[group] as number | bigint)} has one rollout, which has no spread: sample more, or say ` +
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
  return { scores: chosen.scores, kept, reasonOf: (group) => fixed.of(group) ?? otherwise, warnings };
}

/**
 * By the dialect's rule, among the groups that have what the metric needs. Reasons other than the cut go into `fixed`.
 */
function chooseAmong(
  members: Uint32Array,
  rollouts: GroupedRollouts,
  columns: Columns,
  settings: FilterSettings,
  words: FilterWords,
  fixed: DropReasons,
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

function chooseDapo(
  members: Uint32Array,
  rollouts: GroupedRollouts,
  columns: Columns,
  fixed: DropReasons,
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
