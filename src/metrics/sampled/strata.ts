// Groups the prompts that each column's negatives are drawn from into one stratum, or two if negatives of the same turn
// are preferred (docs/guide/cheaper-scoring.md). A prompt that several columns share is one negative.
import { ArgumentError } from '../../checks/errors.js';

/**
 * Different prompts that negatives are drawn from with the same probability. Plain data: a plan may be sent to a
 * worker. Lists are shared by the strata of all columns: one for each would take the square of the number of prompts,
 * 17 GB of 65,536.
 */
export interface Stratum {
  /** Signatures, ascending. */
  readonly listed: Int32Array;
  /**
   * Place in the list of the own prompt's signature, which is not of the stratum; its length where that is not in it.
   */
  readonly gap: number;
  /** How many signatures are of it. */
  readonly size: number;
  /** Columns that they stand for. */
  readonly columns: number;
}

/** @param place from 0 to `size` − 1 */
export function signatureAt({ listed, gap }: Stratum, place: number): number {
  return listed[place < gap ? place : place + 1] as number;
}

const whole = new WeakMap<Stratum, Int32Array>();

/** All of its signatures, ascending; the same array each time. */
export function signaturesIn(stratum: Stratum): Int32Array {
  let signatures = whole.get(stratum);
  if (signatures === undefined) {
    signatures = stratum.listed.filter((_, place) => place !== stratum.gap);
    whole.set(stratum, signatures);
  }
  return signatures;
}

/** Signatures that strata leave one out of. */
interface Listed {
  readonly listed: Int32Array;
  readonly columns: number;
  readonly placeOf: ReadonlyMap<number, number>;
}

/**
 * Negatives of the rows of every column: `[all]`, or `[same turn, others]` without those that are empty.
 * @param signatures of each column; equal numbers mean equal prompts
 * @param counts columns of each signature
 * @param turns of each column, where same-turn negatives are a stratum of their own
 */
export function strataOf(signatures: Int32Array, counts: Int32Array, turns: Int32Array | undefined): Stratum[][] {
  const distinct = Int32Array.from(counts.keys()).filter((signature) => (counts[signature] as number) > 0);
  const list = (members: Int32Array): Listed => ({
    listed: members,
    columns: members.reduce((total, signature) => total + (counts[signature] as number), 0),
    placeOf: new Map([...members].map((signature, place) => [signature, place])),
  });
  const without = ({ listed, columns, placeOf }: Listed, own: number): Stratum => {
    const gap = placeOf.get(own);
    if (gap === undefined) return { listed, gap: listed.length, size: listed.length, columns };
    return { listed, gap, size: listed.length - 1, columns: columns - (counts[own] as number) };
  };
  const listsOf = turns === undefined ? [list(distinct)] : undefined;
  const byTurn = turns === undefined ? undefined : listsByTurn(distinct, signatures, turns, list);
  const known = new Map<string, Stratum[]>();
  return Array.from(signatures, (own, column) => {
    const turn = turns?.[column];
    const key = `${own}/${turn}`;
    let strata = known.get(key);
    if (strata === undefined) {
      const lists = listsOf ?? (byTurn?.get(turn as number) as readonly Listed[]);
      strata = lists.map((some) => without(some, own)).filter(({ size }) => size > 0);
      known.set(key, strata);
    }
    return strata;
  });
}

/** By turn: prompts that some column of the turn has, and the others. */
function listsByTurn(
  distinct: Int32Array,
  signatures: Int32Array,
  turns: Int32Array,
  list: (members: Int32Array) => Listed,
): Map<number, readonly Listed[]> {
  const ofTurn = new Map<number, Set<number>>();
  signatures.forEach((signature, column) => {
    const turn = turns[column] as number;
    ofTurn.set(turn, (ofTurn.get(turn) ?? new Set()).add(signature));
  });
  return new Map(
    [...ofTurn].map(([turn, members]) => {
      const isHard = (signature: number): boolean => members.has(signature);
      return [turn, [list(distinct.filter(isHard)), list(distinct.filter((signature) => !isHard(signature)))]];
    }),
  );
}

/**
 * How many of `negatives` come from each stratum. Two strata: `hardShare` of them from the first, what one cannot give
 * from the other, and never a single one out of several, which would show no spread.
 * @throws {ArgumentError} if that cannot be
 */
export function allocate(strata: readonly Stratum[], negatives: number, hardShare: number): number[] {
  const sizes = strata.map(({ size }) => size);
  const [first = 0, second] = sizes;
  if (second === undefined) return sizes.map((size) => Math.min(size, negatives));
  if (negatives >= first + second) return sizes;
  const [leastFirst, leastSecond] = [Math.min(2, first), Math.min(2, second)];
  if (negatives < leastFirst + leastSecond) {
    throw new ArgumentError(
      'options.negatives',
      `${negatives} are too few for two kinds of negatives: at least ${leastFirst + leastSecond}, two of each kind`,
    );
  }
  const most = Math.min(first, negatives - leastSecond);
  const hard = Math.min(most, Math.max(leastFirst, negatives - second, Math.round(negatives * hardShare)));
  return [hard, negatives - hard];
}
