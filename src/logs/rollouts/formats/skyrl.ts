// SkyRL: dumped_evals/global_step_{N}_evals/{data_source}.jsonl, a line a sample. A score may be a list, a value a
// token: their sum.

import { floatsOf } from '../fields.js';
import { foldersOf, hasAll, type Place, plainName, type RolloutFormat, rollout } from '../format.js';
import { promptIn, saidIn } from '../messages.js';
import { environmentName } from '../rows/environments.js';

export const skyrl: RolloutFormat = {
  name: 'skyrl',
  containers: ['json-lines'],
  needs: 'input_prompt, output_response, score',
  setting: 'trainer.dump_eval_results=true; EXPORT_PATH/dumped_evals',
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
  const folders = foldersOf(path);
  const step = /^global_step_(\d+)/.exec(folders[0]?.name ?? '')?.[1];
  if (step === undefined) return { runDirectory: folders[0]?.path ?? path };
  const run = folders[1]?.name === 'dumped_evals' ? folders[2] : folders[1];
  return { runDirectory: run?.path ?? path, step: Number(step), split: 'eval' };
}
