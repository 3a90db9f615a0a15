// Tinker cookbook: iteration_{N}/{base}_rollout_summaries.jsonl: rewards and lengths of every trajectory.
// rl/rollout_logging.py.

import { fieldsOf } from '../../fields.js';
import { hasAll, type Place, placeByFolder, plainName, type RolloutFormat, rollout } from '../../format.js';
import { environmentName } from '../../rows/environments.js';

export const reader: RolloutFormat = {
  name: 'tinker',
  containers: ['json-lines'],
  needs: 'group_idx, traj_idx, total_reward, iteration',
  setting: 'on by default; `iteration_*/*_rollout_summaries.jsonl`',
  gives: 'rewards, groups and lengths; texts are in its transcripts (`tinker-logtree`)',
  environment: '`tags`, joined by `/`',
  recognises: (keys) => hasAll(keys, 'group_idx', 'traj_idx', 'total_reward'),
  fields: ['iteration', 'split', 'group_idx', 'traj_idx', 'total_reward', 'steps', 'tags'],
  stepField: 'iteration',
  place: (path) => iterationPlace(path, 'rollout_summaries', 'jsonl'),
  rows: (line) => {
    const group = line.id('group_idx');
    const steps = line.list('steps')?.map((value, at) => fieldsOf(value, `steps[${at}]`).count('ac_len') ?? 0);
    return [
      rollout({
        step: line.count('iteration'),
        group,
        reward: line.number('total_reward'),
        length: steps?.reduce((sum, length) => sum + length, 0),
        sample: `${group}/${line.id('traj_idx')}`,
        environment: environmentName(line.value('tags')),
      }),
    ];
  },
  absent: {
    output: "Tinker's summaries have rewards and lengths alone: no text figures",
    tokens: "Tinker's summaries have rewards and lengths alone: no text figures",
    prompt: "Tinker's summaries have rewards and lengths alone",
    promptTokens: "Tinker's summaries have rewards and lengths alone",
    logprobs: "Tinker's summaries have rewards and lengths alone",
    outcome: "Tinker's summaries have rewards and lengths alone",
    truncated: "Tinker's summaries do not say which responses were cut",
  },
  notes: [],
};

/** iteration_N/train_rollout_summaries.jsonl: what stands before the kind tells training from tests. */
export function iterationPlace(path: string, kind: string, ending: string): Place {
  const base = new RegExp(`^(.*)_${kind}\\.${ending}$`).exec(plainName(path))?.[1];
  return {
    ...placeByFolder(path, /^iteration_(\d+)$/),
    split: base === undefined || base === 'train' ? undefined : base,
  };
}
