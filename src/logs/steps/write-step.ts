// Writes one training step as a step file (docs/reference/step-file.md): checked like the reader checks, and whole or
// not at all (a temporary file in the same folder, synced and renamed). Writes the tensors' memory without a copy.

import { randomBytes } from 'node:crypto';
import { dirname, join } from 'node:path';
import {
  checkArray,
  checkKnown,
  checkMemory,
  checkObject,
  checkPath,
  optionNames,
} from '../../checks/argument-checks.js';
import { ArgumentError, FileError } from '../../checks/errors.js';
import { checkOptions, is } from '../../checks/options.js';
import { type EnvironmentLabels, givenEnvironments, type RowEnvironments } from '../../checks/row-environments.js';
import { printable, shown } from '../../checks/words.js';
import { type Float16ArrayLike, halfBits, isFloat16Array } from '../../engine/tensor/float16-array.js';
import type { DType, HostTensor } from '../../engine/tensor/tensor.js';
import { checkShape, isDense } from '../../engine/tensor/tensor-view.js';
import { LONE_SURROGATE } from '../formats/json-scanner.js';
import { encodeHeader, type SafetensorsDType, storedBytes, type TensorToWrite } from '../formats/safetensors.js';
import { AtomicFile, syncDirectory } from '../stores/atomic-file.js';
import type { StepData, StoredIntegers } from './step-data.js';
import { checkLayout, checkValues, type StepTensorName } from './step-layout.js';
import { ENVIRONMENT_NAMES, environmentIds } from './stored-environments.js';

/**
 * A step to be written, under the names of StepData. Scores are `logprobs` or `sums`. Tensors are dense and row-major.
 * P prompts (columns), R responses (rows), T reasoning tokens; log-probs and entropies in nats.
 */
export interface StepToWrite {
  step: number;
  run?: string | undefined;
  /** Further strings for `__metadata__`, such as time, temperature, model, environment, profile. */
  metadata?: Readonly<Record<string, string>> | undefined;
  /** log p(token t of row r | prompt p, its tokens before t), [P, R, T]. Past a row's length the content is ignored. */
  logprobs?: WrittenTensor | undefined;
  /** float32 or float64 [R, P], in place of `logprobs`: its sums over tokens. */
  sums?: HostTensor | undefined;
  /** [R] reasoning tokens of each row. */
  lengths: StoredIntegers;
  /** [R] group id of each row: the prompt that it was sampled from. */
  group: StoredIntegers;
  /** [P] group id of each column. Needed unless the columns are the sorted distinct ids of `group`. */
  columnGroup?: StoredIntegers | undefined;
  /** [P] token ids of each prompt: shows equivalent columns. */
  prompts?: readonly StoredIntegers[] | undefined;
  /** [R, T] token ids. */
  responseIds?: { readonly data: StoredIntegers; readonly shape: readonly [number, number] } | undefined;
  /** [R] */
  rewards?: RewardArray | undefined;
  /** [R] the unshaped outcome, where `rewards` is shaped. */
  outcome?: RewardArray | undefined;
  /** [R] 0 or 1: the task succeeded. */
  correct?: Uint8Array | undefined;
  /** [R] 0 or 1: the reasoning was well formed. */
  valid?: Uint8Array | undefined;
  /** [R] a discrete action, or its hash. */
  actions?: StoredIntegers | undefined;
  /** [R] the trajectory that the row is a turn of. */
  episode?: StoredIntegers | undefined;
  /** [R] its number within the trajectory. */
  turn?: StoredIntegers | undefined;
  /** [R] environment of each row by name, null if it has none; or that of a step that was read. A prompt has one. */
  environments?: EnvironmentLabels | RowEnvironments | undefined;
  /** [R, T] the policy's entropy at each sampled token. */
  tokenEntropy?: WrittenTensor | undefined;
  /** [R, T] the row's log-probs with the state or image removed. */
  ablatedLogprobs?: WrittenTensor | undefined;
  /** float32 [Q, R]: log p(action of row r | its own prompt, reasoning q). */
  actionLogprobs?: HostTensor | undefined;
}

/** float16 may come in a Float16Array, where the runtime has them. */
export type WrittenTensor = Omit<HostTensor, 'data'> & { readonly data: HostTensor['data'] | Float16ArrayLike };

/** Numbers that the reader widens to float64. */
export type RewardArray = Float32Array | Float64Array | Int32Array | BigInt64Array;

/** Options of `writeStep`. */
export interface WriteStepOptions {
  signal?: AbortSignal | undefined;
}

const FIELDS = optionNames<StepToWrite>({
  step: true,
  run: true,
  metadata: true,
  logprobs: true,
  sums: true,
  lengths: true,
  group: true,
  columnGroup: true,
  prompts: true,
  responseIds: true,
  rewards: true,
  outcome: true,
  correct: true,
  valid: true,
  actions: true,
  episode: true,
  turn: true,
  environments: true,
  tokenEntropy: true,
  ablatedLogprobs: true,
  actionLogprobs: true,
});
/** What a step that was read has beside these: `{ ...step, logprobs }` writes it again. */
const READ_FIELDS: readonly (keyof StepData)[] = ['file', 'bytes', 'scores', 'float32'];

/** Writes of more than this are split, so that an abort is noticed within milliseconds. */
const WRITE_BYTES = 16 * 2 ** 20;

/** As `writeStep` of src/on-demand.ts says. */
export async function writeStep(path: string, step: StepToWrite, options: WriteStepOptions = {}): Promise<void> {
  checkPath(path, 'path');
  checkObject(step, 'step');
  checkKnown(step, 'step', [...FIELDS, ...READ_FIELDS]);
  checkOptions(options, { signal: is.signal });
  const environments = environmentsOf(step);
  const tensors = collectTensors(step, environments);
  // Wide elements first: with the header padded to 8 bytes, each tensor is then aligned to its element.
  tensors.sort((a, b) => storedBytes(b.dtype) - storedBytes(a.dtype));
  const header = encodeHeader(tensors, collectMetadata(step, environments));
  await writeWhole(path, [{ memory: header, bytes: header.length }, ...tensors], options.signal);
}

interface CollectedTensor extends TensorToWrite {
  readonly name: StepTensorName;
  readonly argument: string;
  readonly memory: Uint8Array;
}

/** The tensors that are there, checked by the rules of the reader. */
function collectTensors(step: StepToWrite, environments: StoredEnvironments | undefined): CollectedTensor[] {
  const collected = new Map<StepTensorName, CollectedTensor>();
  const add = (name: StepTensorName, field: string, source: GivenSource | undefined) => {
    if (source === undefined) return;
    checkObject(source, `step.${field}`);
    const data = source.dtype === 'float16' && isFloat16Array(source.data) ? halfBits(source.data) : source.data;
    collected.set(name, collect(name, `step.${field}`, { ...source, data: data as Elements }));
  };
  if (step.prompts !== undefined) checkArray(step.prompts, 'step.prompts');
  const prompts = step.prompts === undefined ? undefined : padPrompts(step.prompts);
  add('cross_logprobs', 'logprobs', step.logprobs);
  add('cross_logprob_sums', 'sums', step.sums);
  add('lengths', 'lengths', vector(step.lengths));
  add('group', 'group', vector(step.group));
  add('column_group', 'columnGroup', vector(step.columnGroup));
  add('prompt_ids', 'prompts', prompts?.ids);
  add('prompt_lengths', 'prompts', vector(prompts?.lengths));
  add('response_ids', 'responseIds', step.responseIds);
  add('rewards', 'rewards', vector(rewardArray('step.rewards', step.rewards)));
  add('outcome', 'outcome', vector(rewardArray('step.outcome', step.outcome)));
  add('correct', 'correct', vector(step.correct));
  add('valid', 'valid', vector(step.valid));
  add('actions', 'actions', vector(step.actions));
  add('episode', 'episode', vector(step.episode));
  add('turn', 'turn', vector(step.turn));
  add('environment', 'environments', vector(environments?.ids));
  add('token_entropy', 'tokenEntropy', step.tokenEntropy);
  add('ablated_logprobs', 'ablatedLogprobs', step.ablatedLogprobs);
  add('action_logprobs', 'actionLogprobs', step.actionLogprobs);

  const fail = (tensor: StepTensorName, problem: string): never => {
    throw new ArgumentError(collected.get(tensor)?.argument ?? `step (${tensor})`, problem);
  };
  const layout = checkLayout(collected, fail);
  const { lengths, group, columnGroup, correct, valid } = step;
  const values = { lengths, group, columnGroup, promptLengths: prompts?.lengths, correct, valid };
  checkValues(layout, values, (tensor, _index, problem) => fail(tensor, problem));
  return [...collected.values()];
}

type StoredEnvironments = ReturnType<typeof environmentIds>;

function environmentsOf({ environments, group }: StepToWrite): StoredEnvironments | undefined {
  const found = givenEnvironments(environments, group, 'step.environments');
  return found && environmentIds(found);
}

/** A Uint8Array holds flags here, which rewards are not. */
function rewardArray(argument: string, values: RewardArray | undefined): RewardArray | undefined {
  if (!((values as unknown) instanceof Uint8Array)) return values;
  throw new ArgumentError(
    argument,
    `got ${shown(values)}, expected a Float32Array, Float64Array, Int32Array or BigInt64Array`,
  );
}

type Elements = HostTensor['data'] | StoredIntegers | Uint8Array;

/** A Tensor, or an array of a type that names its own dtype. */
interface Source {
  readonly data: Elements;
  readonly dtype?: DType;
  readonly shape: readonly number[];
  readonly strides?: readonly number[];
}

type GivenSource = Omit<Source, 'data'> & { readonly data: Elements | Float16ArrayLike };

function vector(data: Elements | undefined): Source | undefined {
  // Anything but an array is refused when it is collected.
  return data === undefined ? undefined : { data, shape: [data?.length ?? 0] };
}

function collect(name: StepTensorName, argument: string, { data, dtype, shape, strides }: Source): CollectedTensor {
  checkMemory(data, argument);
  const stored = dtype === undefined ? arrayDType(argument, data) : tensorDType(argument, dtype, data);
  const { shape: sizes, elements } = checkShape(shape, `${argument}.shape`);
  if (elements !== data.length) {
    const problem = `shape [${sizes.join(', ')}] has ${elements} elements, but the array has ${data.length}`;
    throw new ArgumentError(argument, problem);
  }
  if (strides !== undefined && !(strides.length === sizes.length && isDense({ shape: sizes, strides }))) {
    const problem = `strides [${strides.join(', ')}] are not those of a dense row-major tensor: copy it into one`;
    throw new ArgumentError(argument, problem);
  }
  const memory = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return { name, argument, dtype: stored, shape: sizes, bytes: memory.length, memory };
}

const TENSOR_DTYPES = {
  float64: { stored: 'F64', array: Float64Array },
  float32: { stored: 'F32', array: Float32Array },
  float16: { stored: 'F16', array: Uint16Array },
  bfloat16: { stored: 'BF16', array: Uint16Array },
} as const;

function tensorDType(argument: string, dtype: DType, data: Elements): SafetensorsDType {
  const known = Object.hasOwn(TENSOR_DTYPES, dtype) ? TENSOR_DTYPES[dtype] : undefined;
  if (known === undefined || !(data instanceof known.array)) {
    const expected = known?.array.name ?? `one of ${Object.keys(TENSOR_DTYPES).join(', ')}`;
    throw new ArgumentError(argument, `got dtype ${shown(dtype)} with ${shown(data)}, expected ${expected}`);
  }
  return known.stored;
}

function arrayDType(argument: string, data: Elements): SafetensorsDType {
  if (data instanceof Int32Array) return 'I32';
  if (data instanceof BigInt64Array) return 'I64';
  if (data instanceof Float32Array) return 'F32';
  if (data instanceof Float64Array) return 'F64';
  if (data instanceof Uint8Array) return 'BOOL';
  throw new ArgumentError(argument, `got ${shown(data)}, expected a typed array of the kind that StepToWrite names`);
}

function checkPrompts(prompts: readonly StoredIntegers[]): void {
  checkArray(prompts, 'step.prompts');
  for (const [at, prompt] of Array.from(prompts).entries()) {
    // Of a number, an array that is not nested enough, JavaScript makes a prompt without tokens.
    checkArray(prompt, `step.prompts[${at}]`);
    const stranger = Array.from<unknown>(prompt).findIndex((id) => typeof id !== 'bigint' && !Number.isSafeInteger(id));
    if (stranger < 0) continue;
    const problem = `entry ${stranger} is ${shown(prompt[stranger])}, expected the id of a token, an integer`;
    throw new ArgumentError(`step.prompts[${at}]`, problem);
  }
}

/** Pads prompts of different lengths to [P, L] with zeros, and gives the lengths. */
function padPrompts(prompts: readonly StoredIntegers[]): { ids: Source; lengths: Int32Array } {
  checkPrompts(prompts);
  const lengths = Int32Array.from(prompts, (prompt) => prompt.length);
  const longest = lengths.reduce((most, length) => Math.max(most, length), 0);
  const shape = [prompts.length, longest];
  if (prompts.every((prompt) => prompt instanceof Int32Array)) {
    const data = new Int32Array(prompts.length * longest);
    for (const [column, prompt] of prompts.entries()) data.set(prompt, column * longest);
    return { ids: { data, shape }, lengths };
  }
  const data = new BigInt64Array(prompts.length * longest);
  for (const [column, prompt] of prompts.entries()) data.set(BigInt64Array.from(prompt, BigInt), column * longest);
  return { ids: { data, shape }, lengths };
}

function collectMetadata(
  { step, run, metadata = {} }: StepToWrite,
  environments: StoredEnvironments | undefined,
): Map<string, string> {
  checkObject(metadata, 'step.metadata');
  if (!(Number.isSafeInteger(step) && step >= 0)) {
    throw new ArgumentError('step.step', `got ${shown(step)}, expected a whole number from 0 on`);
  }
  const collected = new Map([['step', String(step)]]);
  if (run !== undefined) collected.set('run', run);
  if (environments !== undefined) collected.set(ENVIRONMENT_NAMES, environments.names);
  for (const [key, value] of Object.entries(metadata)) {
    // Those of a step that was read may be in another order.
    if (key === ENVIRONMENT_NAMES && environments !== undefined) continue;
    const settled = collected.get(key);
    if (settled !== undefined && settled !== value) {
      throw new ArgumentError(`step.metadata.${key}`, `"${value}", but step.${key} says "${settled}": give it once`);
    }
    collected.set(key, value);
  }
  for (const [key, value] of collected) {
    if (typeof value !== 'string')
      throw new ArgumentError(`step.metadata.${key}`, `got ${shown(value)}, expected a string`);
    if (LONE_SURROGATE.test(key + value)) {
      const problem = 'has half of a surrogate pair, which no reader takes: cut text between characters';
      throw new ArgumentError(`step.metadata.${printable(key)}`, problem);
    }
  }
  return collected;
}

interface Piece {
  readonly memory: Uint8Array;
  /** Length of `memory` when it was checked: it shrinks when its buffer is transferred or resized. */
  readonly bytes: number;
}

/** All of the pieces, or nothing. */
async function writeWhole(path: string, pieces: readonly Piece[], signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  const file = await AtomicFile.at(path, join(dirname(path), `.collapsar-${randomBytes(8).toString('hex')}.tmp`));
  try {
    for (const { memory, bytes } of pieces) {
      for (let done = 0; done < bytes; done += WRITE_BYTES) {
        signal?.throwIfAborted();
        if (memory.length !== bytes) {
          const problem =
            'an array of the step was transferred or resized while it was written: wait for writeStep() first';
          throw new FileError({ path }, problem);
        }
        await file.writeBytes(memory.subarray(done, done + WRITE_BYTES));
      }
    }
    await file.complete();
  } catch (error) {
    await file.discard();
    throw signal?.aborted ? signal.reason : error;
  }
  await syncDirectory(dirname(path));
}
