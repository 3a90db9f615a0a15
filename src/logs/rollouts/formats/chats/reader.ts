// Chats by themselves, as agents and endpoints are exported and as data sets have them: `messages` with roles, or
// `conversations` of ShareGPT. What stands before the assistant's first turn is the prompt.
import { hasAll, type RolloutFormat, rollout } from '../../format.js';
import { chatOf, messagesOf } from '../../messages.js';

/** Of another reader's rows that have messages. */
const OTHERS = [
  ['custom_id', 'messages', 'metadata'],
  ['global_step', 'messages', 'exp_name'],
  ['sample_index', 'group_index', 'messages'],
  ['tokens', 'masks', 'scores'],
  ['id', 'epoch', 'messages'],
  ['group_index', 'group_metadata', 'messages'],
] as const;

const ELSEWHERE = [
  'trajectories',
  'traces',
  'output',
  'completion',
  'response',
  'responses',
  'responses_create_params',
  'generations',
  'output_list',
  'completions',
];

export const reader: RolloutFormat = {
  name: 'chats',
  containers: ['json-lines', 'parquet'],
  needs: 'messages or conversations',
  setting: 'exports of agents and endpoints, data sets of chats',
  gives: 'chats, groups by prompt; `reward` or `score`, where they have one',
  environment: '`data_source`',
  recognises: (keys) =>
    (keys.has('messages') || keys.has('conversations')) &&
    !ELSEWHERE.some((name) => keys.has(name)) &&
    !OTHERS.some((names) => hasAll(keys, ...names)),
  fields: ['step', 'messages', 'conversations', 'reward', 'score', 'data_source'],
  stepField: 'step',
  rows: (line) => {
    const name = line.value('messages') === undefined ? 'conversations' : 'messages';
    const chat = line.value(name);
    return [
      rollout({
        step: line.count('step'),
        ...(chat !== undefined && chatOf(messagesOf(chat, name))),
        reward: line.outcome('reward') ?? line.outcome('score'),
        environment: line.id('data_source'),
      }),
    ];
  },
  absent: {
    reward: 'the chats have no reward',
    tokens: 'chats have texts alone',
    logprobs: 'chats have no log-probs',
    sample: 'chats have no ids that tell one sample from another',
    length: 'chats have no token counts',
  },
  notes: [],
};
