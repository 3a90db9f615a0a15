// What filterGroups takes, and its checks: rewards and companions in any accepted form -> one flat column each, in the
// order of rows, with the group (and episode) of every row.
import { types } from 'node:util';
import { checkFields, checkMemory, optionNames } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { counted, shown } from '../../checks/words.js';
import { isFloat16Array } from '../../engine/tensor/float16-array.js';
import { FILTER_OPTIONS } from './filter-options.js';
import type { FilterWords } from './filter-words.js';
import { exactNumbers, type Ids, type IndexedIds, indexIds } from './row-ids.js';

/** One finite number a row. */
export type RowValues =
  | readonly number[]
  | Float64Array
  | Float32Array
  | Int32Array
  | Uint32Array
  | Int16Array
  | Uint16Array
  | Int8Array
  | Uint8Array;

/** One reward a row: null where there is none, which counts as NaN does. */
export type RewardValues = RowValues | readonly (number | null | undefined)[];

/** Groups of rollouts, of equal size or not. */
export type GroupedValues = readonly RowValues[];

/** Groups of rollouts, of equal size or not, with the reward of each. */
export type GroupedRewards = readonly RewardValues[];

/** Groups of equal size, one after the other. */
export interface FlatGroups {
  readonly values: RewardValues;
  readonly groupSize: number;
}

/** One value a row, with the ids that rows go by. */
export interface LabelledRows<GroupNames extends Ids = Ids> {
  readonly values: RewardValues;
  /** [rows] the group of each row. */
  readonly groups: GroupNames;
  /** [rows] the trajectory that the row is a turn of; ids need to differ only within a group. Each counts once. */
  readonly episodes?: Ids | undefined;
  /** [rows] number of the turn within its episode: needs `episodes`. Without it turns are in the order of rows. */
  readonly turns?: RowValues | BigInt64Array | undefined;
}

/** Rewards of a step, and what the filter may also look at. */
export interface FilterInput<GroupNames extends Ids = Ids> {
  readonly rewards: GroupedRewards | FlatGroups | LabelledRows<GroupNames>;
  /**
   * The unshaped outcome of each row, where rewards are shaped: what success is judged by. In the form of `rewards`, or
   * flat.
   */
  readonly outcomes?: GroupedValues | RowValues | undefined;
  /** Mean token entropy of each row, nats. In the form of `rewards`, or flat. */
  readonly entropies?: GroupedValues | RowValues | undefined;
  /** Response tokens of each row. In the form of `rewards`, or flat. */
  readonly lengths?: GroupedValues | RowValues | undefined;
}

export type ColumnName = keyof FilterInput;

/** The input as flat columns [rows]. */
export interface InputRows {
  readonly rows: number;
  /** How a row is named in an error. */
  readonly nameOf: (row: number) => string;
  /** Groups one after the other: the first row of each, and the end. Else `ids` has the group of each row. */
  readonly offsets: Int32Array | null;
  readonly ids: IndexedIds | null;
  readonly episodes: IndexedIds | null;
  readonly turns: Float64Array | null;
  /** NaN where one is missing … */
  readonly rewards: Float64Array;
  /** … which stands here by row, as it was written; null where none is. */
  readonly missing: ReadonlyMap<number, null | undefined> | null;
  /** Columns that came in float32, with its rounding. */
  readonly float32: ReadonlySet<ColumnName>;
  readonly outcomes: Float64Array | null;
  readonly entropies: Float64Array | null;
  readonly lengths: Float64Array | null;
}

const FIELDS = optionNames<FilterInput>({ rewards: true, outcomes: true, entropies: true, lengths: true });
const REWARD_FIELDS = optionNames<FlatGroups & LabelledRows>({
  values: true,
  groupSize: true,
  groups: true,
  episodes: true,
  turns: true,
});

/**
 * @throws ArgumentError naming the argument: a wrong form, columns of different lengths, an empty group, what is no
 *   number
 */
export function readInput(input: FilterInput, words: FilterWords): InputRows {
  if (typeof input !== 'object' || input === null || !('rewards' in input)) {
    throw new ArgumentError('input', 'expected an object with rewards, such as { rewards: [[0, 1], [1, 1]] }');
  }
  checkFields(input, 'input', FIELDS, FILTER_OPTIONS);
  const { rewards } = input;
  if (Array.isArray(rewards)) {
    const offsets = groupOffsets(rewards as GroupedRewards);
    const nameOf = (row: number) => nestedName(offsets, row);
    return withCompanions(input, offsets, nameOf, {
      offsets,
      ids: null,
      episodes: null,
      turns: null,
      ...flatten('rewards', rewards as GroupedRewards, offsets),
    });
  }
  if (typeof rewards !== 'object' || rewards === null || !('values' in rewards)) {
    throw new ArgumentError(
      'rewards',
      'expected groups of rollouts (an array of arrays), { values, groupSize }, or { values, groups }',
    );
  }
  checkFields(rewards, 'rewards', REWARD_FIELDS, FILTER_OPTIONS);
  const source = rewards as FlatGroups | LabelledRows;
  const values = rewardColumn(source.values);
  return 'groups' in source && source.groups !== undefined
    ? labelled(input, source, values, words)
    : flat(input, source as FlatGroups, values);
}

type Rewards = Pick<InputRows, 'rewards' | 'missing'> & { readonly isFloat32: boolean };
type Shape = Pick<InputRows, 'offsets' | 'ids' | 'episodes' | 'turns'> & Rewards;

function labelled(input: FilterInput, source: LabelledRows, rewards: Rewards, words: FilterWords): InputRows {
  const rows = rewards.rewards.length;
  const ids = indexIds(words.argument('groups'), source.groups, rows);
  const { episodes, turns } = source;
  if (turns !== undefined && episodes === undefined) {
    throw new ArgumentError(
      words.argument('turns'),
      'given without rewards.episodes: say which trajectory each turn belongs to',
    );
  }
  const turnsName = words.argument('turns');
  return withCompanions(input, null, words.row, {
    offsets: null,
    ids,
    episodes: episodes === undefined ? null : indexIds(words.argument('episodes'), episodes, rows),
    turns: turns === undefined ? null : sameLength(turnsName, column(turnsName, turns), rows),
    ...rewards,
  });
}

function flat(input: FilterInput, { groupSize }: FlatGroups, values: Rewards): InputRows {
  const { rewards } = values;
  if (!Number.isSafeInteger(groupSize) || groupSize < 1) {
    throw new ArgumentError(
      'rewards.groupSize',
      `${shown(groupSize)}, expected the number of rollouts in a group, or rewards.groups with the group of each row`,
    );
  }
  if (rewards.length % groupSize !== 0) {
    const problem = `${counted(rewards.length, 'values')}, which are no whole number of groups of ${groupSize}`;
    throw new ArgumentError('rewards.values', problem);
  }
  const offsets = new Int32Array(rewards.length / groupSize + 1);
  for (let group = 0; group < offsets.length; group++) offsets[group] = group * groupSize;
  const nameOf = (row: number) => nestedName(offsets, row);
  return withCompanions(input, offsets, nameOf, { offsets, ids: null, episodes: null, turns: null, ...values });
}

function withCompanions(
  input: FilterInput,
  offsets: Int32Array | null,
  nameOf: (row: number) => string,
  { isFloat32, ...shape }: Shape,
): InputRows {
  const rows = shape.rewards.length;
  const float32 = new Set<ColumnName>(isFloat32 ? ['rewards'] : []);
  const companion = (name: 'outcomes' | 'entropies' | 'lengths'): Float64Array | null => {
    const source = input[name];
    if (source === undefined) return null;
    const nested = Array.isArray(source) && source.length > 0 && typeof source[0] === 'object';
    if (nested && offsets === null) {
      throw new ArgumentError(name, 'an array of arrays, but rewards are rows: expected one value a row');
    }
    const { rewards: values, isFloat32 } = nested
      ? flatten(name, source as GroupedValues, offsets as Int32Array)
      : { rewards: sameLength(name, column(name, source as RowValues), rows), isFloat32: isSingle(source) };
    if (isFloat32) float32.add(name);
    const bad = firstNonFinite(values);
    if (bad >= 0) throw new ArgumentError(name, `${nameOf(bad)} is ${values[bad]}, expected a finite number`);
    return values;
  };
  return {
    rows,
    nameOf,
    ...shape,
    float32,
    outcomes: companion('outcomes'),
    entropies: companion('entropies'),
    lengths: companion('lengths'),
  };
}

function groupOffsets(groups: GroupedRewards): Int32Array {
  const offsets = new Int32Array(groups.length + 1);
  let end = 0;
  for (let group = 0; group < groups.length; group++) {
    const { length } = checkedGroup('rewards', groups, group);
    if (length === 0) {
      throw new ArgumentError('rewards', `group ${group} has no rollouts: leave it out, or give its rewards`);
    }
    end += length;
    offsets[group + 1] = end;
  }
  return offsets;
}

function checkedGroup(name: string, groups: GroupedRewards, group: number): RewardValues {
  const values: unknown = groups[group];
  if (Array.isArray(values) || (ArrayBuffer.isView(values) && !(values instanceof DataView)))
    return values as RewardValues;
  const advice = name === 'rewards' ? '; for one value a row give { values, groups }' : '';
  throw new ArgumentError(name, `group ${group} is ${shown(values)}, expected an array of numbers${advice}`);
}

/** Groups -> one column, of the shape that `offsets` tells; only rewards may be missing. */
function flatten(name: ColumnName, groups: GroupedRewards, offsets: Int32Array): Rewards {
  const count = offsets.length - 1;
  if (groups.length !== count)
    throw new ArgumentError(name, `${counted(groups.length, 'groups')}, but rewards have ${count}`);
  const flat = new Float64Array(offsets[count] as number);
  let row = 0;
  let missing: Map<number, null | undefined> | null = null;
  let singles = 0;
  for (let group = 0; group < count; group++) {
    const values = checkedGroup(name, groups, group);
    const length = (offsets[group + 1] as number) - (offsets[group] as number);
    if (values.length !== length) {
      const problem = `group ${group} has ${counted(values.length, 'rollouts')}, but ${counted(length, 'rewards')}`;
      throw new ArgumentError(name, problem);
    }
    if (isSingle(values)) singles++;
    for (let rollout = 0; rollout < length; rollout++, row++) {
      const value: unknown = values[rollout];
      if (typeof value === 'number') {
        flat[row] = value;
        continue;
      }
      if (name !== 'rewards' || !isMissing(value)) {
        const problem = `group ${group}, rollout ${rollout} is ${shown(value)}, expected a number`;
        throw new ArgumentError(name, problem);
      }
      missing ??= new Map();
      missing.set(row, value);
      flat[row] = Number.NaN;
    }
  }
  return { rewards: flat, missing, isFloat32: count > 0 && singles === count };
}

/** A reward that is not there, as JSON and frames of data write it. */
function isMissing(value: unknown): value is null | undefined {
  return value === null || value === undefined;
}

/** Whether its rounding is that of float32, or coarser. */
function isSingle(values: unknown): boolean {
  return types.isFloat32Array(values) || isFloat16Array(values);
}

function rewardColumn(values: RewardValues): Rewards {
  const isFloat32 = isSingle(values);
  const rows: readonly unknown[] = Array.isArray(values) ? values : [];
  const missing = new Map<number, null | undefined>();
  for (let row = 0; row < rows.length; row++) {
    const value = rows[row];
    if (isMissing(value)) missing.set(row, value);
  }
  if (missing.size === 0) return { rewards: column('rewards.values', values as RowValues), missing: null, isFloat32 };
  const known = Array.from(rows, (value) => (isMissing(value) ? Number.NaN : value));
  return { rewards: column('rewards.values', known as number[]), missing, isFloat32 };
}

/** One column as float64; a Float64Array is used as it is. */
function column(name: string, values: RowValues | BigInt64Array): Float64Array {
  checkMemory(values, name);
  if (values instanceof Float64Array) return values;
  if (values instanceof BigInt64Array) return exactNumbers(values, name);
  if (ArrayBuffer.isView(values) && !(values instanceof DataView)) return new Float64Array(values);
  if (!Array.isArray(values)) {
    throw new ArgumentError(name, `${shown(values)}, expected an array or typed array of numbers`);
  }
  const result = new Float64Array(values.length);
  for (let row = 0; row < values.length; row++) {
    const value: unknown = values[row];
    if (typeof value !== 'number') throw new ArgumentError(name, `row ${row} is ${shown(value)}, expected a number`);
    result[row] = value;
  }
  return result;
}

function sameLength(name: string, values: Float64Array, rows: number): Float64Array {
  if (values.length === rows) return values;
  throw new ArgumentError(
    name,
    `${counted(values.length, 'values')}, but there are ${counted(rows, 'rewards')}: give one a row`,
  );
}

/** Index of the first entry that is NaN or infinite; −1 without. */
export function firstNonFinite(values: Float64Array): number {
  // x − x is 0 for a finite x, else NaN, which stays in the sum: most columns are passed without a branch.
  let sum = 0;
  for (let at = 0; at < values.length; at++) sum += (values[at] as number) - (values[at] as number);
  return sum === 0 ? -1 : values.findIndex((value) => !Number.isFinite(value));
}

function nestedName(offsets: Int32Array, row: number): string {
  let low = 0;
  let high = offsets.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((offsets[middle] as number) <= row) low = middle;
    else high = middle;
  }
  return `row ${row} (group ${low}, rollout ${row - (offsets[low] as number)})`;
}
