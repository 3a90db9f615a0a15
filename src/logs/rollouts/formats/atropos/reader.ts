// Atropos: `data_path_to_save_groups`, a line a group: tokens, masks (-100 for what was not sampled), scores, and
// messages where the environment keeps them. Log-probs of tokens that were not sampled are 1.
// atroposlib/envs/base.py (ScoredDataGroup) at 296a0bc5.

import { floatsOf, LineProblem, numberOf, tokensOf } from '../../fields.js';
import { hasAll, type RolloutFormat, rollout } from '../../format.js';
import { chatOf, messagesOf } from '../../messages.js';

const NOT_SAMPLED = -100;

export const reader: RolloutFormat = {
  name: 'atropos',
  containers: ['json-lines'],
  needs: 'tokens, masks, scores (each a list of a group)',
  setting: '`--env.data_path_to_save_groups FILE.jsonl`',
  gives: 'token ids, rewards, chats and log-probs where the environment keeps them; a line is a group',
  recognises: (keys) => hasAll(keys, 'tokens', 'masks', 'scores'),
  fields: ['tokens', 'masks', 'scores', 'messages', 'inference_logprobs'],
  groupIsLine: true,
  rows: (line) => {
    const [masks, scores] = [line.list('masks') ?? [], line.list('scores') ?? []];
    const [messages, logprobs] = [line.list('messages'), line.list('inference_logprobs')];
    return (line.list('tokens') ?? []).map((value, at) => {
      const ids = tokensOf(value, `tokens[${at}]`);
      const mask = floatsOf(masks[at], `masks[${at}]`);
      if (mask.length !== ids.length) {
        throw new LineProblem(`masks[${at}] has ${mask.length} entries, tokens[${at}] has ${ids.length}`);
      }
      const sampled = (_: number, token: number): boolean => mask[token] !== NOT_SAMPLED;
      const first = mask.findIndex((one) => one !== NOT_SAMPLED);
      const tokens = ids.filter(sampled);
      const values = logprobs?.[at] == null ? undefined : floatsOf(logprobs[at], `inference_logprobs[${at}]`);
      return rollout({
        ...(messages?.[at] != null && chatOf(messagesOf(messages[at], `messages[${at}]`))),
        promptTokens: ids.slice(0, first < 0 ? ids.length : first),
        tokens,
        ...(values?.length === ids.length && { logprobs: values.filter(sampled) }),
        length: tokens.length,
        reward: scores[at] == null ? undefined : numberOf(scores[at], `scores[${at}]`),
      });
    });
  },
  absent: {
    outcome: "Atropos' groups have scores alone",
    truncated: "Atropos' groups do not say which responses were cut",
    sample: "Atropos' groups have no ids",
    entropy: "Atropos' groups have no entropies",
  },
  notes: [],
};
