// The groups that are kept under the dialect asked for, and why the others are not.
import type { DroppedGroup, DropReason } from '../filter-result.js';
import type { Columns, GroupIds } from '../input/filter-input.js';
import { type FilterSettings, isSpread } from '../input/filter-options.js';
import { RowsProblem, type Sentence } from '../input/sentences.js';
import type { MeasuredColumns } from '../measure-columns.js';
import { selectDapo } from './dapo.js';
import { selectByReference } from './reference.js';
import { selectStrict } from './strict.js';
import { selectUpstream } from './upstream.js';

export interface Choice {
  /** Kept groups, in the order in which they were chosen where the dialect has one. */
  readonly kept: Uint32Array;
  /** [groups] 1 if the group is kept. */
  readonly isKept: Uint8Array;
  readonly warnings: readonly Sentence[];
  /** Of a large batch hundreds of thousands of objects: made when somebody looks. */
  dropped(): DroppedGroup[];
}

/** @throws RowsProblem for a group of one rollout where those are refused */
export function chooseGroups(
  ids: GroupIds,
  rollouts: Columns,
  columns: MeasuredColumns,
  settings: FilterSettings,
): Choice {
  const { dialect, metric, singletons, includeZero, strategy, topPMode, value } = settings;
  const { counts } = columns.rewards;
  const idOf = (group: number): number | bigint => ids[group] as number | bigint;
  const reasons: (DropReason | undefined)[] = new Array(counts.length);
  const warnings: Sentence[] = [];
  const needsSpread = isSpread(metric) || dialect === 'dapo';
  const members = new Uint32Array(counts.length);
  const alone: number[] = [];
  let memberCount = 0;
  for (let group = 0; group < counts.length; group++) {
    const count = counts[group] as number;
    if (count === 0) reasons[group] = 'no_rollouts';
    else if (count > 1 || !needsSpread || singletons === 'zero') members[memberCount++] = group;
    else alone.push(group);
  }
  if (alone.length > 0) {
    if (singletons === 'error') {
      const problem = ' has one rollout, which has no spread: sample more, or say with ';
      const advice = [{ option: 'singletons' }, ' whether to drop or keep such groups'] as const;
      throw new RowsProblem('rewards', 'group ', { group: idOf(alone[0] as number) }, problem, ...advice);
    }
    for (const group of alone) reasons[group] = 'singleton';
    const what = alone.length === 1 ? '1 group has' : `${alone.length} groups have`;
    const done = singletons === 'keep' ? 'kept' : 'dropped';
    warnings.push([`${what} a single rollout, which has no spread: ${done} without a score`]);
  }
  const { isZero } = columns;
  const leavesOut = !includeZero && dialect !== 'dapo';
  const all = members.subarray(0, memberCount);
  const candidates = leavesOut
    ? all.filter((group) => {
        const isLeftOut = isZero(group);
        if (isLeftOut) reasons[group] = 'zero_score';
        return !isLeftOut;
      })
    : all;
  const select = (): Uint32Array => {
    if (dialect === 'dapo') {
      const outcomes = columns.outcomes ?? columns.rewards;
      const { kept, isGraded } = selectDapo(rollouts.outcomes ?? rollouts.rewards, outcomes, candidates, reasons);
      if (columns.outcomes === null && isGraded) warnings.push([GRADED_REWARDS]);
      return kept;
    }
    // It decides for itself, since includeZero has one more meaning there.
    if (dialect === 'upstream') return selectUpstream(columns.scores, all, settings);
    const kept = (dialect === 'strict' ? selectStrict : selectByReference)(columns, candidates, settings);
    if (strategy !== 'top_p' || topPMode !== 'softmax' || !isSpread(metric) || value >= 1) return kept;
    // exp(0) is not 0: under softmax a group without variance still has mass.
    const flat = kept.filter(isZero).length;
    const what = flat === 1 ? '1 kept group has' : `${flat} kept groups have`;
    const advice = [{ option: 'includeZero' }, ' to leave such groups out'] as const;
    if (flat > 0) warnings.push([`${what} no variance: softmax gives mass to every group; `, ...advice]);
    return kept;
  };
  const chosen = select();
  const kept = singletons === 'keep' && alone.length > 0 ? Uint32Array.from([...chosen, ...alone]) : chosen;
  const isKept = new Uint8Array(counts.length);
  for (const group of kept) isKept[group] = 1;
  const otherwise = kept.length === 0 ? 'nothing_selected' : 'below_cut';
  const dropped = (): DroppedGroup[] => {
    const found: DroppedGroup[] = new Array(isKept.length - kept.length);
    let count = 0;
    for (let group = 0; group < isKept.length; group++) {
      if (isKept[group] === 0) found[count++] = { group: idOf(group), reason: reasons[group] ?? otherwise };
    }
    return found;
  };
  return { kept, isKept, warnings, dropped };
}

const GRADED_REWARDS =
  'rewards have more than two values, so that accuracy is not defined: groups whose rewards are all the same are dropped; ' +
  'give outcomes';
