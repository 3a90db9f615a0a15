// verl: `trainer.rollout_data_dir` and `trainer.validation_data_dir`, {step}.jsonl, a line a sample. Beside the standard
// keys stand those of the reward function's `reward_extra_info` (acc, pred and others) where all samples have them; of
// rollouts V1 has `uid` alone, and sorts by it. The legacy trainer writes its balanced order, and numpy's flags as
// words. verl 0.9.1: verl/trainer/ppo/v1/trainer_base.py, ray_trainer.py (_write_generations, _log_rollout_data).

import { hasAll, placeByName, type RolloutFormat, rollout } from '../../format.js';
import { answerIn, promptIn, saidIn } from '../../messages.js';
import { environmentName } from '../../rows/environments.js';

/** {uid of the prompt}_{session}_{output of the session}. */
const UID = /^(.*)_(\d+)_(\d+)$/s;

export const reader: RolloutFormat = {
  name: 'verl',
  containers: ['json-lines'],
  needs: 'input, output, score, step',
  setting: '`trainer.rollout_data_dir=DIR` (validations: `trainer.validation_data_dir`)',
  gives:
    'texts, rewards, groups; of the reward function `acc` as the outcome and `pred` as the action, where it has them',
  environment: '`data_source`, where the dump has it',
  recognises: (keys) => hasAll(keys, 'input', 'output', 'score'),
  fields: ['input', 'output', 'score', 'step', 'uid', 'acc', 'pred', 'request_id', 'data_source'],
  stepField: 'step',
  place: (path) => placeByName(path, /^(\d+)\.jsonl$/),
  rows: (line) => {
    const uid = line.id('uid');
    const [, group = uid, session, output] = (uid !== undefined && UID.exec(uid)) || [];
    return [
      rollout({
        step: line.count('step'),
        group,
        prompt: promptIn(line, 'input'),
        ...saidIn(line, 'output'),
        reward: line.number('score'),
        // The answer as the reward function has found it.
        action: answerIn(line, ['pred']),
        outcome: line.outcome('acc'),
        sample: uid ?? line.id('request_id'),
        episode: session === undefined ? undefined : `${group}_${session}`,
        turn: output === undefined ? undefined : Number(output),
        environment: environmentName(line.value('data_source')),
      }),
    ];
  },
  absent: {
    tokens: "verl's dump has texts alone, decoded without special tokens",
    logprobs: "verl's dump has no log-probs",
    truncated: "verl's dump does not say which responses were cut",
    length: "verl's dump has no token counts",
  },
  notes: [],
};
