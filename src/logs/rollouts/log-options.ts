// Converts a user's options for reading a log to the form that readers take.

import { ArgumentError } from '../../checks/errors.js';
import { is, type OptionTable } from '../../checks/options.js';
import { shown } from '../../checks/words.js';
import { AUTO, checkFormat } from './find-logs.js';
import { type ColumnNames, mappedColumns } from './formats/rollouts/reader.js';
import { MAPPED } from './json-lines/parse-lines.js';
import { checkTags, type ReasoningTags, THINK } from './reasoning.js';
import type { RewardColumns } from './rewards/total-reward.js';
import type { LogReading } from './rollout-logs.js';

/** Plain JSON. */
export interface LogOptions {
  /** Name of the reader, if the fields do not show it. Default: by the fields of each file. */
  format?: string | undefined;
  /**
   * Columns of any table: the name in the file by our name. JSON lines, Parquet and CSV. With a format, or alone,
   * `environment` names the column of a trainer's log that holds it. 'auto': guessed from the columns' names.
   */
  columns?: ColumnNames | 'auto' | undefined;
  /** Tags around the reasoning, or that all of the response is reasoning. Default: <think> and </think>. */
  reasoning?: ReasoningTags | undefined;
  /** Ids of these tags, for logs of token ids. */
  tagTokens?: readonly [open: number, close: number] | undefined;
  /** Rows a prompt, one after the other: for logs with neither group ids nor prompts. */
  groupSize?: number | undefined;
  /**
   * Columns that make up the reward, each with its weight, of logs with a column a reward function (TRL). Default: what
   * the advantages tell.
   */
  rewardColumns?: RewardColumns | undefined;
}

/** Bytes that reading may take by default. */
export const DEFAULT_MEMORY = 300e6;

export const LOG_OPTIONS: OptionTable<LogOptions> = {
  format: is.any,
  columns: is.any,
  reasoning: is.any,
  tagTokens: is.any,
  groupSize: is.integer(1),
  rewardColumns: is.any,
};

/** @throws {ArgumentError} naming the option that is wrong */
export function logReading(options: LogOptions): LogReading {
  const { format, columns, reasoning = THINK, tagTokens, groupSize, rewardColumns } = options;
  if (format !== undefined) checkFormat(format);
  if (columns === AUTO && format !== undefined) {
    throw new ArgumentError('options.columns', "go without a format: 'auto' says what the columns are");
  }
  if (columns !== undefined && columns !== AUTO) {
    if (typeof columns !== 'object' || columns === null) {
      throw new ArgumentError(
        'options.columns',
        `got ${shown(columns)}, expected { step: '…', output: '…', … } or 'auto'`,
      );
    }
    mappedColumns(columns);
    if (format !== undefined && !onlyEnvironment(columns)) {
      throw new ArgumentError(
        'options.columns',
        'go without a format: they say what the columns are. Beside one, only environment can be named',
      );
    }
  }
  if (rewardColumns !== undefined) checkRewardColumns(rewardColumns);
  checkTags(reasoning, 'options.reasoning');
  const isPair = tagTokens?.length === 2 && tagTokens.every((id) => Number.isSafeInteger(id) && id >= 0);
  if (tagTokens !== undefined && !isPair) {
    throw new ArgumentError('options.tagTokens', 'expected the ids of the two tags, such as [151667, 151668]');
  }
  const name = columns === undefined || onlyEnvironment(columns) ? format : MAPPED;
  const choice = { ...(name !== undefined && { name }), ...(columns !== undefined && { columns }) };
  return { choice, gathering: { reasoning, tagTokens, groupSize, rewardColumns } };
}

/** Whether they name only the environment, which is known beside whatever a reader finds. */
export function onlyEnvironment(columns: NonNullable<LogOptions['columns']>): boolean {
  if (columns === AUTO) return false;
  const named = Object.entries(columns).filter(([, column]) => column !== undefined);
  return named.length > 0 && named.every(([name]) => name === 'environment');
}

function checkRewardColumns(columns: unknown): asserts columns is RewardColumns {
  const entries = typeof columns === 'object' && columns !== null ? Object.entries(columns) : [];
  const wrong = entries.find(([, weight]) => !Number.isFinite(weight));
  if (wrong !== undefined)
    throw new ArgumentError(`options.rewardColumns.${wrong[0]}`, `got ${shown(wrong[1])}, expected a finite weight`);
  if (entries.length === 0)
    throw new ArgumentError('options.rewardColumns', `got ${shown(columns)}, expected { correct: 1, format: 0.1 }`);
}
