// `rollouts`: our own columns, as the exporter and the callbacks write them, in JSON lines or Parquet; and tables of
// anyone's whose columns the user names (`--columns step=…,output=…`), CSV among them.
import { ArgumentError } from '../../../../checks/errors.js';
import { placeByNames } from '../../../place-names.js';
import { COLUMN_NAMES, COLUMNS, OWN_COLUMNS, type OwnColumn, ownName, type RowValues } from '../../columns.js';
import { type Fields, floatsOf } from '../../fields.js';
import { type RolloutFormat, rollout } from '../../format.js';
import { heardIn, promptIn, saidIn } from '../../messages.js';
import type { LoggedRollout } from '../../rollout.js';
import { followingPaths, withRoots } from '../../rows/dotted-paths.js';
import { environmentName } from '../../rows/environments.js';
import { samplesIn } from '../../rows/samples-in-row.js';

/** The name in the file of each of our columns. */
export type ColumnNames = Readonly<Partial<Record<OwnColumn, string>>>;

export const reader: RolloutFormat = {
  ...columnsFormat('rollouts', Object.fromEntries(OWN_COLUMNS.map((name) => [name, name]))),
  containers: ['json-lines', 'parquet'],
  needs: 'step (or it in the path), output or tokens, and group, prompt, prompt_tokens or reward',
  setting: 'the Python package: `collapsar export`, and its callbacks',
  gives: 'our own columns, in JSON lines or Parquet',
  environment: '`environment`',
  // A line of verl has a step, an output and perhaps a reward as well, and one of TRL may count its tokens.
  recognises: (keys, path, root) =>
    (keys.has('step') || placeByNames(path, root).step !== undefined) &&
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
    rows: (line) => samplesIn(followingPaths(line, columns), names).map((row) => ownRow(row, names)),
    absent: {},
    notes: [],
  };
}

function ownRow(line: Fields, names: ColumnNames): LoggedRollout {
  const row: LoggedRollout = {};
  for (const name of COLUMN_NAMES) {
    const own = ownName(name);
    const column = own && names[own];
    if (column === undefined) continue;
    const { kind } = COLUMNS[name];
    // Columns of their own come after what the response says of them.
    if (kind === 'said') Object.assign(row, saidIn(line, column));
    else Object.assign(row, { [name]: READ[kind](line, column) ?? row[name] });
  }
  // A whole chat has its prompt with it.
  const prompt = row.prompt ?? (names.output === undefined ? undefined : heardIn(line, names.output));
  return rollout({ ...row, prompt, length: row.length ?? row.tokens?.length });
}

/** How a column of each kind is read. */
const READ: Readonly<Record<Exclude<keyof RowValues, 'said'>, (line: Fields, column: string) => unknown>> = {
  text: (line, column) => line.written(column),
  prompt: promptIn,
  id: (line, column) => line.id(column),
  name: (line, column) => environmentName(line.value(column)),
  count: (line, column) => line.count(column),
  number: (line, column) => line.number(column),
  outcome: (line, column) => line.outcome(column),
  mean: meanIn,
  flag: (line, column) => line.flag(column),
  tokens: (line, column) => line.tokens(column),
  numbers: (line, column) => line.floats(column),
  parts: (line, column) => line.value(column),
};

/** One number, or one a token: their mean. */
function meanIn(line: Fields, column: string): number | undefined {
  const value = line.value(column);
  if (!Array.isArray(value) && !ArrayBuffer.isView(value)) return line.number(column);
  const values = floatsOf(value, column);
  return values.length === 0 ? undefined : values.reduce((sum, one) => sum + one, 0) / values.length;
}
