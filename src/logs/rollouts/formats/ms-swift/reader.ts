// ms-swift: completions.jsonl in the output folder, with `--log_completions true`: a line a logging step, a table of
// columns: step (as text), prompt, completion, a column a reward function, advantages, and entropy where it is logged.
// swift/rlhf_trainers/grpo_trainer.py at 3602360a.

import { fieldsOf, LineProblem, type ObjectFields } from '../../fields.js';
import { hasAll, type RolloutFormat, rollout } from '../../format.js';
import { promptIn, saidIn } from '../../messages.js';

const OWN: readonly string[] = ['step', 'prompt', 'completion', 'advantages', 'entropy', 'solution', 'num_turns'];

const ADVANTAGE = 'advantages';

export const reader: RolloutFormat = {
  name: 'ms-swift',
  containers: ['json-lines'],
  needs: 'columns step, prompt, completion, advantages in one object, and one a reward function',
  setting: '`--log_completions true`',
  gives: 'texts, rewards by function and their weighted sum, groups by prompt; entropies where they are logged',
  recognises: (keys) => hasAll(keys, 'step', 'prompt', 'completion', 'advantages'),
  fields: OWN,
  hasOtherFields: true,
  advantageField: ADVANTAGE,
  stepField: 'step',
  rows: (line) => {
    const names = (line as ObjectFields).names;
    const columns = names.map((name) => [name, line.list(name) ?? []] as const).filter(([, { length }]) => length > 0);
    const count = line.list('completion')?.length ?? 0;
    const other = columns.find(([, { length }]) => length !== count);
    if (other !== undefined) throw new LineProblem(`${other[0]} has ${other[1].length} entries, completion ${count}`);
    return Array.from({ length: count }, (_, at) => {
      const row = fieldsOf(Object.fromEntries(columns.map(([name, values]) => [name, values[at]])), 'a row');
      const isReward = (name: string): boolean => name === ADVANTAGE || !OWN.includes(name);
      const numbers = names.filter((name) => isReward(name) && typeof row.value(name) === 'number');
      return rollout({
        step: row.count('step'),
        prompt: promptIn(row, 'prompt'),
        ...saidIn(row, 'completion'),
        rewards: Object.fromEntries(numbers.map((name) => [name, row.number(name) as number])),
        entropy: row.number('entropy'),
      });
    });
  },
  absent: {
    tokens: "ms-swift's table has texts alone",
    logprobs: "ms-swift's table has no log-probs",
    truncated: "ms-swift's table does not say which completions were cut",
    length: "ms-swift's table has no token counts",
    sample: "ms-swift's table has no ids",
    outcome: "ms-swift's table has rewards alone",
  },
  notes: [],
};
