// `rollouts`: our own columns, as the exporter and the callbacks write them, in JSON lines or Parquet; and tables of
// anyone's whose columns the user names (`--columns step=…,output=…`), CSV among them.
import { ArgumentError } from '../../../../checks/errors.js';
import { type Fields, floatsOf } from '../../fields.js';
import { type Place, placeByNames, type RolloutFormat, rollout } from '../../format.js';
import { promptIn, saidIn } from '../../messages.js';
import type { LoggedRollout } from '../../rollout.js';
import { followingPaths, withRoots } from '../../rows/dotted-paths.js';
import { environmentName } from '../../rows/environments.js';
import { samplesIn } from '../../rows/samples-in-row.js';

/** Columns of a rollouts file, and what they may be mapped to. */
export const OWN_COLUMNS = [
  'step',
  'group',
  'output',
  'tokens',
  'prompt',
  'prompt_tokens',
  'reasoning',
  'action',
  'reward',
  'outcome',
  'turn',
  'episode',
  'logprobs',
  'entropy',
  'truncated',
  'length',
  'sample',
  'run',
  'environment',
] as const;

/** A column of our own rollout logs. */
export type OwnColumn = (typeof OWN_COLUMNS)[number];

/** Our name of a column -> the name that it has in the file. */
export type ColumnNames = Readonly<Partial<Record<OwnColumn, string>>>;

export const reader: RolloutFormat = {
  ...columnsFormat('rollouts', Object.fromEntries(OWN_COLUMNS.map((name) => [name, name]))),
  containers: ['json-lines', 'parquet'],
  needs: 'step (or it in the path), output or tokens, and group, prompt, prompt_tokens or reward',
  setting: 'the Python package: `collapsar export`, and its callbacks',
  gives: 'our own columns, in JSON lines or Parquet',
  environment: '`environment`',
  // A line of verl has a step, an output and perhaps a reward as well, and one of TRL may count its tokens.
  recognises: (keys, path) =>
    (keys.has('step') || placeByNames(path).step !== undefined) &&
    (keys.has('output') || keys.has('tokens')) &&
    ['group', 'prompt', 'prompt_tokens', 'reward'].some((name) => keys.has(name)) &&
    !(keys.has('input') && keys.has('score')) &&
    !(keys.has('completion') && keys.has('advantage')),
};

/**
 * A reader of a table with these columns.
 * @throws {ArgumentError} where the names cannot be read
 */
export function mappedColumns(names: ColumnNames): RolloutFormat {
  const given = Object.entries(names).filter(([, column]) => column !== undefined);
  for (const [name, column] of given) {
    if (!OWN_COLUMNS.includes(name as OwnColumn)) {
      throw new ArgumentError(
        `options.columns.${name}`,
        `is no column of a rollout; known are ${OWN_COLUMNS.join(', ')}`,
      );
    }
    if (typeof column !== 'string' || column === '') {
      throw new ArgumentError(`options.columns.${name}`, "expected the column's name in the file");
    }
  }
  if (given.length === 0) throw new ArgumentError('options.columns', 'names no column, expected at least one');
  return columnsFormat('columns', names);
}

function columnsFormat(name: string, names: ColumnNames): RolloutFormat {
  const columns = Object.values(names);
  return {
    name,
    containers: ['json-lines', 'parquet', 'csv'],
    needs: columns.join(', '),
    setting: `--columns ${Object.entries(names)
      .map(([own, column]) => `${own}=${column}`)
      .join(',')}`,
    gives: 'the named columns',
    recognises: (keys) => columns.some((column) => keys.has(column)),
    fields: withRoots(columns),
    ...(names.step !== undefined && { stepField: names.step }),
    ...(names.run !== undefined && { runField: names.run }),
    place: placeOf,
    rows: (line) => samplesIn(followingPaths(line, columns), names).map((row) => ownRow(row, names)),
    absent: {},
    notes: [],
  };
}

/** What rows say comes first. */
function placeOf(path: string, root?: string): Place {
  const { step, ...place } = placeByNames(path, root);
  return { ...place, stepElse: step };
}

function ownRow(line: Fields, names: ColumnNames): LoggedRollout {
  const read = <T>(name: OwnColumn, as: (column: string) => T | undefined): T | undefined => {
    const column = names[name];
    return column === undefined ? undefined : as(column);
  };
  const tokens = read('tokens', (column) => line.tokens(column));
  const said = read('output', (column) => saidIn(line, column));
  return rollout({
    step: read('step', (column) => line.count(column)),
    run: read('run', (column) => line.id(column)),
    group: read('group', (column) => line.id(column)),
    prompt: read('prompt', (column) => promptIn(line, column)),
    promptTokens: read('prompt_tokens', (column) => line.tokens(column)),
    ...said,
    tokens,
    reasoning: read('reasoning', (column) => line.written(column)) ?? said?.reasoning,
    action: read('action', (column) => line.id(column)) ?? said?.action,
    reward: read('reward', (column) => line.outcome(column)),
    outcome: read('outcome', (column) => line.outcome(column)),
    turn: read('turn', (column) => line.count(column)),
    episode: read('episode', (column) => line.id(column)),
    logprobs: read('logprobs', (column) => line.floats(column)),
    entropy: read('entropy', (column) => meanIn(line, column)),
    truncated: read('truncated', (column) => line.flag(column)),
    length: read('length', (column) => line.count(column)) ?? tokens?.length,
    sample: read('sample', (column) => line.id(column)),
    environment: read('environment', (column) => environmentName(line.value(column))),
  });
}

/** One number, or one a token: their mean. */
function meanIn(line: Fields, column: string): number | undefined {
  const value = line.value(column);
  if (!Array.isArray(value) && !ArrayBuffer.isView(value)) return line.number(column);
  const values = floatsOf(value, column);
  return values.length === 0 ? undefined : values.reduce((sum, one) => sum + one, 0) / values.length;
}
