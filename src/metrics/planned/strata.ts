// Columns in -> for each own column, the other prompts that its rows' negatives are drawn from: one stratum, or two where
// negatives of the same turn are wanted more often (docs/cheaper-scoring.md). A prompt that several columns share is one negative.
import { ArgumentError } from '../../errors.js';

/** Different prompts that negatives are drawn from with the same probability. */
export interface Stratum {
  /** Their signatures, ascending. */
  readonly signatures: Int32Array;
  /** Columns that they stand for. */
  readonly columns: number;
}

/**
 * Negatives of the rows of every column: `[all]`, or `[same turn, others]` without those that are empty.
 * @param signatures of each column; equal numbers mean equal prompts
 * @param counts columns of each signature
 * @param turns of each column, where same-turn negatives are a stratum of their own
 */
export function strataOf(
  signatures: Int32Array,
  counts: Int32Array,
  turns: Int32Array | Float64Array | undefined,
): Stratum[][] {
  const known = new Map<string, Stratum[]>();
  const distinct = Array.from(counts.keys()).filter((signature) => (counts[signature] as number) > 0);
  const turnsOf = new Map<number, Set<number>>();
  if (turns !== undefined) {
    signatures.forEach((signature, column) => {
      const set = turnsOf.get(signature) ?? new Set();
      turnsOf.set(signature, set.add(turns[column] as number));
    });
  }
  const stratum = (members: number[]): Stratum => ({
    signatures: Int32Array.from(members),
    columns: members.reduce((total, signature) => total + (counts[signature] as number), 0),
  });
  return Array.from(signatures, (own, column) => {
    const turn = turns?.[column];
    const key = `${own}/${turn}`;
    let strata = known.get(key);
    if (strata === undefined) {
      const others = distinct.filter((signature) => signature !== own);
      const isHard = (signature: number): boolean => turnsOf.get(signature)?.has(turn as number) ?? false;
      const split = turns === undefined ? [others] : [others.filter(isHard), others.filter((s) => !isHard(s))];
      strata = split.filter((members) => members.length > 0).map(stratum);
      known.set(key, strata);
    }
    return strata;
  });
}

/**
 * How many of `negatives` come from each stratum. Two strata: `hardShare` of them from the first, what one cannot give from
 * the other, and never a single one out of several, which would show no spread.
 * @throws {ArgumentError} if that cannot be
 */
export function allocate(strata: readonly Stratum[], negatives: number, hardShare: number): number[] {
  const sizes = strata.map(({ signatures }) => signatures.length);
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
