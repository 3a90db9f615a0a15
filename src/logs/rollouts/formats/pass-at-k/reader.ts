// Samples for pass@k, as HumanEval began and EvalPlus, MBPP and their kin write: a line a sample, the task's id and the
// completion; after the evaluation also whether it passed. openai/human-eval, evalplus.
import { hasAll, type RolloutFormat, rollout } from '../../format.js';
import { promptIn, saidIn } from '../../messages.js';

export const reader: RolloutFormat = {
  name: 'pass-at-k',
  containers: ['json-lines'],
  needs: 'task_id, completion or solution',
  setting: '`samples.jsonl` of an evaluation such as HumanEval',
  gives: 'texts, groups by task, whether each passed',
  recognises: (keys) =>
    keys.has('task_id') &&
    (keys.has('completion') || keys.has('solution')) &&
    !hasAll(keys, 'prompt', 'reward') &&
    !keys.has('messages'),
  fields: ['task_id', 'prompt', 'completion', 'solution', 'passed', 'result', 'reward'],
  rows: (line) => {
    const result = line.value('result');
    const passed = typeof result === 'string' ? Number(result === 'passed') : undefined;
    return [
      rollout({
        group: line.id('task_id'),
        prompt: promptIn(line, 'prompt'),
        ...saidIn(line, line.value('completion') === undefined ? 'solution' : 'completion'),
        reward: line.outcome('passed') ?? line.outcome('reward') ?? passed,
      }),
    ];
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
