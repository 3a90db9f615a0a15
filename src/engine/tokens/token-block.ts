// Checks one block of a step's scores as a caller describes it: the prompts, rows and tokens that it holds.

import { checkCount } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { counted, shown } from '../../checks/words.js';
import { integerArray } from '../tensor/integers.js';
import type { Integers, Tensor } from '../tensor/tensor.js';
import { type HostView, viewHostTensor } from '../tensor/tensor-view.js';

/** Neighbouring indices from `from` on. `to` (exclusive) may be left out: the tensor says how many there are. */
export interface IndexRange {
  readonly from: number;
  readonly to?: number | undefined;
}

/** The part of a step [P, R, T] that a block holds: some prompts × some rows × neighbouring tokens. */
export interface TokenBox {
  /** Indices of prompts (columns), in the order of the tensor's first axis. Default: all. */
  readonly prompts?: Integers | IndexRange | undefined;
  /** Indices of rows, in the order of the tensor's second axis. Default: all. */
  readonly rows?: Integers | IndexRange | undefined;
  /** Tokens. Default: these are whole rows. */
  readonly tokens?: IndexRange | undefined;
}

/** Log-probs of one part of a step, in nats. */
export interface TokenBlock extends TokenBox {
  /** [p, r, t], any dtype and strides; past a row's length the content is ignored. Whole rows may be packed: [p, N]. */
  readonly logprobs: Tensor;
}

/** Sums over tokens of one part of a step, in nats. */
export interface SumsBlock extends Omit<TokenBox, 'tokens'> {
  /** [r, p], any dtype and strides. */
  readonly sums: Tensor;
}

/** A checked block: tokens [from, to) of these rows under these prompts, cut to each row's length. */
export interface CheckedBlock {
  readonly prompts: Int32Array;
  readonly rows: Int32Array;
  readonly from: number;
  readonly to: number;
  readonly view: HostView;
  /** [r] tokens of the rows that the block holds whole; 0 for the others. */
  readonly wholeLengths: BigInt64Array;
}

/** The end of tokens where nothing ends them but each row's length. */
export const ALL_TOKENS = Number.MAX_SAFE_INTEGER;

/**
 * @param prompts of the step
 * @param lengths tokens of each row of the step
 * @throws {ArgumentError} naming what does not fit
 */
export function checkBlock(block: TokenBlock, prompts: number, lengths: Float64Array): CheckedBlock {
  const view = viewHostTensor(block?.logprobs, 'logprobs', '[p, r, t], or whole rows packed [p, N]', [2, 3]);
  const packed = view.shape.length === 2;
  const [promptCount, rowCount, tokenCount] = view.shape as [number, number, number];
  if (packed && block.tokens !== undefined) {
    throw new ArgumentError('logprobs.shape', 'packed scores are of whole rows: give parts of rows as [p, r, t]');
  }
  const promptAxis = blockAxis(block.prompts, prompts, promptCount, 'prompts', 'prompt');
  const rowAxis = blockAxis(block.rows, lengths.length, packed ? undefined : rowCount, 'rows', 'row');
  const { from, to } = block.tokens === undefined ? { from: 0, to: ALL_TOKENS } : tokenRange(block.tokens, tokenCount);
  if (block.tokens === undefined) expectWholeRows(view.shape, rowAxis, lengths);
  const wholeLengths = BigInt64Array.from(rowAxis, (row) => {
    const length = lengths[row] as number;
    return from === 0 && to >= length ? BigInt(length) : 0n;
  });
  return { prompts: promptAxis, rows: rowAxis, from, to, view, wholeLengths };
}

/**
 * @param shape [p, r, T], or packed [p, N]
 * @param rows r of the step
 * @param lengths tokens of each row of the step
 * @throws {ArgumentError} if some row has more tokens than the scores, if no part of the rows is named
 */
export function expectWholeRows(shape: readonly number[], rows: Int32Array, lengths: Float64Array): void {
  const tokens = shape[2];
  if (tokens === undefined) return; // packed
  const short = rows.find((row) => (lengths[row] as number) > tokens);
  if (short === undefined) return;
  throw new ArgumentError(
    'logprobs.shape',
    `holds ${counted(tokens, 'tokens')} a row, but row ${short} of the step has ${lengths[short]}: give all of them, ` +
      'or a block of part of them with `tokens: { from }`',
  );
}

/**
 * @param extent how many prompts or rows the step has
 * @param count how many the tensor has; undefined for the rows of packed scores, and if there is no tensor
 * @param name of one, such as 'row'
 * @throws {ArgumentError} for an index that is out of range or named twice, or another number of them than the tensor
 *   has
 */
export function blockAxis(
  given: Integers | IndexRange | undefined,
  extent: number,
  count: number | undefined,
  argument: string,
  name: string,
): Int32Array {
  if (given === undefined) {
    if (count !== undefined && count !== extent) {
      throw new ArgumentError(
        argument,
        `missing: the block has ${count} of ${extent} ${argument}; give their indices, or { from }`,
      );
    }
    return neighbours(0, extent);
  }
  if (isRange(given)) {
    const { from, to } = indexRange(given, count, argument);
    if (to > extent)
      throw new ArgumentError(argument, `[${from}, ${to}) ends after the ${extent} ${argument} of the step`);
    expectCount(to - from, count, argument);
    return neighbours(from, to - from);
  }
  const list = integerArray(given, argument);
  expectCount(list.length, count, argument);
  const indices = new Int32Array(list.length);
  let rising = true;
  for (let at = 0; at < list.length; at++) {
    const index = Number(list[at]);
    if (!Number.isInteger(index) || index < 0 || index >= extent) {
      throw new ArgumentError(argument, `entry ${at} is ${shown(given[at])}, expected a ${name}: 0 to ${extent - 1}`);
    }
    indices[at] = index;
    if (at > 0 && index <= (indices[at - 1] as number)) rising = false;
  }
  if (rising) return indices;
  const seen = new Set<number>();
  for (const index of indices) {
    if (seen.has(index)) throw new ArgumentError(argument, `${name} ${index} is named twice: give each ${name} once`);
    seen.add(index);
  }
  return indices;
}

/** @throws {ArgumentError} unless it is a range of as many tokens as the tensor has */
function tokenRange(given: IndexRange, count: number): { from: number; to: number } {
  if (!isRange(given)) throw new ArgumentError('tokens', `got ${shown(given)}, expected { from } or { from, to }`);
  const range = indexRange(given, count, 'tokens');
  expectCount(range.to - range.from, count, 'tokens');
  return range;
}

function isRange(given: unknown): given is IndexRange {
  return given !== null && typeof given === 'object' && 'from' in given && !Array.isArray(given);
}

function indexRange(
  { from, to: givenTo }: IndexRange,
  count: number | undefined,
  argument: string,
): { from: number; to: number } {
  checkCount(from, `${argument}.from`);
  if (givenTo === undefined && count === undefined)
    throw new ArgumentError(`${argument}.to`, 'missing: packed scores do not say how many rows they are of');
  const to = givenTo ?? from + (count as number);
  checkCount(to, `${argument}.to`);
  if (to < from) throw new ArgumentError(`${argument}.to`, `got ${to}, which is before from (${from})`);
  return { from, to };
}

function expectCount(named: number, count: number | undefined, argument: string): void {
  if (count === undefined || named === count) return;
  throw new ArgumentError(argument, `names ${named} ${argument}, but the tensor has ${count}`);
}

function neighbours(first: number, count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, at) => first + at);
}
