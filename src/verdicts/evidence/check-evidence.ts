// Evidence is looked at as a whole before any of it is used: what is wrong is named, and the judge stays as it was.
import { types } from 'node:util';
import { checkArray, checkFields, checkKnown, checkObject, optionNames } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { counted, shown } from '../../checks/words.js';
import type { Integers } from '../../engine/tensor/tensor.js';
import type { Spelling } from '../../filter/input/sentences.js';
import { episodeRewardsAs } from '../../filter/input/turn-rewards.js';
import type { StepMetrics } from '../../metrics/step-metrics.js';
import type { TextMetrics } from '../../metrics/text-metrics.js';
import { rowsByGroup } from './group-outcomes.js';
import type { GroupEvidence, ReasoningSwaps, RowEvidence, StepEvidence } from './step-evidence.js';

const FIELDS = optionNames<StepEvidence>({
  step: true,
  metrics: true,
  texts: true,
  groups: true,
  rows: true,
  filter: true,
  success: true,
  figures: true,
});
const ROW_FIELDS = optionNames<RowEvidence>({
  groups: true,
  rewards: true,
  outcomes: true,
  actions: true,
  episodes: true,
  turns: true,
  matched: true,
  ablated: true,
  reasoningSwaps: true,
});

/** @throws {ArgumentError} for a step that is not a whole number, or not later than the last */
export function checkStepOrder(step: number, last: number | null): void {
  if (!Number.isSafeInteger(step) || step < 0) {
    throw new ArgumentError('evidence.step', `expected a training step, a whole number from 0 on, got ${shown(step)}`);
  }
  if (last !== null && step <= last) {
    throw new ArgumentError(
      'evidence.step',
      `got ${step} after ${last}: steps must rise; use a new Judge for another run`,
    );
  }
}

/** @throws {ArgumentError} naming what does not fit */
export function checkEvidence(evidence: StepEvidence): void {
  checkObject(evidence, 'evidence');
  checkKnown(evidence, 'evidence', FIELDS);
  const { step, success, rows, groups, filter, metrics, figures } = evidence;
  checkStepOrder(step, null);
  if (success !== undefined && !Number.isFinite(success)) {
    throw new ArgumentError(
      'evidence.success',
      `expected a number, got ${shown(success)}; leave it out where there is none`,
    );
  }
  if (metrics !== undefined) checkMetrics(metrics);
  if (evidence.texts !== undefined) checkTexts(evidence.texts);
  checkFigures(figures);
  if (filter !== undefined) {
    checkObject(filter, 'evidence.filter');
    checkArray(filter.kept, 'evidence.filter.kept');
    checkArray(filter.dropped, 'evidence.filter.dropped');
  }
  if (groups !== undefined && !Array.isArray(groups)) {
    throw new ArgumentError('evidence.groups', `got ${shown(groups)}, expected an array of { group, rewards }`);
  }
  for (const [at, group] of ((groups ?? []) as readonly GroupEvidence[]).entries()) {
    checkObject(group, `evidence.groups[${at}]`);
    const { rewards, outcomes, actions } = group;
    checkNumbers(rewards, `evidence.groups[${at}].rewards`);
    checkIntegers([group.group], `evidence.groups[${at}].group`);
    if (outcomes !== undefined) checkNumbers(outcomes, `evidence.groups[${at}].outcomes`);
    if (actions !== undefined) checkIntegers(actions, `evidence.groups[${at}].actions`);
    for (const [name, values] of Object.entries({ outcomes, actions })) {
      if (values === undefined || values.length === rewards.length) continue;
      throw new ArgumentError(
        `evidence.groups[${at}].${name}`,
        `${counted(values.length, 'values')} for ${counted(rewards.length, 'rewards')}`,
      );
    }
  }
  if (rows === undefined) return;
  checkRows(rows);
  if (metrics?.perRow !== undefined && metrics.rows.total !== rows.groups.length) {
    throw new ArgumentError(
      'evidence.rows',
      `${counted(rows.groups.length, 'rows')}, but the metrics are of ${metrics.rows.total}: give the rows that were scored`,
    );
  }
}

/** Flat figures do not say which sample they are of, nor how sure they are. */
function checkMetrics(metrics: StepMetrics): void {
  checkObject(metrics, 'evidence.metrics');
  const { values, certainty } = metrics as Partial<StepMetrics>;
  if (isRecord(values) && isRecord(certainty)) return;
  throw new ArgumentError(
    'evidence.metrics',
    'an object without values and certainty: give all that crossScoreMetrics() resolved to ' +
      '(report.stepMetrics of a monitor), not its figures alone',
  );
}

function checkTexts(texts: TextMetrics): void {
  checkObject(texts, 'evidence.texts');
  const { values, logged, phrases } = texts as Partial<TextMetrics>;
  if (isRecord(values) && isRecord(logged) && Array.isArray(phrases)) return;
  throw new ArgumentError('evidence.texts', `got ${shown(texts)}, expected all that textMetrics() resolved to`);
}

function isRecord(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}

function checkRows(rows: RowEvidence): void {
  checkObject(rows, 'evidence.rows');
  checkFields(rows, 'evidence.rows', ROW_FIELDS);
  const { groups, rewards, outcomes, matched, ablated, actions, episodes, turns, reasoningSwaps } = rows;
  checkIntegers(groups, 'evidence.rows.groups');
  for (const [name, values] of Object.entries({ rewards, outcomes, matched, ablated })) {
    if (values !== undefined) checkNumbers(values, `evidence.rows.${name}`);
  }
  for (const [name, values] of Object.entries({ actions, episodes, turns })) {
    if (values !== undefined) checkIntegers(values, `evidence.rows.${name}`);
  }
  for (const [name, values] of Object.entries({ rewards, outcomes, matched, ablated, actions, episodes, turns })) {
    if (values === undefined || values.length === groups.length) continue;
    throw new ArgumentError(
      `evidence.rows.${name}`,
      `${counted(values.length, 'values')} for ${counted(groups.length, 'rows')}`,
    );
  }
  if (rows.turns !== undefined && rows.episodes === undefined) {
    throw new ArgumentError(
      'evidence.rows.turns',
      'turns mean nothing without the episode of each row; give episodes too',
    );
  }
  if (reasoningSwaps === undefined) return;
  const argument = 'evidence.rows.reasoningSwaps';
  checkObject(reasoningSwaps, argument);
  checkNumbers(reasoningSwaps.logprobs, `${argument}.logprobs`);
  checkSwaps(reasoningSwaps, groups, argument);
}

/** @throws {ArgumentError} unless there is a log-prob for each row under each of its reasonings */
export function checkSwaps({ logprobs, reasonings }: ReasoningSwaps, groups: Integers, argument: string): void {
  if (!Number.isSafeInteger(reasonings) || reasonings < 0) {
    const problem = `got ${shown(reasonings)}, expected the number of reasonings that the log-probs are under`;
    throw new ArgumentError(`${argument}.reasonings`, problem);
  }
  if (logprobs.length !== reasonings * groups.length) {
    const wanted = `${reasonings} × ${groups.length}`;
    throw new ArgumentError(argument, `${counted(logprobs.length, 'log-probs')}, expected [Q, R] = ${wanted}`);
  }
  if (reasonings === groups.length) return;
  for (const [group, members] of rowsByGroup(groups)) {
    if (members.length === reasonings) continue;
    throw new ArgumentError(
      argument,
      `${reasonings} reasonings are neither one a row (${groups.length}) nor one a row of each group (group ${group} has ` +
        `${members.length})`,
    );
  }
}

/**
 * Whichever turn of an episode is looked at then tells what the episode was given.
 * @throws {ArgumentError} for an episode whose turns have different rewards
 */
export function evidenceOfEpisodes(evidence: StepEvidence): StepEvidence {
  const { rows } = evidence;
  if (rows?.episodes === undefined) return evidence;
  const { groups, episodes, turns, rewards, outcomes } = rows;
  return {
    ...evidence,
    rows: { ...rows, ...episodeRewardsAs(SPELLING, { groups, episodes, turns, rewards, outcomes }, 'same') },
  };
}

const SPELLING: Spelling = {
  argument: (column) => `evidence.rows.${column}`,
  options: { turnRewards: 'episodeRewards()' },
};

/** NaN and infinities are numbers here: figures that cannot use such a row leave it out. */
function checkNumbers(values: ArrayLike<unknown>, argument: string): void {
  checkArray(values, argument);
  if (types.isFloat64Array(values) || types.isFloat32Array(values)) return;
  checkEntries(values, argument, 'a number', (value) => typeof value === 'number');
}

function checkIntegers(values: ArrayLike<unknown>, argument: string): void {
  checkArray(values, argument);
  if (types.isInt32Array(values) || types.isBigInt64Array(values)) return;
  checkEntries(values, argument, 'an integer', (value) => typeof value === 'bigint' || Number.isInteger(value));
}

function checkEntries(
  values: ArrayLike<unknown>,
  argument: string,
  expected: string,
  accepts: (value: unknown) => boolean,
): void {
  for (let at = 0; at < values.length; at++) {
    if (accepts(values[at])) continue;
    throw new ArgumentError(argument, `entry ${at} is ${shown(values[at])}, expected ${expected}`);
  }
}

function checkFigures(figures: StepEvidence['figures']): void {
  if (figures === undefined) return;
  checkObject(figures, 'evidence.figures');
  for (const [name, value] of Object.entries(figures)) {
    if (typeof value === 'number') continue;
    throw new ArgumentError(`evidence.figures.${name}`, `got ${shown(value)}, expected a number`);
  }
}
