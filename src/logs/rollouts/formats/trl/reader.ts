// TRL: completions_{step}.parquet, with `log_completions=True`. A column a reward function, no group id.
// trl/trainer/grpo_trainer.py.
import { hasAll, placeByName, type RolloutFormat, rollout, type TableColumn } from '../../format.js';
import { promptIn, saidIn } from '../../messages.js';
import { ENVIRONMENT_COLUMNS, environmentName } from '../../rows/environments.js';

const OWN: ReadonlySet<string> = new Set(['step', 'prompt', 'completion', 'advantage', ...ENVIRONMENT_COLUMNS]);

const ADVANTAGE = 'advantage';

/** What is a float and none of TRL's own is a reward, or a number that was logged beside them: advantages tell. */
function floatColumns(columns: readonly TableColumn[]): string[] {
  const isFloat = ({ name, type }: TableColumn): boolean => /^(DOUBLE|FLOAT)$/.test(type) && !OWN.has(name);
  return [...columns.filter(isFloat).map(({ name }) => name), ADVANTAGE];
}

export const reader: RolloutFormat = {
  name: 'trl',
  containers: ['parquet'],
  needs: 'Parquet with step, prompt, completion, advantage and a column a reward function',
  setting: '`GRPOConfig(log_completions=True)`; `OUTPUT_DIR/completions/*.parquet`',
  gives: 'texts, rewards by function and their [weighted sum](#rewards-of-trl), groups by prompt',
  environment: 'a column `environment` or `data_source` of text that a reward function has logged (`log_extra`)',
  recognises: (keys) => hasAll(keys, 'step', 'prompt', 'completion', 'advantage'),
  // A column of the data set is there where a reward function has logged it (log_extra).
  fields: ['step', 'prompt', 'completion', ...ENVIRONMENT_COLUMNS],
  columnsOf: floatColumns,
  advantageField: ADVANTAGE,
  stepField: 'step',
  place: (path) => placeByName(path, /^completions_(\d+)\.parquet$/, /^completions$/),
  rows: (line, { environment }) => {
    // NaN is a function that does not score this row.
    const rewards: Record<string, number> = { [ADVANTAGE]: line.number(ADVANTAGE) ?? Number.NaN };
    for (const name of (line as { names?: readonly string[] }).names ?? []) {
      if (OWN.has(name) || name === environment) continue;
      const value = line.value(name) ?? Number.NaN;
      // A list of numbers is no reward.
      if (typeof value === 'number') rewards[name] = value;
    }
    return [
      rollout({
        step: line.count('step'),
        prompt: promptIn(line, 'prompt'),
        ...saidIn(line, 'completion'),
        rewards,
        environment: ENVIRONMENT_COLUMNS.map((name) => environmentName(line.value(name))).find(
          (found) => found !== undefined,
        ),
      }),
    ];
  },
  byClock: 'TRL writes its last generation again at each logging step',
  absent: {
    tokens: "TRL's Parquet has texts alone, decoded without special tokens",
    logprobs: "TRL's Parquet has no log-probs",
    truncated: "TRL's Parquet does not say which completions were cut",
    length: "TRL's Parquet has no token counts",
    sample: "TRL's Parquet has no ids",
    outcome: "TRL's Parquet has rewards alone",
  },
  notes: ['a step holds its last generation batch alone; an evaluation at the same step replaces it'],
};
