// Reads from one step's evidence what needs no earlier steps: small, plain data, so that steps can be read anywhere in
// any order, and judged later in theirs.

import { checkObject, optionNames } from '../checks/argument-checks.js';
import { ArgumentError } from '../checks/errors.js';
import { idOf } from '../checks/ids.js';
import { shown } from '../checks/words.js';
import type { Engine } from '../engine/engine.js';
import { checkEvidence, evidenceOfEpisodes } from './evidence/check-evidence.js';
import { episodesOf, outcomesAlone, type RolloutGroup, rolloutGroups } from './evidence/group-outcomes.js';
import type { FilterEvidence, RowEvidence, StepEvidence } from './evidence/step-evidence.js';
import { type JudgeOptions, type JudgeSettings, resolveJudgeOptions } from './judge-options.js';
import { type PromptRewards, promptRewards, type RewardRange, rewardRange } from './prompt-triage.js';
import { type Counting, countNow, countOn } from './statistics/shuffle-counts.js';
import { actionInformation, type Information, reasoningInformation } from './warnings/action-information.js';
import { type ActionOscillation, actionOscillation } from './warnings/action-oscillation.js';
import { type Grounding, grounding } from './warnings/grounding.js';
import { countSpecificity, type SpecificityCounts } from './warnings/specificity.js';

/** Plain data; numbers may be NaN (p-values without permutations) and ids bigints. */
export interface StepReading {
  readonly step: number;
  readonly success: number | null;
  readonly rewardRange: RewardRange;
  readonly prompts: readonly PromptRewards[];
  readonly specificity: SpecificityCounts | null;
  readonly actionInformation: Information | null;
  readonly reasoningInformation: Information | null;
  readonly oscillation: ActionOscillation | null;
  readonly grounding: Grounding | null;
  /** Share of groups that the filter keeps. */
  readonly filterKeptRatio: number | null;
  readonly figures: Readonly<Record<string, number>> | null;
}

const READING = optionNames<StepReading>({
  step: true,
  success: true,
  rewardRange: true,
  prompts: true,
  specificity: true,
  actionInformation: true,
  reasoningInformation: true,
  oscillation: true,
  grounding: true,
  filterKeptRatio: true,
  figures: true,
});

/** @throws {ArgumentError} for what readEvidence() did not give */
export function checkReading(reading: StepReading): void {
  checkObject(reading, 'reading');
  if (!Array.isArray(reading.prompts) || !('specificity' in reading)) {
    const problem = `got ${shown(reading)}, expected what readEvidence() gives; evidence goes to add()`;
    throw new ArgumentError('reading', problem);
  }
  // What there is no evidence for is null; a field that is gone was lost on its way here.
  const lost = READING.find((name) => reading[name as keyof StepReading] === undefined);
  if (lost !== undefined) throw new ArgumentError(`reading.${lost}`, 'missing: give all that readEvidence() gave');
}

/**
 * Reads one step without the steps before it; `Judge.take` judges it in its turn, `Judge.add` does both at
 * once.
 * @param evidence metrics of the step in nats, rows [R] in the order of `groups`; everything but the step number may be
 *   missing
 * @returns plain data, null if the evidence for it is missing
 * @throws {ArgumentError} naming a value that is not a number, columns of different lengths, or a step that is not a
 *   whole number
 */
export function readEvidence(evidence: StepEvidence, options: JudgeOptions = {}): StepReading {
  const settings = resolveJudgeOptions(options);
  checkEvidence(evidence);
  return countNow(readingOf(evidenceOfEpisodes(evidence), settings));
}

/** Options of `readEvidenceOn`: those of a judge, and a signal. */
export interface EngineJudgeOptions extends JudgeOptions {
  readonly signal?: AbortSignal | undefined;
}

/**
 * The same, to the bit, with the permutations on an engine's threads: they hold the event loop for 10 ns a row and
 * permutation otherwise. The evidence must not change meanwhile.
 * @param engine or what opens it, asked when it is first needed: only for actions and reasoning swaps
 * @throws {ArgumentError} (as a rejection) as readEvidence(); `signal.reason` when aborted
 */
export async function readEvidenceOn(
  engine: Engine | (() => Promise<Engine>),
  evidence: StepEvidence,
  options: EngineJudgeOptions = {},
): Promise<StepReading> {
  const { signal, ...rest } = options;
  const settings = resolveJudgeOptions(rest);
  checkEvidence(evidence);
  return readCheckedOn(engine, evidenceOfEpisodes(evidence), settings, signal);
}

/** The same of evidence that was checked, in which each turn has its episode's reward. */
export function readCheckedOn(
  engine: Engine | (() => Promise<Engine>),
  evidence: StepEvidence,
  options: JudgeSettings,
  signal: AbortSignal | undefined,
): Promise<StepReading> {
  return countOn(engine, readingOf(evidence, options), signal);
}

function* readingOf(evidence: StepEvidence, { permutations, seed }: JudgeSettings): Counting<StepReading> {
  const { step, rows, filter, figures } = evidence;
  const groups = rolloutGroups(evidence);
  // Only the seed and the step decide the permutations, so that a restored judge draws the same.
  const draw = seed + step * 2 ** 21;
  const { actions, episodes, turns, reasoningSwaps: swaps, ablated } = rows ?? {};
  const matched = ablated && (rows?.matched ?? matchedOf(evidence));
  return {
    step,
    success: evidence.success ?? meanOutcome(outcomesOf(evidence, groups)) ?? null,
    rewardRange: rewardRange(groups),
    prompts: promptRewards(groups),
    specificity: specificityOf(evidence),
    actionInformation: rows && actions ? yield* actionInformation(rows.groups, actions, permutations, draw) : null,
    reasoningInformation: rows && swaps ? yield* reasoningInformation(rows.groups, swaps, permutations, draw) : null,
    oscillation:
      rows && actions && episodes
        ? yield* actionOscillation(actionSequences(rows.groups, actions, episodes, turns), permutations, draw)
        : null,
    grounding: rows && ablated && matched ? grounding(rows.groups, matched, ablated) : null,
    filterKeptRatio: filter ? keptRatio(filter) : null,
    figures: figures ?? null,
  };
}

function keptRatio({ kept, dropped }: FilterEvidence): number {
  return kept.length / (kept.length + dropped.length);
}

/** Success is that of whole trajectories, and needs no rewards. */
function outcomesOf({ groups: given, rows }: StepEvidence, groups: readonly RolloutGroup[]): number[] {
  if (given === undefined && rows !== undefined) return outcomesAlone(rows);
  return groups.flatMap(({ outcomes }) => outcomes ?? []);
}

function meanOutcome(outcomes: readonly number[]): number | undefined {
  if (outcomes.length === 0 || outcomes.some((outcome) => outcome !== 0 && outcome !== 1)) return undefined;
  return outcomes.reduce((total, outcome) => total + outcome, 0) / outcomes.length;
}

/** Right or wrong: by outcome, else by a reward of 1 or 0, else by whether the reward is above the step's mean. */
function specificityOf({ metrics, rows }: StepEvidence): SpecificityCounts | null {
  const perRow = metrics?.perRow;
  const earned = rows?.outcomes ?? rows?.rewards;
  if (perRow === undefined || earned === undefined) return null;
  const values = finiteValues(earned, perRow.row);
  if (values === undefined) return null;
  const from = rows?.outcomes || values.every((value) => value === 0 || value === 1) ? 0.5 : aboveMean(values);
  const { groups } = rows as RowEvidence;
  return countSpecificity(
    perRow.retrieved,
    (at) => (values[at] as number) >= from,
    (at) => idOf(groups, perRow.row[at] as number),
  );
}

/** Undefined if one of them is not finite. */
function finiteValues(values: ArrayLike<number>, rows: Int32Array): Float64Array | undefined {
  const found = new Float64Array(rows.length);
  for (let at = 0; at < found.length; at++) {
    const value = values[rows[at] as number] as number;
    if (!Number.isFinite(value)) return undefined;
    found[at] = value;
  }
  return found;
}

/**
 * The least of the rewards that are above their mean; infinity where all are equal, also after rounding of the mean.
 */
function aboveMean(rewards: Float64Array): number {
  let [total, lowest] = [0, Number.POSITIVE_INFINITY];
  for (const reward of rewards) {
    total += reward;
    if (reward < lowest) lowest = reward;
  }
  const mean = Math.max(lowest, total / rewards.length);
  return rewards.reduce(
    (least, reward) => (reward > mean && reward < least ? reward : least),
    Number.POSITIVE_INFINITY,
  );
}

/** log p(z|x) of every row, NaN if the metrics left it out. */
function matchedOf({ metrics, rows }: StepEvidence): Float64Array | undefined {
  if (metrics?.perRow === undefined || rows === undefined) return undefined;
  const matched = new Float64Array(rows.groups.length).fill(Number.NaN);
  const { row, matched: values } = metrics.perRow;
  for (let at = 0; at < row.length; at++) matched[row[at] as number] = values[at] as number;
  return matched;
}

function actionSequences(
  groups: RowEvidence['groups'],
  actions: NonNullable<RowEvidence['actions']>,
  episodes: NonNullable<RowEvidence['episodes']>,
  turns: RowEvidence['turns'],
): (number | bigint)[][] {
  return episodesOf(groups, episodes, turns).map((rows) => rows.map((row) => actions[row] as number | bigint));
}
