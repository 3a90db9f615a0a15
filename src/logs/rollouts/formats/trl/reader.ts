// TRL: completions_{step}.parquet, with `log_completions=True`. Columns are step, prompt, completion, one a reward
// function, one for each name that a reward function gave to `log_extra`, and the advantage; distillation has the first
// three. No group id. TRL 1.16.0: trl/trainer/grpo_trainer.py, distillation_trainer.py, rewards/accuracy_rewards.py.
import { hasAll, placeByName, plainName, type RolloutFormat, rollout, type TableColumn } from '../../format.js';
import { answerIn, promptIn, saidIn } from '../../messages.js';
import { ENVIRONMENT_COLUMNS, environmentName } from '../../rows/environments.js';

/** Names under which TRL's own reward functions and its guide log the answer that they found. */
const ANSWERS = ['answer_parsed', 'extracted_answer'];

const ADVANTAGE = 'advantage';

const FILE = /^completions_(\d+)\.parquet$/;

const OWN: ReadonlySet<string> = new Set([
  ...['step', 'prompt', 'completion', ADVANTAGE],
  ...ANSWERS,
  ...ENVIRONMENT_COLUMNS,
]);

/** What is a float and none of TRL's own is a reward, or a number that was logged beside them: advantages tell. */
function floatColumns(columns: readonly TableColumn[]): string[] {
  const isFloat = ({ name, type }: TableColumn): boolean => /^(DOUBLE|FLOAT)$/.test(type) && !OWN.has(name);
  return [...columns.filter(isFloat).map(({ name }) => name), ADVANTAGE];
}

export const reader: RolloutFormat = {
  name: 'trl',
  containers: ['parquet'],
  needs:
    'Parquet with step, prompt, completion, advantage and a column a reward function; or completions_N.parquet with the first three',
  setting: '`GRPOConfig(log_completions=True)`; `OUTPUT_DIR/completions/*.parquet`',
  gives:
    'texts, rewards by function and their [weighted sum](#rewards-of-trl), groups by prompt; `answer_parsed` or `extracted_answer` of `log_extra` as the action',
  environment: 'a column `environment` or `data_source` of text that a reward function has logged (`log_extra`)',
  recognises: (keys, path) =>
    hasAll(keys, 'step', 'prompt', 'completion') && (keys.has(ADVANTAGE) || FILE.test(plainName(path))),
  // What a reward function has logged is there (log_extra).
  fields: ['step', 'prompt', 'completion', ...ANSWERS, ...ENVIRONMENT_COLUMNS],
  columnsOf: floatColumns,
  advantageField: ADVANTAGE,
  stepField: 'step',
  place: (path) => placeByName(path, FILE, /^completions$/),
  rows: (line, { environment }) => {
    // NaN is a function that does not score this row.
    const rewards: Record<string, number> = { [ADVANTAGE]: line.number(ADVANTAGE) ?? Number.NaN };
    for (const name of (line as { names?: readonly string[] }).names ?? []) {
      if (OWN.has(name) || name === environment) continue;
      const value = line.value(name) ?? Number.NaN;
      // A list of numbers is not a reward.
      if (typeof value === 'number') rewards[name] = value;
    }
    return [
      rollout({
        step: line.count('step'),
        prompt: promptIn(line, 'prompt'),
        ...saidIn(line, 'completion'),
        action: answerIn(line, ANSWERS),
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
