// open-instruct: {run}_rollouts_{shard}.jsonl, with `--save_traces`: a line a sample, ten thousand a file, several
// steps in one. Written after the filters. `logprobs` may hold NaN; of tool tokens they are 0.
// open_instruct/rl_utils.py.
import { hasAll, plainName, type RolloutFormat, rollout } from '../../format.js';
import { environmentName } from '../../rows/environments.js';

export const reader: RolloutFormat = {
  name: 'open-instruct',
  containers: ['json-lines'],
  needs: 'step, prompt_idx, prompt_tokens, response_tokens, reward',
  setting: '`--save_traces --rollouts_save_path DIR`',
  gives: 'token ids, log-probs, rewards, cut responses; written after the filters',
  environment: '`dataset`; several are joined by `/`',
  recognises: (keys) => hasAll(keys, 'prompt_tokens', 'response_tokens', 'prompt_idx'),
  fields: [
    'step',
    'sample_idx',
    'prompt_idx',
    'prompt_tokens',
    'response_tokens',
    'reward',
    'finish_reason',
    'request_info',
    'logprobs',
    'dataset',
  ],
  stepField: 'step',
  rows: (line) => {
    const tokens = line.tokens('response_tokens');
    const finish = line.text('finish_reason');
    const usesTools = hasCalls(line.object('request_info').value('num_calls'));
    const logprobs = line.floats('logprobs');
    return [
      rollout({
        step: line.count('step'),
        group: line.id('prompt_idx'),
        promptTokens: line.tokens('prompt_tokens'),
        tokens,
        // The log does not mark tokens of tools, which therefore look like sampled ones of probability 1.
        logprobs: usesTools || logprobs?.length !== tokens?.length ? undefined : logprobs,
        reward: line.number('reward'),
        truncated: finish === undefined ? undefined : finish === 'length',
        length: tokens?.length,
        sample: line.id('sample_idx'),
        environment: environmentName(line.value('dataset')),
      }),
    ];
  },
  absent: {
    output: "open-instruct's rollouts have token ids alone",
    prompt: "open-instruct's rollouts have token ids alone",
    logprobs: 'the rows have no log-probs, or called tools, whose tokens the log does not mark',
    outcome: "open-instruct's rollouts have rewards alone",
  },
  notes: [
    'the log was written after the filters: groups of equal rewards and cut responses are missing, so shares of prompts that are too easy or too hard are too low',
  ],
  passesOver: (path) => plainName(path).endsWith('_metadata.jsonl'),
};

function hasCalls(value: unknown): boolean {
  const calls = Array.isArray(value) ? value : [value];
  return calls.some((count) => typeof count === 'number' && count > 0);
}
