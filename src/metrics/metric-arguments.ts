// Checks a caller's cross-scores and options, and derives their shape.

import { types } from 'node:util';
import { checkArray, checkFields, checkObject, optionNames } from '../checks/argument-checks.js';
import { ArgumentError } from '../checks/errors.js';
import { checkOptions, is, OPERATION, type OptionTable } from '../checks/options.js';
import { givenEnvironments, type RowEnvironments } from '../checks/row-environments.js';
import { counted, shown } from '../checks/words.js';
import type { Integers, Tensor } from '../engine/tensor/tensor.js';
import { checkShape, checkTensor } from '../engine/tensor/tensor-view.js';
import { arrangeColumns, type Columns } from './columns.js';
import type { CrossScores, MetricOptions } from './cross-scores.js';
import { narrowed } from './figures/equal-prompts.js';
import type { MeasuredStep } from './measured-step.js';
import { checkTrainingStep, RunningState } from './reporting/running-state.js';
import type { Trajectories } from './sampling/row-selection.js';
import { PROFILE } from './step-metrics.js';

const FIELDS = optionNames<CrossScores>({
  logprobs: true,
  sums: true,
  lengths: true,
  groups: true,
  columnGroups: true,
  promptTokens: true,
  episodes: true,
  turns: true,
  environments: true,
});

const OPTIONS: OptionTable<MetricOptions> = {
  profile: PROFILE,
  sampler: is.any,
  label: is.text('the prefix of the logged keys'),
  step: is.any,
  state: is.any,
  perRow: is.flag,
  perPrompt: is.flag,
  permutations: is.integer(0),
  seed: is.integer(0),
  ...OPERATION,
};

/** @throws {ArgumentError} naming the argument that crossScoreMetrics does not have, or that is of another kind */
export function checkMetricArguments(scores: CrossScores, options: MetricOptions): void {
  checkObject(scores, 'scores');
  checkFields(scores, 'scores', FIELDS, Object.keys(OPTIONS));
  checkOptions(options, OPTIONS);
  const { state, step } = options;
  if (state !== undefined && !(state instanceof RunningState)) {
    throw new ArgumentError(
      'options.state',
      `got ${shown(state)}, expected a RunningState, as RunningState.from() gives of a saved one`,
    );
  }
  checkTrainingStep(step, 'options.step');
}

export interface ScoresShape {
  rows: number;
  columns: number;
}

/** One step's cross-scores, known to fit each other. */
export interface CheckedScores {
  readonly given: { readonly kind: 'sums' | 'logprobs'; readonly tensor: Tensor };
  readonly shape: ScoresShape;
  readonly lengths: Lengths;
  readonly columns: Columns;
  /** Whether it is known which prompts are equal. */
  readonly hasPromptTokens: boolean;
  /** What a sampler draws from. */
  readonly trajectories: Trajectories | undefined;
  /** Undefined if no row is named one. */
  readonly environments?: RowEnvironments | undefined;
  /** Rows that have the same score under every column are known to be none that nothing was scored of. */
  readonly isPart?: boolean | undefined;
}

/** @throws {ArgumentError} naming what does not fit */
export function checkScores(scores: CrossScores, options: MetricOptions): CheckedScores {
  const { groups, columnGroups, promptTokens } = scores;
  const { given, shape } = givenScores(scores);
  const lengths = toLengths(scores.lengths, shape.rows);
  checkArray(groups, 'groups');
  if (groups.length !== shape.rows) {
    throw new ArgumentError('groups', `${groups.length} group ids for ${counted(shape.rows, 'rows')}`);
  }
  const columns = arrangeColumns(groups, columnGroups, promptTokens, shape.columns);
  const trajectories = trajectoriesOf(scores, options, shape.rows);
  const environments = givenEnvironments(scores.environments, groups, 'environments');
  return { given, shape, lengths, columns, hasPromptTokens: promptTokens !== undefined, trajectories, environments };
}

function givenScores(scores: CrossScores): Pick<CheckedScores, 'given' | 'shape'> {
  const { sums, logprobs } = scores;
  if ((sums === undefined) === (logprobs === undefined)) {
    throw new ArgumentError('scores', 'give exactly one of `logprobs` ([P,R,T] or packed [P,N]) and `sums` ([R,P])');
  }
  checkArray(scores.lengths, 'lengths');
  if (sums !== undefined) {
    const shape = shapeOf(sums, 'sums');
    const [rows, columns] = shape;
    if (shape.length !== 2 || rows === undefined || columns === undefined) {
      throw new ArgumentError('sums', `expected shape [R, P], got [${shape.join(', ')}]`);
    }
    return { given: { kind: 'sums', tensor: sums }, shape: { rows, columns } };
  }
  const shape = shapeOf(logprobs, 'logprobs');
  if (shape.length !== 3 && shape.length !== 2) {
    throw new ArgumentError('logprobs', `expected shape [P, R, T] or packed [P, N], got [${shape.join(', ')}]`);
  }
  const rows = shape.length === 3 ? (shape[1] as number) : scores.lengths.length;
  return { given: { kind: 'logprobs', tensor: logprobs as Tensor }, shape: { rows, columns: shape[0] as number } };
}

function shapeOf(tensor: Tensor | undefined, argument: string): number[] {
  checkTensor(tensor, argument);
  return checkShape(tensor?.shape, `${argument}.shape`).shape;
}

export type Lengths = MeasuredStep['lengths'];

/** A copy, checked. */
export function toLengths(lengths: Integers, rows: number): Lengths {
  if (lengths.length !== rows)
    throw new ArgumentError('lengths', `${counted(lengths.length, 'lengths')} for ${counted(rows, 'rows')}`);
  const check = (length: number | bigint, row: number): void => {
    const whole = typeof length === 'bigint' || Number.isSafeInteger(length);
    if (whole && length >= 0) return;
    throw new ArgumentError('lengths', `row ${row} is ${shown(length)}, expected a count of tokens`);
  };
  const words = types.isInt32Array(lengths) ? lengths.slice() : narrowed(lengths);
  if (words !== undefined) {
    for (let row = 0; row < rows; row++) if ((words[row] as number) < 0) check(lengths[row] as number | bigint, row);
    return words;
  }
  return BigInt64Array.from(lengths as ArrayLike<number | bigint>, (length, row) => {
    check(length, row);
    return BigInt(length);
  });
}

function trajectoriesOf(scores: CrossScores, options: MetricOptions, rows: number): Trajectories | undefined {
  if (options.sampler === undefined) return undefined;
  const { episodes, turns } = scores;
  if (episodes === undefined || turns === undefined) {
    throw new ArgumentError('options.sampler', 'sampling needs `episodes` and `turns`, one of each a row');
  }
  for (const [name, values] of Object.entries({ episodes, turns })) {
    checkArray(values, name);
    if (values.length !== rows)
      throw new ArgumentError(name, `${counted(values.length, 'values')} for ${counted(rows, 'rows')}`);
  }
  return { episodes, turns };
}
