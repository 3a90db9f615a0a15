// Reads one step file (docs/step-file.md). The header and the small tensors are read at once, in few large reads; the
// scores stay on disk until they are asked for, and then come block by block in memory that does not grow with them.
import { FileReadError } from '../engine/file-read-error.js';
import type { FileScores } from '../engine/operations.js';
import type { DType, HostTensor, TensorData } from '../engine/tensor.js';
import { shown } from '../engine/tensor-view.js';
import { ArgumentError, FileError } from '../errors.js';
import { type ByteSource, cutShort, lent, type ReadOptions } from './byte-source.js';
import { printable } from './printable.js';
import { readAhead } from './read-ahead.js';
import { elementBytes, LENGTH_BYTES, type SafetensorsDType, type TensorEntry } from './safetensors.js';
import { openContainer, type StepContainer } from './step-container.js';
import type { IntegerArray, LogprobBlock, StepData, StepScores } from './step-data.js';
import { checkLayout, checkValues, STEP_TENSORS, type StepLayout, type StepTensorName } from './step-layout.js';
import { directoryOf, nameOf } from './store.js';
import { systemProblem } from './system-problem.js';

export interface ReadStepOptions {
  /** Bytes of scores in one block: whole prompts, at least one. Default 64 MiB. */
  blockBytes?: number | undefined;
  /** Memory for scores and per-token tensors, aligned to 8 bytes. Default: a SharedArrayBuffer, which the engine reads in place. */
  allocate?: ((bytes: number) => ArrayBufferLike) | undefined;
  /** The content that the file must still have: StepHeader.identity of an earlier look at it. */
  identity?: string | undefined;
  /** Tensors to pass over, as if the file had none; their headers are still checked. Only such as may be missing. */
  unread?: ReadonlySet<OptionalTensor> | undefined;
  signal?: AbortSignal | undefined;
}

/** Large tensors that some readers have no use for. */
export type OptionalTensor = 'response_ids' | 'token_entropy';

/** What the header of a step file tells. */
export interface StepHeader {
  /** Path of the file, as given. */
  readonly file: string;
  readonly step: number;
  /** `run` of the metadata, else the name of the folder. */
  readonly run: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly bytes: number;
  readonly layout: StepLayout;
  /** Which content this is: size, time of the last change and a digest of the header's bytes. Another one, another content. */
  readonly identity: string;
}

const DEFAULT_BLOCK_BYTES = 64 * 2 ** 20;

/** Tensors below this are read together with their neighbours; larger ones straight into their own memory. */
const SMALL_TENSOR_BYTES = 2 ** 20;
/** Bytes that a common read may skip rather than end. */
const SKIP_BYTES = 64 * 2 ** 10;
const COMMON_READ_BYTES = 8 * 2 ** 20;

const SCORE_TENSORS: ReadonlySet<string> = new Set(['cross_logprobs', 'cross_logprob_sums']);
/** Those that the engine computes on, beside the scores. */
const ENGINE_TENSORS: ReadonlySet<string> = new Set(['token_entropy', 'ablated_logprobs', 'action_logprobs']);

/**
 * Reads a step file but for its scores, for which it is opened again.
 * @throws FileError naming path, offset and tensor when the file cannot be read or is not a step file; the signal's
 *   reason when it is aborted
 */
export async function readStepFile(path: string, options: ReadStepOptions = {}): Promise<StepData> {
  return withContainer(path, options, async (container) => {
    const step = await readStep(path, container, options);
    await container.source.checkUnchanged();
    return step;
  });
}

/**
 * The same for a step whose scores are read once and at once: a local file is opened once only, and open until `use` has ended.
 * What changes meanwhile is noticed when the scores have been read.
 * @throws FileError as readStepFile does; what `use` throws
 */
export async function withStepFile<T>(
  path: string,
  options: ReadStepOptions,
  use: (step: StepData) => Promise<T>,
): Promise<T> {
  return withContainer(path, options, async (container) => {
    const { source, tensors } = container;
    const scores = tensors.get('cross_logprobs') ?? tensors.get('cross_logprob_sums');
    const isLocal = scores !== undefined && source.openFile?.(scores.begin) !== undefined;
    const opened = isLocal ? { ...container, reopen: async () => lent(source) } : container;
    return use(await readStep(path, opened, options));
  });
}

async function readStep(path: string, container: StepContainer, options: ReadStepOptions): Promise<StepData> {
  const { source } = container;
  const header = headerOf(path, container);
  if (options.identity !== undefined && options.identity !== header.identity) {
    throw new FileError({ path }, 'the file was replaced or changed after it was listed: analyse it again');
  }
  const tensors = await readTensors(source, container, options);
  const values = {
    lengths: integers(tensors.get('lengths')) ?? new Int32Array(0),
    group: integers(tensors.get('group')) ?? new Int32Array(0),
    columnGroup: integers(tensors.get('column_group')),
    promptLengths: integers(tensors.get('prompt_lengths')),
    correct: flags(tensors.get('correct')),
    valid: flags(tensors.get('valid')),
  };
  const fail = (tensor: StepTensorName, index: number | undefined, problem: string): never => {
    const entry = tensors.get(tensor)?.entry;
    const offset = (entry?.begin ?? 0) + (index ?? 0) * elementBytes(entry?.dtype ?? 'U8');
    throw new FileError({ ...placeOf(source, offset), tensor }, problem);
  };
  let columnGroup: IntegerArray;
  try {
    columnGroup = checkValues(header.layout, values, fail);
  } catch (error) {
    // What is wrong with values of a file that is being written is that it is being written.
    await source.checkUnchanged();
    throw error;
  }
  const { lengths, group, correct, valid, promptLengths } = values;
  const promptIds = integers(tensors.get('prompt_ids'));
  const responseIds = integers(tensors.get('response_ids'));
  const { layout, identity: _, ...facts } = header;
  return {
    ...facts,
    scores: scoresOf(container, options),
    lengths,
    group,
    columnGroup,
    prompts: promptIds === undefined ? undefined : splitPrompts(promptIds, layout, promptLengths),
    rewards: widened(tensors.get('rewards')),
    outcome: widened(tensors.get('outcome')),
    correct,
    valid,
    actions: integers(tensors.get('actions')),
    episode: integers(tensors.get('episode')),
    turn: integers(tensors.get('turn')),
    responseIds:
      responseIds === undefined ? undefined : { data: responseIds, shape: [layout.rows, layout.tokens ?? 0] },
    tokenEntropy: floats(tensors.get('token_entropy')),
    ablatedLogprobs: floats(tensors.get('ablated_logprobs')),
    actionLogprobs: floats(tensors.get('action_logprobs')),
  };
}

/**
 * Reads only the header of a step file: enough to order, size and plan steps.
 * @throws FileError as readStepFile does, for everything that the header tells
 */
export async function readStepHeader(
  path: string,
  options: { signal?: AbortSignal | undefined } = {},
): Promise<StepHeader> {
  return withContainer(path, options, async (container) => headerOf(path, container));
}

async function withContainer<T>(
  path: string,
  { blockBytes, allocate, signal }: ReadStepOptions,
  use: (container: StepContainer) => Promise<T>,
): Promise<T> {
  if (blockBytes !== undefined && !(blockBytes > 0)) {
    throw new ArgumentError('options.blockBytes', `${shown(blockBytes)}, expected a number of bytes above 0`);
  }
  if (allocate !== undefined && typeof allocate !== 'function') {
    throw new ArgumentError('options.allocate', `got ${shown(allocate)}, expected a function`);
  }
  const container = await openContainer(path, { signal });
  try {
    return await use(container);
  } finally {
    await container.source.close();
  }
}

function headerOf(path: string, { source, tensors, ...container }: StepContainer): StepHeader {
  const layout = checkLayout(tensors, (tensor, problem) => {
    throw new FileError({ ...placeOf(source, tensors.get(tensor)?.declaredAt ?? LENGTH_BYTES), tensor }, problem);
  });
  // Keys come from the file: a plain object would give "__proto__" a meaning.
  const metadata: Record<string, string> = Object.create(null);
  for (const [key, value] of container.metadata) metadata[key] = value;
  const step = stepNumber(path, container.metadata.get('step'));
  const run = container.metadata.get('run') ?? nameOf(directoryOf(path));
  // A rewrite within the clock's resolution keeps size and time, hardly the header too.
  const identity = `${source.stamp}-${container.digest}`;
  return { file: path, step, run, metadata, bytes: container.bytes, layout, identity };
}

/** Where a position lies for the user: in which file, and where there. */
function placeOf(source: ByteSource, position: number): { path: string; offset: number } {
  return source.placeOf?.(position) ?? { path: source.path, offset: position };
}

function stepNumber(path: string, text: string | undefined): number {
  const step = Number(text);
  if (text !== undefined && /^-?[0-9]+$/.test(text) && Number.isSafeInteger(step)) return step;
  const came = text === undefined ? 'missing' : `"${printable(text)}"`;
  const problem = `step in __metadata__ is ${came}, expected the number of the training step as a string, such as "120"`;
  throw new FileError({ path, offset: LENGTH_BYTES }, problem);
}

interface ReadTensor {
  readonly entry: TensorEntry;
  readonly memory: ArrayBufferLike;
}

/** Reads all tensors of a step but the scores. */
async function readTensors(
  source: ByteSource,
  container: StepContainer,
  { allocate, unread, signal }: ReadStepOptions,
): Promise<Map<StepTensorName, ReadTensor>> {
  const passedOver: ReadonlySet<string> = unread ?? new Set();
  const wanted = STEP_TENSORS.filter((name) => !SCORE_TENSORS.has(name) && !passedOver.has(name)).flatMap((name) => {
    const entry = container.tensors.get(name);
    return entry === undefined ? [] : [{ name, entry }];
  });
  wanted.sort((a, b) => a.entry.begin - b.entry.begin || a.entry.end - b.entry.end);
  const tensors = new Map<StepTensorName, ReadTensor>();
  for (const { name, entry } of wanted) {
    const allocator = ENGINE_TENSORS.has(name) ? allocate : plainMemory;
    const memory = allocated(source.path, entry.end - entry.begin, name, allocator);
    tensors.set(name, { entry, memory });
  }
  let small: ReadTensor[] = [];
  const readSmall = async () => {
    await readTogether(source, small, signal);
    small = [];
  };
  for (const { name, entry } of wanted) {
    const tensor = tensors.get(name) as ReadTensor;
    const bytes = entry.end - entry.begin;
    if (bytes > SMALL_TENSOR_BYTES) {
      await source.read(new Uint8Array(tensor.memory, 0, bytes), entry.begin, { tensor: name, signal });
      continue;
    }
    const first = small[0]?.entry.begin ?? entry.begin;
    const last = small.at(-1)?.entry.end ?? entry.begin;
    if (entry.begin - last > SKIP_BYTES || entry.end - first > COMMON_READ_BYTES) await readSmall();
    small.push(tensor);
  }
  await readSmall();
  return tensors;
}

/** One read for tensors that lie near each other, in file order; each is then copied to memory of its own alignment. */
async function readTogether(
  source: ByteSource,
  tensors: readonly ReadTensor[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const begin = tensors[0]?.entry.begin;
  const last = tensors.at(-1)?.entry;
  if (begin === undefined || last === undefined) return;
  const bytes = Buffer.allocUnsafe(last.end - begin);
  await source.read(bytes, begin, { tensor: last.name, signal });
  for (const { entry, memory } of tensors) {
    new Uint8Array(memory).set(bytes.subarray(entry.begin - begin, entry.end - begin));
  }
}

function plainMemory(bytes: number): ArrayBuffer {
  return new ArrayBuffer(bytes);
}

function allocated(
  path: string,
  bytes: number,
  tensor: string,
  allocate: ReadStepOptions['allocate'] = (size) => new SharedArrayBuffer(size),
): ArrayBufferLike {
  try {
    return allocate(bytes);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new FileError({ path, tensor }, `no memory for ${bytes} bytes: ${error.message}`, { cause: error });
  }
}

const FLOAT_DTYPES: Readonly<Partial<Record<SafetensorsDType, DType>>> = {
  F64: 'float64',
  F32: 'float32',
  F16: 'float16',
  BF16: 'bfloat16',
};

function floatDType(entry: TensorEntry): DType {
  const dtype = FLOAT_DTYPES[entry.dtype];
  // Not to be had: checkLayout lets no other dtype through.
  if (dtype === undefined)
    throw new TypeError(`${entry.name}: ${entry.dtype} is no floating-point dtype of the engine`);
  return dtype;
}

function floatView(dtype: DType, memory: ArrayBufferLike, elements: number): TensorData {
  if (dtype === 'float64') return new Float64Array(memory, 0, elements);
  if (dtype === 'float32') return new Float32Array(memory, 0, elements);
  return new Uint16Array(memory, 0, elements);
}

function elementsOf(entry: TensorEntry): number {
  return (entry.end - entry.begin) / elementBytes(entry.dtype);
}

function floats(tensor: ReadTensor | undefined): HostTensor | undefined {
  if (tensor === undefined) return undefined;
  const dtype = floatDType(tensor.entry);
  return { data: floatView(dtype, tensor.memory, elementsOf(tensor.entry)), dtype, shape: tensor.entry.shape };
}

function integers(tensor: ReadTensor | undefined): IntegerArray | undefined {
  if (tensor === undefined) return undefined;
  const elements = elementsOf(tensor.entry);
  if (tensor.entry.dtype === 'I64') return new BigInt64Array(tensor.memory, 0, elements);
  return new Int32Array(tensor.memory, 0, elements);
}

function widened(tensor: ReadTensor | undefined): Float64Array | undefined {
  if (tensor === undefined) return undefined;
  const elements = elementsOf(tensor.entry);
  if (tensor.entry.dtype === 'F64') return new Float64Array(tensor.memory, 0, elements);
  return new Float64Array(new Float32Array(tensor.memory, 0, elements));
}

function flags(tensor: ReadTensor | undefined): Uint8Array | undefined {
  return tensor === undefined ? undefined : new Uint8Array(tensor.memory, 0, elementsOf(tensor.entry));
}

function splitPrompts(
  ids: IntegerArray,
  { prompts, promptTokens = 0 }: StepLayout,
  lengths: IntegerArray | undefined,
): IntegerArray[] {
  return Array.from({ length: prompts }, (_, prompt) => {
    const begin = prompt * promptTokens;
    return ids.subarray(begin, begin + Number(lengths?.[prompt] ?? promptTokens));
  });
}

function scoresOf({ source, tensors, reopen }: StepContainer, options: ReadStepOptions): StepScores {
  const logprobs = tensors.get('cross_logprobs');
  if (logprobs !== undefined) {
    const [prompts = 0, rows = 0, tokens = 0] = logprobs.shape;
    const size = elementBytes(logprobs.dtype);
    return {
      kind: 'logprobs',
      dtype: floatDType(logprobs),
      shape: [prompts, rows, tokens],
      blocks: (signal = options.signal) => readBlocks(reopen, logprobs, { ...options, signal }),
      ...(source.openFile?.(logprobs.begin) && { inFile: (use) => useFile(reopen, logprobs, use) }),
      offsetOf: (prompt, row, token) =>
        placeOf(source, logprobs.begin + ((prompt * rows + row) * tokens + token) * size).offset,
    };
  }
  const sums = tensors.get('cross_logprob_sums') as TensorEntry;
  const [rows = 0, prompts = 0] = sums.shape;
  return {
    kind: 'sums',
    dtype: floatDType(sums),
    shape: [rows, prompts],
    read: (signal = options.signal) => readSums(reopen, sums, { ...options, signal }),
    offsetOf: (row, column) => placeOf(source, sums.begin + (row * prompts + column) * elementBytes(sums.dtype)).offset,
  };
}

async function useFile<T>(
  reopen: StepContainer['reopen'],
  entry: TensorEntry,
  use: (scores: FileScores) => Promise<T>,
): Promise<T> {
  const source = await reopen();
  try {
    const file = source.openFile?.(entry.begin);
    if (file === undefined) throw new TypeError(`${source.path}: opened again, this is no local file`);
    const [prompts = 0, rows = 0, tokens = 0] = entry.shape;
    const used = await use({ ...file, dtype: floatDType(entry), shape: [prompts, rows, tokens] });
    await source.checkUnchanged();
    return used;
  } catch (error) {
    if (!(error instanceof FileReadError)) throw error;
    const where = { path: source.path, tensor: entry.name, offset: error.offset };
    const problem = error.code === undefined ? cutShort(entry.end - error.offset) : systemProblem(error);
    throw new FileError(where, problem, { cause: error });
  } finally {
    await source.close();
  }
}

/** Whole prompts at a time into one buffer, or two where the bytes come from far; the file is open while the iterator runs. */
async function* readBlocks(
  reopen: StepContainer['reopen'],
  entry: TensorEntry,
  options: ReadStepOptions,
): AsyncGenerator<LogprobBlock, void, undefined> {
  const [prompts = 0, rows = 0, tokens = 0] = entry.shape;
  const dtype = floatDType(entry);
  const promptBytes = rows * tokens * elementBytes(entry.dtype);
  const fitting = Math.floor((options.blockBytes ?? DEFAULT_BLOCK_BYTES) / Math.max(1, promptBytes));
  const most = Math.min(prompts, Math.max(1, fitting));
  const blocks = most === 0 ? 0 : Math.ceil(prompts / most);
  const source = await reopen();
  try {
    // The system reads local files ahead by itself.
    const isFar = source.openFile?.(entry.begin) === undefined;
    const buffers = Array.from({ length: isFar ? Math.min(2, blocks) : 1 }, () => {
      const memory = allocated(source.path, most * promptBytes, entry.name, options.allocate);
      const bytes = new Uint8Array(memory, 0, most * promptBytes);
      return { bytes, view: floatView(dtype, memory, most * rows * tokens) };
    });
    const read = async (block: number, signal: AbortSignal | undefined): Promise<LogprobBlock> => {
      const { bytes, view } = buffers[block % buffers.length] as (typeof buffers)[number];
      const firstPrompt = block * most;
      const count = Math.min(most, prompts - firstPrompt);
      const target = bytes.subarray(0, count * promptBytes);
      await source.read(target, entry.begin + firstPrompt * promptBytes, { tensor: entry.name, signal });
      await source.checkUnchanged();
      const data = view.subarray(0, count * rows * tokens);
      return { firstPrompt, logprobs: { data, dtype, shape: [count, rows, tokens] } };
    };
    if (isFar) yield* readAhead(blocks, read, options.signal);
    else for (let block = 0; block < blocks; block++) yield await read(block, options.signal);
  } finally {
    await source.close();
  }
}

async function readSums(
  reopen: StepContainer['reopen'],
  entry: TensorEntry,
  options: ReadStepOptions,
): Promise<HostTensor> {
  const source = await reopen();
  try {
    const bytes = entry.end - entry.begin;
    const memory = allocated(source.path, bytes, entry.name, options.allocate);
    const reading: ReadOptions = { tensor: entry.name, signal: options.signal };
    await source.read(new Uint8Array(memory, 0, bytes), entry.begin, reading);
    await source.checkUnchanged();
    const dtype = floatDType(entry);
    return { data: floatView(dtype, memory, elementsOf(entry)), dtype, shape: entry.shape };
  } finally {
    await source.close();
  }
}
