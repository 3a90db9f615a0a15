// Reads one step file (docs/step-file.md). The header and the small tensors are read at once, in few large reads; the
// scores stay on disk until they are asked for, and then come block by block in memory that does not grow with them.
import { basename, dirname, resolve } from 'node:path';
import type { DType, Tensor, TensorData } from '../engine/tensor.js';
import { ArgumentError, FileError } from '../errors.js';
import { type ByteSource, openSource, type ReadOptions } from './byte-source.js';
import { printable } from './printable.js';
import {
  elementBytes,
  headerLength,
  LENGTH_BYTES,
  parseHeader,
  type SafetensorsDType,
  type SafetensorsHeader,
  type TensorEntry,
} from './safetensors.js';
import type { IntegerArray, LogprobBlock, StepData, StepScores } from './step-data.js';
import { checkLayout, checkValues, STEP_TENSORS, type StepLayout, type StepTensorName } from './step-layout.js';

export interface ReadStepOptions {
  /** Bytes of scores in one block: whole prompts, at least one. Default 64 MiB. */
  blockBytes?: number | undefined;
  /** Memory for scores and per-token tensors, aligned to 8 bytes. Default: a SharedArrayBuffer, which the engine reads in place. */
  allocate?: ((bytes: number) => ArrayBufferLike) | undefined;
  signal?: AbortSignal | undefined;
}

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
}

const DEFAULT_BLOCK_BYTES = 64 * 2 ** 20;

/** One read brings the header of any usual step file. */
const FIRST_READ_BYTES = 16 * 2 ** 10;

/** Tensors below this are read together with their neighbours; larger ones straight into their own memory. */
const SMALL_TENSOR_BYTES = 2 ** 20;
/** Bytes that a common read may skip rather than end. */
const SKIP_BYTES = 64 * 2 ** 10;
const COMMON_READ_BYTES = 8 * 2 ** 20;

const SCORE_TENSORS: ReadonlySet<string> = new Set(['cross_logprobs', 'cross_logprob_sums']);
/** Those that the engine computes on, beside the scores. */
const ENGINE_TENSORS: ReadonlySet<string> = new Set(['token_entropy', 'ablated_logprobs', 'action_logprobs']);

/**
 * Reads a step file but for its scores.
 * @throws FileError naming path, offset and tensor when the file cannot be read or is not a step file; the signal's
 *   reason when it is aborted
 */
export async function readStepFile(path: string, options: ReadStepOptions = {}): Promise<StepData> {
  if (options.blockBytes !== undefined && !(options.blockBytes > 0)) {
    throw new ArgumentError('options.blockBytes', `${options.blockBytes}, expected a number of bytes above 0`);
  }
  return withSource(path, async (source) => {
    const { header, container } = await readHeaderFrom(source, options.signal);
    const tensors = await readTensors(source, container, options);
    await source.checkUnchanged();
    const values = {
      lengths: integers(tensors.get('lengths')) ?? new Int32Array(0),
      group: integers(tensors.get('group')) ?? new Int32Array(0),
      columnGroup: integers(tensors.get('column_group')),
      promptLengths: integers(tensors.get('prompt_lengths')),
      correct: flags(tensors.get('correct')),
      valid: flags(tensors.get('valid')),
    };
    const columnGroup = checkValues(header.layout, values, (tensor, index, problem) => {
      const entry = tensors.get(tensor)?.entry;
      const offset = (entry?.begin ?? 0) + (index ?? 0) * elementBytes(entry?.dtype ?? 'U8');
      throw new FileError({ path, tensor, offset }, problem);
    });
    const { lengths, group, correct, valid, promptLengths } = values;
    const promptIds = integers(tensors.get('prompt_ids'));
    const responseIds = integers(tensors.get('response_ids'));
    const { layout, ...identity } = header;
    return {
      ...identity,
      scores: scoresOf(source.revision, path, container, options),
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
  });
}

/**
 * Reads only the header of a step file: enough to order, size and plan steps.
 * @throws FileError as readStepFile does, for everything that the header tells
 */
export async function readStepHeader(
  path: string,
  options: { signal?: AbortSignal | undefined } = {},
): Promise<StepHeader> {
  return withSource(path, async (source) => (await readHeaderFrom(source, options.signal)).header);
}

async function withSource<T>(path: string, use: (source: ByteSource) => Promise<T>): Promise<T> {
  const source = await openSource(path);
  try {
    return await use(source);
  } finally {
    await source.close();
  }
}

interface ReadHeader {
  header: StepHeader;
  container: SafetensorsHeader;
}

async function readHeaderFrom(source: ByteSource, signal: AbortSignal | undefined): Promise<ReadHeader> {
  const { path } = source;
  const first = Buffer.allocUnsafe(Math.min(FIRST_READ_BYTES, source.bytes));
  await source.read(first, 0, { signal });
  const length = headerLength(path, first, source.bytes);
  let json = first.subarray(LENGTH_BYTES, LENGTH_BYTES + length);
  if (json.length < length) {
    json = Buffer.allocUnsafe(length);
    await source.read(json, LENGTH_BYTES, { signal });
  }
  const container = parseHeader(path, json, source.bytes);
  const layout = checkLayout(container.tensors, (tensor, problem) => {
    const offset = container.tensors.get(tensor)?.declaredAt ?? LENGTH_BYTES;
    throw new FileError({ path, tensor, offset }, problem);
  });
  // Keys come from the file: a plain object would give "__proto__" a meaning.
  const metadata: Record<string, string> = Object.create(null);
  for (const [key, value] of container.metadata) metadata[key] = value;
  const step = stepNumber(path, container.metadata.get('step'));
  const run = container.metadata.get('run') ?? basename(dirname(resolve(path)));
  return { header: { file: path, step, run, metadata, bytes: source.bytes, layout }, container };
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
  container: SafetensorsHeader,
  { allocate, signal }: ReadStepOptions,
): Promise<Map<StepTensorName, ReadTensor>> {
  const wanted = STEP_TENSORS.filter((name) => !SCORE_TENSORS.has(name)).flatMap((name) => {
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

function floats(tensor: ReadTensor | undefined): Tensor | undefined {
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
  return Float64Array.from(new Float32Array(tensor.memory, 0, elements));
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

function scoresOf(
  revision: string,
  path: string,
  { tensors }: SafetensorsHeader,
  options: ReadStepOptions,
): StepScores {
  const logprobs = tensors.get('cross_logprobs');
  if (logprobs !== undefined) {
    const [prompts = 0, rows = 0, tokens = 0] = logprobs.shape;
    const size = elementBytes(logprobs.dtype);
    return {
      kind: 'logprobs',
      dtype: floatDType(logprobs),
      shape: [prompts, rows, tokens],
      blocks: (signal = options.signal) => readBlocks(path, revision, logprobs, { ...options, signal }),
      offsetOf: (prompt, row, token) => logprobs.begin + ((prompt * rows + row) * tokens + token) * size,
    };
  }
  const sums = tensors.get('cross_logprob_sums') as TensorEntry;
  const [rows = 0, prompts = 0] = sums.shape;
  return {
    kind: 'sums',
    dtype: floatDType(sums),
    shape: [rows, prompts],
    read: (signal = options.signal) => readSums(path, revision, sums, { ...options, signal }),
    offsetOf: (row, column) => sums.begin + (row * prompts + column) * elementBytes(sums.dtype),
  };
}

/** Whole prompts at a time into one buffer; the file is open while the iterator runs. */
async function* readBlocks(
  path: string,
  revision: string,
  entry: TensorEntry,
  options: ReadStepOptions,
): AsyncGenerator<LogprobBlock, void, undefined> {
  const [prompts = 0, rows = 0, tokens = 0] = entry.shape;
  const dtype = floatDType(entry);
  const promptBytes = rows * tokens * elementBytes(entry.dtype);
  const fitting = Math.floor((options.blockBytes ?? DEFAULT_BLOCK_BYTES) / Math.max(1, promptBytes));
  const most = Math.min(prompts, Math.max(1, fitting));
  const reading: ReadOptions = { tensor: entry.name, signal: options.signal };
  const source = await openSource(path, revision);
  try {
    const memory = allocated(path, most * promptBytes, entry.name, options.allocate);
    const bytes = new Uint8Array(memory, 0, most * promptBytes);
    const view = floatView(dtype, memory, most * rows * tokens);
    for (let firstPrompt = 0; firstPrompt < prompts; firstPrompt += most) {
      const count = Math.min(most, prompts - firstPrompt);
      const target = bytes.subarray(0, count * promptBytes);
      await source.read(target, entry.begin + firstPrompt * promptBytes, reading);
      await source.checkUnchanged();
      const data = view.subarray(0, count * rows * tokens);
      yield { firstPrompt, logprobs: { data, dtype, shape: [count, rows, tokens] } };
    }
  } finally {
    await source.close();
  }
}

async function readSums(path: string, revision: string, entry: TensorEntry, options: ReadStepOptions): Promise<Tensor> {
  const source = await openSource(path, revision);
  try {
    const bytes = entry.end - entry.begin;
    const memory = allocated(path, bytes, entry.name, options.allocate);
    const reading: ReadOptions = { tensor: entry.name, signal: options.signal };
    await source.read(new Uint8Array(memory, 0, bytes), entry.begin, reading);
    await source.checkUnchanged();
    const dtype = floatDType(entry);
    return { data: floatView(dtype, memory, elementsOf(entry)), dtype, shape: entry.shape };
  } finally {
    await source.close();
  }
}
