// Turn rows -> one rollout an episode, so that a long trajectory counts as often as a short one (docs/filter.md).
import { ArgumentError } from '../errors.js';
import type { InputRows } from './filter-input.js';
import type { TurnRewards } from './filter-options.js';
import type { FilterWords } from './filter-words.js';

/** One value a rollout, in the order of first rows. */
export interface Rollouts {
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

/**
 * @throws ArgumentError under `same` for an episode whose turns have different rewards; for a turn that is there twice
 */
export function episodesOf(input: InputRows, rowGroup: Int32Array, rule: TurnRewards, words: FilterWords): Rollouts {
  const episodes = input.episodes as NonNullable<InputRows['episodes']>;
  const { rows, turns, nameOf } = input;
  const rollout = new Int32Array(rows);
  const firstRow: number[] = [];
  const known = new Map<number, number>();
  let lastKey = -1;
  let last = -1;
  for (let row = 0; row < rows; row++) {
    // Episode ids need to differ only within a group: the pair is the key. Both are row counts at most, so the product is exact.
    const key = (rowGroup[row] as number) * episodes.distinct.length + (episodes.index[row] as number);
    if (key !== lastKey) {
      const found = known.get(key);
      last = found ?? firstRow.length;
      if (found === undefined) {
        known.set(key, last);
        firstRow.push(row);
      }
      lastKey = key;
    }
    rollout[row] = last;
  }
  if (turns !== null) refuseRepeatedTurns(rollout, turns, firstRow.length, nameOf);
  const ends = turnEnds(rollout, turns, firstRow);
  return {
    group: Int32Array.from(firstRow, (row) => rowGroup[row] as number),
    firstRow: Int32Array.from(firstRow),
    ofRow: rollout,
    rewards: withBadTurns(
      ofEpisodes('rewards', input.rewards, rollout, ends, rule, nameOf, words),
      input.rewards,
      rollout,
      rule,
    ),
    // A sum of outcomes is no outcome: where turns are steps towards it, the last one tells.
    outcomes:
      input.outcomes === null
        ? null
        : ofEpisodes('outcomes', input.outcomes, rollout, ends, rule === 'sum' ? 'last' : rule, nameOf, words),
    entropies: input.entropies === null ? null : means(input.entropies, rollout, firstRow.length),
    lengths: input.lengths === null ? null : sums(input.lengths, rollout, firstRow.length),
  };
}

interface TurnEnds {
  readonly first: Int32Array;
  readonly last: Int32Array;
}

/** The rows of each episode's first and last turn: by turn number, else in the order of rows. */
function turnEnds(rollout: Int32Array, turns: Float64Array | null, firstRow: readonly number[]): TurnEnds {
  const first = Int32Array.from(firstRow);
  const last = Int32Array.from(firstRow);
  for (let row = 0; row < rollout.length; row++) {
    const at = rollout[row] as number;
    if (turns === null) last[at] = row;
    else {
      if ((turns[row] as number) < (turns[first[at] as number] as number)) first[at] = row;
      if ((turns[row] as number) > (turns[last[at] as number] as number)) last[at] = row;
    }
  }
  return { first, last };
}

function ofEpisodes(
  name: string,
  values: Float64Array,
  rollout: Int32Array,
  { first, last }: TurnEnds,
  rule: TurnRewards,
  nameOf: InputRows['nameOf'],
  { options }: FilterWords,
): Float64Array {
  if (rule === 'sum') return sums(values, rollout, first.length);
  if (rule === 'same') {
    for (let row = 0; row < rollout.length; row++) {
      const start = first[rollout[row] as number] as number;
      // What is not finite passes: it is named, or left out, as what it is.
      const finite = Number.isFinite(values[row]) && Number.isFinite(values[start]);
      if (finite && values[row] !== values[start]) {
        throw new ArgumentError(
          name,
          `${nameOf(row)} has ${values[row]}, but another turn of its episode (${nameOf(start)}) has ${values[start]}: ` +
            `give each turn its episode's reward, or say with ${options.turnRewards} which one is: first, last or sum`,
        );
      }
    }
  }
  return Float64Array.from(rule === 'last' ? last : first, (row) => values[row] as number);
}

/**
 * A turn whose reward is NaN or infinite makes its episode so, also where another turn is read: its row would go into the update.
 * But for `last`: where the reward comes at the end, the turns before it may have none.
 */
function withBadTurns(
  ofRollouts: Float64Array,
  rewards: Float64Array,
  rollout: Int32Array,
  rule: TurnRewards,
): Float64Array {
  if (rule === 'last') return ofRollouts;
  for (let row = 0; row < rollout.length; row++) {
    if (!Number.isFinite(rewards[row])) ofRollouts[rollout[row] as number] = Number.NaN;
  }
  return ofRollouts;
}

function sums(values: Float64Array, rollout: Int32Array, count: number): Float64Array {
  const total = new Float64Array(count);
  for (let row = 0; row < rollout.length; row++) {
    const at = rollout[row] as number;
    total[at] = (total[at] as number) + (values[row] as number);
  }
  return total;
}

function means(values: Float64Array, rollout: Int32Array, count: number): Float64Array {
  const turns = new Float64Array(count);
  for (const at of rollout) turns[at] = (turns[at] as number) + 1;
  return sums(values, rollout, count).map((total, at) => total / (turns[at] as number));
}

function refuseRepeatedTurns(
  rollout: Int32Array,
  turns: Float64Array,
  count: number,
  nameOf: InputRows['nameOf'],
): void {
  const seen: (Set<number> | undefined)[] = new Array(count);
  for (let row = 0; row < rollout.length; row++) {
    const at = rollout[row] as number;
    const turn = turns[row] as number;
    if (!Number.isFinite(turn)) {
      throw new ArgumentError('rewards.turns', `${nameOf(row)} is ${turn}, expected the number of the turn`);
    }
    let known = seen[at];
    if (known === undefined) {
      known = new Set();
      seen[at] = known;
    }
    if (known.has(turn)) {
      throw new ArgumentError('rewards.turns', `${nameOf(row)} is turn ${turn} of its episode, which is there already`);
    }
    known.add(turn);
  }
}
