// SkyRL: dumped_evals/global_step_{N}_evals/{data_source}.jsonl, a line a sample. A score may be a list, a value a
// token: their sum.

import { floatsOf } from '../../fields.js';
import { hasAll, type Place, placeByFolder, plainName, type RolloutFormat, rollout } from '../../format.js';
import { promptIn, saidIn } from '../../messages.js';
import { environmentName } from '../../rows/environments.js';

export const reader: RolloutFormat = {
  name: 'skyrl',
  containers: ['json-lines'],
  needs: 'input_prompt, output_response, score',
  setting: 'evaluations, on by default; `EXPORT_PATH/dumped_evals`',
  gives: 'texts, rewards, cut responses, groups by prompt',
  environment: "`data_source`, else the file's name",
  recognises: (keys) => hasAll(keys, 'input_prompt', 'output_response', 'score'),
  fields: ['input_prompt', 'output_response', 'score', 'stop_reason', 'data_source'],
  place: placeOf,
  rows: (line, { path }) => {
    const score = line.value('score');
    const stop = line.text('stop_reason');
    return [
      rollout({
        prompt: promptIn(line, 'input_prompt'),
        ...saidIn(line, 'output_response'),
        reward: Array.isArray(score)
          ? floatsOf(score, 'score').reduce((sum, one) => sum + one, 0)
          : line.number('score'),
        truncated: stop === undefined ? undefined : stop === 'length',
        environment: environmentName(line.value('data_source')) ?? sourceOf(path),
      }),
    ];
  },
  absent: {
    tokens: "SkyRL's evaluations have texts alone",
    logprobs: "SkyRL's evaluations have no log-probs",
    sample: "SkyRL's evaluations have no ids",
    outcome: "SkyRL's evaluations have scores alone",
    length: "SkyRL's evaluations have no token counts",
  },
  notes: ['these are evaluations: SkyRL writes no training rollouts as text'],
  passesOver: (path) => plainName(path) === 'aggregated_results.jsonl',
};

/** A file a source, named after it. */
function sourceOf(path: string): string | undefined {
  const isDump = placeOf(path).step !== undefined;
  return isDump ? plainName(path).replace(/\.jsonl$/, '') : undefined;
}

function placeOf(path: string): Place {
  return placeByFolder(path, /^global_step_(\d+)/, { own: /^dumped_evals$/, split: 'eval' });
}
