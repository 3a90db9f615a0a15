import type { Integers } from '../tensor/tensor.js';
import type { OnDevice, ResultOnDevice } from './result-on-device.js';

/** Labels that identify each row's own column. */
export interface RowLabels {
  /** Index of the column (prompt) that each row was sampled from. */
  own: Integers;
  /** Tokens of each row; per-token values divide by max(length, 1). */
  lengths: Integers;
  /** One number in [0, columns) a column; equal numbers mean equivalent prompts. Default: all columns differ. */
  signatures?: Integers | undefined;
}

/** One entry a row. `Seq`: of sums S; `Token`: of per-token means M = S / max(length, 1). docs/reference/metrics.md. */
export interface RowStats {
  readonly rows: number;
  readonly columns: number;
  readonly topK: number;
  readonly matchedSeq: Float64Array;
  readonly matchedToken: Float64Array;
  /** logsumexp over columns − ln P. */
  readonly marginalSeq: Float64Array;
  readonly marginalToken: Float64Array;
  /** The marginal over the columns whose signature is not own's; NaN if there is none. */
  readonly looMarginalSeq: Float64Array;
  readonly looMarginalToken: Float64Array;
  /** Entropy of softmax over columns of S. */
  readonly posteriorEntropy: Float64Array;
  /** The first NaN, else the lowest column of the maximum. */
  readonly argmax: Int32Array;
  /** Columns strictly above own. */
  readonly rankAbove: Int32Array;
  /** Columns equal to own, own included. */
  readonly rankEqual: Int32Array;
  /** Columns that go before the first of own's equivalents: by falling score, ties by rising column. hit@k: below k. */
  readonly hitRank: Int32Array;
  /** [rows, topK], best first, ties by rising column. */
  readonly topColumns: Int32Array;
}

/** RowStats with arrays on the GPU: float64 in nats, int32 the argmax, the ranks and `topColumns`. */
export type DeviceRowStats = ResultOnDevice & { readonly [Field in keyof RowStats]: OnDevice<RowStats[Field]> };
