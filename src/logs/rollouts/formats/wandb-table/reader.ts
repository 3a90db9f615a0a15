// Weights & Biases: a table among a run's files (media/table/NAME_STEP_HASH.table.json), whose columns are known by
// their names. Source: wandb/sdk/data_types/table.py.

import { LineProblem, ObjectFields } from '../../fields.js';
import { foldersOf, hasAll, plainName, type RolloutFormat } from '../../format.js';
import { guessedColumns } from '../../rows/guess-columns.js';
import { mappedColumns } from '../rollouts/reader.js';

const NAME = /_(\d+)_[0-9a-f]+\.table\.json$/;

export const reader: RolloutFormat = {
  name: 'wandb-table',
  containers: ['json-lines'],
  needs: 'columns, data (a list a row)',
  setting: '`wandb.Table`; `wandb/run-*/files/media/table/*.table.json`',
  gives: 'what the names of its columns say',
  recognises: (keys) => hasAll(keys, 'columns', 'data'),
  fields: ['columns', 'data'],
  place: (path) => {
    const folders = foldersOf(path);
    const run = folders.find(({ name }) => !/^(table|media|files)$/.test(name)) ?? folders[0];
    const step = NAME.exec(plainName(path))?.[1];
    return { runDirectory: run?.path ?? '.', ...(step !== undefined && { step: Number(step) }) };
  },
  rows: (line, context) => {
    const names = (line.list('columns') ?? []).map(String);
    const columns = guessedColumns(names);
    if (columns === undefined) {
      throw new LineProblem(`has no column that is a response by its name: there are ${names.join(', ')}`);
    }
    const { rows } = mappedColumns(columns);
    const found = (line.list('data') ?? []).flatMap((values, at) => {
      if (!Array.isArray(values)) throw new LineProblem(`data[${at}] is no list of ${names.length} values`);
      return rows(new ObjectFields(Object.fromEntries(names.map((name, column) => [name, values[column]]))), context);
    });
    const steps = new Set(found.map(({ step }) => step));
    if (steps.size < 2) return found;
    const split = "jq -c '.columns as $c | .data[] | [$c, .] | transpose | map({(.[0]): .[1]}) | add' FILE";
    throw new LineProblem(`has rows of ${steps.size} steps in one table: write a line each (${split})`);
  },
  absent: {},
  notes: [],
};
