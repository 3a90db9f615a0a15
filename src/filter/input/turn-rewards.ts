// Rewards of an episode's turns make the episode's: the one reading that filter, monitor, judge and analysis share
// (docs/reference/filter.md).
import { type Columns, exactNumbers, type FilterRows, type Ids, type IndexedIds, indexIds } from './filter-input.js';
import type { TurnRewards } from './filter-options.js';
import { atDoor, RowsProblem, type Spelling } from './sentences.js';

/** Rows as turns of episodes. */
interface Episodes {
  /** [rows] index of each row's episode. */
  readonly ofRow: Int32Array;
  /** [episodes] the rows of its first and its last turn: by turn number, else in the order of rows. */
  readonly first: Int32Array;
  readonly last: Int32Array;
}

/**
 * @param rowGroup [rows] index of each row's group
 * @param episodes ids of each row's episode, which need to differ only within a group
 * @throws RowsProblem for a turn that is there twice, or is not finite
 */
function findEpisodes(rowGroup: Int32Array, { index, distinct }: IndexedIds, turns: Float64Array | null): Episodes {
  const ofRow = new Int32Array(rowGroup.length);
  const first: number[] = [];
  const last: number[] = [];
  const seen: Set<number>[] = [];
  const known = new Map<number, number>();
  for (let row = 0; row < ofRow.length; row++) {
    // The pair of group and id is the key. Both are row counts at most, so the product is exact.
    const key = (rowGroup[row] as number) * distinct.length + (index[row] as number);
    const at = known.get(key) ?? first.length;
    ofRow[row] = at;
    if (at === first.length) {
      known.set(key, at);
      first.push(row);
      last.push(row);
      if (turns !== null) seen.push(new Set());
    }
    if (turns === null) {
      last[at] = row;
      continue;
    }
    const turn = turns[row] as number;
    if (!Number.isFinite(turn)) {
      throw new RowsProblem('turns', { row }, ` is ${turn}, expected the number of the turn`);
    }
    if (seen[at]?.has(turn)) {
      throw new RowsProblem('turns', { row }, ` is turn ${turn} of its episode, which is there already`);
    }
    seen[at]?.add(turn);
    if (turn < (turns[first[at] as number] as number)) first[at] = row;
    if (turn > (turns[last[at] as number] as number)) last[at] = row;
  }
  return { ofRow, first: Int32Array.from(first), last: Int32Array.from(last) };
}

/**
 * @param values [rows] rewards, or outcomes, of turns; NaN and infinities make their episode's so, but for turns that a
 *   rule does not read: under `last` those before the end, which may have no reward yet
 * @returns [episodes]
 * @throws RowsProblem under `same` for an episode whose turns disagree
 */
function episodeValues(
  name: 'rewards' | 'outcomes',
  values: ArrayLike<number>,
  episodes: Episodes,
  rule: TurnRewards,
): Float64Array {
  const { ofRow, first, last } = episodes;
  // Turns are steps towards an outcome, so that the last one has it; a sum or a mean of outcomes means nothing.
  const reading = name === 'outcomes' && rule !== 'first' ? 'last' : rule;
  if (reading === 'sum') return sums(values, episodes);
  if (reading === 'mean') return means(values, episodes);
  if (reading === 'last') return Float64Array.from(last, (row) => values[row] as number);
  const found = Float64Array.from(first, (row) => values[row] as number);
  for (let row = 0; row < ofRow.length; row++) {
    const at = ofRow[row] as number;
    const value = values[row] as number;
    const start = first[at] as number;
    // What is not finite passes: it is named, or left out, as what it is.
    if (!Number.isFinite(value)) found[at] = Number.NaN;
    else if (reading === 'same' && value !== values[start] && Number.isFinite(values[start])) {
      const others = [' has ', String(value), ', but another turn of its episode (', { row: start }, ')'] as const;
      const advice = ": give each turn its episode's reward, or say with ";
      const rules = ' which one is: sum, last, first or mean';
      throw new RowsProblem(
        name,
        { row },
        ...others,
        ` has ${values[start]}${advice}`,
        { option: 'turnRewards' },
        rules,
      );
    }
  }
  return found;
}

function sums(values: ArrayLike<number>, { ofRow, first }: Episodes): Float64Array {
  const total = new Float64Array(first.length);
  for (let row = 0; row < ofRow.length; row++) {
    const at = ofRow[row] as number;
    total[at] = (total[at] as number) + (values[row] as number);
  }
  return total;
}

function means(values: ArrayLike<number>, episodes: Episodes): Float64Array {
  const turns = new Float64Array(episodes.first.length);
  for (const at of episodes.ofRow) turns[at] = (turns[at] as number) + 1;
  return sums(values, episodes).map((total, at) => total / (turns[at] as number));
}

/** One value a rollout, in the order of first rows. */
export interface Rollouts {
  /** [rollouts] index of the group of each. */
  readonly group: Int32Array;
  readonly columns: Columns;
  /** [rows] the rollout of each; null if rows are the rollouts. */
  readonly ofRow: Int32Array | null;
}

/** One rollout an episode, so that a long trajectory counts as often as a short one. */
export function mergeTurns({ group, episodes: ids, turns, columns }: FilterRows, rule: TurnRewards): Rollouts {
  if (ids === null) return { group, columns, ofRow: null };
  const episodes = findEpisodes(group, ids, turns);
  const { rewards, outcomes, entropies, lengths } = columns;
  return {
    ofRow: episodes.ofRow,
    group: episodes.first.map((row) => group[row] as number),
    columns: {
      rewards: episodeValues('rewards', rewards, episodes, rule),
      outcomes: outcomes && episodeValues('outcomes', outcomes, episodes, rule),
      // As the reference has them.
      entropies: entropies && means(entropies, episodes),
      lengths: lengths && sums(lengths, episodes),
    },
  };
}

/** Rows that are turns of episodes, with what each was given. */
export interface TurnRows {
  readonly groups: Ids;
  readonly episodes?: Ids | undefined;
  readonly turns?: Ids | undefined;
  readonly rewards?: ArrayLike<number> | undefined;
  readonly outcomes?: ArrayLike<number> | undefined;
}

/** What every row's episode was given. */
export interface EpisodeValues {
  readonly rewards: ArrayLike<number> | undefined;
  readonly outcomes: ArrayLike<number> | undefined;
}

/**
 * Gives every turn the reward and the outcome of its episode: what reads rows one by one, or any turn of an episode,
 * then has the reading that filterGroups has with the same `turnRewards`.
 * @param rows one entry a row in each column, [R]
 * @param turnRewards default `same`: they must agree
 * @returns [R] each; without `episodes` the columns as they came
 * @throws ArgumentError naming the row: turns that disagree under `same`, a turn that is there twice, ids that are not
 *   whole numbers
 * @example
 * import { episodeRewards } from 'collapsar/filter';
 *
 * const turns = { groups: [0, 0], episodes: [7, 7], turns: [0, 1], rewards: [0, 1] };
 * const { rewards } = episodeRewards(turns, 'sum'); // [1, 1]
 */
export function episodeRewards(rows: TurnRows, turnRewards: TurnRewards = 'same'): EpisodeValues {
  return episodeRewardsAs({ argument: (column) => column }, rows, turnRewards);
}

/** The same, with errors in the words of another door. */
export function episodeRewardsAs(spelling: Spelling, rows: TurnRows, turnRewards: TurnRewards): EpisodeValues {
  const { groups, episodes: ids, turns, rewards, outcomes } = rows;
  if (ids === undefined || (rewards === undefined && outcomes === undefined)) return { rewards, outcomes };
  return atDoor(spelling, () => {
    const own = indexIds('episodes', ids, groups.length);
    const numbers = turns === undefined ? null : exactNumbers(turns as ArrayLike<number | bigint>, 'turns');
    const rowGroup = indexIds('groups', groups, groups.length).index;
    const episodes = findEpisodes(rowGroup, own, numbers);
    const spread = (name: 'rewards' | 'outcomes', values: ArrayLike<number> | undefined) => {
      if (values === undefined) return undefined;
      const found = episodeValues(name, values, episodes, turnRewards);
      return Float64Array.from(episodes.ofRow, (at) => found[at] as number);
    };
    return { rewards: spread('rewards', rewards), outcomes: spread('outcomes', outcomes) };
  });
}
