// NeMo-RL: train_data_step{N}.jsonl and val_data_step{N}.jsonl in the log folder. Every field is a list of one; arrays
// are padded and end at `input_lengths`. Under dynamic sampling `rewards` is the list before the sampling.
// nemo_rl/algorithms/grpo.py, utils/logger.py.

import { LineProblem } from '../../fields.js';
import { hasAll, placeByName, plainName, type RolloutFormat, rollout } from '../../format.js';
import { chatOf, messagesOf } from '../../messages.js';
import { environmentName } from '../../rows/environments.js';

const FIELDS = [
  'content',
  'rewards',
  'filtered_rewards',
  'input_lengths',
  'token_ids',
  'token_loss_mask',
  'generation_logprobs',
  'prev_logprobs',
  'idx',
  'agent_ref',
] as const;

export const reader: RolloutFormat = {
  name: 'nemo-rl',
  containers: ['json-lines'],
  needs:
    'token_ids, token_loss_mask, input_lengths (each a list of one); or content, rewards, idx in val_data_stepN.jsonl',
  setting: 'on by default; `train_data_step*.jsonl` in `logger.log_dir`',
  gives: 'token ids, log-probs of both sides, rewards, groups by prompt',
  environment: '`agent_ref.name`',
  recognises: (keys, path) =>
    hasAll(keys, 'token_ids', 'token_loss_mask', 'input_lengths') ||
    (hasAll(keys, 'content', 'rewards') && /^(train|val)_data_step\d+/.test(plainName(path))),
  fields: FIELDS,
  place: (path) => ({
    ...placeByName(path, /_data_step(\d+)\.jsonl$/),
    split: plainName(path).startsWith('val_') ? 'val' : undefined,
  }),
  rows: (line) => {
    const one = Object.fromEntries(FIELDS.map((name) => [name, line.single(name)])) as Record<
      (typeof FIELDS)[number],
      ReturnType<typeof line.single>
    >;
    // Of another length `rewards` are not this row's.
    const reward = one.filtered_rewards.number('filtered_rewards') ?? one.rewards.number('rewards');
    const sample = line.id('idx');
    const environment = environmentName(one.agent_ref.value('agent_ref'));
    const ids = one.token_ids.tokens('token_ids');
    if (ids === undefined) {
      const content = one.content.value('content');
      return [
        rollout({ ...(content !== undefined && chatOf(messagesOf(content, 'content'))), reward, sample, environment }),
      ];
    }
    const end = one.input_lengths.count('input_lengths') ?? ids.length;
    if (end > ids.length) throw new LineProblem(`input_lengths is ${end}, of ${ids.length} token_ids`);
    const mask = one.token_loss_mask.floats('token_loss_mask') ?? new Float64Array(0);
    const sampled = (_: number, at: number): boolean => at < end && (mask[at] ?? 0) > 0;
    const tokens = ids.filter(sampled);
    const first = mask.findIndex((value, at) => value > 0 && at < end);
    return [
      rollout({
        promptTokens: ids.slice(0, first < 0 ? end : first),
        tokens,
        logprobs: one.generation_logprobs.floats('generation_logprobs')?.filter(sampled),
        trainerLogprobs: one.prev_logprobs.floats('prev_logprobs')?.filter(sampled),
        length: tokens.length,
        reward,
        sample,
        environment,
      }),
    ];
  },
  absent: {
    output: "NeMo-RL's content is prompt and response in one: its token ids are read instead",
    prompt: "NeMo-RL's content is prompt and response in one: its token ids are read instead",
    outcome: "NeMo-RL's dump has rewards alone",
    truncated: "NeMo-RL's dump does not say which responses were cut",
    entropy: "NeMo-RL's dump has no entropies",
  },
  notes: [],
};
