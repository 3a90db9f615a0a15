// NeMo Gym: rollouts.jsonl of `ng_collect_rollouts`, a line a rollout: what was asked of OpenAI's Responses, what came,
// the reward and the verifier's own fields. Agents that keep a list for each turn repeat in it what came before. Tokens
// are there where the model's server gives them. nemo_gym/rollout_collection.py, openai_utils.py at 07d6b0d0.

import { fieldsOf } from '../../fields.js';
import { hasAll, type RolloutFormat, rollout } from '../../format.js';
import { chatOf, messagesOf } from '../../messages.js';
import { environmentName } from '../../rows/environments.js';
import { tokensOfTurns } from '../../rows/turn-tokens.js';

const TOKENS = { prompt: 'prompt_token_ids', tokens: 'generation_token_ids', logprobs: 'generation_log_probs' };

export const reader: RolloutFormat = {
  name: 'nemo-gym',
  containers: ['json-lines'],
  needs: 'responses_create_params, response',
  setting: '`ng_collect_rollouts +output_jsonl_fpath=rollouts.jsonl`',
  gives: 'chats, calls of tools, rewards, lengths, cut responses; token ids and log-probs where the server gave them',
  environment: '`agent_ref.name`',
  recognises: (keys) => hasAll(keys, 'responses_create_params', 'response'),
  fields: ['responses_create_params', 'response', 'reward', '_ng_task_index', '_ng_rollout_index', 'agent_ref'],
  rows: (line) => {
    const response = line.object('response');
    const listed = response.list('output') ?? [];
    const items = listed.every(Array.isArray) ? ((listed.at(-1) ?? []) as readonly unknown[]) : listed;
    const asked = messagesOf(line.object('responses_create_params').value('input') ?? [], 'input');
    const { prompt, ...said } = chatOf([...asked, ...messagesOf(items, 'response.output')]);
    const [group, sample] = [line.id('_ng_task_index'), line.id('_ng_rollout_index')];
    const usage = response.object('usage');
    const cut = response.object('incomplete_details').text('reason');
    return [
      rollout({
        group,
        prompt,
        ...said,
        ...tokensOfTurns(
          items.map((item, at) => fieldsOf(item, `response.output[${at}]`)),
          TOKENS,
        ),
        reward: line.outcome('reward'),
        length: usage.count('output_tokens'),
        truncated: response.text('status') === undefined ? undefined : cut === 'max_output_tokens',
        sample: group === undefined || sample === undefined ? undefined : `${group}/${sample}`,
        environment: environmentName(line.value('agent_ref')),
      }),
    ];
  },
  absent: { outcome: "NeMo Gym's rollouts have rewards, and fields of any name beside them" },
  notes: [],
};
