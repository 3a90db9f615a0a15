// engine.stepMoments: options, checks, native call, result.

import type { OperationOptions } from '../../checks/operation-options.js';
import { is, OPERATION, type OptionTable } from '../../checks/options.js';
import type { EngineCore } from '../engine-core.js';
import type { NativeResults } from '../native.js';
import type { RowLabels, RowStats } from './row-stats.js';
import { statsArguments, statsExtents } from './row-stats-arguments.js';
import { labelArguments } from './score-options.js';

/** Moments of one figure over rows. */
export interface Moments {
  mean: number;
  /** Population standard deviation. */
  std: number;
}

/** Exact over rows (correctly rounded sums), so independent of row order. */
export interface StepMoments {
  rows: number;
  matchedToken: Moments;
  marginalToken: Moments;
  matchedSeq: Moments;
  marginalSeq: Moments;
  /** matchedSeq − marginalSeq */
  excessSeq: Moments;
  /** matchedToken − marginalToken */
  excessToken: Moments;
  /** (matchedSeq − marginalSeq) / max(length, 1) */
  excessPerToken: Moments;
  /** matchedSeq − looMarginalSeq; NaN if any row has no other column */
  looExcessSeq: Moments;
  posteriorEntropy: Moments;
  /** Rows whose top 1, 2, 4, 8 columns hold the own signature. */
  hits: readonly [number, number, number, number];
}

const MOMENTS_OPTIONS: OptionTable<RowLabels & OperationOptions> = {
  own: is.any,
  lengths: is.any,
  signatures: is.any,
  ...OPERATION,
};

// Native code gives its numbers in one array: creating each property at every step took as long as computing them.
/** In the order of native/node/jobs/step_moments.cpp. */
export function momentsFrom(numbers: Float64Array): StepMoments {
  let at = 0;
  const next = (): number => numbers[at++] as number;
  const moments = (): Moments => ({ mean: next(), std: next() });
  return {
    rows: next(),
    matchedToken: moments(),
    marginalToken: moments(),
    matchedSeq: moments(),
    marginalSeq: moments(),
    excessSeq: moments(),
    excessToken: moments(),
    excessPerToken: moments(),
    looExcessSeq: moments(),
    posteriorEntropy: moments(),
    hits: [next(), next(), next(), next()],
  };
}

/** Engine.stepMoments() */
export async function stepMoments(
  engine: EngineCore,
  stats: RowStats,
  labels: RowLabels & OperationOptions,
): Promise<StepMoments> {
  engine.begin('stepMoments', labels, MOMENTS_OPTIONS, 'labels');
  const extents = statsExtents(stats);
  const labelArrays = labelArguments(labels, 'labels');
  return engine.jobs.run<NativeResults['stepMoments'], StepMoments>(
    'stepMoments',
    labels,
    (settle, held) => engine.native.stepMoments(settle, ...statsArguments(stats, extents, held), ...labelArrays),
    momentsFrom,
  );
}
