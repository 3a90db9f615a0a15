// The engine: typed operations on score tensors, computed by native threads of its own.
import type { OperationOptions } from '../checks/operation-options.js';
import type { DeviceImport } from './device/device-import.js';
import type { Placement } from './device/engine-device.js';
import { EngineCore } from './engine-core.js';
import type { EngineInfo } from './engine-info.js';
import { allocTensor } from './memory.js';
import type { NativeAddon, Settle, ShuffleCount } from './native.js';
import { type GatherOptions, gatherScores } from './operations/gather-scores.js';
import {
  inferPairs,
  type PairInference,
  type PairInferenceOptions,
  type SampledPairs,
} from './operations/infer-pairs.js';
import { type InferenceOptions, inferStep, type StepInference } from './operations/infer-step.js';
import type { DeviceLogitStats, LogitStats } from './operations/logit-fields.js';
import { type DeviceLogitStatsOptions, type LogitStatsOptions, logitStats } from './operations/logit-stats.js';
import { type PromptMatrices, type PromptMatricesOptions, promptMatrices } from './operations/prompt-matrices.js';
import type { DeviceRowStats, RowLabels, RowStats } from './operations/row-stats.js';
import { type DeviceScoreStatsOptions, type ScoreStatsOptions, scoreStats } from './operations/score-stats.js';
import { type StepMoments, stepMoments } from './operations/step-moments.js';
import { type FileScores, type SumFileTokensOptions, sumFileTokens } from './operations/sum-file-tokens.js';
import { type SumTokensOptions, sumTokens, type TokenSums } from './operations/sum-tokens.js';
import {
  phraseShares,
  type TextFigures,
  type TextFiguresOptions,
  textFigures,
} from './operations/texts/text-figures.js';
import type { Text, TextRows } from './operations/texts/text-rows.js';
import {
  type DeviceTokenRowStats,
  type DeviceTokenRowStatsOptions,
  type TokenRowStats,
  type TokenRowStatsOptions,
  tokenRowStats,
} from './operations/token-row-stats.js';
import type { DeviceTensor } from './tensor/device-tensor.js';
import type { DType, HostTensor, Integers, Tensor } from './tensor/tensor.js';
import { checkDType, checkShape, viewHostTensor } from './tensor/tensor-view.js';
import { checkSinkOptions, TokenSumsSink, type TokenSumsSinkOptions } from './tokens/token-sums-sink.js';

/**
 * Computes on score tensors. Operations run one after the other in the order of their calls, off the event loop and off
 * libuv's thread pool. Every operation rejects, and never throws: with ArgumentError for a bad argument, with
 * DisposedError after dispose(), with `signal.reason` when aborted, with DeviceError `out_of_memory` where the machine
 * does not have the memory for a job.
 *
 * Input memory must not be written while a job reads it: results are then undefined (but nothing crashes). Large inputs
 * are read in place; memory.ts says how they are kept from going away.
 */
export class Engine {
  /** Where it computes, with what, and why not on a GPU. */
  readonly info: EngineInfo;
  /** @internal What TokenSumsSink computes with. */
  readonly blocks: EngineCore;
  readonly #core: EngineCore;
  /** @internal Counts behind the p-values of actions, always on the CPU: for readEvidenceOn(). */
  readonly countShuffles = async ({ kind, given }: ShuffleCount, options: OperationOptions): Promise<unknown> => {
    const { native, jobs } = this.#core;
    this.#core.begin('readEvidenceOn', options);
    const start = native[kind] as (settle: Settle, ...rest: unknown[]) => number;
    return jobs.run(
      'readEvidenceOn',
      options,
      (settle) => start.call(native, settle, ...given),
      (found) => found,
    );
  };

  private constructor(core: EngineCore) {
    this.#core = core;
    this.info = core.info;
    this.blocks = core;
  }

  /** @internal */
  static async open(
    addon: NativeAddon,
    placement: Placement,
    threads: number,
    signal: AbortSignal | undefined,
  ): Promise<Engine> {
    return new Engine(await EngineCore.open(addon, placement, threads, signal));
  }

  /**
   * A row-major tensor of zeros over memory that operations read and write in place. It outlives the engine.
   * @throws ArgumentError for a bad dtype or shape, or if the memory cannot be had; DisposedError
   */
  alloc(dtype: DType, shape: readonly number[]): HostTensor {
    this.#core.expectOpen('alloc');
    checkDType(dtype, 'dtype');
    const { shape: copy, elements } = checkShape(shape, 'shape');
    return allocTensor(dtype, copy, elements);
  }

  /**
   * A row-major tensor on the engine's GPU, whose elements are undefined until something is written to them: for
   * `sumTokens({ out })`. Dispose it.
   * @throws DeviceError: `out_of_memory` (with `askedBytes` and `freeBytes`), or the engine has no GPU
   */
  async allocDevice(dtype: DType, shape: readonly number[], options: OperationOptions = {}): Promise<DeviceTensor> {
    this.#core.begin('allocDevice', options);
    checkDType(dtype, 'dtype');
    const { shape: copy, elements } = checkShape(shape, 'shape');
    return this.#core.gpu('allocDevice').alloc(dtype, copy, elements, options);
  }

  /**
   * A copy of a host tensor on the engine's GPU, with the same strides. Dispose it.
   * @throws ArgumentError (a negative stride), DeviceError: `out_of_memory`, or the engine has no GPU
   */
  async upload(tensor: Tensor, options: OperationOptions = {}): Promise<DeviceTensor> {
    this.#core.begin('upload', options);
    const view = viewHostTensor(tensor, 'tensor', 'a tensor of any number of axes');
    return this.#core.gpu('upload').upload(view, options);
  }

  /**
   * A tensor in another process's memory of the engine's GPU, by its CUDA IPC handle and without a copy
   * (docs/guide/gpu.md). The other process must keep the memory until this tensor is disposed. Nothing reads it before
   * the event has happened.
   * @throws ArgumentError for what no handle can be, DeviceError `bad_handle` for what the driver does not accept
   */
  async importDevice(source: DeviceImport, options: OperationOptions = {}): Promise<DeviceTensor> {
    this.#core.begin('importDevice', options);
    return this.#core.gpu('importDevice').import(source, options);
  }

  /** Memory of the engine's GPU, in bytes: what is free for everybody, and all. */
  async deviceMemory(options: OperationOptions = {}): Promise<{ freeBytes: number; totalBytes: number }> {
    this.#core.begin('deviceMemory', options);
    return this.#core.gpu('deviceMemory').memory(options);
  }

  /**
   * Sums token log-probs (nats) over each row's valid tokens, in float64 for every dtype.
   * @param logprobs padded [P, R, T]: of row r the first `lengths[r]` tokens are read; or packed [P, N], where
   *   row r is at `options.offsets[r]` (default: the rows follow one another)
   * @param lengths tokens of each row, 0 to T
   */
  async sumTokens(
    logprobs: Tensor,
    lengths: Integers,
    options: SumTokensOptions & { out: 'device' | DeviceTensor },
  ): Promise<TokenSums<DeviceTensor>>;
  async sumTokens(logprobs: Tensor, lengths: Integers, options?: SumTokensOptions): Promise<TokenSums>;
  async sumTokens(
    logprobs: Tensor,
    lengths: Integers,
    options: SumTokensOptions = {},
  ): Promise<TokenSums<HostTensor | DeviceTensor>> {
    return sumTokens(this.#core, logprobs, lengths, options);
  }

  /**
   * Token log-probs to row statistics in one call: `scoreStats` of the sums that `sumTokens` gives, which come along.
   * On a GPU the sums are read where they were made.
   * @param logprobs as for sumTokens
   * @param lengths tokens of each row, 0 to T
   * @param options `out: 'device'` computes on the GPU, wherever the log-probs are, and leaves the statistics and the
   *   sums there; `lengths` and `firstInvalid` are on the host
   * @throws with `out: 'device'` also DeviceError: `out_of_memory`, or the engine has no GPU
   */
  async tokenRowStats(
    logprobs: Tensor,
    lengths: Integers,
    options: DeviceTokenRowStatsOptions,
  ): Promise<DeviceTokenRowStats>;
  async tokenRowStats(logprobs: Tensor, lengths: Integers, options: TokenRowStatsOptions): Promise<TokenRowStats>;
  async tokenRowStats(
    logprobs: Tensor,
    lengths: Integers,
    options: TokenRowStatsOptions | DeviceTokenRowStatsOptions,
  ): Promise<TokenRowStats | DeviceTokenRowStats> {
    return tokenRowStats(this.#core, logprobs, lengths, options);
  }

  /**
   * The same sums from log-probs that come in blocks: prompts × rows × tokens of any size, in any order. See
   * TokenSumsSink for what it holds meanwhile.
   * @throws ArgumentError, DisposedError; this one method throws at the call
   */
  tokenSumsSink(options: TokenSumsSinkOptions): TokenSumsSink {
    this.#core.expectOpen('tokenSumsSink');
    return new TokenSumsSink(async () => this, checkSinkOptions(options), options.signal);
  }

  /**
   * As sumTokens, bit for bit, of scores in a local file: the engine's threads read it piece by piece and sum each
   * piece while it is in their cache, so that nothing but the sums takes memory.
   * @param lengths tokens of each row, 0 to T; what lies beyond them may be missing at the file's end
   * @returns sums float64 [R, P]; the first used log-prob that is NaN or +inf
   * @throws FileError (as a rejection) where the file ends too early or cannot be read
   */
  sumFileTokens(
    scores: FileScores,
    lengths: Integers,
    options: SumFileTokensOptions = {},
  ): Promise<Pick<TokenSums, 'sums' | 'firstInvalid'>> {
    return sumFileTokens(this.#core, scores, lengths, options);
  }

  /**
   * Log-sum-exp, entropy, target log-prob, argmax and rank of each row of vocabulary logits, in one pass over them and
   * with nothing stored in between. Log-sum-exp errs by at most 3e-7 and half a unit in the last place of its size in
   * the input's type, entropy by 1e-6; float64 input is computed in float64. docs/reference/logits.md has details.
   * @param logits [N, V], any dtype and strides; fastest where a row's logits lie side by side
   * @param options `out: 'device'` (or `{ device: fields }`) computes on the GPU, wherever the logits are, and leaves
   *   the fields there
   * @returns in nats: one Float64Array (log-probs, entropies) or Int32Array (columns, counts) a field; with
   *   `out: 'device'` a DeviceTensor [N] of float64 or int32, to be disposed
   * @throws with `out: 'device'` also DeviceError: `out_of_memory`, or the engine has no GPU
   */
  async logitStats(logits: Tensor, options: DeviceLogitStatsOptions): Promise<DeviceLogitStats>;
  async logitStats(logits: Tensor, options?: LogitStatsOptions): Promise<LogitStats>;
  async logitStats(
    logits: Tensor,
    options: LogitStatsOptions | DeviceLogitStatsOptions = {},
  ): Promise<LogitStats | DeviceLogitStats> {
    return logitStats(this.#core, logits, options);
  }

  /**
   * Statistics of each row of a score matrix: what its own column, all columns and the others say
   * (docs/reference/metrics.md).
   * @param sums [R, P] log-prob sums in nats, any dtype and strides
   * @param options `out: 'device'` computes on the GPU, wherever the sums are, and leaves the statistics there: a
   *   DeviceTensor [R] ([R, topK] the top columns) of float64 or int32 in place of each array, to be disposed
   * @throws with `out: 'device'` also DeviceError: `out_of_memory`, or the engine has no GPU
   */
  async scoreStats(sums: Tensor, options: DeviceScoreStatsOptions): Promise<DeviceRowStats>;
  async scoreStats(sums: Tensor, options: ScoreStatsOptions): Promise<RowStats>;
  async scoreStats(
    sums: Tensor,
    options: ScoreStatsOptions | DeviceScoreStatsOptions,
  ): Promise<RowStats | DeviceRowStats> {
    return scoreStats(this.#core, sums, options);
  }

  /** Picked rows and columns (default: all) of a score matrix [R, P], as a dense float64 tensor. Indices may repeat. */
  gatherScores(sums: Tensor, options: GatherOptions = {}): Promise<HostTensor> {
    return gatherScores(this.#core, sums, options);
  }

  /**
   * Exact moments over the rows of one step.
   * @param stats as scoreStats gave them
   */
  stepMoments(stats: RowStats, labels: RowLabels & OperationOptions): Promise<StepMoments> {
    return stepMoments(this.#core, stats, labels);
  }

  /**
   * Intervals and permutation p-values of a step's figures (docs/reference/intervals.md).
   * @param sums dense float64 [R, P], every row with finite matched and marginal values
   * @param stats of these very rows
   */
  inferStep(sums: Tensor, stats: RowStats, options: InferenceOptions): Promise<StepInference> {
    return inferStep(this.#core, sums, stats, options);
  }

  /**
   * What a step's rows say of each prompt, and the P×P matrices of how likely the rows of prompt i are under prompt p.
   * Cost O(R·P); always on the CPU.
   * @param sums dense float64 [R, P], every row with finite matched and marginal values
   * @param stats of these very rows
   */
  promptMatrices(sums: Tensor, stats: RowStats, options: PromptMatricesOptions): Promise<PromptMatrices> {
    return promptMatrices(this.#core, sums, stats, options);
  }

  /**
   * The figures of a step with only some (row, column) pairs scored, with intervals that cover the drawing of
   * negatives (docs/guide/cheaper-scoring.md). Neither the order of the pairs nor the number of threads changes a bit.
   * @param pairs read in place; not to be written before this has ended
   */
  inferPairs(pairs: SampledPairs, options: PairInferenceOptions): Promise<PairInference> {
    return inferPairs(this.#core, pairs, options);
  }

  /**
   * How much a step's texts depend on their prompts, and what they look like (docs/reference/text-figures.md). Texts
   * are copied at the call.
   * @param rows one entry a row, in any order: it does not change a bit
   */
  textFigures(rows: TextRows, options: TextFiguresOptions): Promise<TextFigures> {
    return textFigures(this.#core, rows, options);
  }

  /**
   * How much of a step's texts is made of given phrases, such as those of a later step.
   * @param phrases texts, or token ids where the rows are token ids
   * @returns for each phrase the mean over used rows of the share of tokens that lie in it; NaN if the step has no
   *   figures
   */
  phraseShares(
    rows: TextRows,
    phrases: readonly (Text | Integers)[],
    options: OperationOptions = {},
  ): Promise<Float64Array> {
    return phraseShares(this.#core, rows, phrases, options);
  }

  /** Cancels what runs (it rejects with DisposedError) and ends the threads. Results and `alloc`ed memory stay. */
  dispose(): Promise<void> {
    return this.#core.dispose();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}
