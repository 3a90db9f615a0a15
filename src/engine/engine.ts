// The engine: typed operations on score tensors, computed by native threads of its own.
import { availableParallelism } from 'node:os';
import { getSystemErrorName, types } from 'node:util';
import { ArgumentError, DeviceError, DisposedError } from '../errors.js';
import {
  type LabelArguments,
  loadAddon,
  type MatrixArguments,
  type NativeAddon,
  type NativeEngine,
  type NativeResults,
  type RowStatsArguments,
} from './addon.js';
import { FileReadError } from './file-read-error.js';
import { integerArray, optionalIntegers } from './integers.js';
import { logitArguments } from './logit-options.js';
import { allocTensor, type HeldBuffers, maxBufferBytes, noteEngineMemory } from './memory.js';
import type {
  EngineInfo,
  FileScores,
  GatherOptions,
  InferenceOptions,
  LogitStats,
  LogitStatsOptions,
  OperationOptions,
  RowLabels,
  RowStats,
  ScoreStatsOptions,
  StepInference,
  StepMoments,
  SumFileTokensOptions,
  SumTokensOptions,
  TokenSums,
} from './operations.js';
import { checkOptions, RunningJobs } from './running-jobs.js';
import type { DType, Integers, Tensor } from './tensor.js';
import { checkDType, checkShape, dtypeCode, isDense, shown, type TensorView, viewTensor } from './tensor-view.js';
import { TokenSumsSink, type TokenSumsSinkOptions } from './token-sums-sink.js';

export interface EngineOptions {
  /** `auto` (default) takes the best there is and says in `info.fallback` why not a GPU; any other must be there. */
  device?: 'auto' | 'cpu' | 'cuda' | `cuda:${number}` | undefined;
  /** Threads that compute, 1 to 1024. Default: as many as the machine lets this process run at once. */
  threads?: number | undefined;
  signal?: AbortSignal | undefined;
}

const maxThreads = 1024;
const maxTopK = 8;
const rowStatsArrays = [
  'matchedSeq',
  'matchedToken',
  'marginalSeq',
  'marginalToken',
  'looMarginalSeq',
  'looMarginalToken',
  'posteriorEntropy',
  'argmax',
  'rankAbove',
  'rankEqual',
  'topColumns',
] as const;

/**
 * Opens an engine: loads the addon and starts its threads.
 * @throws ArgumentError, AddonError (no addon), DeviceError (the device asked for cannot be had), or `signal.reason`
 */
export async function openEngine(options: EngineOptions = {}): Promise<Engine> {
  checkOptions(options);
  const { device = 'auto', threads = Math.min(availableParallelism(), maxThreads), signal } = options;
  signal?.throwIfAborted();
  if (typeof device !== 'string' || !/^(auto|cpu|cuda|cuda:\d+)$/.test(device)) {
    throw new ArgumentError(
      'options.device',
      `got ${shown(device)}, expected 'auto', 'cpu', 'cuda' or 'cuda:<number>'`,
    );
  }
  if (!Number.isInteger(threads) || threads < 1 || threads > maxThreads) {
    throw new ArgumentError('options.threads', `got ${shown(threads)}, expected an integer from 1 to ${maxThreads}`);
  }
  if (device.startsWith('cuda')) {
    throw new DeviceError(`${device}: this build has no CUDA backend; use device 'cpu' or 'auto'`);
  }
  return Engine.open(loadAddon(), device === 'auto' ? 'this build has no CUDA backend' : null, threads, signal);
}

/**
 * Computes on score tensors. Operations run one after the other in the order of their calls, off the event loop and off
 * libuv's thread pool. Every operation rejects, and never throws: with ArgumentError for a bad argument, with
 * DisposedError after dispose(), with `signal.reason` when aborted.
 *
 * Input memory must not be written while a job reads it: results are then undefined (but nothing crashes). Large inputs
 * are read in place; how they are kept from going away is told in memory.ts.
 */
export class Engine {
  readonly info: EngineInfo;
  readonly #native: NativeEngine;
  readonly #jobs: RunningJobs;
  #closed: Promise<void> | undefined;

  private constructor(addon: NativeAddon, fallback: string | null, threads: number) {
    this.#native = new addon.NativeEngine(threads, maxBufferBytes);
    this.#jobs = new RunningJobs(addon);
    this.info = Object.freeze({
      device: 'cpu',
      isa: addon.isa(),
      isaAvailable: Object.freeze(addon.isaAvailable()),
      threads,
      fallback,
    });
  }

  /** @internal */
  static async open(
    addon: NativeAddon,
    fallback: string | null,
    threads: number,
    signal: AbortSignal | undefined,
  ): Promise<Engine> {
    let engine: Engine;
    try {
      engine = new Engine(addon, fallback, threads);
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
  alloc(dtype: DType, shape: readonly number[]): Tensor {
    this.#expectOpen('alloc');
    checkDType(dtype, 'dtype');
    const { shape: copy, elements } = checkShape(shape, 'shape');
    return allocTensor(dtype, copy, elements);
  }

  /**
   * Sums token log-probs (nats) over each row's valid tokens, in float64 whatever the dtype.
   * @param logprobs padded [P, R, T], of which the first `lengths[r]` tokens of row r are read; or packed [P, N], where
   *   row r stands at `options.offsets[r]` (default: the rows follow one another)
   * @param lengths tokens of each row, 0 to T
   */
  async sumTokens(logprobs: Tensor, lengths: Integers, options: SumTokensOptions = {}): Promise<TokenSums> {
    this.#begin('sumTokens', options);
    const view = viewTensor(logprobs, 'logprobs', [2, 3], 'padded [P, R, T] or packed [P, N]');
    const packed = view.shape.length === 2;
    const [prompts, rows, tokens] = packed ? [view.shape[0], 0, view.shape[1]] : view.shape;
    const [promptStride, rowStride, tokenStride] = packed ? [view.strides[0], 0, view.strides[1]] : view.strides;
    const rowLengths = integerArray(lengths, 'lengths');
    const offsets = optionalIntegers(options.offsets, 'options.offsets');
    const columns = optionalIntegers(options.columns, 'options.columns');
    const out = options.out;
    const outView = out === undefined ? undefined : denseFloat64(out, 'options.out');
    return this.#jobs.run<NativeResults['sumTokens'], TokenSums>(
      'sumTokens',
      options,
      (settle, held) =>
        this.#native.sumTokens(
          settle,
          view.data,
          view.code,
          held.protect(view.data, 'logprobs'),
          packed,
          prompts as number,
          rows as number,
          tokens as number,
          promptStride as number,
          rowStride as number,
          tokenStride as number,
          rowLengths,
          offsets,
          columns,
          outView?.shape[0] ?? 0,
          outView?.shape[1] ?? 0,
          outView?.data as Float64Array | undefined,
        ),
      ({ sums, lengths: rowLengths, firstInvalid }) => {
        noteEngineMemory(rowLengths);
        const shape = [rowLengths.length, prompts as number];
        return {
          sums: out ?? { data: sums as Float64Array, dtype: 'float64', shape },
          lengths: rowLengths,
          firstInvalid,
        };
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
   * As sumTokens, bit for bit, of scores in a local file: the engine's threads read it piece by piece and sum each piece
   * while it is in their cache, so that nothing but the sums takes memory.
   * @param lengths tokens of each row, 0 to T; what lies beyond them may be missing at the file's end
   * @returns sums float64 [R, P]; the first used log-prob that is NaN or +inf
   * @throws FileReadError (as a rejection) where the file ends too early or cannot be read
   */
  async sumFileTokens(
    scores: FileScores,
    lengths: Integers,
    options: SumFileTokensOptions = {},
  ): Promise<Pick<TokenSums, 'sums' | 'firstInvalid'>> {
    this.#begin('sumFileTokens', options);
    const { fd, offset, dtype, shape, prompts, rows, tokens } = fileScores(scores);
    const rowLengths = integerArray(lengths, 'lengths');
    const out = options.out;
    const outView = out === undefined ? undefined : denseFloat64(out, 'options.out');
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
        return { sums: { data: noteEngineMemory(sums as Float64Array), dtype: 'float64', shape }, firstInvalid };
      },
    );
  }

  /**
   * Log-sum-exp, entropy, target log-prob, argmax and rank of each row of vocabulary logits, in one pass over them and
   * with nothing stored in between. Log-sum-exp errs by at most 3e-7 and half a unit in the last place of its size in the
   * input's type, entropy by 1e-6; float64 input is computed in float64. docs/logits.md tells more.
   * @param logits [N, V], any dtype and strides; fastest where a row's logits lie side by side
   * @returns in nats: one Float64Array (log-probs, entropies) or Int32Array (columns, counts) a field
   */
  async logitStats(logits: Tensor, options: LogitStatsOptions = {}): Promise<LogitStats> {
    this.#begin('logitStats', options);
    const view = viewTensor(logits, 'logits', [2], 'logits [N, V]');
    const rest = logitArguments(options);
    return this.#jobs.run<NativeResults['logitStats'], LogitStats>(
      'logitStats',
      options,
      (settle, held) => this.#native.logitStats(settle, ...matrixArguments(view, 'logits', held), ...rest),
      (native) => {
        const present = Object.entries(native).filter(([, value]) => value !== undefined);
        for (const [, value] of present) if (ArrayBuffer.isView(value)) noteEngineMemory(value);
        return Object.fromEntries(present) as unknown as LogitStats;
      },
    );
  }

  /**
   * Statistics of each row of a score matrix: what its own column, all columns and the others say (metrics.md §2).
   * @param sums [R, P] log-prob sums in nats, any dtype and strides
   */
  async scoreStats(sums: Tensor, options: ScoreStatsOptions): Promise<RowStats> {
    this.#begin('scoreStats', options);
    const view = viewTensor(sums, 'sums', [2], 'scores [R, P]');
    const labels = labelArguments(options, 'options');
    const topK = options.topK ?? maxTopK;
    if (!Number.isInteger(topK) || topK < 0 || topK > maxTopK) {
      throw new ArgumentError('options.topK', `got ${shown(topK)}, expected an integer from 0 to ${maxTopK}`);
    }
    return this.#jobs.run<NativeResults['scoreStats'], RowStats>(
      'scoreStats',
      options,
      (settle, held) => this.#native.scoreStats(settle, ...matrixArguments(view, 'sums', held), ...labels, topK),
      (stats) => {
        noteEngineMemory(stats.matchedSeq);
        return stats;
      },
    );
  }

  /** Picked rows and columns (default: all) of a score matrix [R, P], as a dense float64 tensor. Indices may repeat. */
  async gatherScores(sums: Tensor, options: GatherOptions = {}): Promise<Tensor> {
    this.#begin('gatherScores', options);
    const view = viewTensor(sums, 'sums', [2], 'scores [R, P]');
    const rows = optionalIntegers(options.rows, 'options.rows');
    const columns = optionalIntegers(options.columns, 'options.columns');
    return this.#jobs.run<NativeResults['gatherScores'], Tensor>(
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
    this.#begin('stepMoments', labels, 'labels');
    const extents = statsExtents(stats);
    const labelArrays = labelArguments(labels, 'labels');
    return this.#jobs.run<NativeResults['stepMoments'], StepMoments>(
      'stepMoments',
      labels,
      (settle, held) => this.#native.stepMoments(settle, ...statsArguments(stats, extents, held), ...labelArrays),
      (moments) => moments,
    );
  }

  /**
   * Intervals and permutation p-values of a step's figures (metrics.md §3.8).
   * @param sums dense float64 [R, P], every row with finite matched and marginal values
   * @param stats of these very rows, with topK = min(8, P)
   */
  async inferStep(sums: Tensor, stats: RowStats, options: InferenceOptions): Promise<StepInference> {
    this.#begin('inferStep', options);
    const view = denseFloat64(sums, 'sums');
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
    for (const [name, value] of Object.entries({ permutations, seed })) {
      if (!Number.isSafeInteger(value) || value < 0) {
        throw new ArgumentError(`options.${name}`, `got ${shown(value)}, expected an integer of 0 or more`);
      }
    }
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
      (inference) => inference,
    );
  }

  /** Cancels what runs (it rejects with DisposedError) and ends the threads. Results and `alloc`ed memory stay. */
  dispose(): Promise<void> {
    if (this.#closed === undefined) {
      this.#closed = new Promise((resolve) => {
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

  #begin(operation: string, options: OperationOptions, argument = 'options'): void {
    this.#expectOpen(operation);
    checkOptions(options, argument);
    options.signal?.throwIfAborted();
  }
}

function denseFloat64(tensor: Tensor, argument: string): TensorView {
  const view = viewTensor(tensor, argument, [2], '[rows, columns]');
  if (view.dtype !== 'float64') throw new ArgumentError(`${argument}.dtype`, `got ${view.dtype}, expected float64`);
  if (!isDense(view)) throw new ArgumentError(`${argument}.strides`, 'expected a dense row-major tensor');
  return view;
}

function fileScores(scores: FileScores) {
  if (scores === null || typeof scores !== 'object') {
    throw new ArgumentError('scores', `got ${shown(scores)}, expected { fd, offset, dtype, shape }`);
  }
  const { fd, offset, dtype } = scores;
  for (const [name, value] of Object.entries({ fd, offset })) {
    if (!Number.isSafeInteger(value) || value < 0) {
      throw new ArgumentError(`scores.${name}`, `got ${shown(value)}, expected an integer of 0 or more`);
    }
  }
  checkDType(dtype, 'scores.dtype');
  const { shape, elements } = checkShape(scores.shape, 'scores.shape');
  const [prompts, rows, tokens] = shape;
  if (prompts === undefined || rows === undefined || tokens === undefined || shape.length !== 3) {
    throw new ArgumentError('scores.shape', `got [${shape.join(', ')}], expected [P, R, T]`);
  }
  if (!Number.isSafeInteger(offset + 8 * elements)) {
    throw new ArgumentError('scores.shape', `[${shape.join(', ')}] has more bytes than a file can hold`);
  }
  return { fd, offset, dtype, shape: [rows, prompts], prompts, rows, tokens };
}

function matrixArguments(view: TensorView, argument: string, held: HeldBuffers): MatrixArguments {
  const [rows, columns] = view.shape as [number, number];
  const [rowStride, columnStride] = view.strides as [number, number];
  return [view.data, view.code, held.protect(view.data, argument), rows, columns, rowStride, columnStride];
}

function labelArguments(labels: RowLabels, argument: string): LabelArguments {
  return [
    integerArray(labels.own, `${argument}.own`),
    integerArray(labels.lengths, `${argument}.lengths`),
    optionalIntegers(labels.signatures, `${argument}.signatures`),
  ];
}

type StatsExtents = [rows: number, columns: number, topK: number];

function statsExtents(stats: RowStats): StatsExtents {
  if (stats === null || typeof stats !== 'object') {
    throw new ArgumentError('stats', `got ${shown(stats)}, expected what scoreStats() gave`);
  }
  const { rows, columns, topK } = stats;
  for (const [name, value] of Object.entries({ rows, columns, topK })) {
    if (!Number.isSafeInteger(value) || value < 0) {
      throw new ArgumentError(`stats.${name}`, `got ${shown(value)}, expected an integer of 0 or more`);
    }
  }
  const most = Math.min(maxTopK, columns);
  if (topK > most || (rows > 0 && columns > 0 && topK === 0)) {
    throw new ArgumentError('stats.topK', `got ${topK}, expected 1 to ${most}: pass topK to scoreStats()`);
  }
  return [rows, columns, topK];
}

function statsArguments(stats: RowStats, extents: StatsExtents, held: HeldBuffers): RowStatsArguments {
  const flat: (Float64Array | Int32Array | boolean)[] = [];
  for (const name of rowStatsArrays) {
    const array = stats[name];
    if (!types.isFloat64Array(array) && !types.isInt32Array(array)) {
      throw new ArgumentError(`stats.${name}`, `got ${shown(array)}, expected what scoreStats() gave`);
    }
    flat.push(array, held.protect(array, `stats.${name}`));
  }
  return [...extents, ...flat];
}
