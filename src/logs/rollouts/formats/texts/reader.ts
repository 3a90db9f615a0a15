// `texts`: the rollouts of a step file, in a file beside it: step_00042.texts.jsonl.

import { placeByName, type RolloutFormat, rollout } from '../../format.js';
import { promptIn } from '../../messages.js';
import { environmentName } from '../../rows/environments.js';

const NAME = /(\d+)\.texts\.(?:jsonl|ndjson)$/;

export const reader: RolloutFormat = {
  name: 'texts',
  containers: ['json-lines'],
  needs: 'reasoning, group or prompt; the file’s name ends in STEP.texts.jsonl',
  setting: '`STEP.texts.jsonl` beside a step file',
  gives: 'texts, rewards and groups of its rows ([step-file.md](../reference/step-file.md#texts-beside-a-step-file))',
  environment: '`environment`',
  recognises: (keys, path) =>
    placeByName(path, NAME).step !== undefined &&
    keys.has('reasoning') &&
    !keys.has('output') &&
    (keys.has('group') || keys.has('prompt')),
  fields: ['row', 'group', 'prompt', 'reasoning', 'reward', 'environment'],
  place: (path) => placeByName(path, NAME),
  rows: (line) => [
    rollout({
      row: line.count('row'),
      group: line.id('group'),
      prompt: promptIn(line, 'prompt'),
      reasoning: line.text('reasoning'),
      reward: line.outcome('reward'),
      environment: environmentName(line.value('environment')),
    }),
  ],
  absent: {},
  notes: [],
};
