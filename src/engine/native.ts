// Types of the addon's exports: the methods of native/node, their arguments and results.
import type { DeviceProblem } from '../checks/errors.js';
import type { DeviceMemory } from './device/device-memory.js';
import type { LogitStats } from './operations/logit-fields.js';
import type { RowStats } from './operations/row-stats.js';
import type { TensorData } from './tensor/tensor.js';

/** Integers on their way to native code, which copies and checks them. */
export type IntegerArray = Int32Array | BigInt64Array | Float64Array;

/** What is wrong with the GPU, or that the machine's own memory was not enough (native/node/memory_shortage.h). */
export type NativeProblem = DeviceProblem | 'no_memory';

/**
 * How a job ended: 0 done (value: result), 1 cancelled, 2 failed (value: message; argument: whose fault, or ''; reason:
 * what was wrong, or '', with what was asked for and free where memory was not enough).
 */
export type Settle = (
  outcome: 0 | 1 | 2,
  value: unknown,
  argument: string,
  reason: NativeProblem | '',
  askedBytes: number | undefined,
  freeBytes: number | undefined,
) => void;

/** The eleven arrays of a RowStats, each followed by whether its memory is protected (see `holdBuffer`). */
export type RowStatsArguments = [rows: number, columns: number, ...arrays: (Float64Array | Int32Array | boolean)[]];

export type LabelArguments = [own: IntegerArray, lengths: IntegerArray, signatures: IntegerArray | undefined];
export type MatrixArguments = [
  data: TensorData | DeviceMemory,
  dtype: number,
  isProtected: boolean,
  rows: number,
  columns: number,
  rowStride: number,
  columnStride: number,
];

export type TokenArguments = [
  data: TensorData | DeviceMemory,
  dtype: number,
  isProtected: boolean,
  packed: boolean,
  prompts: number,
  rows: number,
  tokens: number,
  promptStride: number,
  rowStride: number,
  tokenStride: number,
  lengths: IntegerArray,
  offsets: IntegerArray | undefined,
];

export type LogitArguments = [
  fields: number,
  temperature: number,
  targets: IntegerArray | undefined,
  mask: IntegerArray | undefined,
  lengths: IntegerArray | undefined,
  offsets: IntegerArray | undefined,
  outOnDevice: boolean,
];

/** What native/engine/inference/shuffled_actions.h counts, of what. */
export interface ShuffleArguments {
  actionDependence: [
    kinds: Int32Array,
    byPrompt: Int32Array,
    sizes: Int32Array,
    growth: Float64Array,
    kindCount: number,
    shuffles: number,
    state: Uint32Array,
  ];
  /** `squares` is read in place: its buffer is nobody else's. */
  matchedOrders: [squares: Float64Array, sizes: Int32Array, least: number, shuffles: number, state: Uint32Array];
  periodicEpisodes: [actions: Int32Array, lengths: Int32Array, shuffles: number, state: Uint32Array];
}
export interface ShuffleCounts {
  actionDependence: { logs: number; occupied: number; asDependent: number };
  matchedOrders: number;
  periodicEpisodes: { periodic: number; asPeriodic: number };
}

/** A count that is wanted. */
export type ShuffleCount = {
  [Kind in keyof ShuffleArguments]: { readonly kind: Kind; readonly given: ShuffleArguments[Kind] };
}[keyof ShuffleArguments];

type ShuffleJobs = {
  [Kind in keyof ShuffleArguments]: (settle: Settle, ...given: ShuffleArguments[Kind]) => number;
};
/** The same, computed before they return. */
type ShufflesNow = {
  [Kind in keyof ShuffleArguments]: (settle: undefined, ...given: ShuffleArguments[Kind]) => ShuffleCounts[Kind];
};

/** native/node/engine_object.h. Methods return the number of the job that they start. */
export interface NativeEngine extends ShuffleJobs {
  start(settle: Settle): number;
  close(settle: Settle): number;
  /** Opens the GPU unless it is open; the arguments of the first call count. */
  openDevice(settle: Settle, path: string, index: number, takesHostTensors: boolean): number;
  closeDevice(settle: Settle): number;
  deviceMemory(settle: Settle): number;
  allocDevice(settle: Settle, bytes: number): number;
  uploadDevice(settle: Settle, data: TensorData, dtype: number, isProtected: boolean, elements: number): number;
  downloadDevice(settle: Settle, memory: DeviceMemory, data: TensorData, dtype: number, elements: number): number;
  freeDevice(settle: Settle, memory: DeviceMemory): number;
  importDevice(
    settle: Settle,
    handle: Uint8Array,
    offset: number,
    bytes: number,
    event: Uint8Array | undefined,
    counterName: string | undefined,
    counterIndex: number,
  ): number;
  /** For tests of importDevice: what another process needs. */
  shareDevice(settle: Settle, memory: DeviceMemory): number;
  sumFileTokens(
    settle: Settle,
    fd: number,
    offset: number,
    dtype: number,
    prompts: number,
    rows: number,
    tokens: number,
    lengths: IntegerArray,
    outRows: number,
    outColumns: number,
    out: Float64Array | undefined,
  ): number;
  sumTokens(
    settle: Settle,
    ...rest: [
      ...TokenArguments,
      columns: IntegerArray | undefined,
      outRows: number,
      outColumns: number,
      out: Float64Array | DeviceMemory | undefined,
    ]
  ): number;
  /** Only if `logprobs` is on the GPU, or the engine sends host tensors there. */
  tokenRowStats(
    settle: Settle,
    ...rest: [
      ...TokenArguments,
      own: IntegerArray,
      signatures: IntegerArray | undefined,
      topK: number,
      sums: boolean,
      outOnDevice: boolean,
    ]
  ): number;
  logitStats(settle: Settle, ...rest: [...MatrixArguments, ...LogitArguments]): number;
  scoreStats(
    settle: Settle,
    ...rest: [...MatrixArguments, ...LabelArguments, topK: number, outOnDevice: boolean]
  ): number;
  gatherScores(
    settle: Settle,
    ...rest: [...MatrixArguments, rows: IntegerArray | undefined, columns: IntegerArray | undefined]
  ): number;
  /** What a claimed block adds to its sink's step: `lengths` are those of whole rows, 0 in the others. */
  takeTokens(settle: Settle, sink: NativeTokenSink, block: number, ...tokens: TokenArguments): number;
  /** The same of sums of whole rows. */
  takeSums(settle: Settle, sink: NativeTokenSink, block: number, ...sums: MatrixArguments): number;
  stepMoments(settle: Settle, ...rest: [...RowStatsArguments, ...LabelArguments]): number;
  inferStep(
    settle: Settle,
    data: TensorData,
    isProtected: boolean,
    ...rest: [...RowStatsArguments, ...LabelArguments, permutations: number, seed: number]
  ): number;
  promptMatrices(
    settle: Settle,
    data: TensorData,
    isProtected: boolean,
    ...rest: [...RowStatsArguments, ...LabelArguments, matrices: boolean]
  ): number;
  inferPairs(
    settle: Settle,
    pairs: number,
    ...rest: [
      rows: Int32Array,
      isProtected: boolean,
      columns: Int32Array,
      isProtected: boolean,
      sums: Float64Array,
      isProtected: boolean,
      rowCount: number,
      columnCount: number,
      ...LabelArguments,
      turns: IntegerArray | undefined,
      confidence: number,
    ]
  ): number;
  textFigures(
    settle: Settle,
    ...rest: [
      ...TextRowsArguments,
      permutations: number,
      seed: number,
      prompts: boolean,
      readings: number,
      readTokens: number,
    ]
  ): number;
  phraseShares(settle: Settle, ...rest: [...TextRowsArguments, ...phrases: TextsArguments]): number;
}

/**
 * native/node/token_sink_object.h: a step's tokens as they come in blocks. A block is claimed, then computed by
 * `takeTokens` or `takeSums`, then committed; or unclaimed as if it had not come. One is computed at a time, and
 * committed before the next.
 */
export interface NativeTokenSink {
  /** Tokens [from, to), cut to each row's length. Throws with a property `argument` for tokens that came before. */
  claim(prompts: Int32Array, rows: Int32Array, from: number, to: number, dtype: number): number;
  unclaim(block: number): void;
  /** @param touched [P·R] receives 1 for each pair prompt·R + row that the block gave something of */
  commit(block: number, touched: Uint8Array | undefined): void;
  /** Forgets all pairs that are marked, and the marks. While no block is claimed. */
  forget(touched: Uint8Array): void;
  firstGiven(prompts: Int32Array, rows: Int32Array): { prompt: number; row: number; token: number } | null;
  missing(prompt: number, rows: Int32Array | undefined): MissingTokens | null;
  held(): HeldTokens;
  /** Once, at the end. */
  result(): { sums: Float64Array; firstInvalid: { prompt: number; row: number; token: number } | null };
  close(): void;
}

/** Where a file could not be read. `error`: errno; 0 if the file ends too early. */
export interface NativeReadFailure {
  error: number;
  offset: number;
}

/** What the jobs of each method give; with `outOnDevice` a DeviceMemory in place of each array a row. */
export interface NativeResults {
  start: undefined;
  close: undefined;
  openDevice: undefined;
  closeDevice: undefined;
  deviceMemory: { freeBytes: number; totalBytes: number };
  allocDevice: DeviceMemory;
  uploadDevice: DeviceMemory;
  downloadDevice: undefined;
  freeDevice: undefined;
  importDevice: DeviceMemory;
  /** A cudaIpcMemHandle_t, and where in its allocation the memory starts. */
  shareDevice: { handle: Uint8Array; offset: number };
  sumFileTokens: {
    sums: Float64Array | undefined;
    firstInvalid: { prompt: number; row: number; token: number } | null;
    failure: NativeReadFailure | null;
  };
  sumTokens: {
    sums: Float64Array | undefined;
    lengths: BigInt64Array;
    firstInvalid: { prompt: number; row: number; token: number } | null;
  };
  tokenRowStats: {
    stats: RowStats;
    sums: Float64Array | undefined;
    lengths: BigInt64Array;
    firstInvalid: { prompt: number; row: number; token: number } | null;
  };
  /** Without the fields that were not asked for, which are undefined here. */
  logitStats: LogitStats;
  scoreStats: RowStats;
  gatherScores: { data: Float64Array; rows: number; columns: number };
  takeTokens: undefined;
  takeSums: undefined;
  /** See step-moments.ts and infer-step.ts. */
  stepMoments: Float64Array;
  inferStep: Float64Array;
  /** See prompt-matrices.ts. */
  promptMatrices: {
    numbers: Float64Array;
    posterior: Uint8Array | undefined;
    nats: Uint16Array | undefined;
  };
  /** See infer-pairs.ts. */
  inferPairs: Float64Array;
  /** See text-rows.ts. */
  textFigures: NativeTextFigures;
  phraseShares: Float64Array;
}

/** native/node/addon.cpp */
export interface NativeAddon extends ShufflesNow {
  NativeEngine: new (threads: number, maxBufferBytes: number) => NativeEngine;
  NativeTokenSink: new (prompts: number, lengths: Float64Array, maxBufferBytes: number) => NativeTokenSink;
  alloc(bytes: number): ArrayBuffer;
  cancel(job: number): void;
  progress(job: number): number;
  /** See json-lines/scanned-lines.ts. */
  jsonLines(bytes: Uint8Array, names: readonly string[], texts: Uint8Array): Int32Array;
  /** Whether `packed` is Snappy that fills `unpacked`, and then it is there. See decode-columns.ts. */
  unpackSnappy(packed: Uint8Array, unpacked: Uint8Array): boolean;
  isa(): string;
  isaAvailable(): string[];
  forceIsa(name: string): boolean;
  live(): { blocks: number; bytes: number; jobs: number; dispatchers: number };
}

/** What a sink holds of rows that have begun and are not complete. */
export interface HeldTokens {
  /** (row, prompt) pairs with some of their tokens, and not all. */
  readonly pairs: number;
  /** Tokens that came ahead of others, for which they wait. */
  readonly tokens: number;
  /** Memory of both, about. */
  readonly bytes: number;
}

/** What has not come of one prompt (native/engine/tokens/step_tokens.h). */
export interface MissingTokens {
  readonly prompt: number;
  /** Rows that are not complete. */
  readonly rows: number;
  /** The first of them, and the first tokens [from, to) that it lacks. */
  readonly row: number;
  readonly from: number;
  readonly to: number;
  /** No token of any row has come. */
  readonly untouched: boolean;
}

export type TextsArguments = [bytes: Uint8Array | undefined, ids: IntegerArray | undefined, offsets: Float64Array];
export type TextRowsArguments =
  | [...TextsArguments, groups: Int32Array, ...groupIds: TextsArguments, prompts: undefined]
  | [...TextsArguments, groups: Int32Array, ...groupIds: TextsArguments, prompts: Int32Array, ...texts: TextsArguments];

export interface NativeTextPrompts {
  numbers: Float64Array;
  posterior: Uint8Array | undefined;
  nats: Uint16Array | undefined;
}

export interface NativeTextFigures {
  numbers: Float64Array;
  /** See text-prompts.ts. */
  prompts: NativeTextPrompts | undefined;
  phrases: { text: string; ids: Float64Array | undefined; tokens: number; prompts: number; share: number }[];
  /** See row-readings.ts. */
  readings: NativeRowReading[] | undefined;
}

export interface NativeRowReading {
  row: number;
  specificity: number;
  tokens: number;
  /** [2n] places in UTF-8, or none. */
  places: Float64Array;
  nats: Float64Array;
}
