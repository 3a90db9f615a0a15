// The arguments and results of the engine's operations. All log-probs and entropies are in nats.

import type { OperationOptions } from '../../checks/operation-options.js';
import type { CudaDevice } from '../device/cuda-device.js';
import type { DeviceTensor } from '../tensor/device-tensor.js';
import type { DType, HostIntegers, HostTensor, Integers, Tensor } from '../tensor/tensor.js';

/** What an operation left on the GPU: its tensors are the caller's to dispose, one by one or all at once. */
export interface ResultOnDevice {
  /** Disposes all of its tensors; resolves when their memory is free. */
  dispose(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** The same result on the GPU: float64 for a Float64Array, int32 for an Int32Array. */
type OnDevice<Value> = Value extends Float64Array
  ? DeviceTensor
  : Value extends Int32Array
    ? DeviceTensor<HostIntegers>
    : Value;

export interface SumTokensOptions extends OperationOptions {
  /** Packed scores only: element offset of each row on the token axis. Default: the running sum of `lengths`. */
  offsets?: Integers | undefined;
  /**
   * A dense float64 [rows, columns] tensor to write into instead of a new one (allocate it with `engine.alloc`, or with
   * `engine.allocDevice`: the sums then stay on the GPU). `'device'`: a new DeviceTensor, which is the caller's to
   * dispose.
   */
  out?: Tensor | 'device' | undefined;
  /** Column of `out` (or of the result) that each prompt's sums go to. Default: prompt p to column p. */
  columns?: Integers | undefined;
}

export interface TokenSums<Sums extends Tensor = HostTensor> {
  /**
   * float64 [rows, columns]: S[r][p], the sum over the valid tokens of row r under prompt p. Is `options.out` if given.
   */
  sums: Sums;
  lengths: BigInt64Array;
  /** The first used log-prob that is NaN or +inf, by (prompt, row, token); null if none. Its sum is NaN or +inf. */
  firstInvalid: { prompt: number; row: number; token: number } | null;
}

/**
 * Token log-probs [P, R, T] in an open local file, row-major without gaps, little-endian: element (p, r, t) stands at
 * byte `offset + ((p·R + r)·T + t)·size`. Any offset will do. Whoever opened the file keeps it open until the operation
 * is over.
 */
export interface FileScores {
  readonly fd: number;
  readonly offset: number;
  readonly dtype: DType;
  readonly shape: readonly [prompts: number, rows: number, tokens: number];
}

export interface SumFileTokensOptions extends OperationOptions {
  /** A dense float64 [R, P] tensor to write into instead of a new one (allocate it with `engine.alloc`). */
  out?: HostTensor | undefined;
}

/** The fields that logitStats can compute. */
export type LogitField = 'logsumexp' | 'entropy' | 'targetLogprob' | 'argmax' | 'rankAbove' | 'rankEqual';

export interface LogitStatsOptions extends OperationOptions {
  /**
   * One column in [0, V) a row, anything in rows that `mask` leaves out: needed for `targetLogprob`, `rankAbove` and
   * `rankEqual`.
   */
  targets?: Integers | undefined;
  /** Logits are divided by it, 1e-18 to 1e18. Default 1. */
  temperature?: number | undefined;
  /** The fields to compute. Default: all that can be, so without targets those that need none. */
  out?: readonly LogitField[] | undefined;
  /** One entry a row; rows with false (or 0) are not read: NaN and -1 in every field, and no part in the means. */
  mask?: readonly boolean[] | Uint8Array | undefined;
  /**
   * Runs of rows to take means over: `lengths` of runs that follow one another and together have all N rows, or
   * `offsets`, one more than runs, of which run i has the rows offsets[i] to offsets[i + 1].
   */
  sequences?: { readonly lengths: Integers } | { readonly offsets: Integers } | undefined;
}

export interface DeviceLogitStatsOptions extends Omit<LogitStatsOptions, 'out'> {
  /** Leaves the fields on the GPU: all that can be computed, or those that `device` names. */
  out: 'device' | { readonly device: readonly LogitField[] };
}

/**
 * One entry a row, in nats, of softmax(logits / temperature); fields that were not asked for are absent.
 * A row with a NaN has NaN everywhere and its first NaN as argmax; one with +inf has log-sum-exp +inf, one of -inf only
 * -inf, and both have NaN as entropy and target log-prob.
 */
export interface LogitStats {
  readonly rows: number;
  readonly columns: number;
  readonly logsumexp?: Float64Array;
  readonly entropy?: Float64Array;
  /** The target's logit / temperature - logsumexp; never above 0. */
  readonly targetLogprob?: Float64Array;
  /** The first NaN, else the lowest column of the maximum. */
  readonly argmax?: Int32Array;
  /** Columns strictly above the target. */
  readonly rankAbove?: Int32Array;
  /** Columns equal to the target, the target included. */
  readonly rankEqual?: Int32Array;
  /** One entry a sequence: the mean over its unmasked rows; NaN if it has none. With `sequences` only. */
  readonly meanEntropy?: Float64Array;
  /** With `sequences` and `targets` only. */
  readonly meanTargetLogprob?: Float64Array;
}

/**
 * LogitStats of which the fields [rows] are on the GPU: float64 in nats, int32 the argmax and the ranks. The means are
 * on the host.
 */
export type DeviceLogitStats = ResultOnDevice & {
  readonly [Field in keyof LogitStats]: Field extends `mean${string}` ? LogitStats[Field] : OnDevice<LogitStats[Field]>;
};

/** What tells each row's own column. */
export interface RowLabels {
  /** Index of the column (prompt) that each row was sampled from. */
  own: Integers;
  /** Tokens of each row; per-token values divide by max(length, 1). */
  lengths: Integers;
  /** One number in [0, columns) a column; equal numbers mean equivalent prompts. Default: all columns differ. */
  signatures?: Integers | undefined;
}

export interface ScoreStatsOptions extends RowLabels, OperationOptions {
  /** How many best columns to name, 0 to 8; cut to the number of columns. Default 8. */
  topK?: number | undefined;
}

export interface DeviceScoreStatsOptions extends ScoreStatsOptions {
  /** Leaves the statistics on the GPU. */
  out: 'device';
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
  /** The marginal over the columns whose signature is not own's; NaN where there is none. */
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
  /** [rows, topK], best first, ties by rising column. */
  readonly topColumns: Int32Array;
}

/** RowStats of which the arrays are on the GPU: float64 in nats, int32 the argmax, the ranks and `topColumns`. */
export type DeviceRowStats = ResultOnDevice & { readonly [Field in keyof RowStats]: OnDevice<RowStats[Field]> };

export interface TokenRowStatsOptions extends OperationOptions {
  /** Index of the prompt that each row was sampled from. */
  own: Integers;
  /** Packed scores only, as in SumTokensOptions. */
  offsets?: Integers | undefined;
  /** One number in [0, P) a prompt; equal numbers mean equivalent prompts. Default: all prompts differ. */
  signatures?: Integers | undefined;
  /** How many best prompts to name, 0 to 8. Default 8. */
  topK?: number | undefined;
}

export interface TokenRowStats extends TokenSums {
  stats: RowStats;
}

export interface DeviceTokenRowStatsOptions extends TokenRowStatsOptions {
  /** Leaves the statistics and the sums on the GPU. */
  out: 'device';
}

/** The sums float64 [R, P] and the statistics on the GPU; `dispose()` is for both. */
export interface DeviceTokenRowStats extends TokenSums<DeviceTensor>, ResultOnDevice {
  stats: DeviceRowStats;
}

export interface GatherOptions extends OperationOptions {
  rows?: Integers | undefined;
  columns?: Integers | undefined;
}

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

/** The figures of one step that get an interval and a p-value. */
export type Figure =
  | 'miSeq'
  | 'miSeqLoo'
  | 'miPerToken'
  | 'miToken'
  | 'retrieval1'
  | 'retrieval2'
  | 'retrieval4'
  | 'retrieval8';

/** 95%; a bound that cannot be given is NaN. */
export interface FigureInference {
  estimate: number;
  batchLow: number;
  batchHigh: number;
  batchError: number;
  populationLow: number;
  populationHigh: number;
  populationError: number;
  pValue: number;
}

/** Of the value for these very prompts alone: 95%; a bound that cannot be given is NaN. */
export interface SubsetInference {
  estimate: number;
  batchLow: number;
  batchHigh: number;
  batchError: number;
}

export interface StepInference {
  rows: number;
  figures: Record<Figure, FigureInference>;
  /**
   * For `prompts` = 2, 4, 8, … up to the distinct ones: the mean over rows of S under the own prompt − ln of the mean
   * of exp S over it and others drawn without replacement, nats. Exact for 2 and for all; between, draws that `seed`
   * decides.
   */
  among: readonly (SubsetInference & { prompts: number })[];
  /**
   * Mean over rows of S under the own prompt − mean of S under the other distinct ones, nats. `rows`: those that no
   * other prompt gives −infinity, which are left out; NaN where none is.
   */
  margin: SubsetInference & { rows: number };
  /** False: some batch interval rests on between-prompt variance (K = 1) and is conservative. */
  withinVariance: boolean;
  /**
   * False: rows cannot have been sampled from what the scores describe (labels of other rows, another temperature, a
   * mask, rows picked by reward).
   */
  calibrated: boolean;
}

export interface InferenceOptions extends RowLabels, OperationOptions {
  /** Label permutations for the p-values; 0 for none. */
  permutations: number;
  seed: number;
}

export interface EngineInfo {
  /**
   * Where computations run on tensors that are on the GPU. Those on the host run there, too, if a GPU was asked for by
   * name; under `auto` they run on the CPU, which is where their data is.
   */
  device: 'cpu' | `cuda:${number}`;
  /** The GPU of `device`; null for `cpu`. */
  gpu: CudaDevice | null;
  /** Instruction set of the CPU kernels in use. */
  isa: string;
  /** All instruction sets that this build and this machine can run. */
  isaAvailable: readonly string[];
  threads: number;
  /** Why `auto` did not take a GPU; null if it did, or if the CPU was asked for. */
  fallback: string | null;
}
