// Cross-scores of prompts that nobody named environments of -> a note where they fall into groups that the reasoning tells
// apart, and within which it tells nothing: a batch of several environments, each with a template of its own.
import type { Engine } from '../../engine/engine.js';
import { float16Value } from '../../engine/tensor/float16-array.js';
import { renumber } from '../columns.js';
import type { ScoredStep } from '../scored-step.js';
import { type Interruptible, inSlices } from '../slices.js';
import type { StepMetrics } from '../step-metrics.js';
import { chainRule } from './score-environments.js';

/** Groups of fewer prompts come about by chance; matrices of more are more than every step should pay for. */
const FEWEST_PROMPTS = 8;
const MOST_PROMPTS = 1024;

/** A p-value of permutations above this leaves open whether the reasoning tells anything apart. */
const MOST_P = 0.01;

/**
 * Nats by which responses to two prompts are likelier under their own: up to the first they are of one group, above the
 * second of two. Where some lie between, prompts are told apart by degrees, and there are no groups.
 */
const ALIKE = 1;
const APART = 4.5;

/** So much of a response's posterior lies within the prompts of its group, as a geometric mean. */
const LEAST_INSIDE = 0.8;

/** What is told apart within groups: at most this share of what could be, and no more than so many nats. */
const MOST_WITHIN = 0.15;
const MOST_NATS_WITHIN = 0.3;

/** exp(I(X;Z)) as a share of the prompts; where groups are of two prompts each, half is in the middle of what comes. */
const MOST_TOLD = 0.6;

/** Groups are so many times as many as exp(I) at most: fewer are told apart where most prompts are of one template. */
const MOST_GROUPS_OF_TOLD = 1.5;

/** Prompts that are in groups of two or more, as a share of all. */
const LEAST_GROUPED = 0.9;

/**
 * @param step what intervals are of: each prompt and each row once
 * @param metrics of it
 */
export async function blocksNote(
  engine: Engine,
  step: ScoredStep,
  { values, certainty }: Pick<StepMetrics, 'values' | 'certainty'>,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const { sums, stats, own, lengths, signatures, distinct } = step;
  const told = Math.exp(values.mi_seq_estimate as number);
  const pValue = certainty.mi_seq_estimate?.pValue;
  if (distinct < FEWEST_PROMPTS || signatures.length > MOST_PROMPTS || !(told <= MOST_TOLD * distinct))
    return undefined;
  if (typeof pValue !== 'number' || pValue > MOST_P) return undefined;
  const { nats } = await engine.promptMatrices(sums, stats, { own, lengths, signatures, signal });
  const joinedUpTo = (apart: number) => inSlices(groupsOf(nats as Uint16Array, signatures, apart), signal);
  const ofColumn = await joinedUpTo(ALIKE);
  const sizes = sizesOf(ofColumn, signatures);
  const grouped = sizes.filter((size) => size > 1);
  if (grouped.length < 2 || sizes.length > distinct / 2) return undefined;
  if (grouped.reduce((sum, size) => sum + size, 0) < LEAST_GROUPED * distinct) return undefined;
  const wider = await joinedUpTo(APART);
  if (ofColumn.some((group, column) => wider[column] !== group)) return undefined;
  const ofRow = Int32Array.from(own, (column) => ofColumn[column] as number);
  const groups = { names: sizes.map(String), ofRow, ofColumn };
  const { mi_within: within, mi_between: between } = await chainRule(engine, step, groups, signal);
  if (sizes.length > MOST_GROUPS_OF_TOLD * Math.exp(between)) return undefined;
  const columns = new Int32Array(sizes.length);
  for (const group of ofColumn) columns[group] = (columns[group] as number) + 1;
  const mean = (of: (group: number) => number) => ofRow.reduce((sum, group) => sum + of(group), 0) / ofRow.length;
  const mostBetween = mean((group) => Math.log(signatures.length / (columns[group] as number)));
  const mostWithin = mean((group) => Math.log(sizes[group] as number));
  if (between < mostBetween + Math.log(LEAST_INSIDE)) return undefined;
  if (within > Math.min(MOST_NATS_WITHIN, MOST_WITHIN * mostWithin)) return undefined;
  return (
    `the ${distinct} prompts fall into about ${sizes.length} groups that the reasoning tells apart, and within them it does ` +
    'not: is this a batch of several environments? Name them by `environments` of Monitor or of the step file, or by ' +
    '--columns environment=NAME, and each is judged by itself'
  );
}

/**
 * Prompts that the responses of neither tell apart, and those that are joined to them in that way: it does not matter in
 * which order.
 * @param nats of engine.promptMatrices
 * @param most nats by which responses to two of one group are likelier under their own
 * @returns group of each column, numbered as they come
 */
function* groupsOf(nats: Uint16Array, signatures: Int32Array, most: number): Interruptible<Int32Array> {
  const columns = signatures.length;
  /** Of each column one of its group, down to one that stands for itself. */
  const joined = Int32Array.from(signatures.keys());
  const rootOf = (column: number): number => {
    let root = column;
    while (joined[root] !== root) root = joined[root] as number;
    joined[column] = root;
    return root;
  };
  const at = (row: number, column: number): number => float16Value(nats[row * columns + column] as number);
  const ownNats = Float64Array.from(signatures.keys(), (column) => at(column, column));
  for (let one = 0; one < columns; one++) {
    for (let other = 0; other < one; other++) {
      const [a, b] = [rootOf(one), rootOf(other)];
      if (a === b) continue;
      const apart = ((ownNats[one] as number) - at(one, other) + (ownNats[other] as number) - at(other, one)) / 2;
      // NaN of a prompt without rows, which nothing is known of.
      if (signatures[one] === signatures[other] || apart <= most) joined[Math.max(a, b)] = Math.min(a, b);
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
