// The engine: typed operations on score tensors, computed by native threads of its own.

import { getSystemErrorName } from 'node:util';
import { checkCount, checkOptions, OPERATION_OPTIONS, optionNames } from '../checks/argument-checks.js';
import { ArgumentError, DeviceError, DisposedError } from '../checks/errors.js';
import type { OperationOptions } from '../checks/operation-options.js';
import type { DeviceImport } from './device/device-import.js';
import type { DeviceMemory } from './device/device-memory.js';
import { EngineDevice, type Placement } from './device/engine-device.js';
import { allocTensor, type HeldBuffers, maxBufferBytes, noteEngineMemory } from './memory.js';
import type { NativeAddon, NativeEngine, NativeResults, Settle, ShuffleCount } from './native.js';
import { LOGIT_OPTIONS, logitArguments } from './operations/logit-options.js';
import type {
  DeviceLogitStats,
  DeviceLogitStatsOptions,
  DeviceRowStats,
  DeviceScoreStatsOptions,
  DeviceTokenRowStats,
  DeviceTokenRowStatsOptions,
  EngineInfo,
  FileScores,
  GatherOptions,
  InferenceOptions,
  LogitStats,
  LogitStatsOptions,
  RowLabels,
  RowStats,
  ScoreStatsOptions,
  StepInference,
  StepMoments,
  SumFileTokensOptions,
  SumTokensOptions,
  TokenRowStats,
  TokenRowStatsOptions,
  TokenSums,
} from './operations/operations.js';
import { inferenceFrom, momentsFrom } from './operations/packed-results.js';
import { statsArguments, statsExtents } from './operations/row-stats-arguments.js';
import { labelArguments, maxTopK, staysOnDevice, topKOf } from './operations/score-options.js';
import {
  phraseArguments,
  type Text,
  type TextFigures,
  type TextFiguresOptions,
  type TextRows,
  textFiguresFrom,
  textRowsArguments,
} from './operations/text-rows.js';
import { RunningJobs } from './running-jobs.js';
import type { DeviceTensor } from './tensor/device-tensor.js';
import { copiedIntegers, integerArray, optionalIntegers } from './tensor/integers.js';
import type { DType, HostTensor, Integers, Tensor } from './tensor/tensor.js';
import { matrixArguments, tokenArguments } from './tensor/tensor-arguments.js';
import {
  checkDType,
  checkShape,
  dtypeCode,
  type HostView,
  viewDenseFloat64,
  viewHostTensor,
  viewTensor,
} from './tensor/tensor-view.js';
import { BlockTaker } from './tokens/block-taker.js';
import { FileReadError } from './tokens/file-read-error.js';
import { checkFileScores } from './tokens/file-scores.js';
import { TokenSumsSink, type TokenSumsSinkOptions } from './tokens/token-sums-sink.js';

const OPERATION = { signal: true, onProgress: true } as const;
const LABELS = { own: true, lengths: true, signatures: true } as const;

const SUM_OPTIONS = optionNames<SumTokensOptions>({ offsets: true, out: true, columns: true, ...OPERATION });
const TOKEN_STATS_OPTIONS = optionNames<DeviceTokenRowStatsOptions>({
  own: true,
  offsets: true,
  signatures: true,
  topK: true,
  out: true,
  ...OPERATION,
});
const FILE_OPTIONS = optionNames<SumFileTokensOptions>({ out: true, ...OPERATION });
const STATS_OPTIONS = optionNames<DeviceScoreStatsOptions>({ topK: true, out: true, ...LABELS, ...OPERATION });
const GATHER_OPTIONS = optionNames<GatherOptions>({ rows: true, columns: true, ...OPERATION });
const MOMENTS_OPTIONS = optionNames<RowLabels & OperationOptions>({ ...LABELS, ...OPERATION });
const INFERENCE_OPTIONS = optionNames<InferenceOptions>({
  permutations: true,
  seed: true,
  ...LABELS,
  ...OPERATION,
});
const TEXT_OPTIONS = optionNames<TextFiguresOptions>({ permutations: true, seed: true, ...OPERATION });

const tokenShapes = 'padded [P, R, T] or packed [P, N]';

/**
 * Computes on score tensors. Operations run one after the other in the order of their calls, off the event loop and off
 * libuv's thread pool. Every operation rejects, and never throws: with ArgumentError for a bad argument, with
 * DisposedError after dispose(), with `signal.reason` when aborted, with DeviceError `out_of_memory` where the machine
 * does not have the memory for a job.
 *
 * Input memory must not be written while a job reads it: results are then undefined (but nothing crashes). Large inputs
 * are read in place; how they are kept from going away is told in memory.ts.
 */
export class Engine {
  /** Where it computes, with what, and why not on a GPU. */
  readonly info: EngineInfo;
  /** @internal What TokenSumsSink computes with. */
  readonly blocks: BlockTaker;
  /** @internal Counts behind the p-values of actions, on the CPU whatever the engine's device: for readEvidenceOn(). */
  readonly countShuffles: (count: ShuffleCount, options: OperationOptions) => Promise<unknown>;
  readonly #native: NativeEngine;
  readonly #jobs: RunningJobs;
  readonly #device: EngineDevice | undefined;
  #closed: Promise<void> | undefined;

  private constructor(addon: NativeAddon, { fallback, chosen }: Placement, threads: number) {
    this.#native = new addon.NativeEngine(threads, maxBufferBytes);
    this.#jobs = new RunningJobs(addon);
    this.blocks = new BlockTaker(this.#native, this.#jobs, (operation) => this.#expectOpen(operation));
    this.countShuffles = async ({ kind, given }, options) => {
      this.#begin('readEvidenceOn', options);
      const start = this.#native[kind] as (settle: Settle, ...rest: unknown[]) => number;
      return this.#jobs.run(
        'readEvidenceOn',
        options,
        (settle) => start.call(this.#native, settle, ...given),
        (found) => found,
      );
    };
    this.#device = chosen && new EngineDevice(this.#native, this.#jobs, chosen);
    this.info = Object.freeze({
      device: this.#device?.name ?? 'cpu',
      gpu: this.#device?.gpu ?? null,
      isa: addon.isa(),
      isaAvailable: Object.freeze(addon.isaAvailable()),
      threads,
      fallback,
    });
  }

  /** @internal */
  static async open(
    addon: NativeAddon,
    placement: Placement,
    threads: number,
    signal: AbortSignal | undefined,
  ): Promise<Engine> {
    let engine: Engine;
    try {
      engine = new Engine(addon, placement, threads);
    } catch (error) {
      throw new DeviceError((error as Error).message, { cause: error });
    }
    try {
      await engine.#jobs.run(
        'openEngine',
        { signal },
        (settle) => engine.#native.start(settle),
        () => undefined,
      );
      // A GPU that was asked for is opened now, so that what goes wrong with it is said here.
      if (engine.#device?.takesHostTensors) await engine.#device.open({ signal });
    } catch (error) {
      await engine.dispose();
      throw error;
    }
    return engine;
  }

  /**
   * A row-major tensor of zeros over memory that operations read and write in place. It outlives the engine.
   * @throws ArgumentError for a bad dtype or shape, or if the memory cannot be had; DisposedError
   */
  alloc(dtype: DType, shape: readonly number[]): HostTensor {
    this.#expectOpen('alloc');
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
    this.#begin('allocDevice', options);
    checkDType(dtype, 'dtype');
    const { shape: copy, elements } = checkShape(shape, 'shape');
    return this.#gpu('allocDevice').alloc(dtype, copy, elements, options);
  }

  /**
   * A copy of a host tensor on the engine's GPU, with the same strides. Dispose it.
   * @throws ArgumentError (a negative stride), DeviceError: `out_of_memory`, or the engine has no GPU
   */
  async upload(tensor: Tensor, options: OperationOptions = {}): Promise<DeviceTensor> {
    this.#begin('upload', options);
    const view = viewHostTensor(tensor, 'tensor', 'a tensor of any number of axes');
    return this.#gpu('upload').upload(view, options);
  }

  /**
   * A tensor in another process's memory of the engine's GPU, by its CUDA IPC handle and without a copy (docs/guide/gpu.md).
   * The other process must keep the memory until this tensor is disposed. Nothing reads it before the event has
   * happened.
   * @throws ArgumentError for what no handle can be, DeviceError `bad_handle` for what the driver does not accept
   */
  async importDevice(source: DeviceImport, options: OperationOptions = {}): Promise<DeviceTensor> {
    this.#begin('importDevice', options);
    return this.#gpu('importDevice').import(source, options);
  }

  /** Memory of the engine's GPU, in bytes: what is free for everybody, and all. */
  async deviceMemory(options: OperationOptions = {}): Promise<{ freeBytes: number; totalBytes: number }> {
    this.#begin('deviceMemory', options);
    return this.#gpu('deviceMemory').memory(options);
  }

  /**
   * Sums token log-probs (nats) over each row's valid tokens, in float64 whatever the dtype.
   * @param logprobs padded [P, R, T], of which the first `lengths[r]` tokens of row r are read; or packed [P, N], where
   *   row r stands at `options.offsets[r]` (default: the rows follow one another)
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
    this.#begin('sumTokens', options, SUM_OPTIONS);
    const view = viewTensor(logprobs, 'logprobs', [2, 3], tokenShapes, this.#device, 'sumTokens');
    const columns = optionalIntegers(options.columns, 'options.columns');
    const tokens = tokenArguments(view, lengths, options.offsets);
    const rows = view.shape.length === 2 ? lengths.length : (view.shape[1] as number);
    const { out, signal } = options;
    const shape = [rows, view.shape[0] as number];
    const target = out === 'device' ? await this.allocDevice('float64', shape, { signal }) : out;
    const outView =
      target === undefined ? undefined : viewDenseFloat64(target, 'options.out', this.#device, 'sumTokens');
    const running = this.#jobs.run<NativeResults['sumTokens'], TokenSums<HostTensor | DeviceTensor>>(
      'sumTokens',
      options,
      (settle, held) =>
        this.#native.sumTokens(
          settle,
          ...tokens(held),
          columns,
          outView?.shape[0] ?? 0,
          outView?.shape[1] ?? 0,
          outView?.data as Float64Array | DeviceMemory | undefined,
        ),
      ({ sums, lengths: rowLengths, firstInvalid }) => {
        noteEngineMemory(rowLengths);
        return {
          sums: (target as HostTensor | undefined) ?? { data: sums as Float64Array, dtype: 'float64', shape },
          lengths: rowLengths,
          firstInvalid,
        };
      },
    );
    if (out === 'device') running.catch(() => (target as DeviceTensor).dispose());
    return running;
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
    this.#begin('tokenRowStats', options, TOKEN_STATS_OPTIONS);
    const onDevice = staysOnDevice(options);
    const view = viewTensor(logprobs, 'logprobs', [2, 3], tokenShapes, this.#device, 'tokenRowStats');
    const topK = topKOf(options);
    const { own, signatures, signal, offsets } = options;
    if (typeof view.data !== 'number' && !this.#device?.takesHostTensors && !onDevice) {
      const labels = {
        own: copiedIntegers(own, 'options.own'),
        signatures: signatures === undefined ? undefined : copiedIntegers(signatures, 'options.signatures'),
      };
      const host: Tensor = { data: view.data, dtype: view.dtype, shape: view.shape, strides: view.strides };
      const summed = await this.sumTokens(host, lengths, { offsets, signal, onProgress: options.onProgress });
      const stats = await this.scoreStats(summed.sums, { ...labels, lengths: summed.lengths, topK, signal });
      return { ...summed, stats };
    }
    const tokens = tokenArguments(view, lengths, offsets);
    const ownColumns = integerArray(own, 'options.own');
    const columnSignatures = optionalIntegers(signatures, 'options.signatures');
    const start = (settle: Settle, held: HeldBuffers): number =>
      this.#native.tokenRowStats(settle, ...tokens(held), ownColumns, columnSignatures, topK, true, onDevice);
    if (onDevice) return this.#gpu('tokenRowStats').keep<DeviceTokenRowStats>('tokenRowStats', options, start);
    return this.#jobs.run<NativeResults['tokenRowStats'], TokenRowStats>(
      'tokenRowStats',
      options,
      start,
      ({ stats, sums, lengths: rowLengths, firstInvalid }) => {
        noteEngineMemory(stats.matchedSeq);
        noteEngineMemory(rowLengths);
        const shape = [stats.rows, stats.columns];
        const host: HostTensor = { data: sums as Float64Array, dtype: 'float64', shape };
        return { stats, sums: host, lengths: rowLengths, firstInvalid };
      },
    );
  }

  /**
   * The same sums from log-probs that come in blocks: prompts × rows × tokens of any size, in any order. See
   * TokenSumsSink for what it holds meanwhile.
   * @throws ArgumentError, DisposedError; this one method throws at the call
   */
  tokenSumsSink(options: TokenSumsSinkOptions): TokenSumsSink {
    this.#expectOpen('tokenSumsSink');
    return new TokenSumsSink(async () => this, options);
  }

  /**
   * As sumTokens, bit for bit, of scores in a local file: the engine's threads read it piece by piece and sum each
   * piece while it is in their cache, so that nothing but the sums takes memory.
   * @param lengths tokens of each row, 0 to T; what lies beyond them may be missing at the file's end
   * @returns sums float64 [R, P]; the first used log-prob that is NaN or +inf
   * @throws FileReadError (as a rejection) where the file ends too early or cannot be read
   */
  async sumFileTokens(
    scores: FileScores,
    lengths: Integers,
    options: SumFileTokensOptions = {},
  ): Promise<Pick<TokenSums, 'sums' | 'firstInvalid'>> {
    this.#begin('sumFileTokens', options, FILE_OPTIONS);
    const { fd, offset, dtype, prompts, rows, tokens } = checkFileScores(scores);
    const rowLengths = integerArray(lengths, 'lengths');
    const out = options.out;
    const outView = out === undefined ? undefined : viewDenseFloat64(out, 'options.out');
    return this.#jobs.run<NativeResults['sumFileTokens'], Pick<TokenSums, 'sums' | 'firstInvalid'>>(
      'sumFileTokens',
      options,
      (settle) =>
        this.#native.sumFileTokens(
          settle,
          fd,
          offset,
          dtypeCode(dtype),
          prompts,
          rows,
          tokens,
          rowLengths,
          outView?.shape[0] ?? 0,
          outView?.shape[1] ?? 0,
          outView?.data as Float64Array | undefined,
        ),
      ({ sums, firstInvalid, failure }) => {
        if (failure !== null) {
          throw new FileReadError(failure.error === 0 ? undefined : getSystemErrorName(-failure.error), failure.offset);
        }
        if (out !== undefined) return { sums: out, firstInvalid };
        const data = noteEngineMemory(sums as Float64Array);
        return { sums: { data, dtype: 'float64', shape: [rows, prompts] }, firstInvalid };
      },
    );
  }

  /**
   * Log-sum-exp, entropy, target log-prob, argmax and rank of each row of vocabulary logits, in one pass over them and
   * with nothing stored in between. Log-sum-exp errs by at most 3e-7 and half a unit in the last place of its size in
   * the input's type, entropy by 1e-6; float64 input is computed in float64. docs/reference/logits.md tells more.
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
    this.#begin('logitStats', options, LOGIT_OPTIONS);
    const view = viewTensor(logits, 'logits', [2], 'logits [N, V]', this.#device, 'logitStats');
    const rest = logitArguments(options);
    const onDevice = rest[6];
    const start = (settle: Settle, held: HeldBuffers): number =>
      this.#native.logitStats(settle, ...matrixArguments(view, 'logits', held), ...rest);
    if (onDevice) {
      return this.#gpu('logitStats').keep<DeviceLogitStats>('logitStats', options, start);
    }
    return this.#jobs.run<NativeResults['logitStats'], LogitStats>('logitStats', options, start, (native) => {
      const present = Object.entries(native).filter(([, value]) => value !== undefined);
      for (const [, value] of present) if (ArrayBuffer.isView(value)) noteEngineMemory(value);
      return Object.fromEntries(present) as unknown as LogitStats;
    });
  }

  /**
   * Statistics of each row of a score matrix: what its own column, all columns and the others say (docs/reference/metrics.md).
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
    this.#begin('scoreStats', options, STATS_OPTIONS);
    const onDevice = staysOnDevice(options);
    const view = viewTensor(sums, 'sums', [2], 'scores [R, P]', this.#device, 'scoreStats');
    const labels = labelArguments(options, 'options');
    const topK = topKOf(options);
    const start = (settle: Settle, held: HeldBuffers): number =>
      this.#native.scoreStats(settle, ...matrixArguments(view, 'sums', held), ...labels, topK, onDevice);
    if (onDevice) return this.#gpu('scoreStats').keep<DeviceRowStats>('scoreStats', options, start);
    return this.#jobs.run<NativeResults['scoreStats'], RowStats>('scoreStats', options, start, (stats) => {
      noteEngineMemory(stats.matchedSeq);
      return stats;
    });
  }

  /** Picked rows and columns (default: all) of a score matrix [R, P], as a dense float64 tensor. Indices may repeat. */
  async gatherScores(sums: Tensor, options: GatherOptions = {}): Promise<HostTensor> {
    this.#begin('gatherScores', options, GATHER_OPTIONS);
    const view = viewHostTensor(sums, 'sums', 'scores [R, P]', [2]);
    const rows = optionalIntegers(options.rows, 'options.rows');
    const columns = optionalIntegers(options.columns, 'options.columns');
    return this.#jobs.run<NativeResults['gatherScores'], HostTensor>(
      'gatherScores',
      options,
      (settle, held) => this.#native.gatherScores(settle, ...matrixArguments(view, 'sums', held), rows, columns),
      (gathered) => ({
        data: noteEngineMemory(gathered.data),
        dtype: 'float64',
        shape: [gathered.rows, gathered.columns],
      }),
    );
  }

  /**
   * Exact moments over the rows of one step.
   * @param stats as scoreStats gave them, with topK >= 1
   */
  async stepMoments(stats: RowStats, labels: RowLabels & OperationOptions): Promise<StepMoments> {
    this.#begin('stepMoments', labels, MOMENTS_OPTIONS, 'labels');
    const extents = statsExtents(stats);
    const labelArrays = labelArguments(labels, 'labels');
    return this.#jobs.run<NativeResults['stepMoments'], StepMoments>(
      'stepMoments',
      labels,
      (settle, held) => this.#native.stepMoments(settle, ...statsArguments(stats, extents, held), ...labelArrays),
      momentsFrom,
    );
  }

  /**
   * Intervals and permutation p-values of a step's figures (docs/reference/intervals.md).
   * @param sums dense float64 [R, P], every row with finite matched and marginal values
   * @param stats of these very rows, with topK = min(8, P)
   */
  async inferStep(sums: Tensor, stats: RowStats, options: InferenceOptions): Promise<StepInference> {
    this.#begin('inferStep', options, INFERENCE_OPTIONS);
    const view = viewDenseFloat64(sums, 'sums') as HostView;
    const extents = statsExtents(stats);
    const [rows, columns, topK] = extents;
    if (view.shape[0] !== rows || view.shape[1] !== columns) {
      throw new ArgumentError('sums.shape', `got [${view.shape.join(', ')}], but stats are of [${rows}, ${columns}]`);
    }
    if (topK !== Math.min(maxTopK, columns)) {
      throw new ArgumentError('stats.topK', `got ${topK}, expected ${Math.min(maxTopK, columns)}`);
    }
    const labels = labelArguments(options, 'options');
    const { permutations, seed } = options;
    checkCount(permutations, 'options.permutations');
    checkCount(seed, 'options.seed');
    return this.#jobs.run<NativeResults['inferStep'], StepInference>(
      'inferStep',
      options,
      (settle, held) =>
        this.#native.inferStep(
          settle,
          view.data,
          held.protect(view.data, 'sums'),
          ...statsArguments(stats, extents, held),
          ...labels,
          permutations,
          seed,
        ),
      inferenceFrom,
    );
  }

  /**
   * How much a step's texts depend on their prompts, and what they look like (docs/reference/text-figures.md). Texts are copied
   * at the call.
   * @param rows one entry a row, in any order: it does not change a bit
   */
  async textFigures(rows: TextRows, options: TextFiguresOptions): Promise<TextFigures> {
    this.#begin('textFigures', options, TEXT_OPTIONS);
    const { permutations, seed } = options;
    checkCount(permutations, 'options.permutations');
    checkCount(seed, 'options.seed');
    const { arguments: given, count } = textRowsArguments(rows);
    return this.#jobs.run<NativeResults['textFigures'], TextFigures>(
      'textFigures',
      options,
      (settle) => this.#native.textFigures(settle, ...given, permutations, seed),
      (native) => textFiguresFrom(native, count),
    );
  }

  /**
   * How much of a step's texts is made of given phrases, such as those of a later step.
   * @param phrases texts, or token ids where the rows are token ids
   * @returns for each phrase the mean over used rows of the share of tokens that lie in it; NaN where the step has no
   *   figures
   */
  async phraseShares(
    rows: TextRows,
    phrases: readonly (Text | Integers)[],
    options: OperationOptions = {},
  ): Promise<Float64Array> {
    this.#begin('phraseShares', options);
    const { arguments: given } = textRowsArguments(rows);
    const wanted = phraseArguments(phrases, rows);
    return this.#jobs.run<NativeResults['phraseShares'], Float64Array>(
      'phraseShares',
      options,
      (settle) => this.#native.phraseShares(settle, ...given, ...wanted),
      (shares) => shares,
    );
  }

  /** Cancels what runs (it rejects with DisposedError) and ends the threads. Results and `alloc`ed memory stay. */
  dispose(): Promise<void> {
    if (this.#closed === undefined) {
      this.#closed = new Promise((resolve) => {
        this.#device?.close();
        this.#native.close(() => resolve());
      });
      this.#jobs.dispose();
    }
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  #expectOpen(operation: string): void {
    if (this.#closed !== undefined) throw new DisposedError(operation);
  }

  #gpu(operation: string): EngineDevice {
    if (this.#device !== undefined) return this.#device;
    const why = this.info.fallback ?? `it was opened with device '${this.info.device}'`;
    throw new DeviceError(`${operation}: this engine has no GPU: ${why}`, { reason: 'no_device' });
  }

  #begin(operation: string, options: OperationOptions, known = OPERATION_OPTIONS, argument = 'options'): void {
    this.#expectOpen(operation);
    checkOptions(options, known, argument);
    options.signal?.throwIfAborted();
  }
}
