// verifiers: results.jsonl of an evaluation or of a run that saves its results: a line a rollout, prompt and completion
// as chats. verifiers a60a606e: verifiers/legacy/utils/save_utils.py. Episodes of verifiers v1 are read by prime-rl's.
import { hasAll, type RolloutFormat, rollout } from '../../format.js';
import { promptIn, saidIn } from '../../messages.js';
import { environmentIn, objectIn, taskEnvironment } from '../../rows/environments.js';

export const reader: RolloutFormat = {
  name: 'verifiers',
  containers: ['json-lines'],
  needs: 'example_id, prompt, completion, reward',
  setting: '`vf-eval --save-results`',
  gives: 'chats, rewards, cut responses, lengths, groups',
  environment: '`env`, `env_name` or `env_id`: of the row, of `info`; else `task`',
  // Older ones have `id`, which does not always name one prompt.
  recognises: (keys) =>
    hasAll(keys, 'prompt', 'completion', 'reward') && (keys.has('example_id') || hasAll(keys, 'id', 'task', 'answer')),
  fields: [
    'example_id',
    'prompt',
    'completion',
    'reward',
    'is_truncated',
    'token_usage',
    'env',
    'env_name',
    'env_id',
    'info',
    'task',
  ],
  rows: (line) => [
    rollout({
      group: line.id('example_id'),
      prompt: promptIn(line, 'prompt'),
      ...saidIn(line, 'completion'),
      reward: line.number('reward'),
      truncated: line.flag('is_truncated'),
      length: line.object('token_usage').count('output_tokens'),
      environment: environmentIn(line, objectIn(line, 'info')) ?? taskEnvironment(line),
    }),
  ],
  absent: {
    tokens: "verifiers' results have texts alone",
    logprobs: "verifiers' results have no log-probs",
    sample: "verifiers' results have no ids of rollouts",
    outcome: "verifiers' results have rewards alone",
  },
  notes: [],
};
