// Rewards of an episode's turns -> the episode's: the one reading that filter, monitor, judge and analysis share
// (docs/reference/filter.md).
import { ArgumentError } from '../../checks/errors.js';
import type { TurnRewards } from './filter-options.js';
import { type FilterWords, LIBRARY_WORDS } from './filter-words.js';
import { exactNumbers, type Ids, indexIds } from './row-ids.js';

/** Rows as turns of episodes. */
export interface Episodes {
  /** [rows] index of each row's episode. */
  readonly ofRow: Int32Array;
  /** [episodes] the first row of each, ascending. */
  readonly firstRow: Int32Array;
  /** [episodes] the rows of its first and its last turn: by turn number, else in the order of rows. */
  readonly first: Int32Array;
  readonly last: Int32Array;
}

/**
 * @param rowGroup [rows] index of each row's group
 * @param episodes [rows] index of each row's episode id, which needs to differ only within a group
 * @param ids how many such ids there are
 * @throws ArgumentError for a turn that is there twice, or is not finite
 */
export function findEpisodes(
  rowGroup: Int32Array,
  episodes: Int32Array,
  ids: number,
  turns: Float64Array | null,
  words: FilterWords,
): Episodes {
  const rows = rowGroup.length;
  const ofRow = new Int32Array(rows);
  const firstRow: number[] = [];
  const known = new Map<number, number>();
  let lastKey = -1;
  let last = -1;
  for (let row = 0; row < rows; row++) {
    // The pair of group and id is the key. Both are row counts at most, so the product is exact.
    const key = (rowGroup[row] as number) * ids + (episodes[row] as number);
    if (key !== lastKey) {
      const found = known.get(key);
      last = found ?? firstRow.length;
      if (found === undefined) {
        known.set(key, last);
        firstRow.push(row);
      }
      lastKey = key;
    }
    ofRow[row] = last;
  }
  if (turns !== null) refuseRepeatedTurns(ofRow, turns, firstRow.length, words);
  return { ofRow, firstRow: Int32Array.from(firstRow), ...turnEnds(ofRow, turns, firstRow) };
}

/**
 * @param values [rows] rewards, or outcomes, of turns; NaN and infinities make their episode's so, but for turns that a
 *   rule does not read: under `last` those before the end, which may have no reward yet
 * @returns [episodes]
 * @throws ArgumentError under `same` for an episode whose turns disagree
 */
export function episodeValues(
  name: 'rewards' | 'outcomes',
  values: ArrayLike<number>,
  episodes: Episodes,
  rule: TurnRewards,
  { argument, row: nameOf, options }: FilterWords,
): Float64Array {
  const { ofRow, first, last } = episodes;
  // Turns are steps towards an outcome, so that the last one tells it; a sum or a mean of outcomes means nothing.
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
      throw new ArgumentError(
        argument(name),
        `${nameOf(row)} has ${value}, but another turn of its episode (${nameOf(start)}) has ${values[start]}: ` +
          `give each turn its episode's reward, or say with ${options.turnRewards} which one is: sum, last, first or mean`,
      );
    }
  }
  return found;
}

export function sums(values: ArrayLike<number>, { ofRow, first }: Episodes): Float64Array {
  const total = new Float64Array(first.length);
  for (let row = 0; row < ofRow.length; row++) {
    const at = ofRow[row] as number;
    total[at] = (total[at] as number) + (values[row] as number);
  }
  return total;
}

export function means(values: ArrayLike<number>, episodes: Episodes): Float64Array {
  const turns = new Float64Array(episodes.first.length);
  for (const at of episodes.ofRow) turns[at] = (turns[at] as number) + 1;
  return sums(values, episodes).map((total, at) => total / (turns[at] as number));
}

const ROWS_WORDS: FilterWords = { ...LIBRARY_WORDS, argument: (column) => column };

/** Rows that are turns of episodes, with what each was given. */
export interface TurnRows {
  readonly groups: Ids;
  readonly episodes?: Ids | undefined;
  readonly turns?: Ids | undefined;
  readonly rewards?: ArrayLike<number> | undefined;
  readonly outcomes?: ArrayLike<number> | undefined;
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
export function episodeRewards(
  rows: TurnRows,
  turnRewards: TurnRewards = 'same',
  words: FilterWords = ROWS_WORDS,
): { rewards: ArrayLike<number> | undefined; outcomes: ArrayLike<number> | undefined } {
  const { groups, episodes: ids, turns, rewards, outcomes } = rows;
  if (ids === undefined || (rewards === undefined && outcomes === undefined)) return { rewards, outcomes };
  const count = groups.length;
  const own = indexIds(words.argument('episodes'), ids, count);
  const numbers =
    turns === undefined ? null : exactNumbers(turns as ArrayLike<number | bigint>, words.argument('turns'));
  const rowGroup = indexIds(words.argument('groups'), groups, count).index;
  const episodes = findEpisodes(rowGroup, own.index, own.distinct.length, numbers, words);
  const spread = (name: 'rewards' | 'outcomes', values: ArrayLike<number> | undefined) => {
    if (values === undefined) return undefined;
    const found = episodeValues(name, values, episodes, turnRewards, words);
    return Float64Array.from(episodes.ofRow, (at) => found[at] as number);
  };
  return { rewards: spread('rewards', rewards), outcomes: spread('outcomes', outcomes) };
}

function turnEnds(
  ofRow: Int32Array,
  turns: Float64Array | null,
  firstRow: readonly number[],
): Pick<Episodes, 'first' | 'last'> {
  const first = Int32Array.from(firstRow);
  const last = Int32Array.from(firstRow);
  for (let row = 0; row < ofRow.length; row++) {
    const at = ofRow[row] as number;
    if (turns === null) last[at] = row;
    else {
      if ((turns[row] as number) < (turns[first[at] as number] as number)) first[at] = row;
      if ((turns[row] as number) > (turns[last[at] as number] as number)) last[at] = row;
    }
  }
  return { first, last };
}

function refuseRepeatedTurns(
  ofRow: Int32Array,
  turns: Float64Array,
  count: number,
  { argument, row: nameOf }: FilterWords,
): void {
  const seen: (Set<number> | undefined)[] = new Array(count);
  for (let row = 0; row < ofRow.length; row++) {
    const at = ofRow[row] as number;
    const turn = turns[row] as number;
    if (!Number.isFinite(turn)) {
      throw new ArgumentError(argument('turns'), `${nameOf(row)} is ${turn}, expected the number of the turn`);
    }
    let known = seen[at];
    if (known === undefined) {
      known = new Set();
      seen[at] = known;
    }
    if (known.has(turn)) {
      throw new ArgumentError(
        argument('turns'),
        `${nameOf(row)} is turn ${turn} of its episode, which is there already`,
      );
    }
    known.add(turn);
  }
}
