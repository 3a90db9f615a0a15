// prime-rl: token_exports/step_{N}/rank_{r}.jsonl, with `trainer.enable_token_export`; complete once STABLE lies beside
// them. Arrays of a value a token, null where it was absent or not finite. trainer/rl/token_export.py.

import { hasAll, placeByFolder, type RolloutFormat, rollout } from '../../format.js';
import { environmentName } from '../../rows/environments.js';

export const reader: RolloutFormat = {
  name: 'prime-rl-tokens',
  containers: ['json-lines'],
  needs: 'token_ids, loss_mask, rank, micro_step',
  setting: '`trainer.enable_token_export=true`',
  gives: 'token ids, log-probs of both sides, entropies; neither rewards nor groups',
  environment: '`env_name`',
  recognises: (keys) => hasAll(keys, 'token_ids', 'loss_mask', 'micro_step'),
  fields: [
    'step',
    'rank',
    'micro_step',
    'micro_sequence_idx',
    'token_ids',
    'loss_mask',
    'inference_logprobs',
    'trainer_logprobs',
    'entropy',
    'env_name',
  ],
  stepField: 'step',
  place: (path) => placeByFolder(path, /^step_(\d+)$/, { own: /^token_exports$/, split: 'tokens' }),
  rows: (line) => {
    const ids = line.tokens('token_ids') ?? new Int32Array(0);
    const mask = line.list('loss_mask') ?? [];
    const sampled = (_: number, at: number): boolean => Boolean(mask[at]);
    const tokens = ids.filter(sampled);
    const logprobs = line.floats('inference_logprobs')?.filter(sampled);
    const entropies = line.floats('entropy')?.filter(sampled);
    const first = mask.findIndex(Boolean);
    return [
      rollout({
        step: line.count('step'),
        promptTokens: ids.subarray(0, first < 0 ? ids.length : first),
        tokens,
        logprobs,
        trainerLogprobs: line.floats('trainer_logprobs')?.filter(sampled),
        entropy:
          entropies && tokens.length > 0 ? entropies.reduce((sum, one) => sum + one, 0) / tokens.length : undefined,
        length: tokens.length,
        sample: ['rank', 'micro_step', 'micro_sequence_idx'].map((name) => line.count(name) ?? 0).join('_'),
        environment: environmentName(line.value('env_name')),
      }),
    ];
  },
  absent: {
    group: "prime-rl's token exports have no group: its traces do",
    reward: "prime-rl's token exports have no reward: its traces do",
    output: "prime-rl's token exports have token ids alone",
    outcome: "prime-rl's token exports have no reward: its traces do",
    truncated: "prime-rl's token exports do not say which responses were cut",
  },
  notes: [
    'token exports say entropies and lengths alone: rewards and groups are in rollouts/step_N/train/all/traces.jsonl',
  ],
};
