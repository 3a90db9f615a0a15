// Checks the labels of a step when it is opened, before any score: the prompt of each row, the length of its reasoning,
// and its trajectory.
import { checkArray, checkKnown, optionNames } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { optionsObject } from '../../checks/options.js';
import { type EnvironmentLabels, givenEnvironments, type RowEnvironments } from '../../checks/row-environments.js';
import { shown } from '../../checks/words.js';
import type { Integers, Tensor } from '../../engine/tensor/tensor.js';
import { arrangeColumns, type Columns } from '../../metrics/columns.js';
import { type CheckedScores, type Lengths, toLengths } from '../../metrics/metric-arguments.js';
import { copyIntegers } from './row-values.js';

/** R rows (responses), P prompts (columns). */
export interface StepLabels {
  /** [R] group id of each row: names the prompt that it was sampled from. */
  readonly groups: Integers;
  /** [R] reasoning tokens of each row. Needed at due steps. */
  readonly lengths?: Integers | undefined;
  /** [P] group id of each prompt. Default: the sorted distinct ids of `groups`. */
  readonly columnGroups?: Integers | undefined;
  /** Token ids of each prompt; prompts with equal tokens are equivalent. Default: all prompts differ. */
  readonly promptTokens?: readonly (readonly number[] | Int32Array | BigInt64Array)[] | undefined;
  /** [R] rows that are turns of trajectories: trajectory of each row … */
  readonly episodes?: Integers | undefined;
  /** … and [R] its turn number within it. */
  readonly turns?: Integers | undefined;
  /** [R] name of the environment of each row; null if it has none. A prompt has one. */
  readonly environments?: EnvironmentLabels | undefined;
  /** Overrides the cadence: true has this step scored, false has it not. */
  readonly due?: boolean | undefined;
}

/** The labels of an open step: copies, and the prompts that they name. */
export interface OpenLabels {
  readonly rows: number;
  readonly prompts: number;
  readonly groups: Integers;
  readonly lengths: Lengths | undefined;
  readonly columnGroups: Integers | undefined;
  readonly promptTokens: StepLabels['promptTokens'];
  readonly episodes: Integers | undefined;
  readonly turns: Integers | undefined;
  /** Undefined if no row has a name of one. */
  readonly environments: RowEnvironments | undefined;
  readonly columns: Columns;
}

const LABELS = optionNames<StepLabels>({
  groups: true,
  lengths: true,
  columnGroups: true,
  promptTokens: true,
  episodes: true,
  turns: true,
  environments: true,
  due: true,
});

/**
 * @param due lengths are then needed
 * @throws {ArgumentError} naming what is missing or does not fit
 */
export function openLabels(labels: StepLabels, due: boolean): OpenLabels {
  checkKnown(optionsObject(labels, 'labels'), 'labels', LABELS);
  if (labels.due !== undefined && typeof labels.due !== 'boolean') {
    throw new ArgumentError('due', `got ${shown(labels.due)}, expected true or false`);
  }
  const groups = copyIntegers(labels.groups, 'groups');
  const rows = groups.length;
  const optional = (values: Integers | undefined, argument: string, count?: number): Integers | undefined =>
    values === undefined ? undefined : copyIntegers(values, argument, count);
  if (due && labels.lengths === undefined) {
    throw new ArgumentError('lengths', 'missing: a step that is due needs the number of reasoning tokens of each row');
  }
  const given = optional(labels.lengths, 'lengths', rows);
  const lengths = given && toLengths(given, rows);
  const columnGroups = optional(labels.columnGroups, 'columnGroups');
  if (labels.promptTokens !== undefined) checkArray(labels.promptTokens, 'promptTokens');
  const promptTokens = (labels.promptTokens && Array.from(labels.promptTokens))?.map((tokens, prompt) =>
    copyIntegers(tokens, `promptTokens[${prompt}]`),
  );
  const episodes = optional(labels.episodes, 'episodes', rows);
  const turns = optional(labels.turns, 'turns', rows);
  const environments = givenEnvironments(labels.environments, groups, 'environments');
  const columns = arrangeColumns(groups, columnGroups, promptTokens);
  const prompts = columns.order.length;
  return { rows, prompts, groups, lengths, columnGroups, promptTokens, episodes, turns, environments, columns };
}

/**
 * The scores of a due step as crossScoreMetrics() looks at them.
 * @param sums [R, P]
 */
export function scoresOf(
  { rows, prompts, lengths, columns, promptTokens, episodes, turns, environments }: OpenLabels,
  sums: Tensor,
): CheckedScores {
  return {
    given: { kind: 'sums', tensor: sums },
    shape: { rows, columns: prompts },
    lengths: lengths as Lengths,
    columns,
    hasPromptTokens: promptTokens !== undefined,
    trajectories: episodes && turns && { episodes, turns },
    environments,
  };
}

/** Group id of the prompt at index `prompt` of the columns. */
export function groupOfPrompt(labels: OpenLabels, prompt: number): number | bigint {
  if (labels.columnGroups !== undefined) return labels.columnGroups[prompt] as number | bigint;
  const row = labels.columns.own.indexOf(labels.columns.position[prompt] as number);
  return labels.groups[row] as number | bigint;
}
