// Finds and loads the native addon. In: the package's own folder; out: the addon's exports, typed.
import { accessSync, constants, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join, sep } from 'node:path';
import { AddonError, type DeviceProblem } from '../checks/errors.js';
import { moduleUrl, packageRoot } from '../checks/package-root.js';
import type { LogitStats, RowStats } from './operations/operations.js';
import type { NativeTextFigures, TextRowsArguments, TextsArguments } from './operations/text-rows.js';
import type { TensorData } from './tensor/tensor.js';
import type { MissingTokens } from './tokens/missing-tokens.js';
import type { HeldTokens } from './tokens/token-sums-sink.js';

/** Integers on their way to native code, which copies and checks them. */
export type IntegerArray = Int32Array | BigInt64Array | Float64Array;

/** What is wrong with the GPU, or that the machine's own memory was not enough (native/node/memory_shortage.h). */
export type NativeProblem = DeviceProblem | 'no_memory';

/**
 * How a job ended: 0 done (value: result), 1 cancelled, 2 failed (value: message; argument: whose fault, or ''; reason: what
 * was wrong, or '', with what was asked for and free where memory was not enough).
 */
export type Settle = (
  outcome: 0 | 1 | 2,
  value: unknown,
  argument: string,
  reason: NativeProblem | '',
  askedBytes: number | undefined,
  freeBytes: number | undefined,
) => void;

/** Memory of an engine's GPU: a number that is given once in a process (native/node/gpu/device.h). */
export type DeviceMemory = number & { readonly deviceMemory: unique symbol };

/** The eleven arrays of a RowStats, each followed by whether its memory is protected (see `holdBuffer`). */
export type RowStatsArguments = [
  rows: number,
  columns: number,
  topK: number,
  ...arrays: (Float64Array | Int32Array | boolean)[],
];

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
  /** For benchmarks: a pure read of the first `elements` elements (native/engine/roofline/read_bytes.h). */
  readBytes(
    settle: Settle,
    data: TensorData,
    dtype: number,
    isProtected: boolean,
    elements: number,
    prefetchBytes: number,
  ): number;
  /** For benchmarks: a pure read of a file's bytes (native/engine/roofline/read_file.h). */
  readFile(settle: Settle, fd: number, offset: number, bytes: number, pieceBytes: number): number;
  /** For benchmarks: a byte of each cache line of a valid token (native/engine/roofline/touch_lines.h). */
  touchLines(settle: Settle, ...tokens: TokenArguments): number;
  /** For benchmarks: vector multiply-adds on each thread (native/engine/roofline/multiply_adds.h). */
  multiplyAdds(settle: Settle, steps: number): number;
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
  /** Only where `logprobs` is on the GPU, or the engine sends host tensors there. */
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
  textFigures(settle: Settle, ...rest: [...TextRowsArguments, permutations: number, seed: number]): number;
  phraseShares(settle: Settle, ...rest: [...TextRowsArguments, ...phrases: TextsArguments]): number;
}

/**
 * native/node/token_sink_object.h: a step's tokens as they come in blocks. A block is claimed, then computed by
 * `takeTokens` or `takeSums`, then committed; or unclaimed as if it had not come. One is computed at a time, and committed
 * before the next.
 */
export interface NativeTokenSink {
  /** Tokens [from, to), cut to each row's length. Throws with a property `argument` for tokens that came before. */
  claim(prompts: Int32Array, rows: Int32Array, from: number, to: number, dtype: number): number;
  unclaim(block: number): void;
  /** @param touched [P·R] receives 1 for each pair prompt·R + row of which the block gave something */
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

/** Where a file could not be read. `error`: errno; 0 where the file ends too early. */
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
  readBytes: { seconds: number; sum: bigint };
  readFile: { seconds: number; failure: NativeReadFailure | null };
  touchLines: { seconds: number; sum: bigint };
  /** `count`: of float32 lanes, over all threads. */
  multiplyAdds: { seconds: number; count: number; sum: number };
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
  /** See packed-results.ts. */
  stepMoments: Float64Array;
  inferStep: Float64Array;
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
  isa(): string;
  isaAvailable(): string[];
  forceIsa(name: string): boolean;
  live(): { blocks: number; bytes: number; jobs: number; dispatchers: number };
}

function onPath(program: string): boolean {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** What a build needs and this machine does not seem to have, in words; empty if nothing is missing. */
function missingTools(): string[] {
  const missing: string[] = [];
  if (process.env.CXX === undefined && !['c++', 'g++', 'clang++'].some(onPath)) {
    missing.push('a C++20 compiler (g++ 11 or clang++ 14, or newer)');
  }
  if (!onPath('cmake')) missing.push('CMake 3.19 or newer');
  if (!onPath('make') && !onPath('ninja')) missing.push('make or ninja');
  return missing;
}

/** Whether this module was bundled into other code, away from the package that the addon is built in. */
function isBundledElsewhere(): boolean {
  try {
    return JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')).name !== 'collapsar';
  } catch {
    return true;
  }
}

/** What to do when no candidate loads. `isRefused`: Node was started so that it loads no addon, whichever. */
function advise(isRefused: boolean): string {
  if (isRefused) return 'Start Node with --allow-addons where it has --permission, and without --no-addons';
  if (process.env.COLLAPSAR_ADDON) {
    return 'The environment variable COLLAPSAR_ADDON names it: correct it, or unset it to load what npm install built';
  }
  if (isBundledElsewhere()) {
    return "collapsar is part of a bundle here, without its addon: name it an external package in the bundler's options";
  }
  // pnpm runs no install script that was not approved; npm knows a package in pnpm's store for a link, and runs other scripts of it.
  const isFromPnpm = packageRoot.includes(`${sep}.pnpm${sep}`);
  const build = `Build it with: ${isFromPnpm ? 'pnpm approve-builds, then pnpm rebuild collapsar' : 'npm rebuild collapsar'}`;
  const missing = missingTools();
  if (missing.length === 0) return build;
  return `${build} (first install what seems to be missing: ${missing.join('; ')})`;
}

const localFirst = [
  join(packageRoot, 'build', 'cmake', 'Release', 'collapsar.node'),
  join(packageRoot, 'build', 'Release', 'collapsar.node'),
  `@collapsar/${process.platform}-${process.arch}`,
];

let loaded: { addon: NativeAddon; path: string } | undefined;

/**
 * The addon: a local build first, then the optional package of this platform. The environment variable COLLAPSAR_ADDON
 * names another file to load instead of these, such as a build with sanitizers.
 * @throws AddonError naming every place that was tried, and how to build it.
 */
export function loadAddon(): NativeAddon {
  if (loaded !== undefined) return loaded.addon;
  const require = createRequire(moduleUrl);
  const candidates = process.env.COLLAPSAR_ADDON ? [process.env.COLLAPSAR_ADDON] : localFirst;
  const tried: string[] = [];
  let isRefused = false;
  for (const candidate of candidates) {
    try {
      loaded = { addon: require(candidate) as NativeAddon, path: require.resolve(candidate) };
      return loaded.addon;
    } catch (error) {
      const { code } = error as { code?: string };
      const absent = code === 'MODULE_NOT_FOUND';
      isRefused ||= code === 'ERR_DLOPEN_DISABLED';
      tried.push(`  ${candidate}: ${absent ? 'not there' : (error as Error).message}`);
    }
  }
  throw new AddonError(
    `cannot load the native addon for ${process.platform}-${process.arch}. Tried:\n${tried.join('\n')}\n${advise(isRefused)}`,
  );
}

/** The file that loadAddon() loads. */
export function addonPath(): string {
  loadAddon();
  return (loaded as { path: string }).path;
}
