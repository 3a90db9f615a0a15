// Rows -> rollouts, group by group: what every dialect computes on.
import { ArgumentError } from '../../checks/errors.js';
import { type ColumnName, firstNonFinite, type InputRows } from './filter-input.js';
import type { FilterSettings, TurnRewards } from './filter-options.js';
import type { FilterWords } from './filter-words.js';
import { type GroupIds, groupIds } from './row-ids.js';
import { episodeValues, findEpisodes, means, sums } from './turn-rewards.js';

/** Columns are in the order of groups: rollouts of group g are [offsets[g], offsets[g + 1]). */
export interface GroupedRollouts {
  /** [groups + 1] */
  readonly offsets: Int32Array;
  /** [groups] */
  readonly ids: GroupIds;
  readonly rewards: Float64Array;
  readonly outcomes: Float64Array | null;
  readonly entropies: Float64Array | null;
  readonly lengths: Float64Array | null;
  /** Columns that came in float32. */
  readonly float32: ReadonlySet<ColumnName>;
  /** [rows] group index of each row, −1 for rows left out; null where rows are the rollouts in the order of groups. */
  readonly rowGroup: Int32Array | null;
  readonly warnings: readonly string[];
}

/** One value a rollout, in the order of first rows. */
interface Rollouts {
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

/** Rows named in a warning at most. */
const NAMED_ROWS = 5;

/** @throws ArgumentError naming the first row whose reward is missing, NaN or infinite; without one returns */
export function refuseNonFinite(
  { rewards, missing, nameOf }: InputRows,
  { argument, options, reward }: FilterWords,
): void {
  const bad = firstNonFinite(rewards);
  if (bad < 0) return;
  throw new ArgumentError(
    argument('rewards'),
    `${nameOf(bad)} is ${reward(missing?.has(bad) ? missing.get(bad) : rewards[bad], bad)}, expected a finite number: ` +
      `correct what computes it, or leave such rollouts out with ${options.excludeNonFinite}`,
  );
}

/**
 * Rewards may still be NaN or infinite afterwards where that is an error: the statistics notice, at no cost, and
 * refuseNonFinite names it.
 */
export function groupRollouts(
  input: InputRows,
  { nonFinite, turnRewards }: Pick<FilterSettings, 'nonFinite' | 'turnRewards'>,
  words: FilterWords,
): GroupedRollouts {
  const { float32 } = input;
  const bad = nonFinite === 'error' ? -1 : firstNonFinite(input.rewards);
  if (input.offsets !== null && bad < 0) {
    const { offsets, rewards, outcomes, entropies, lengths } = input;
    return {
      offsets,
      ids: groupIndices(offsets.length - 1),
      rewards,
      outcomes,
      entropies,
      lengths,
      float32,
      rowGroup: null,
      warnings: [],
    };
  }
  if (input.ids !== null && input.episodes === null && bad < 0) {
    const offsets = offsetsInOrder(input.ids.index, input.ids.distinct.length);
    if (offsets !== null) {
      const { rewards, outcomes, entropies, lengths } = input;
      const ids = groupIds(input.ids, words);
      return { offsets, ids, rewards, outcomes, entropies, lengths, float32, rowGroup: null, warnings: [] };
    }
  }
  let rowGroup = input.ids?.index ?? groupOfRows(input.offsets as Int32Array);
  const ids = input.ids === null ? groupIndices((input.offsets as Int32Array).length - 1) : groupIds(input.ids, words);
  let rollouts =
    input.episodes === null ? rowsAsRollouts(input, rowGroup) : mergedTurns(input, rowGroup, turnRewards, words);
  const warnings: string[] = [];
  if (bad >= 0) {
    const { ofRow, rewards } = rollouts;
    const excluded = firstBadRows(input.rewards, ofRow, rewards);
    if (excluded.length > 0) warnings.push(excludedWarning(excluded, input));
    rowGroup = rowGroup.map((group, row) => (Number.isFinite(rewards[ofRow[row] as number]) ? group : -1));
    rollouts = withoutNonFinite(rollouts);
  }
  return { ...sortByGroup(rollouts, ids.length), ids, float32, rowGroup, warnings };
}

function groupIndices(groups: number): GroupIds {
  const ids = new Float64Array(groups);
  for (let group = 0; group < groups; group++) ids[group] = group;
  return ids;
}

/** Where the rows of each group begin, and the end; null if groups do not stand one after the other. */
function offsetsInOrder(rowGroup: Int32Array, groups: number): Int32Array | null {
  const offsets = new Int32Array(groups + 1).fill(rowGroup.length);
  let last = -1;
  for (let row = 0; row < rowGroup.length; row++) {
    const group = rowGroup[row] as number;
    if (group === last) continue;
    // Indices go by first appearance: another than the next one has been before.
    if (group !== last + 1) return null;
    offsets[group] = row;
    last = group;
  }
  return offsets;
}

function groupOfRows(offsets: Int32Array): Int32Array {
  const rowGroup = new Int32Array(offsets[offsets.length - 1] as number);
  for (let group = 0; group + 1 < offsets.length; group++) rowGroup.fill(group, offsets[group], offsets[group + 1]);
  return rowGroup;
}

function rowsAsRollouts({ rows, rewards, outcomes, entropies, lengths }: InputRows, group: Int32Array): Rollouts {
  const firstRow = new Int32Array(rows);
  for (let row = 0; row < rows; row++) firstRow[row] = row;
  return { group, firstRow, ofRow: firstRow, rewards, outcomes, entropies, lengths };
}

/**
 * Turn rows as one rollout an episode, so that a long trajectory counts as often as a short one.
 * @throws ArgumentError under `same` for an episode whose turns have different rewards; for a turn that is there twice
 */
function mergedTurns(input: InputRows, rowGroup: Int32Array, rule: TurnRewards, words: FilterWords): Rollouts {
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

/** The first row with a reward that is NaN or infinite of each rollout that is left out for it, ascending. */
function firstBadRows(rewards: Float64Array, ofRow: Int32Array, ofRollouts: Float64Array): number[] {
  const named = ofRollouts.map((reward) => (Number.isFinite(reward) ? 1 : 0));
  const found: number[] = [];
  for (let row = 0; row < rewards.length; row++) {
    const rollout = ofRow[row] as number;
    if (Number.isFinite(rewards[row]) || named[rollout] === 1) continue;
    named[rollout] = 1;
    found.push(row);
  }
  return found;
}

function withoutNonFinite(rollouts: Rollouts): Rollouts {
  const { rewards, firstRow } = rollouts;
  const good: number[] = [];
  for (let at = 0; at < rewards.length; at++) if (Number.isFinite(rewards[at])) good.push(at);
  const chosen = (values: Float64Array | null) =>
    values === null ? null : Float64Array.from(good, (at) => values[at] as number);
  return {
    ofRow: rollouts.ofRow,
    group: Int32Array.from(good, (at) => rollouts.group[at] as number),
    firstRow: Int32Array.from(good, (at) => firstRow[at] as number),
    rewards: chosen(rewards) as Float64Array,
    outcomes: chosen(rollouts.outcomes),
    entropies: chosen(rollouts.entropies),
    lengths: chosen(rollouts.lengths),
  };
}

function excludedWarning(excluded: readonly number[], { nameOf, missing }: InputRows): string {
  const named = excluded.slice(0, NAMED_ROWS).map(nameOf).join('; ');
  const more = excluded.length > NAMED_ROWS ? ` and ${excluded.length - NAMED_ROWS} more` : '';
  const what = excluded.length === 1 ? '1 rollout was' : `${excluded.length} rollouts were`;
  return `${what} left out because the reward is ${missing === null ? '' : 'missing (null or empty), '}NaN or infinite: ${named}${more}`;
}

function isSorted(values: Int32Array): boolean {
  for (let at = 1; at < values.length; at++) if ((values[at] as number) < (values[at - 1] as number)) return false;
  return true;
}

type Sorted = Pick<GroupedRollouts, 'offsets' | 'rewards' | 'outcomes' | 'entropies' | 'lengths'>;

/** Counting sort: rollouts of a group keep their order. */
function sortByGroup({ group, rewards, outcomes, entropies, lengths }: Rollouts, groups: number): Sorted {
  const offsets = new Int32Array(groups + 1);
  for (let rollout = 0; rollout < group.length; rollout++) {
    const at = (group[rollout] as number) + 1;
    offsets[at] = (offsets[at] as number) + 1;
  }
  for (let at = 0; at < groups; at++) offsets[at + 1] = (offsets[at + 1] as number) + (offsets[at] as number);
  if (isSorted(group)) return { offsets, rewards, outcomes, entropies, lengths };
  const next = offsets.slice();
  const place = new Int32Array(group.length);
  for (let rollout = 0; rollout < group.length; rollout++) {
    const at = group[rollout] as number;
    const position = next[at] as number;
    place[rollout] = position;
    next[at] = position + 1;
  }
  const sorted = (values: Float64Array): Float64Array => {
    const result = new Float64Array(values.length);
    for (let rollout = 0; rollout < values.length; rollout++) {
      result[place[rollout] as number] = values[rollout] as number;
    }
    return result;
  };
  return {
    offsets,
    rewards: sorted(rewards),
    outcomes: outcomes === null ? null : sorted(outcomes),
    entropies: entropies === null ? null : sorted(entropies),
    lengths: lengths === null ? null : sorted(lengths),
  };
}
