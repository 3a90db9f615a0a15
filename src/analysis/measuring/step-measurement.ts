// One step file in, all that it says on its own out: small plain data that does not depend on any other step, so that
// steps can be measured anywhere and in any order (run-replay.ts puts them in theirs).

import { ArgumentError, DeviceError, FileError } from '../../checks/errors.js';
import { is, type OptionTable } from '../../checks/options.js';
import type { Engine } from '../../engine/engine.js';
import type { HostTensor } from '../../engine/tensor/tensor.js';
import { TURN_REWARDS, type TurnRewards } from '../../filter/input/filter-options.js';
import { LOG_OPTIONS, type LogOptions, onlyEnvironment } from '../../logs/rollouts/log-options.js';
import type { OptionalTensor } from '../../logs/steps/read-step-options.js';
import type { StepData } from '../../logs/steps/step-data.js';
import { withStepFile } from '../../logs/steps/step-file.js';
import { FEWER_ROWS } from '../../logs/steps/tensor-memory.js';
import { crossScoreMetrics } from '../../metrics/cross-score-metrics.js';
import type { MetricOptions } from '../../metrics/cross-scores.js';
import type { SamplerOptions } from '../../metrics/sampling/samplers.js';
import { PROFILE, type Profile, type StepMetrics } from '../../metrics/step-metrics.js';
import type { TextMetrics } from '../../metrics/text-metrics.js';
import type { StepExcerpts } from '../../monitor/prompts/excerpts.js';
import { type GroupNames, type PromptMeasurement, promptsOfScores } from '../../monitor/prompts/prompt-measurement.js';
import type { StepReading } from '../../verdicts/index.js';
import { besideMetrics, type FilterView, type RowColumns } from './beside-metrics.js';
import { refusePlaceholders } from './placeholder-scores.js';
import { type NonFinitePolicy, tokenSums } from './token-sums.js';

/** Plain data: arrays, objects, strings, bigints and numbers, NaN and infinities among them. */
export interface StepMeasurement {
  /**
   * One a sample label: first turns only, or first turns, trajectories and turns; none without cross-scores. Averages
   * are those of a run's first step.
   */
  readonly metrics: readonly StepMetrics[];
  /** Of steps with rollouts. */
  readonly texts?: TextMetrics;
  /** What the step says of each of its prompts (`strict`), where that was asked for. */
  readonly prompts?: PromptMeasurement;
  /** Some of the step's rollouts, to be read: of steps with texts. */
  readonly excerpts?: StepExcerpts;
  /** What the group numbers of `reading.prompts` stand for, where they are none of the file's. */
  readonly groupNames?: GroupNames;
  /** What the judge needs of the step (`strict`); missing where the file's values do not allow it: see notes. */
  readonly reading?: StepReading;
  /** In files with rewards (`strict`). */
  readonly filter?: FilterView;
  /** Why reading or filter are missing. */
  readonly notes: readonly string[];
  /** Lines and rows of the step's logs that could not be used; missing where there are none. */
  readonly badRows?: readonly BadRow[];
}

/** A failure that did not cost its step: plain data. */
export interface BadRow {
  readonly file: string;
  readonly problem: string;
  readonly offset?: number;
}

/** What a measurement depends on, beside the file. */
export interface MeasureOptions extends Readonly<LogOptions> {
  readonly profile: Profile;
  readonly permutations?: number | undefined;
  readonly seed: number;
  /** Draws of the trajectory and turn samplers, in files with `episode` and `turn`. */
  readonly samples: number;
  readonly nonFinite: 'error' | 'exclude';
  readonly placeholders: 'error' | 'exclude';
  /** What the rewards of an episode's turns make the episode's. */
  readonly turnRewards: TurnRewards;
}

/** The reference's number of draws (docs/reference/metrics.md). */
const DEFAULT_SAMPLES = 64;

/** What becomes of a row that cannot be used. */
const POLICY = is.oneOf(['error', 'exclude']);

export const MEASURE_OPTIONS: OptionTable<MeasureOptions> = {
  profile: PROFILE,
  permutations: is.integer(0),
  seed: is.integer(0),
  samples: is.integer(1),
  nonFinite: POLICY,
  placeholders: POLICY,
  turnRewards: is.oneOf(TURN_REWARDS),
  ...LOG_OPTIONS,
};

export function measureOptions(given: { [K in keyof MeasureOptions]?: MeasureOptions[K] | undefined }): MeasureOptions {
  const {
    profile = 'strict',
    permutations,
    seed = 0,
    samples = DEFAULT_SAMPLES,
    nonFinite = 'error',
    placeholders = 'exclude',
  } = given;
  const { turnRewards = 'same', format, columns, reasoning, tagTokens, groupSize, rewardColumns } = given;
  const logs = { format, columns, reasoning, tagTokens, groupSize, rewardColumns };
  return { profile, permutations, seed, samples, nonFinite, placeholders, turnRewards, ...logs };
}

/** Whether rollout logs are looked for: `ragen` gives the reference's numbers and nothing else. */
export function hasTexts({ profile }: MeasureOptions): boolean {
  return profile === 'strict';
}

/** Whether the user says what reads the logs. */
export function isForced({ format, columns }: MeasureOptions): boolean {
  return format !== undefined || (columns !== undefined && !onlyEnvironment(columns));
}

export function badRow({ file, problem, offset }: BadRow): FileError {
  return new FileError({ path: file, ...(offset !== undefined && { offset }) }, problem);
}

/** One value a token of every response, of which no figure is made. */
const UNUSED: ReadonlySet<OptionalTensor> = new Set<OptionalTensor>(['response_ids', 'token_entropy']);

/** What goes with the measuring of a file, beside what the result depends on. */
export interface Measuring {
  /** The content that the file must still have: StepHeader.identity. */
  readonly identity?: string | undefined;
  /** Whether somebody reads what there is to say of each prompt. Default true. */
  readonly perPrompt?: boolean | undefined;
  /** Called with the size of each block of scores that is through. */
  readonly onBytes?: ((bytes: number) => void) | undefined;
}

/**
 * Reads the scores once, in constant memory.
 * @param blockBytes of scores to hold at a time
 * @throws {FileError} when the file cannot be used, or has another content than `identity`; `signal.reason` when
 *   aborted
 */
export async function measureStep(
  engine: Engine,
  path: string,
  options: MeasureOptions,
  blockBytes: number,
  signal: AbortSignal,
  { identity, ...measuring }: Measuring = {},
): Promise<StepMeasurement> {
  const reading = { blockBytes, signal, identity, unread: UNUSED };
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
  { perPrompt: isWanted = true, onBytes }: Omit<Measuring, 'identity'>,
): Promise<StepMeasurement> {
  const policy: NonFinitePolicy = options.profile === 'ragen' ? 'propagate' : options.nonFinite;
  const sums = await tokenSums(engine, data, policy, signal, onBytes);
  if (options.profile === 'strict' && options.placeholders === 'error') refusePlaceholders(data, sums);
  const metrics = await sampleMetrics(engine, data, sums, options, isWanted, signal);
  // One value a row was for the judge alone: what is kept of a step is as small as its figures.
  const kept = metrics.map(({ perRow, perPrompt, ...rest }) => rest);
  if (options.profile === 'ragen') return { metrics: kept, notes: [] };
  const columns = await rowColumns(engine, data, signal);
  const prompts = isWanted && { prompts: promptsOfScores(metrics[0]?.perPrompt, data.columnGroup) };
  const beside = await besideMetrics(engine, columns, { metrics: metrics[0] }, options, signal);
  return { metrics: kept, ...prompts, ...beside };
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

/** The metrics of each sample that the file allows. */
async function sampleMetrics(
  engine: Engine,
  data: StepData,
  sums: HostTensor,
  { profile, permutations, seed, samples }: MeasureOptions,
  perPrompt: boolean,
  signal: AbortSignal,
): Promise<StepMetrics[]> {
  const scores = {
    sums,
    lengths: data.lengths,
    groups: data.group,
    columnGroups: data.columnGroup,
    promptTokens: data.prompts,
    episodes: data.episode,
    turns: data.turn,
    environments: data.environments,
  };
  const isStrict = profile !== 'ragen';
  const common: MetricOptions = {
    profile,
    permutations,
    seed,
    step: data.step,
    signal,
    perRow: isStrict,
    perPrompt: isStrict && perPrompt,
  };
  if (data.episode === undefined || data.turn === undefined) return [await crossScoreMetrics(engine, scores, common)];
  const samplers: SamplerOptions[] = [
    { kind: 'first_turn', seed },
    { kind: 'trajectory', n: samples, seed },
    { kind: 'turn', n: samples, seed },
  ];
  const found: StepMetrics[] = [];
  for (const sampler of samplers) {
    // What is said of each prompt is said of first turns.
    const ofEach = common.perPrompt === true && sampler.kind === 'first_turn';
    found.push(await crossScoreMetrics(engine, scores, { ...common, perPrompt: ofEach, sampler }));
  }
  return found;
}

/** The columns of a step file that say something beside its scores. */
async function rowColumns(engine: Engine, data: StepData, signal: AbortSignal): Promise<RowColumns> {
  const { step, group, episode, turn, actions, correct } = data;
  const swaps = data.actionLogprobs;
  return {
    step,
    group,
    episode,
    turn,
    actions,
    correct,
    rewards: inStoredPrecision(data, 'rewards'),
    outcome: inStoredPrecision(data, 'outcome'),
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
