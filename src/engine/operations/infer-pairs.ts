// engine.inferPairs: options, checks, native call, result.

import { types } from 'node:util';
import { checkObject } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import type { OperationOptions } from '../../checks/operation-options.js';
import { is, OPERATION, type OptionTable } from '../../checks/options.js';
import { shown } from '../../checks/words.js';
import type { EngineCore } from '../engine-core.js';
import type { NativeResults } from '../native.js';
import { integerArray, optionalIntegers } from '../tensor/integers.js';
import type { Integers } from '../tensor/tensor.js';

/** Some (row, column) pairs of a step's scores, in any order. */
export interface SampledPairs {
  /** [N] row and column of each pair. */
  readonly rows: Int32Array;
  readonly columns: Int32Array;
  /** [N] log p(row | the column's prompt), nats, summed over the row's tokens. */
  readonly sums: Float64Array;
}

/**
 * Every row with a length above 0 has one pair with its own prompt, and pairs with others that were drawn with equal
 * chances: from all different ones, or, with `turns`, some from those of its own turn and some from the rest. At least
 * three in all, unless there are fewer; equal prompts are scored once.
 */
export interface PairInferenceOptions extends OperationOptions {
  /** [R] own column of each row. */
  readonly own: Integers;
  /** [R] tokens of each row; rows of length 0 have no pairs. */
  readonly lengths: Integers;
  /** [P] equal where prompts are equal, from 0 to P − 1. */
  readonly signatures: Integers;
  /** [P] turn of each column: what negatives were drawn by. Default: by nothing. */
  readonly turns?: Integers | undefined;
  /** Level of the intervals, in (0, 1). Default 0.95. */
  readonly confidence?: number | undefined;
}

/** NaN if an interval cannot be given. `error`: standard error. */
export interface NumericInterval {
  readonly low: number;
  readonly high: number;
  readonly error: number;
}

/** All in the figure's unit. */
export interface SampledFigure {
  /** Not finite where the figure cannot be given. */
  readonly estimate: number;
  readonly batch: NumericInterval;
  readonly population: NumericInterval;
  /** Variance of the estimate over draws of negatives; 0 if all are scored. */
  readonly drawVariance: number;
  /** By how much the intervals reach further down and up for bias that may remain. */
  readonly biasBelow: number;
  readonly biasAbove: number;
}

export const SAMPLED_FIGURES = ['miSeq', 'miSeqLoo', 'miPerToken', 'miToken', 'entropySeq', 'entropyToken'] as const;
/** A figure that sampled pairs estimate. */
export type SampledFigureName = (typeof SAMPLED_FIGURES)[number];

/** Estimates by the pairs of the figures from all pairs (docs/guide/cheaper-scoring.md). Nats. */
export interface PairInference {
  /** Rows with a length above 0 that are not left out. */
  readonly used: number;
  /** Rows left out, ascending: with a score that is NaN or +∞ (or an own one of −∞); with nothing but scores of 0. */
  readonly nonFinite: readonly number[];
  readonly placeholders: readonly number[];
  /** Every pair of different prompts is there. */
  readonly complete: boolean;
  /**
   * False if the rows do not look sampled from the scored distributions: no interval then uses the posterior of the
   * label.
   */
  readonly describesSampling: boolean;
  readonly figures: Readonly<Record<SampledFigureName, SampledFigure>>;
  /** Means over rows of the own score, and of that per token. */
  readonly matchedSeq: number;
  readonly matchedToken: number;
  /** Shares of rows that are certain to have their own prompt among the best 1, 2, 4, 8, and that may have. */
  readonly best: readonly { readonly k: number; readonly atLeast: number; readonly atMost: number }[];
  /**
   * How often the own prompt is the best of 2, 4, 8, 16 different ones drawn at random: NaN if negatives are too
   * few.
   */
  readonly bestOf: readonly { readonly candidates: number; readonly share: number; readonly batch: NumericInterval }[];
}

/** Level of intervals. */
export const CONFIDENCE = is.number('a number between 0 and 1', (share) => share > 0 && share < 1);

const PAIR_OPTIONS: OptionTable<PairInferenceOptions> = {
  own: is.any,
  lengths: is.any,
  signatures: is.any,
  turns: is.any,
  confidence: CONFIDENCE,
  ...OPERATION,
};

/** In the order of native/node/jobs/infer_pairs.cpp. */
export function pairInferenceFrom(numbers: Float64Array): PairInference {
  let at = 0;
  const next = (): number => numbers[at++] as number;
  const interval = (): NumericInterval => ({ low: next(), high: next(), error: next() });
  const figure = (): SampledFigure => ({
    estimate: next(),
    batch: interval(),
    population: interval(),
    drawVariance: next(),
    biasBelow: next(),
    biasAbove: next(),
  });
  const rows = (): number[] => {
    const first = at + 1;
    at = first + next();
    return Array.from(numbers.subarray(first, at));
  };
  return {
    used: next(),
    complete: next() === 1,
    describesSampling: next() === 1,
    matchedSeq: next(),
    matchedToken: next(),
    figures: Object.fromEntries(SAMPLED_FIGURES.map((name) => [name, figure()])) as PairInference['figures'],
    best: [1, 2, 4, 8].map((k) => ({ k, atLeast: next(), atMost: next() })),
    bestOf: [2, 4, 8, 16].map((candidates) => ({ candidates, share: next(), batch: interval() })),
    nonFinite: rows(),
    placeholders: rows(),
  };
}

/** Engine.inferPairs() */
export async function inferPairs(
  engine: EngineCore,
  pairs: SampledPairs,
  options: PairInferenceOptions,
): Promise<PairInference> {
  engine.begin('inferPairs', options, PAIR_OPTIONS);
  checkObject(pairs, 'pairs');
  const { rows, columns, sums } = pairs;
  for (const [name, array] of Object.entries({ rows, columns })) {
    if (!types.isInt32Array(array)) {
      throw new ArgumentError(`pairs.${name}`, `got ${shown(array)}, expected an Int32Array`);
    }
  }
  if (!types.isFloat64Array(sums)) {
    throw new ArgumentError('pairs.sums', `got ${shown(sums)}, expected a Float64Array`);
  }
  for (const [name, { length }] of Object.entries({ columns, sums })) {
    if (length !== rows.length) throw new ArgumentError(`pairs.${name}`, `${length} entries for ${rows.length} pairs`);
  }
  const confidence = options.confidence ?? 0.95;
  const own = integerArray(options.own, 'options.own');
  const lengths = integerArray(options.lengths, 'options.lengths');
  const signatures = integerArray(options.signatures, 'options.signatures');
  const turns = optionalIntegers(options.turns, 'options.turns');
  return engine.jobs.run<NativeResults['inferPairs'], PairInference>(
    'inferPairs',
    options,
    (settle, held) =>
      engine.native.inferPairs(
        settle,
        rows.length,
        rows,
        held.protect(rows, 'pairs.rows'),
        columns,
        held.protect(columns, 'pairs.columns'),
        sums,
        held.protect(sums, 'pairs.sums'),
        own.length,
        signatures.length,
        own,
        lengths,
        signatures,
        turns,
        confidence,
      ),
    pairInferenceFrom,
  );
}
