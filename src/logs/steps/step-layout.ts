// Says which tensors a step file has, their types, shapes and allowed values: docs/reference/step-file.md as data.
// Reader and writer check the same rules; each reports in its own way.
import { FileError } from '../../checks/errors.js';
import type { SafetensorsDType } from '../formats/safetensors.js';
import type { StoredIntegers } from './step-data.js';

/** P prompts (columns), R responses (rows), T tokens of a row, L tokens of a prompt, Q reasonings per row. */
type Dimension = 'P' | 'R' | 'T' | 'L' | 'Q';

interface TensorRule {
  readonly dtypes: readonly SafetensorsDType[];
  readonly shape: readonly Dimension[];
}

const INTEGERS = ['I32', 'I64'] as const;
const FLAGS = ['U8', 'BOOL'] as const;
const REALS = ['F32', 'F64'] as const;
/** Whatever a float64 holds exactly. */
const REWARDS = ['F32', 'F64', 'F16', 'BF16', 'I64', 'I32', 'I16', 'I8', 'U8', 'BOOL'] as const;
const SCORES = ['F32', 'F16', 'BF16', 'F64'] as const;
const PER_TOKEN = ['F32', 'F16', 'BF16'] as const;
/** How many names of tensors an error message lists, and how many characters of each. */
const NAMES_SHOWN = 8;
const NAME_SHOWN = 40;

/** In the order in which shapes are settled: the scores first. */
const RULES = {
  cross_logprobs: { dtypes: SCORES, shape: ['P', 'R', 'T'] },
  cross_logprob_sums: { dtypes: REALS, shape: ['R', 'P'] },
  lengths: { dtypes: INTEGERS, shape: ['R'] },
  group: { dtypes: INTEGERS, shape: ['R'] },
  column_group: { dtypes: INTEGERS, shape: ['P'] },
  prompt_ids: { dtypes: INTEGERS, shape: ['P', 'L'] },
  prompt_lengths: { dtypes: INTEGERS, shape: ['P'] },
  response_ids: { dtypes: INTEGERS, shape: ['R', 'T'] },
  rewards: { dtypes: REWARDS, shape: ['R'] },
  outcome: { dtypes: REWARDS, shape: ['R'] },
  correct: { dtypes: FLAGS, shape: ['R'] },
  valid: { dtypes: FLAGS, shape: ['R'] },
  actions: { dtypes: INTEGERS, shape: ['R'] },
  token_entropy: { dtypes: PER_TOKEN, shape: ['R', 'T'] },
  episode: { dtypes: INTEGERS, shape: ['R'] },
  turn: { dtypes: INTEGERS, shape: ['R'] },
  environment: { dtypes: INTEGERS, shape: ['R'] },
  action_logprobs: { dtypes: ['F32'], shape: ['Q', 'R'] },
  ablated_logprobs: { dtypes: PER_TOKEN, shape: ['R', 'T'] },
} as const satisfies Record<string, TensorRule>;

export type StepTensorName = keyof typeof RULES;

export const STEP_TENSORS = Object.keys(RULES) as readonly StepTensorName[];

/** What a tensor is declared to be. */
export interface Declared {
  readonly dtype: SafetensorsDType;
  readonly shape: readonly number[];
}

/** Extents of a step file’s tensors. */
export interface StepLayout {
  readonly prompts: number;
  readonly rows: number;
  /** Undefined if no tensor has a token axis. */
  readonly tokens: number | undefined;
  readonly promptTokens: number | undefined;
}

/** Reports a problem with a tensor; must throw. */
export type LayoutFailure = (tensor: StepTensorName, problem: string) => never;

/** The first of the names, for an error message. */
function namesOf(found: ReadonlyMap<string, Declared>): string {
  const names = [...found.keys()].slice(0, NAMES_SHOWN).map((name) => name.slice(0, NAME_SHOWN));
  if (names.length === 0) return 'no tensors';
  return found.size > names.length ? `${names.join(', ')} and ${found.size - names.length} more` : names.join(', ');
}

/** Checks which tensors there are, their dtypes and their shapes. Tensors of other names are not looked at. */
export function checkLayout(found: ReadonlyMap<string, Declared>, fail: LayoutFailure): StepLayout {
  if (found.has('cross_logprobs') && found.has('cross_logprob_sums')) {
    fail(
      'cross_logprob_sums',
      'cross_logprobs is there too: keep that one and leave out the sums, they follow from it',
    );
  }
  if (!found.has('cross_logprobs') && !found.has('cross_logprob_sums')) {
    const wanted = 'a step needs cross_logprobs [P, R, T] or cross_logprob_sums [R, P]';
    fail('cross_logprobs', `missing: ${wanted}; there are ${namesOf(found)}`);
  }
  for (const name of ['lengths', 'group'] as const) {
    if (!found.has(name)) fail(name, 'missing: every step needs it, one integer a row');
  }
  if (found.has('prompt_lengths') && !found.has('prompt_ids')) {
    fail('prompt_lengths', 'needs prompt_ids [P, L] beside it');
  }
  const sizes = new Map<Dimension, { size: number; from: StepTensorName }>();
  for (const name of STEP_TENSORS) {
    const declared = found.get(name);
    if (declared !== undefined) checkTensor(name, declared, sizes, fail);
  }
  return {
    prompts: sizes.get('P')?.size ?? 0,
    rows: sizes.get('R')?.size ?? 0,
    tokens: sizes.get('T')?.size,
    promptTokens: sizes.get('L')?.size,
  };
}

function checkTensor(
  name: StepTensorName,
  { dtype, shape }: Declared,
  sizes: Map<Dimension, { size: number; from: StepTensorName }>,
  fail: LayoutFailure,
): void {
  const rule: TensorRule = RULES[name];
  if (!rule.dtypes.includes(dtype)) fail(name, `dtype ${dtype}, expected ${rule.dtypes.join(', ')}`);
  if (shape.length !== rule.shape.length) {
    fail(name, `shape [${shape.slice(0, 8).join(', ')}], expected [${rule.shape.join(', ')}]`);
  }
  rule.shape.forEach((dimension, axis) => {
    const size = shape[axis] as number;
    const known = sizes.get(dimension);
    if (known === undefined) {
      sizes.set(dimension, { size, from: name });
    } else if (known.size !== size) {
      const expected = `[${rule.shape.join(', ')}] with ${dimension} = ${known.size} as in ${known.from}`;
      fail(name, `shape [${shape.join(', ')}], expected ${expected}`);
    }
  });
}

/** The tensors whose values are checked when a step is read or written; the scores are checked where they are used. */
export interface CheckedValues {
  readonly lengths: StoredIntegers;
  readonly group: StoredIntegers;
  readonly columnGroup: StoredIntegers | undefined;
  readonly promptLengths: StoredIntegers | undefined;
  readonly correct: Uint8Array | undefined;
  readonly valid: Uint8Array | undefined;
}

/** Reports a problem with element `index` of a tensor (undefined: with the tensor); must throw. */
export type ValueFailure = (tensor: StepTensorName, index: number | undefined, problem: string) => never;

/**
 * Checks the values that index something or distinguish rows.
 * @returns the group id of each column: `columnGroup`, else the sorted distinct ids of `group`
 */
export function checkValues(layout: StepLayout, values: CheckedValues, fail: ValueFailure): StoredIntegers {
  checkRange('lengths', 'row', values.lengths, layout.tokens ?? Number.MAX_SAFE_INTEGER, fail);
  if (values.promptLengths !== undefined) {
    checkRange('prompt_lengths', 'column', values.promptLengths, layout.promptTokens ?? 0, fail);
  }
  checkFlags('correct', values.correct, fail);
  checkFlags('valid', values.valid, fail);
  if (values.columnGroup !== undefined) {
    checkColumns(values.group, values.columnGroup, fail);
    return values.columnGroup;
  }
  const distinct = distinctIds(values.group);
  if (distinct.length !== layout.prompts) {
    const problem = `${distinct.length} distinct ids for ${layout.prompts} columns: add column_group [P] with the group id of each column`;
    fail('group', undefined, problem);
  }
  return distinct;
}

function checkRange(
  tensor: StepTensorName,
  unit: string,
  values: StoredIntegers,
  most: number,
  fail: ValueFailure,
): void {
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number | bigint;
    if (value < 0 || value > most) fail(tensor, i, `${value} in ${unit} ${i}, expected 0 to ${most}`);
  }
}

function checkFlags(tensor: StepTensorName, values: Uint8Array | undefined, fail: ValueFailure): void {
  const index = values?.findIndex((value) => value > 1) ?? -1;
  if (index >= 0) fail(tensor, index, `${values?.[index]} in row ${index}, expected 0 or 1`);
}

function checkColumns(group: StoredIntegers, columnGroup: StoredIntegers, fail: ValueFailure): void {
  const columns = new Map<bigint, number>();
  for (let i = 0; i < columnGroup.length; i++) {
    const id = BigInt(columnGroup[i] as number | bigint);
    const first = columns.get(id);
    if (first !== undefined) fail('column_group', i, `columns ${first} and ${i} both have group id ${id}`);
    columns.set(id, i);
  }
  for (let row = 0; row < group.length; row++) {
    const id = BigInt(group[row] as number | bigint);
    if (!columns.has(id)) fail('group', row, `row ${row} has group id ${id}, which no column has (column_group)`);
  }
}

function distinctIds(group: StoredIntegers): StoredIntegers {
  // Typed arrays sort by value, unlike arrays.
  if (group instanceof Int32Array) return Int32Array.from(idsIn(group)).sort();
  return BigInt64Array.from(idsIn(group)).sort();
}

function idsIn<Id extends number | bigint>(group: ArrayLike<Id>): Set<Id> {
  const ids = new Set<Id>();
  let last: Id | undefined;
  for (let row = 0; row < group.length; row++) {
    const id = group[row] as Id;
    // Rows of one group are mostly adjacent.
    if (id !== last) ids.add(id);
    last = id;
  }
  return ids;
}

/**
 * The error of a file that opens without a fault and has neither a step's tensors nor the number of a step: what
 * trainers keep beside step files, such as weights and the states of optimizers and random numbers.
 */
export class NoStepError extends FileError {}

/** Whether nothing in it is of a step. A damaged step has something left. */
export function hasNothingOfStep(
  tensors: ReadonlyMap<string, unknown>,
  metadata: ReadonlyMap<string, string>,
): boolean {
  return !metadata.has('step') && STEP_TENSORS.every((name) => !tensors.has(name));
}
