// Evidence is looked at as a whole before any of it is used: what is wrong is named, and the judge stays as it was.
import { checkArray, checkKnown, checkObject, optionNames } from '../../engine/argument-checks.js';
import { counted } from '../../engine/counted.js';
import { shown } from '../../engine/shown.js';
import { ArgumentError } from '../../errors.js';
import type { StepMetrics } from '../../metrics/step-metrics.js';
import { rowsByGroup } from './group-outcomes.js';
import type { GroupEvidence, RowEvidence, StepEvidence } from './step-evidence.js';
import type { StepReading } from './step-reading.js';

const FIELDS = optionNames<StepEvidence>({
  step: true,
  metrics: true,
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
  valid: true,
  entropies: true,
  responseLengths: true,
  episodes: true,
  turns: true,
  matched: true,
  ablated: true,
  reasoningSwaps: true,
});

/** @throws {ArgumentError} for a step that is none, or not later than the last */
export function checkStep(step: number, last: number | null): void {
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

/** @throws {ArgumentError} for what readEvidence() did not give */
export function checkReading(reading: StepReading): void {
  checkObject(reading, 'reading');
  if (Array.isArray(reading.prompts) && 'specificity' in reading) return;
  throw new ArgumentError(
    'reading',
    `got ${shown(reading)}, expected what readEvidence() gives; evidence goes to add()`,
  );
}

/** @throws {ArgumentError} naming what does not fit */
export function checkEvidence(evidence: StepEvidence): void {
  checkObject(evidence, 'evidence');
  checkKnown(evidence, 'evidence', FIELDS);
  const { step, success, rows, groups, filter, metrics, figures } = evidence;
  checkStep(step, null);
  if (success !== undefined && !Number.isFinite(success)) {
    throw new ArgumentError(
      'evidence.success',
      `expected a number, got ${shown(success)}; leave it out where there is none`,
    );
  }
  if (metrics !== undefined) checkMetrics(metrics);
  if (filter !== undefined) {
    checkObject(filter, 'evidence.filter');
    checkArray(filter.kept, 'evidence.filter.kept');
    checkArray(filter.dropped, 'evidence.filter.dropped');
  }
  if (figures !== undefined) checkObject(figures, 'evidence.figures');
  if (groups !== undefined && !Array.isArray(groups)) {
    throw new ArgumentError('evidence.groups', `got ${shown(groups)}, expected an array of { group, rewards }`);
  }
  for (const [at, group] of ((groups ?? []) as readonly GroupEvidence[]).entries()) {
    checkObject(group, `evidence.groups[${at}]`);
    const { rewards, outcomes, actions } = group;
    checkArray(rewards, `evidence.groups[${at}].rewards`);
    for (const [name, values] of Object.entries({ outcomes, actions })) {
      if (values === undefined) continue;
      checkArray(values, `evidence.groups[${at}].${name}`);
      if (values.length === rewards.length) continue;
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

/** Of flat figures there is no telling which is which, and how sure each is. */
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

function isRecord(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}

function checkRows(rows: RowEvidence): void {
  checkObject(rows, 'evidence.rows');
  checkKnown(rows, 'evidence.rows', ROW_FIELDS);
  const { groups, reasoningSwaps, ...columns } = rows;
  checkArray(groups, 'evidence.rows.groups');
  for (const [name, values] of Object.entries(columns)) {
    if (values === undefined) continue;
    checkArray(values, `evidence.rows.${name}`);
    if (values.length === groups.length) continue;
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
  checkObject(reasoningSwaps, 'evidence.rows.reasoningSwaps');
  const { logprobs, reasonings } = reasoningSwaps;
  checkArray(logprobs, 'evidence.rows.reasoningSwaps.logprobs');
  if (!Number.isSafeInteger(reasonings)) {
    const problem = `reasonings is ${shown(reasonings)}, expected how many each action was scored under`;
    throw new ArgumentError('evidence.rows.reasoningSwaps', problem);
  }
  if (logprobs.length !== reasonings * groups.length) {
    const wanted = `${reasonings} × ${groups.length}`;
    throw new ArgumentError(
      'evidence.rows.reasoningSwaps',
      `${counted(logprobs.length, 'log-probs')}, expected [Q, R] = ${wanted}`,
    );
  }
  if (reasonings === groups.length) return;
  for (const [group, members] of rowsByGroup(groups)) {
    if (members.length === reasonings) continue;
    throw new ArgumentError(
      'evidence.rows.reasoningSwaps',
      `${reasonings} reasonings are neither one a row (${groups.length}) nor one a row of each group (group ${group} has ` +
        `${members.length})`,
    );
  }
}
