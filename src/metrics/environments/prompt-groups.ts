// Finds groups of prompts that responses distinguish while they distinguish nothing inside a group, and writes the note
// about them.
import { float16Value } from '../../engine/tensor/float16-array.js';
import { renumber } from '../columns.js';
import { type Interruptible, inSlices } from '../slices.js';

/** Groups of fewer prompts come about by chance; matrices of more are more than every step should pay for. */
const FEWEST_PROMPTS = 8;
const MOST_PROMPTS = 1024;

/** A p-value of permutations above this leaves open whether the reasoning distinguishes anything. */
const MOST_P = 0.01;

/** Least share of a response's posterior within the prompts of its group, as a geometric mean. */
const LEAST_INSIDE = 0.8;

/** Information within groups: at most this share of the possible, and at most MOST_NATS_WITHIN nats. */
const MOST_WITHIN = 0.15;
const MOST_NATS_WITHIN = 0.3;

/** exp(I(X;Z)) as a share of the prompts; where groups are of two prompts each, half is in the middle of what comes. */
const MOST_TOLD = 0.6;

/** At most this many groups per exp(I): more groups mean that most prompts share one template. */
const MOST_GROUPS_OF_TOLD = 1.5;

/** Prompts that are in groups of two or more, as a share of all. */
const LEAST_GROUPED = 0.9;

/** What a step distinguishes in all. */
export interface ToldApart {
  /** Different prompts, and columns that they are in. */
  readonly distinct: number;
  readonly columns: number;
  /** I(X;Z), or its bound, and the p-value against none. */
  readonly nats: number | undefined;
  readonly pValue: unknown;
}

/** Whether there may be groups at all: it costs nothing to know. */
export function mayHaveGroups({ distinct, columns, nats, pValue }: ToldApart): boolean {
  if (distinct < FEWEST_PROMPTS || columns > MOST_PROMPTS || nats === undefined) return false;
  return Math.exp(nats) <= MOST_TOLD * distinct && typeof pValue === 'number' && pValue <= MOST_P;
}

/** Groups of the columns of a step. */
export interface PromptGroups {
  /** Numbered as they come. */
  readonly ofColumn: Int32Array;
  /** Different prompts of each, and columns. */
  readonly sizes: readonly number[];
  readonly columns: Int32Array;
}

/**
 * Nats by which responses to two prompts are likelier under their own: up to `alike` they are of one group, above `apart`
 * of two. The prompts of a group are at most `within` apart on average: a chain of neighbours is none.
 */
export interface GroupLimits {
  readonly alike: number;
  readonly apart: number;
  readonly within: number;
}

/**
 * @param nats [P·P] float16: what responses to a prompt make of each
 * @param signatures of the columns: equal ones are one prompt
 * @returns undefined if prompts are distinguished by degrees, one by one, or not at all
 */
export async function promptGroups(
  nats: Uint16Array,
  signatures: Int32Array,
  { alike, apart, within }: GroupLimits,
  signal: AbortSignal | undefined,
): Promise<PromptGroups | undefined> {
  const distinct = new Set(signatures).size;
  const apartOf = apartBy(nats, signatures.length);
  const joinedUpTo = (most: number) => inSlices(groupsOf(apartOf, signatures, most), signal);
  const ofColumn = await joinedUpTo(alike);
  const sizes = sizesOf(ofColumn, signatures);
  const grouped = sizes.filter((size) => size > 1);
  if (grouped.length < 2 || sizes.length > distinct / 2) return undefined;
  if (grouped.reduce((sum, size) => sum + size, 0) < LEAST_GROUPED * distinct) return undefined;
  const wider = await joinedUpTo(apart);
  if (ofColumn.some((group, column) => wider[column] !== group)) return undefined;
  if ((await inSlices(meanWithin(apartOf, ofColumn), signal)) > within) return undefined;
  const columns = new Int32Array(sizes.length);
  for (const group of ofColumn) columns[group] = (columns[group] as number) + 1;
  return { ofColumn, sizes, columns };
}

/** Nats a response that distinguish groups. @param ofRow group of each row */
export function areToldApart({ sizes, columns, ofColumn }: PromptGroups, ofRow: Int32Array, between: number): boolean {
  if (sizes.length > MOST_GROUPS_OF_TOLD * Math.exp(between)) return false;
  const most = meanOverRows(ofRow, (group) => Math.log(ofColumn.length / (columns[group] as number)));
  return between >= most + Math.log(LEAST_INSIDE);
}

/** @param within nats a response that distinguish prompts of a group */
export function tellsNothingWithin({ sizes }: PromptGroups, ofRow: Int32Array, within: number): boolean {
  const most = meanOverRows(ofRow, (group) => Math.log(sizes[group] as number));
  return within <= Math.min(MOST_NATS_WITHIN, MOST_WITHIN * most);
}

const meanOverRows = (ofRow: Int32Array, of: (group: number) => number): number =>
  ofRow.reduce((sum, group) => sum + of(group), 0) / ofRow.length;

/** @param what distinguishes the groups */
export function groupsNote(distinct: number, { sizes }: PromptGroups, what: string): string {
  return (
    `the ${distinct} prompts fall into about ${sizes.length} groups that the ${what} tells apart, and within them it does ` +
    'not: is this a batch of several environments? Name the environment of each row, and each is judged by itself ' +
    '(`environments` of rows, a Monitor or a step file; --columns environment=NAME; in Python environment=NAME)'
  );
}

type ApartOf = (one: number, other: number) => number;

/** Nats by which responses to two prompts are likelier under their own; NaN of a prompt without rows. */
function apartBy(nats: Uint16Array, columns: number): ApartOf {
  const at = (row: number, column: number): number => float16Value(nats[row * columns + column] as number);
  const own = Float64Array.from({ length: columns }, (_, column) => at(column, column));
  return (one, other) => ((own[one] as number) - at(one, other) + (own[other] as number) - at(other, one)) / 2;
}

/** The mean over all pairs of one group, of which something is known; 0 if there are none. */
function* meanWithin(apartOf: ApartOf, ofColumn: Int32Array): Interruptible<number> {
  let [sum, pairs] = [0, 0];
  for (let one = 0; one < ofColumn.length; one++) {
    for (let other = 0; other < one; other++) {
      const apart = ofColumn[one] === ofColumn[other] ? apartOf(one, other) : Number.NaN;
      if (Number.isNaN(apart)) continue;
      sum += apart;
      pairs++;
    }
    yield;
  }
  return pairs === 0 ? 0 : sum / pairs;
}

/**
 * Prompts that the responses of neither tell apart, and those that are joined to them in that way: it does not matter in
 * which order.
 * @param most nats by which responses to two of one group are likelier under their own
 * @returns group of each column, numbered as they come
 */
function* groupsOf(apartOf: ApartOf, signatures: Int32Array, most: number): Interruptible<Int32Array> {
  const columns = signatures.length;
  /** Of each column one of its group, down to one that stands for itself. */
  const joined = Int32Array.from(signatures.keys());
  const rootOf = (column: number): number => {
    let root = column;
    while (joined[root] !== root) root = joined[root] as number;
    joined[column] = root;
    return root;
  };
  for (let one = 0; one < columns; one++) {
    for (let other = 0; other < one; other++) {
      const [a, b] = [rootOf(one), rootOf(other)];
      if (a === b) continue;
      if (signatures[one] === signatures[other] || apartOf(one, other) <= most) joined[Math.max(a, b)] = Math.min(a, b);
    }
    yield;
  }
  return renumber(Int32Array.from(joined.keys(), rootOf));
}

/** Different prompts of each group. */
function sizesOf(ofColumn: Int32Array, signatures: Int32Array): number[] {
  const found: Set<number>[] = [];
  ofColumn.forEach((group, column) => {
    found[group] ??= new Set();
    found[group].add(signatures[column] as number);
  });
  return found.map(({ size }) => size);
}
