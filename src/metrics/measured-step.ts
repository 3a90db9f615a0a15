// The engine's results for one step's chosen rows and columns: the common basis of both profiles.
import type { RowStats } from '../engine/operations/row-stats.js';
import type { StepMoments } from '../engine/operations/step-moments.js';
import type { Tensor } from '../engine/tensor/tensor.js';

export interface MeasuredStep {
  /** float64 [rows, columns] of the rows and columns that the metrics are about. */
  readonly sums: Tensor;
  readonly stats: RowStats;
  readonly moments: StepMoments;
  readonly own: Int32Array;
  readonly lengths: Int32Array | BigInt64Array;
  readonly signatures: Int32Array;
  /** [c] rows whose own column is one of c with the same signature. */
  readonly rowsByEquivalents: Int32Array;
  /** Number of signatures. */
  readonly distinct: number;
  /** Prompts that the columns stand for: their number, unless a sampler named prompts more than once. */
  readonly prompts: number;
}

/** The k of retrieval@k, and where `StepMoments.hits` and the figures have them. */
export const RETRIEVAL_AT = [
  { k: 2, hits: 1, figure: 'retrieval2' },
  { k: 4, hits: 2, figure: 'retrieval4' },
  { k: 8, hits: 3, figure: 'retrieval8' },
] as const;
