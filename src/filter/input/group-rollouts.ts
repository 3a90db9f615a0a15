// Rows become rollouts, group by group: what every dialect computes on.
import { type Columns, type FilterRows, firstNonFinite } from './filter-input.js';
import type { FilterSettings } from './filter-options.js';
import { RowsProblem, type Sentence } from './sentences.js';
import type { Rollouts } from './turn-rewards.js';

/** Columns are in the order of groups: rollouts of group g are [offsets[g], offsets[g + 1]). */
export interface GroupedRollouts {
  /** [groups + 1] */
  readonly offsets: Int32Array;
  readonly columns: Columns;
  /** [rows] index of each row's group, −1 for rows left out. */
  readonly rowGroup: Int32Array;
  readonly warnings: readonly Sentence[];
}

/** Rows named in a warning at most. */
const NAMED_ROWS = 5;

/**
 * @param rows as they came, to name them
 * @throws RowsProblem naming the first row whose reward is missing, NaN or infinite, where that is an error
 */
export function groupRollouts(
  rows: FilterRows,
  { group, columns, ofRow }: Rollouts,
  nonFinite: FilterSettings['nonFinite'],
): GroupedRollouts {
  const groups = rows.ids.length;
  const { rewards } = columns;
  if (firstNonFinite(rewards) < 0) {
    return { ...sortByGroup(group, columns, groups), rowGroup: rows.group, warnings: [] };
  }
  if (nonFinite === 'error') throw nonFiniteReward(rows);
  const rolloutOf = (row: number): number => ofRow?.[row] ?? row;
  const isGood = (rollout: number): boolean => Number.isFinite(rewards[rollout]);
  const good = new Int32Array(rewards.length).map((_, rollout) => rollout).filter(isGood);
  const chosen = eachColumn(columns, (values) => Float64Array.from(good, (at) => values[at] as number));
  return {
    ...sortByGroup(
      good.map((at) => group[at] as number),
      chosen,
      groups,
    ),
    rowGroup: rows.group.map((at, row) => (isGood(rolloutOf(row)) ? at : -1)),
    warnings: [excludedWarning(rows, rolloutOf, isGood)],
  };
}

function nonFiniteReward({ columns: { rewards }, missing, nameOf }: FilterRows): RowsProblem {
  const bad = firstNonFinite(rewards);
  const reward = missing.has(bad) ? missing.get(bad) : rewards[bad];
  const advice = ', expected a finite number: correct what computes it, or leave such rollouts out with ';
  return new RowsProblem('rewards', nameOf(bad), ' is ', { reward }, advice, { option: 'nonFinite' });
}

/** Names the first bad row of each rollout that is left out. */
function excludedWarning(
  { columns: { rewards }, missing, nameOf }: FilterRows,
  rolloutOf: (row: number) => number,
  isGood: (rollout: number) => boolean,
): Sentence {
  const firstBad = new Map<number, number>();
  for (const [row, reward] of rewards.entries()) {
    const rollout = rolloutOf(row);
    if (!Number.isFinite(reward) && !isGood(rollout) && !firstBad.has(rollout)) firstBad.set(rollout, row);
  }
  const rows = [...firstBad.values()];
  const named = rows.slice(0, NAMED_ROWS).flatMap((row, at) => (at === 0 ? [nameOf(row)] : ['; ', nameOf(row)]));
  const what = rows.length === 1 ? '1 rollout was' : `${rows.length} rollouts were`;
  const kinds = `${missing.size === 0 ? '' : 'missing (null or empty), '}NaN or infinite`;
  const more = rows.length > NAMED_ROWS ? ` and ${rows.length - NAMED_ROWS} more` : '';
  return [`${what} left out because the reward is ${kinds}: `, ...named, more];
}

function eachColumn(columns: Columns, change: (values: Float64Array) => Float64Array): Columns {
  const { rewards, outcomes, entropies, lengths } = columns;
  return {
    rewards: change(rewards),
    outcomes: outcomes && change(outcomes),
    entropies: entropies && change(entropies),
    lengths: lengths && change(lengths),
  };
}

/** Counting sort: rollouts of a group keep their order. */
function sortByGroup(
  group: Int32Array,
  columns: Columns,
  groups: number,
): Pick<GroupedRollouts, 'offsets' | 'columns'> {
  const offsets = new Int32Array(groups + 1);
  let isSorted = true;
  for (let rollout = 0; rollout < group.length; rollout++) {
    const own = group[rollout] as number;
    offsets[own + 1] = (offsets[own + 1] as number) + 1;
    isSorted &&= rollout === 0 || (group[rollout - 1] as number) <= own;
  }
  for (let at = 0; at < groups; at++) offsets[at + 1] = (offsets[at + 1] as number) + (offsets[at] as number);
  if (isSorted) return { offsets, columns };
  const next = offsets.slice();
  const place = group.map((own) => {
    const at = next[own] as number;
    next[own] = at + 1;
    return at;
  });
  const sorted = eachColumn(columns, (values) => {
    const result = new Float64Array(values.length);
    for (let rollout = 0; rollout < place.length; rollout++) {
      result[place[rollout] as number] = values[rollout] as number;
    }
    return result;
  });
  return { offsets, columns: sorted };
}
