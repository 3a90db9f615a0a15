// Options for reading rollout logs, shared by the commands that read them.
import { type Command, InvalidArgumentError } from 'commander';
import { OWN_COLUMNS, type OwnColumn } from '../../logs/rollouts/columns.js';
import type { LogOptions } from '../../logs/rollouts/log-options.js';
import { notEmpty, wholeNumber } from './option-values.js';

/** What they give. */
export interface LogFlags {
  format?: string;
  columns?: NonNullable<LogOptions['columns']>;
  groupSize?: number;
  reasoning?: NonNullable<LogOptions['reasoning']>;
  tagTokens?: readonly [number, number];
  rewardColumns?: NonNullable<LogOptions['rewardColumns']>;
}

/** Their names, for commands that hand options on. */
export const LOG_FLAGS = [
  'format',
  'columns',
  'groupSize',
  'reasoning',
  'tagTokens',
  'rewardColumns',
] as const satisfies (keyof LogFlags)[];

export function addLogOptions(command: Command): Command {
  const format = 'of rollout logs: the reader, where their fields do not tell (see collapsar formats)';
  return addColumnsOption(command.option('--format <name>', format, notEmpty))
    .option(
      '--group-size <n>',
      'rows a prompt, one after the other, in logs with neither group ids nor prompts',
      wholeNumber(1),
    )
    .option(
      '--reasoning <tags>',
      "tags around the reasoning, such as '<r> </r>', or all (default: '<think> </think>')",
      tags,
    )
    .option('--tag-tokens <ids>', 'ids of these tags in logs of token ids, such as 151667,151668', tagTokens)
    .option(
      '--reward-columns <map>',
      "of TRL's logs: columns that make up the reward, with weights: correct,format=0.1 (default: as advantages tell)",
      rewardColumns,
    );
}

export function addColumnsOption(command: Command): Command {
  return command.option(
    '--columns <map>',
    "of anyone's table: step=…,group=…,output=…,reward=…, each with its name in the file; of any log: environment=…; auto: what the names of the columns tell",
    columnMap,
  );
}

/** The flags that were given. */
export function logFlags({
  format,
  columns,
  groupSize,
  reasoning,
  tagTokens: ids,
  rewardColumns: rewards,
}: LogFlags): LogFlags {
  return {
    ...(format !== undefined && { format }),
    ...(columns !== undefined && { columns }),
    ...(groupSize !== undefined && { groupSize }),
    ...(reasoning !== undefined && { reasoning }),
    ...(ids !== undefined && { tagTokens: ids }),
    ...(rewards !== undefined && { rewardColumns: rewards }),
  };
}

/** The other options. */
export function withoutLogFlags<Flags extends LogFlags>(flags: Flags): Omit<Flags, keyof LogFlags> {
  const rest = Object.entries(flags).filter(([name]) => !LOG_FLAGS.some((flag) => flag === name));
  return Object.fromEntries(rest) as Omit<Flags, keyof LogFlags>;
}

/** The text of an option with several parts, as one types it. */
export function logFlagText(name: string, value: unknown): string {
  if (name === 'columns' && value !== 'auto')
    return Object.entries(value as object)
      .map(([own, column]) => `${own}=${column}`)
      .join(',');
  if (name === 'rewardColumns')
    return Object.entries(value as object)
      .map(([column, weight]) => `${column}=${weight}`)
      .join(',');
  return Array.isArray(value) ? value.join(name === 'reasoning' ? ' ' : ',') : String(value);
}

function columnMap(text: string, before: LogFlags['columns']): NonNullable<LogFlags['columns']> {
  if (text === 'auto') return text;
  const pairs = text.split(',').map((pair) => {
    const [, own = '', column = ''] = /^\s*([a-z_]+)=(.+)$/.exec(pair) ?? [];
    if (!OWN_COLUMNS.includes(own as OwnColumn)) {
      throw new InvalidArgumentError(`Expected NAME=COLUMN, separated by commas; names are ${OWN_COLUMNS.join(', ')}.`);
    }
    return [own, column] as const;
  });
  return { ...(before === 'auto' ? {} : before), ...Object.fromEntries(pairs) };
}

function tags(text: string): NonNullable<LogFlags['reasoning']> {
  if (text.trim() === 'all') return 'all';
  const parts = text.trim().split(/\s+/);
  if (parts.length === 2) return parts as [string, string];
  throw new InvalidArgumentError("Expected two tags with a space between them, such as '<r> </r>', or all.");
}

function tagTokens(text: string): [number, number] {
  const ids = text.split(',').map((id) => (/^\s*\d+\s*$/.test(id) ? Number(id) : Number.NaN));
  if (ids.length === 2 && ids.every(Number.isSafeInteger)) return ids as [number, number];
  throw new InvalidArgumentError('Expected two token ids with a comma between them.');
}

function rewardColumns(text: string, before: LogFlags['rewardColumns']): NonNullable<LogFlags['rewardColumns']> {
  const pairs = text.split(',').map((part) => {
    const [, column = '', weight = '1'] = /^\s*(.+?)\s*(?:=\s*([^=]*))?$/.exec(part) ?? [];
    if (column === '' || weight.trim() === '' || !Number.isFinite(Number(weight))) {
      throw new InvalidArgumentError('Expected COLUMN or COLUMN=WEIGHT, separated by commas: correct,format=0.1.');
    }
    return [column, Number(weight)] as const;
  });
  return { ...before, ...Object.fromEntries(pairs) };
}
