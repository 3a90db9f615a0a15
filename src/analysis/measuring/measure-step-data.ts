// Measures a step file, or a step that is already there: small plain data of all that it says on its own.
import { ArgumentError, DeviceError, FileError } from '../../checks/errors.js';
import type { Engine } from '../../engine/engine.js';
import type { HostTensor } from '../../engine/tensor/tensor.js';
import type { FilterResult } from '../../filter/filter-result.js';
import type { FilterOptions } from '../../filter/input/filter-options.js';
import type { Spelling } from '../../filter/input/sentences.js';
import type { OptionalTensor } from '../../logs/steps/read-step-options.js';
import type { StepData } from '../../logs/steps/step-data.js';
import { withStepFile } from '../../logs/steps/step-file.js';
import { FEWER_ROWS } from '../../logs/steps/tensor-memory.js';
import { checkMetricArguments, checkScores } from '../../metrics/metric-arguments.js';
import type { SamplerOptions } from '../../metrics/sampling/samplers.js';
import { measureStep, type StepRules } from '../../step/measure-step.js';
import type { GroupName } from '../../step/prompts/prompt-measurement.js';
import type { StepInput, StepRows } from '../../step/step-input.js';
import type { BadRow, StepMeasurement } from '../../step/step-measurement.js';
import { resolveJudgeOptions } from '../../verdicts/judge-options.js';
import type { MeasureOptions } from './measure-options.js';
import { refusePlaceholders } from './placeholder-scores.js';
import { type NonFinitePolicy, tokenSums } from './token-sums.js';

export function badRow({ file, problem, offset }: BadRow): FileError {
  return new FileError({ path: file, ...(offset !== undefined && { offset }) }, problem);
}

/** One value a token of every response, of which no figure is made. */
const UNUSED: ReadonlySet<OptionalTensor> = new Set<OptionalTensor>(['response_ids', 'token_entropy']);

/** What goes with the measuring of a file, beside what the result depends on. */
export interface Measuring {
  /** The content that the file must still have: StepHeader.identity. */
  readonly identity?: string | undefined;
  /** Bytes that the step may take, about. Default: whatever it takes. */
  readonly maxMemory?: number | undefined;
  /** Whether somebody reads what there is to say of each prompt. Default true. */
  readonly perPrompt?: boolean | undefined;
  /** Called with the size of each finished block of scores. */
  readonly onBytes?: ((bytes: number) => void) | undefined;
}

/**
 * Reads the scores once, in constant memory.
 * @param blockBytes of scores to hold at a time
 * @throws {FileError} when the file cannot be used, or has another content than `identity`; `signal.reason` when
 *   aborted
 */
export async function measureStepFile(
  engine: Engine,
  path: string,
  options: MeasureOptions,
  blockBytes: number,
  signal: AbortSignal,
  { identity, maxMemory, ...measuring }: Measuring = {},
): Promise<StepMeasurement> {
  const reading = { blockBytes, signal, identity, maxMemory, unread: UNUSED };
  const measure = (data: StepData) => measureData(engine, data, options, signal, measuring);
  return asFileError(path, signal, () => withStepFile(path, reading, measure));
}

/**
 * Measures a step that is already there, or comes from elsewhere than a file.
 * @throws {FileError} naming `data.file` when the step cannot be used; `signal.reason` when aborted
 */
export function measureStepData(
  engine: Engine,
  data: StepData,
  options: MeasureOptions,
  signal: AbortSignal,
  measuring: Omit<Measuring, 'identity'> = {},
): Promise<StepMeasurement> {
  return asFileError(data.file, signal, () => measureData(engine, data, options, signal, measuring));
}

async function measureData(
  engine: Engine,
  data: StepData,
  options: MeasureOptions,
  signal: AbortSignal,
  { perPrompt = true, onBytes }: Omit<Measuring, 'identity'>,
): Promise<StepMeasurement> {
  const policy: NonFinitePolicy = options.profile === 'ragen' ? 'propagate' : options.nonFinite;
  const sums = await tokenSums(engine, data, policy, signal, onBytes);
  if (options.profile === 'strict' && options.placeholders === 'error') refusePlaceholders(data, sums);
  const input = await inputOfFile(engine, data, sums, options, signal);
  const work = { perPrompt, firstRows: async () => undefined, signal };
  return plainMeasurement(await measureStep(async () => engine, input, rulesOf(options), work));
}

/** What steps of files and logs are measured by. */
export function rulesOf({ profile, permutations, seed, turnRewards }: MeasureOptions): StepRules {
  const rewards = { filter: FILTER, turnRewards, spelling: SPELLING };
  const judge = resolveJudgeOptions({ seed });
  return { profile, permutations, seed, ...rewards, judge, rollouts: false, isLenient: true };
}

/** What is asked of the filter: what it would do with a step, whatever is wrong with single rewards. */
const FILTER: FilterOptions = { nonFinite: 'exclude' };

const SPELLING: Spelling = { options: { turnRewards: 'turnRewards (--turn-rewards)' } };

/**
 * The filter's choice without its arrays.
 * @param nameOf how it names a group. Default: by its number
 */
export function plainMeasurement(
  { filter, ...others }: StepMeasurement<FilterResult>,
  nameOf: (group: number | bigint) => GroupName = (group) => group,
): StepMeasurement {
  if (filter === undefined) return others;
  const { kept, dropped, empty, warnings, metrics } = filter;
  const named = dropped.map(({ group, reason }) => ({ group: nameOf(group), reason }));
  return { ...others, filter: { kept: kept.map(nameOf), dropped: named, empty, warnings, metrics } };
}

export async function asFileError<T>(path: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    // The signal's reason may be an error of any kind.
    if (error instanceof FileError || error === signal.reason) throw error;
    // Options were checked before: an argument that is wrong now, or memory that is short, is this file's affair.
    if (error instanceof ArgumentError || error instanceof DeviceError) {
      throw new FileError({ path }, error.message, { cause: error });
    }
    // What the language says of an array that it has no memory for.
    if (error instanceof RangeError) {
      const problem = `not enough memory to measure the step: ${error.message}; ${FEWER_ROWS}`;
      throw new FileError({ path }, problem, { cause: error });
    }
    throw error;
  }
}

/** The step as its file has it: under `ragen` only its scores, as the reference knows nothing else. */
async function inputOfFile(
  engine: Engine,
  data: StepData,
  sums: HostTensor,
  { profile, seed, samples }: MeasureOptions,
  signal: AbortSignal,
): Promise<StepInput> {
  const { step, group: groups, columnGroup: columnGroups, episode: episodes, turn: turns, lengths } = data;
  const hasTurns = episodes !== undefined && turns !== undefined;
  const samplers: SamplerOptions[] = hasTurns
    ? [
        { kind: 'first_turn', seed },
        { kind: 'trajectory', n: samples, seed },
        { kind: 'turn', n: samples, seed },
      ]
    : [];
  const { prompts: promptTokens, environments } = data;
  const given = { sums, lengths, groups, columnGroups, promptTokens, episodes, turns, environments };
  const options = { step, sampler: samplers[0] };
  checkMetricArguments(given, options);
  return {
    step,
    scores: { scores: checkScores(given, options), samplers },
    rows: profile === 'ragen' ? undefined : await rowsOf(engine, data, signal),
    prompts: { ids: columnGroups, nameOf: (group) => group },
  };
}

/** The columns of a step file that say something beside its scores. */
async function rowsOf(engine: Engine, data: StepData, signal: AbortSignal): Promise<StepRows> {
  const { group: groups, episode: episodes, turn: turns, actions, correct, actionLogprobs: swaps } = data;
  return {
    ...{ groups, episodes, turns, actions, correct },
    rewards: inStoredPrecision(data, 'rewards'),
    outcomes: inStoredPrecision(data, 'outcome'),
    ablated: await ablatedSums(engine, data, signal),
    reasoningSwaps: swaps && { logprobs: swaps.data, reasonings: swaps.shape[0] as number },
  };
}

/** The filter tells rounding by the precision that values were stored in. */
export function inStoredPrecision(
  data: StepData,
  name: 'rewards' | 'outcome',
): Float64Array | Float32Array | undefined {
  const values = data[name];
  return values !== undefined && data.float32?.includes(name) ? Float32Array.from(values) : values;
}

/** Sums over tokens of log p(z | x without state or image), one a row. */
async function ablatedSums(
  engine: Engine,
  data: StepData,
  signal: AbortSignal,
): Promise<HostTensor['data'] | undefined> {
  const tensor = data.ablatedLogprobs;
  if (tensor === undefined) return undefined;
  const [rows, tokens] = tensor.shape as [number, number];
  const { sums } = await engine.sumTokens({ ...tensor, shape: [1, rows, tokens] }, data.lengths, { signal });
  return sums.data;
}
