// Converts the input of filterGroups: rewards and companions in any accepted form become one float64 column each, in
// the order of rows, with the group (and episode) of every row.
import { types } from 'node:util';
import { checkFields, checkMemory, optionNames } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { counted, shown } from '../../checks/words.js';
import { isFloat16Array } from '../../engine/tensor/float16-array.js';
import { columnOf, FILTER_OPTIONS, type FilterMetric } from './filter-options.js';
import { type RowColumn, RowsProblem, type Sentence } from './sentences.js';

/** Whole numbers, one a row. */
export type NumberIds = readonly number[] | Int32Array | Uint32Array | Float64Array | Uint16Array | Uint8Array;

/** The same, of 64 bits where they are bigints. */
export type Ids = NumberIds | readonly (number | bigint)[] | BigInt64Array;

/** Ids of groups: plain numbers, and bigints if one of them is beyond 2^53. */
export type GroupIds = Float64Array | BigInt64Array;

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

/** One reward a row: null if there is none, which counts as NaN does. */
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

/** One value a row, or a rollout. */
export type Columns = Readonly<Record<ColumnName, Float64Array | null>> & { readonly rewards: Float64Array };

export interface FilterRows {
  /** [rows] index of each row's group, by first appearance. */
  readonly group: Int32Array;
  /** [groups] */
  readonly ids: GroupIds;
  readonly episodes: IndexedIds | null;
  readonly turns: Float64Array | null;
  /** [rows] rewards are NaN if one is missing. */
  readonly columns: Columns;
  /** Values of missing rewards, by row. */
  readonly missing: ReadonlyMap<number, null | undefined>;
  /** Columns that came in float32, with its rounding. */
  readonly float32: ReadonlySet<ColumnName>;
  /** How a sentence names a row. */
  readonly nameOf: (row: number) => Sentence[number];
}

const FIELDS = optionNames<FilterInput>({ rewards: true, outcomes: true, entropies: true, lengths: true });
const REWARD_FIELDS = optionNames<FlatGroups & LabelledRows>({
  values: true,
  groupSize: true,
  groups: true,
  episodes: true,
  turns: true,
});

/** Where each group of a matrix begins, and the end; null if rows have ids. */
type Offsets = Int32Array | null;

/**
 * @param metric what groups are ranked by
 * @throws RowsProblem, ArgumentError: a wrong form, a column that the metric needs and nobody gave, columns of different lengths, an empty group, what is not a number
 */
export function readRows(input: FilterInput, metric: FilterMetric): FilterRows {
  if (typeof input !== 'object' || input === null || !('rewards' in input)) {
    throw new ArgumentError('input', 'expected an object with rewards, such as { rewards: [[0, 1], [1, 1]] }');
  }
  checkFields(input, 'input', FIELDS, FILTER_OPTIONS);
  const { rewards } = input;
  const isNested = Array.isArray(rewards);
  if (!isNested) {
    if (typeof rewards !== 'object' || rewards === null || !('values' in rewards)) {
      const forms = 'groups of rollouts (an array of arrays), { values, groupSize }, or { values, groups }';
      throw new ArgumentError('rewards', `expected ${forms}`);
    }
    checkFields(rewards, 'rewards', REWARD_FIELDS, FILTER_OPTIONS);
  }
  const float32 = new Set<ColumnName>();
  const missing = new Map<number, null | undefined>();
  const source = rewards as FlatGroups & LabelledRows;
  const sizes = isNested ? (rewards as GroupedRewards).map((_, at) => groupOf('rewards', rewards, at).length) : null;
  const values = isNested
    ? concatenated('rewards', rewards as GroupedRewards, sizes as number[], float32, missing)
    : flatColumn('rewards', source.values, float32, missing);
  const rows = values.length;
  const offsets = sizes !== null ? offsetsOf(sizes) : source.groups === undefined ? evenOffsets(source, rows) : null;
  const labels = labelsOf(source, offsets, rows);
  const nameOf = (row: number) => (offsets === null ? { row } : nestedName(offsets, row));
  const companion = (name: Exclude<ColumnName, 'rewards'>): Float64Array | null => {
    const given = input[name];
    if (given === undefined) return null;
    const groups = Array.isArray(given) && typeof given[0] === 'object' ? (given as GroupedValues) : undefined;
    if (groups && offsets === null) {
      throw new RowsProblem(name, 'an array of arrays, but rewards are rows: expected one value a row');
    }
    const found =
      groups && offsets !== null
        ? concatenated(
            name,
            groups,
            Array.from(offsets.subarray(1), (end, at) => end - (offsets[at] as number)),
            float32,
          )
        : sameLength(name, flatColumn(name, given as RowValues, float32), rows);
    const bad = firstNonFinite(found);
    if (bad >= 0) throw new RowsProblem(name, nameOf(bad), ` is ${found[bad]}, expected a finite number`);
    return found;
  };
  const outcomes = companion('outcomes');
  const columns = { rewards: values, outcomes, entropies: companion('entropies'), lengths: companion('lengths') };
  const own = columnOf(metric);
  if (columns[own] === null) {
    const what = own === 'lengths' ? 'response tokens' : 'mean token entropy';
    throw new RowsProblem(own, `missing: the metric ${metric} needs the ${what} of each row`);
  }
  return { columns, missing, float32, nameOf, ...labels };
}

function labelsOf(
  { groups, episodes, turns }: LabelledRows,
  offsets: Offsets,
  rows: number,
): Pick<FilterRows, 'group' | 'ids' | 'episodes' | 'turns'> {
  if (offsets !== null) {
    const group = new Int32Array(rows);
    const ids = new Float64Array(offsets.length - 1);
    for (let at = 0, row = 0; at < ids.length; at++) {
      ids[at] = at;
      for (const end = offsets[at + 1] as number; row < end; row++) group[row] = at;
    }
    return { group, ids, episodes: null, turns: null };
  }
  const indexed = indexIds('groups', groups, rows);
  if (turns !== undefined && episodes === undefined) {
    throw new RowsProblem(
      'turns',
      'given without ',
      { column: 'episodes' },
      ': say which trajectory each turn belongs to',
    );
  }
  return {
    group: indexed.index,
    ids: groupIds(indexed),
    episodes: episodes === undefined ? null : indexIds('episodes', episodes, rows),
    turns: turns === undefined ? null : sameLength('turns', flatColumn('turns', turns, null), rows),
  };
}

function offsetsOf(sizes: readonly number[]): Int32Array {
  const offsets = new Int32Array(sizes.length + 1);
  for (const [group, size] of sizes.entries()) {
    if (size === 0)
      throw new RowsProblem('rewards', `group ${group} has no rollouts: leave it out, or give its rewards`);
    offsets[group + 1] = (offsets[group] as number) + size;
  }
  return offsets;
}

function evenOffsets({ groupSize }: FlatGroups, rows: number): Int32Array {
  if (!Number.isSafeInteger(groupSize) || groupSize < 1) {
    const expected = 'the number of rollouts in a group, or rewards.groups with the group of each row';
    throw new ArgumentError('rewards.groupSize', `${shown(groupSize)}, expected ${expected}`);
  }
  if (rows % groupSize !== 0) {
    throw new ArgumentError('rewards.values', `${counted(rows, 'values')} cannot be split into groups of ${groupSize}`);
  }
  return new Int32Array(rows / groupSize + 1).map((_, group) => group * groupSize);
}

function groupOf(name: ColumnName, groups: readonly unknown[], group: number): ArrayLike<unknown> {
  const values = groups[group];
  if (isArray(values)) return values;
  const advice = name === 'rewards' ? '; for one value a row give { values, groups }' : '';
  throw new RowsProblem(name, `group ${group} is ${shown(values)}, expected an array of numbers${advice}`);
}

/** Groups one after the other; only rewards may be missing. */
function concatenated(
  name: ColumnName,
  groups: GroupedRewards,
  sizes: readonly number[],
  float32: Set<ColumnName>,
  missing?: Map<number, null | undefined>,
): Float64Array {
  if (groups.length !== sizes.length) {
    throw new RowsProblem(name, `${counted(groups.length, 'groups')}, but rewards have ${sizes.length}`);
  }
  const column = new Float64Array(sizes.reduce((rows, size) => rows + size, 0));
  let row = 0;
  for (const [group, size] of sizes.entries()) {
    const values = groupOf(name, groups, group);
    if (values.length !== size) {
      const problem = `group ${group} has ${counted(values.length, 'rollouts')}, but ${counted(size, 'rewards')}`;
      throw new RowsProblem(name, problem);
    }
    copyNumbers(values, column, row, missing, (rollout, value) => {
      throw new RowsProblem(name, `group ${group}, rollout ${rollout} is ${shown(value)}, expected a number`);
    });
    row += size;
  }
  if (groups.length > 0 && groups.every(isSingle)) float32.add(name);
  return column;
}

/** One column as float64; a Float64Array is used as it is. */
function flatColumn(
  name: ColumnName | 'turns',
  values: RewardValues | BigInt64Array,
  float32: Set<ColumnName> | null,
  missing?: Map<number, null | undefined>,
): Float64Array {
  const refuse = (problem: string): never => {
    throw name === 'rewards' ? new ArgumentError('rewards.values', problem) : new RowsProblem(name, problem);
  };
  checkMemory(values, name === 'rewards' ? 'rewards.values' : name);
  if (values instanceof Float64Array) return values;
  if (values instanceof BigInt64Array && name === 'turns') return exactNumbers(values, name);
  if (!isArray(values)) return refuse(`${shown(values)}, expected an array or typed array of numbers`);
  if (isSingle(values)) float32?.add(name as ColumnName);
  if (!Array.isArray(values)) return new Float64Array(values as ArrayLike<number>);
  const column = new Float64Array(values.length);
  copyNumbers(values, column, 0, missing, (row, value) => refuse(`row ${row} is ${shown(value)}, expected a number`));
  return column;
}

/** NaN stands for a reward that is not there, as JSON and frames of data write it. */
function copyNumbers(
  values: ArrayLike<unknown>,
  column: Float64Array,
  first: number,
  missing: Map<number, null | undefined> | undefined,
  refuse: (at: number, value: unknown) => never,
): void {
  for (let at = 0; at < values.length; at++) {
    const value = values[at];
    if (typeof value === 'number') column[first + at] = value;
    else if (missing === undefined || (value !== null && value !== undefined)) refuse(at, value);
    else {
      missing.set(first + at, value as null | undefined);
      column[first + at] = Number.NaN;
    }
  }
}

function isArray(values: unknown): values is ArrayLike<unknown> {
  return Array.isArray(values) || (ArrayBuffer.isView(values) && !(values instanceof DataView));
}

/** Whether its rounding is that of float32, or coarser. */
function isSingle(values: unknown): boolean {
  return types.isFloat32Array(values) || isFloat16Array(values);
}

function sameLength(name: ColumnName | 'turns', values: Float64Array, rows: number): Float64Array {
  if (values.length === rows) return values;
  const problem = `${counted(values.length, 'values')}, but there are ${counted(rows, 'rewards')}: give one a row`;
  throw new RowsProblem(name, problem);
}

/** Index of the first entry that is NaN or infinite; −1 without. */
export function firstNonFinite(values: Float64Array): number {
  // x − x is 0 for a finite x, else NaN, which stays in the sum: most columns are passed without a branch.
  let sum = 0;
  for (let at = 0; at < values.length; at++) sum += (values[at] as number) - (values[at] as number);
  return sum === 0 ? -1 : values.findIndex((value) => !Number.isFinite(value));
}

function nestedName(offsets: Int32Array, row: number): string {
  const group = offsets.findIndex((first) => first > row) - 1;
  return `row ${row} (group ${group}, rollout ${row - (offsets[group] as number)})`;
}

export interface IndexedIds {
  /** [rows] index of each row's id. */
  readonly index: Int32Array;
  /** By index: the id itself. */
  readonly distinct: readonly (number | bigint)[];
}

/** @throws RowsProblem for another number of rows, or an id that is not a whole number */
export function indexIds(column: RowColumn, ids: Ids, rows: number): IndexedIds {
  if (!isArray(ids)) {
    throw new RowsProblem(column, 'expected an array or typed array with one id a row');
  }
  if (ids.length !== rows) {
    const problem = `${counted(ids.length, 'ids')}, but there are ${counted(rows, 'rewards')}: give one a row`;
    throw new RowsProblem(column, problem);
  }
  const index = new Int32Array(rows);
  const distinct: (number | bigint)[] = [];
  // Ids that count up from 0, as most do, are their own index and need no table, which V8 ends at 16.8 million.
  let table: Map<number | bigint, number> | undefined;
  // Not an id, so that the first one is always looked at.
  let last: number | bigint = Number.NaN;
  let lastIndex = -1;
  for (let row = 0; row < rows; row++) {
    let id = ids[row] as number | bigint;
    // Rows of one group are mostly adjacent.
    if (id !== last) {
      if (typeof id !== 'bigint' && !Number.isSafeInteger(id)) {
        throw new RowsProblem(column, `row ${row} is ${shown(id)}, expected a whole number`);
      }
      last = id;
      // 5n names what 5 names.
      if (typeof id === 'bigint' && Number.isSafeInteger(Number(id))) id = Number(id);
      if (table === undefined && (typeof id === 'bigint' || id < 0 || id > distinct.length)) {
        table = new Map(distinct.map((known, at) => [known, at]));
      }
      lastIndex = table === undefined ? (id as number) : (table.get(id) ?? distinct.length);
      if (lastIndex === distinct.length) {
        distinct.push(id);
        table?.set(id, lastIndex);
      }
    }
    index[row] = lastIndex;
  }
  return { index, distinct };
}

/** @throws RowsProblem for an id beyond 64 bits */
export function groupIds({ distinct }: IndexedIds): GroupIds {
  const numbers = new Float64Array(distinct.length);
  for (let at = 0; at < numbers.length; at++) numbers[at] = Number(distinct[at]);
  if (numbers.every(Number.isSafeInteger)) return numbers;
  return BigInt64Array.from(distinct, (given) => {
    const id = BigInt(given);
    if (BigInt.asIntN(64, id) === id) return id;
    throw new RowsProblem('groups', `id ${id} does not fit in 64 bits: number the groups`);
  });
}

/** Integers of 64 bits in float64. @throws RowsProblem for one that float64 does not hold */
export function exactNumbers(values: ArrayLike<number | bigint>, column: RowColumn): Float64Array {
  return Float64Array.from(values, (value, row) => {
    const number = Number(value);
    if (typeof value !== 'bigint' || Number.isSafeInteger(number)) return number;
    throw new RowsProblem(column, `row ${row} is ${value}, beyond 2^53: number them from 0`);
  });
}
