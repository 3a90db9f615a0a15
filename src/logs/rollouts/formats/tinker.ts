// Tinker cookbook: iteration_{N}/{base}_rollout_summaries.jsonl: rewards and lengths of every trajectory.
// rl/rollout_logging.py.

import { fieldsOf } from '../fields.js';
import { foldersOf, hasAll, type Place, type RolloutFormat, rollout } from '../format.js';
import { environmentName } from '../rows/environments.js';

export const tinker: RolloutFormat = {
  name: 'tinker',
  containers: ['json-lines'],
  needs: 'group_idx, traj_idx, total_reward, iteration',
  setting: 'on by default; log_path',
  recognises: (keys) => hasAll(keys, 'group_idx', 'traj_idx', 'total_reward'),
  fields: ['iteration', 'split', 'group_idx', 'traj_idx', 'total_reward', 'steps', 'tags'],
  stepField: 'iteration',
  place: placeOf,
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

/** iteration_N/train_rollout_summaries.jsonl: the part before it tells training from tests. */
function placeOf(path: string): Place {
  const [folder, above] = foldersOf(path);
  const step = /^iteration_(\d+)$/.exec(folder?.name ?? '')?.[1];
  const base = /([^/]*)_rollout_summaries\.jsonl/.exec(path)?.[1];
  const split = base === undefined || base === 'train' ? undefined : base;
  if (step === undefined) return { runDirectory: folder?.path ?? path, split };
  return { runDirectory: above?.path ?? path, step: Number(step), split };
}
