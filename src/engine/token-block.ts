// One block of a step's scores, as a caller names it -> the prompts, rows and tokens that it holds, checked.
import { ArgumentError } from '../errors.js';
import { checkCount } from './argument-checks.js';
import { integerArray } from './integers.js';
import { lengthOfArray } from './memory.js';
import { shown } from './shown.js';
import type { Integers, Tensor } from './tensor.js';
import { type HostView, viewHostTensor } from './tensor-view.js';

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
  /** [p, r, t], any dtype and strides; past a row's length anything may stand. Whole rows may be packed: [p, N]. */
  readonly logprobs: Tensor;
}

/** Sums over tokens of one part of a step, in nats. */
export interface SumsBlock extends Omit<TokenBox, 'tokens'> {
  /** [r, p], any dtype and strides. */
  readonly sums: Tensor;
}

/** Checked indices of one axis. */
export interface BlockAxis {
  readonly indices: Int32Array;
  /** Where the indices are neighbours in rising order: the first. */
  readonly first: number | undefined;
}

/** Tokens [from, to) of one row, which is not all that it has. */
export interface PartOfRow {
  /** Position of the row in the block. */
  readonly at: number;
  readonly row: number;
  readonly from: number;
  readonly to: number;
}

/** A checked block. */
export interface CheckedBlock {
  readonly prompts: BlockAxis;
  readonly rows: BlockAxis;
  readonly view: HostView;
  /** Elements that `view.data` had when the block was checked: with fewer it was detached or shrunk. */
  readonly available: number;
  readonly packed: boolean;
  /** The token that stands first on the tensor's last axis. */
  readonly firstToken: number;
  /** [r] tokens of the rows that the block holds whole; 0 for the others. */
  readonly wholeLengths: BigInt64Array;
  /** Positions in the block of the rows with tokens that it holds whole, … */
  readonly whole: readonly number[];
  /** … and those that it holds in part, by rising length of the row. */
  readonly parts: readonly PartOfRow[];
}

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
  const tokens = block.tokens === undefined ? undefined : tokenRange(block.tokens, tokenCount);
  const wholeLengths = new BigInt64Array(rowAxis.indices.length);
  const whole: number[] = [];
  const parts: PartOfRow[] = [];
  rowAxis.indices.forEach((row, at) => {
    const length = lengths[row] as number;
    if (length === 0) return;
    if (tokens === undefined || (tokens.from === 0 && tokens.to >= length)) {
      whole.push(at);
      wholeLengths[at] = BigInt(length);
    } else if (Math.min(tokens.to, length) > tokens.from) {
      parts.push({ at, row, from: tokens.from, to: Math.min(tokens.to, length) });
    }
  });
  // Rows of like length then wait side by side, and are through together.
  parts.sort((a, b) => (lengths[a.row] as number) - (lengths[b.row] as number) || a.at - b.at);
  const firstToken = tokens?.from ?? 0;
  const available = lengthOfArray(view.data);
  expectInside(view, available, parts);
  return { prompts: promptAxis, rows: rowAxis, view, available, packed, firstToken, wholeLengths, whole, parts };
}

/**
 * Before JavaScript looks at a block's memory again: a view of memory that is gone would end in a bare TypeError.
 * @throws {ArgumentError} if it has gone away since the block was checked
 */
export function expectMemory({ view, available }: Pick<CheckedBlock, 'view' | 'available'>): void {
  if (lengthOfArray(view.data) >= available) return;
  throw new ArgumentError('logprobs', 'the ArrayBuffer was detached, or shrunk, before all of it was read');
}

/** Native code checks what it reads; these tokens are copied here. */
function expectInside({ shape, strides }: HostView, available: number, parts: readonly PartOfRow[]): void {
  const [promptStride, rowStride, tokenStride] = strides as [number, number, number];
  const prompts = shape[0] as number;
  for (const { at, from, to } of prompts === 0 ? [] : parts) {
    for (const prompt of [0, prompts - 1]) {
      const start = prompt * promptStride + at * rowStride;
      const last = start + (to - from - 1) * tokenStride;
      if (Math.min(start, last) >= 0 && Math.max(start, last) < available) continue;
      throw new ArgumentError(
        'logprobs.strides',
        `reach from element ${Math.min(start, last)} to ${Math.max(start, last)}, but data has ${available}`,
      );
    }
  }
}

/**
 * @param extent how many prompts or rows the step has
 * @param count how many the tensor has; undefined for the rows of packed scores, and where there is no tensor
 * @param name of one, such as 'row'
 * @throws {ArgumentError} for an index that is out of range or named twice, or another number of them than the tensor has
 */
export function blockAxis(
  given: Integers | IndexRange | undefined,
  extent: number,
  count: number | undefined,
  argument: string,
  name: string,
): BlockAxis {
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
  const seen = new Set<number>();
  let rising = true;
  for (let at = 0; at < list.length; at++) {
    const index = Number(list[at]);
    if (!Number.isInteger(index) || index < 0 || index >= extent) {
      throw new ArgumentError(argument, `entry ${at} is ${shown(given[at])}, expected a ${name}: 0 to ${extent - 1}`);
    }
    indices[at] = index;
    if (at > 0 && index !== (indices[at - 1] as number) + 1) rising = false;
  }
  if (rising) return { indices, first: indices[0] ?? 0 };
  for (const index of indices) {
    if (seen.has(index)) throw new ArgumentError(argument, `${name} ${index} is named twice: give each ${name} once`);
    seen.add(index);
  }
  return { indices, first: undefined };
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

function neighbours(first: number, count: number): BlockAxis {
  return { indices: Int32Array.from({ length: count }, (_, at) => first + at), first };
}
