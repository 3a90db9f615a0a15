// Reads one step file (docs/reference/step-file.md): its header, and the step that it holds. The small tensors are read
// at once, the scores when they are asked for.

import { FileError } from '../../checks/errors.js';
import { checkOptions, is } from '../../checks/options.js';
import type { RowEnvironments } from '../../checks/row-environments.js';
import { printable } from '../../checks/words.js';
import type { StepContainer } from '../formats/container.js';
import { checkRoom } from '../formats/decompression-limits.js';
import { openContainer } from '../formats/open-container.js';
import { LENGTH_BYTES, storedBytes } from '../formats/safetensors.js';
import { placeOf, withoutClose } from '../stores/byte-source.js';
import { directoryOf, nameOf } from '../stores/store.js';
import { READ_STEP_OPTIONS, type ReadStepOptions } from './read-step-options.js';
import type { StepData, StoredIntegers } from './step-data.js';
import {
  checkLayout,
  checkValues,
  hasNothingOfStep,
  NoStepError,
  type StepLayout,
  type StepTensorName,
} from './step-layout.js';
import { stepScores } from './step-scores.js';
import { readTensors } from './step-tensors.js';
import { storedEnvironments } from './stored-environments.js';
import { flags, floats, integers, widened } from './tensor-memory.js';

/** Content of the header of a step file. */
export interface StepHeader {
  /** Path of the file, as given. */
  readonly file: string;
  readonly step: number;
  /** `run` of the metadata, else the name of the folder. */
  readonly run: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly bytes: number;
  readonly layout: StepLayout;
  /**
   * Which content this is: size, time of the last change and a digest of the header's bytes. Another one, another
   * content.
   */
  readonly identity: string;
}

/**
 * Reads a step file but for its scores, for which it is opened again.
 * @throws FileError naming path, offset and tensor when the file cannot be read or is not a step file; the signal's
 *   reason when it is aborted
 */
export async function readStepFile(path: string, options: ReadStepOptions = {}): Promise<StepData> {
  checkOptions(options, READ_STEP_OPTIONS);
  return withContainer(path, options, async (container) => {
    const step = await readStep(path, container, options);
    await container.source.checkUnchanged();
    return step;
  });
}

/**
 * The same for a step whose scores are read once and at once: a local file is opened once only, and open until `use`
 * has ended. What changes meanwhile is noticed when the scores have been read.
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
    const opened = isLocal ? { ...container, reopen: async () => withoutClose(source) } : container;
    return use(await readStep(path, opened, options));
  });
}

async function readStep(path: string, container: StepContainer, options: ReadStepOptions): Promise<StepData> {
  const { source } = container;
  const header = headerOf(path, container);
  if (options.identity !== undefined && options.identity !== header.identity) {
    throw new FileError({ path }, 'the file was replaced or changed after it was listed: analyse it again');
  }
  checkRoom(path, container, header.layout, options);
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
    const offset = (entry?.begin ?? 0) + (index ?? 0) * storedBytes(entry?.dtype ?? 'U8');
    throw new FileError({ ...placeOf(source, offset), tensor }, problem);
  };
  let columnGroup: StoredIntegers;
  let environments: RowEnvironments | undefined;
  try {
    columnGroup = checkValues(header.layout, values, fail);
    const ids = integers(tensors.get('environment'));
    environments = storedEnvironments(ids, values.group, container.metadata, (row, problem) =>
      fail('environment', row, problem),
    );
  } catch (error) {
    // What is wrong with values of a file that is being written is that it is being written.
    await source.checkUnchanged();
    throw error;
  }
  const { lengths, group, correct, valid, promptLengths } = values;
  const promptIds = integers(tensors.get('prompt_ids'));
  const responseIds = integers(tensors.get('response_ids'));
  const real = (name: 'rewards' | 'outcome') =>
    widened(tensors.get(name), (row, value) => {
      const problem = `${value} in row ${row} is beyond 2^53, which float64 does not hold exactly: scale it down, or write F64`;
      return fail(name, row, problem);
    });
  const float32 = (['rewards', 'outcome'] as const).filter((name) => {
    const dtype = tensors.get(name)?.entry.dtype;
    return dtype === 'F32' || dtype === 'F16' || dtype === 'BF16';
  });
  const { layout, file, step, run, metadata, bytes } = header;
  return {
    file,
    step,
    run,
    metadata,
    bytes,
    scores: stepScores(container, options),
    lengths,
    group,
    columnGroup,
    prompts: promptIds === undefined ? undefined : splitPrompts(promptIds, layout, promptLengths),
    environments,
    rewards: real('rewards'),
    outcome: real('outcome'),
    float32,
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
 * @throws FileError as readStepFile does, for everything that the header shows
 */
export async function readStepHeader(
  path: string,
  options: { signal?: AbortSignal | undefined } = {},
): Promise<StepHeader> {
  checkOptions(options, { signal: is.signal });
  return withContainer(path, options, async (container) => headerOf(path, container));
}

async function withContainer<T>(
  path: string,
  { signal }: ReadStepOptions,
  use: (container: StepContainer) => Promise<T>,
): Promise<T> {
  const container = await openContainer(path, { signal });
  try {
    return await use(container);
  } finally {
    await container.source.close();
  }
}

function headerOf(path: string, { source, tensors, ...container }: StepContainer): StepHeader {
  const Failure = hasNothingOfStep(tensors, container.metadata) ? NoStepError : FileError;
  const layout = checkLayout(tensors, (tensor, problem) => {
    const at = tensors.get(tensor)?.declaredAt ?? container.headerAt;
    throw new Failure({ ...(at === undefined ? { path: source.path } : placeOf(source, at)), tensor }, problem);
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

function stepNumber(path: string, text: string | undefined): number {
  const step = Number(text);
  if (text !== undefined && /^[0-9]+$/.test(text) && Number.isSafeInteger(step)) return step;
  const came = text === undefined ? 'missing' : `"${printable(text)}"`;
  const problem = `step in __metadata__ is ${came}, expected the number of the training step, from 0 on, as a string, such as "120"`;
  throw new FileError({ path, offset: LENGTH_BYTES }, problem);
}

function splitPrompts(
  ids: StoredIntegers,
  { prompts, promptTokens = 0 }: StepLayout,
  lengths: StoredIntegers | undefined,
): StoredIntegers[] {
  return Array.from({ length: prompts }, (_, prompt) => {
    const begin = prompt * promptTokens;
    return ids.subarray(begin, begin + Number(lengths?.[prompt] ?? promptTokens));
  });
}
