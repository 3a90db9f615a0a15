// miles: `--dump-details DIR`, DIR/trajectory/{rollout}.jsonl: a line a sample, its prompt and its messages. Beside them
// lie pickles, and dashboard_columns/*.parquet with the same samples' tokens. miles/ray/rollout/debug_data.py at
// 31f1ca96.
import { hasAll, placeByName, type RolloutFormat, rollout } from '../../format.js';
import { chatOf, messagesOf, promptIn } from '../../messages.js';

export const reader: RolloutFormat = {
  name: 'miles',
  containers: ['json-lines'],
  needs: 'sample_index, group_index, messages, reward',
  setting: '`--dump-details DIR`; `DIR/trajectory/*.jsonl`',
  gives: 'chats, rewards, groups, cut responses',
  recognises: (keys) => hasAll(keys, 'sample_index', 'group_index', 'messages'),
  fields: ['sample_index', 'group_index', 'status', 'reward', 'prompt', 'messages'],
  place: (path) => placeByName(path, /^(?:\D*_)?(\d+)\.jsonl$/, /^trajectory$/),
  rows: (line) => {
    const messages = line.value('messages');
    const status = line.text('status');
    return [
      rollout({
        group: line.id('group_index'),
        ...(messages !== undefined && chatOf(messagesOf(messages, 'messages'))),
        ...(line.value('prompt') !== undefined && { prompt: promptIn(line, 'prompt') }),
        reward: line.number('reward'),
        truncated: status === undefined ? undefined : status === 'truncated',
        sample: line.id('sample_index'),
      }),
    ];
  },
  absent: {
    tokens: "miles' trajectories have texts alone: their tokens are in dashboard_columns/*.parquet",
    logprobs: "miles' trajectories have no log-probs",
    outcome: "miles' trajectories have rewards alone",
    length: "miles' trajectories have no token counts",
  },
  notes: [],
  passesOver: (path) => path.includes('/dashboard_columns/'),
};
