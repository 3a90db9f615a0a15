// Samples for pass@k, as HumanEval began and EvalPlus, MBPP and their kin write: a line a sample, the task's id and the
// completion, or a list of them; after the evaluation also whether each passed. EvalPlus' samples_eval_results.json is
// one object, of which `eval` holds a list of samples for each task. openai/human-eval; evalplus 0.3.1, evaluate.py.
import { type Fields, fieldsOf } from '../../fields.js';
import { hasAll, type RolloutFormat, rollout } from '../../format.js';
import { promptIn, saidIn } from '../../messages.js';
import type { LoggedRollout } from '../../rollout.js';
import { samplesIn } from '../../rows/samples-in-row.js';

const OWN = ['task_id', 'prompt', 'completion', 'solution', 'passed', 'reward', 'result', 'base_status', 'plus_status'];

export const reader: RolloutFormat = {
  name: 'pass-at-k',
  containers: ['json-lines'],
  needs: 'task_id, completion or solution; or eval with these, date, hash',
  setting: '`samples.jsonl` of an evaluation such as HumanEval',
  gives: 'texts, groups by task, whether each passed',
  recognises: (keys) =>
    hasAll(keys, 'eval', 'date', 'hash') ||
    (keys.has('task_id') &&
      (keys.has('completion') || keys.has('solution')) &&
      !hasAll(keys, 'prompt', 'reward') &&
      !keys.has('messages')),
  fields: [...OWN, 'eval'],
  rows: (line) => {
    if (line.value('eval') === undefined) return rowsOf(line);
    const tasks = fieldsOf(line.value('eval'), 'eval');
    return tasks.names.flatMap((task) => {
      const samples = tasks.list(task) ?? [];
      return samples.flatMap((one, at) => rowsOf(fieldsOf(one, `eval.${task}[${at}]`)));
    });
  },
  absent: {
    reward: 'the samples do not say which passed: the file that the evaluation writes does',
    tokens: 'samples for pass@k have texts alone',
    logprobs: 'samples for pass@k have no log-probs',
    truncated: 'samples for pass@k do not say which were cut',
    length: 'samples for pass@k have no token counts',
    sample: 'samples for pass@k have no ids',
  },
  notes: [],
};

function rowsOf(line: Fields): LoggedRollout[] {
  const output = line.value('completion') === undefined ? 'solution' : 'completion';
  const beside = OWN.filter((name) => name !== 'task_id' && name !== 'completion' && name !== 'solution');
  const names = { ...Object.fromEntries(beside.map((name) => [name, name])), output };
  return samplesIn(line, names).map((sample) =>
    rollout({
      group: sample.id('task_id'),
      prompt: promptIn(sample, 'prompt'),
      ...saidIn(sample, output),
      reward: sample.outcome('passed') ?? sample.outcome('reward') ?? passed(sample),
    }),
  );
}

/** As the evaluation puts it in words: of EvalPlus' two sets of tests both count, where both were run. */
function passed(sample: Fields): number | undefined {
  const said = ['result', 'base_status', 'plus_status'].map((name) => sample.value(name));
  const words = said.filter((one) => typeof one === 'string');
  return words.length === 0 ? undefined : Number(words.every((one) => one === 'passed' || one === 'pass'));
}
