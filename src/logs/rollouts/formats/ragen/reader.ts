// RAGEN: val_rollouts.jsonl (`output.format=jsonl`, or scripts/convert_to_jsonl.py): a chat a line.
import { hasAll, type RolloutFormat, rollout } from '../../format.js';
import { chatOf, messagesOf } from '../../messages.js';
import { environmentName } from '../../rows/environments.js';

export const reader: RolloutFormat = {
  name: 'ragen',
  containers: ['json-lines'],
  needs: 'custom_id, messages, metadata (with group_id)',
  setting: '`output.format=jsonl`, or `scripts/convert_to_jsonl.py`',
  gives: 'chats, rewards, success, groups',
  environment: '`metadata.tag` (or `env_tag`, `env_name`)',
  recognises: (keys) => hasAll(keys, 'custom_id', 'messages', 'metadata'),
  fields: ['custom_id', 'messages', 'metadata'],
  rows: (line) => {
    const metadata = line.object('metadata');
    const messages = line.value('messages');
    return [
      rollout({
        ...(messages !== undefined && chatOf(messagesOf(messages, 'messages'))),
        group: metadata.id('group_id'),
        reward: metadata.number('total_reward'),
        outcome: metadata.outcome('success'),
        entropy: metadata.number('entropy'),
        length: metadata.count('n_tokens'),
        sample: line.id('custom_id'),
        // `env_id` is the number of an instance.
        environment: ['tag', 'env_tag', 'env_name', 'environment', 'env']
          .map((name) => environmentName(metadata.value(name)))
          .find((found) => found !== undefined),
      }),
    ];
  },
  absent: {
    tokens: "RAGEN's chats have texts alone",
    logprobs: "RAGEN's chats have no log-probs",
    truncated: "RAGEN's chats do not say which responses were cut",
  },
  notes: [],
};
