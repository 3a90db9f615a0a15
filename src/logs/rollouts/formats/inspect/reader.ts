// Inspect: a log of an evaluation, NAME.eval: a zip file with samples/{id}_epoch_{n}.json, an object a sample; or the
// same as one JSON object (`inspect log dump`, --log-format json), its samples in a list. An epoch is one more response
// to a sample's input. inspect_ai/log/_log.py at 499e6152.

import { type Fields, fieldsOf } from '../../fields.js';
import { hasAll, type RolloutFormat, rollout } from '../../format.js';
import { chatOf, messagesOf } from '../../messages.js';
import type { LoggedRollout } from '../../rollout.js';

/** Marks that Inspect's scorers give in letters: correct, partly, incorrect, no answer. */
const MARKS: Readonly<Record<string, number>> = { C: 1, P: 0.5, I: 0, N: 0 };

export const reader: RolloutFormat = {
  name: 'inspect',
  containers: ['json-lines'],
  needs: 'id, epoch, messages, scores; or samples with these',
  setting: '`inspect eval`; `logs/*.eval`, or `--log-format json`',
  gives: 'chats, calls of tools, the first score as the reward, groups by sample; epochs are responses to one prompt',
  environment: '`eval.task`, of logs in JSON',
  recognises: (keys) => hasAll(keys, 'id', 'epoch', 'messages') || hasAll(keys, 'samples', 'eval'),
  fields: ['id', 'epoch', 'messages', 'scores', 'samples', 'eval', 'error'],
  rows: (line) => {
    if (line.value('samples') === undefined) return [rowOf(line)];
    const environment = line.object('eval').id('task');
    const samples = (line.list('samples') ?? []).map((one, at) => fieldsOf(one, `samples[${at}]`));
    return samples.map((sample) => ({ ...rowOf(sample), ...(environment !== undefined && { environment }) }));
  },
  absent: {
    tokens: "Inspect's samples have texts alone",
    logprobs: "Inspect's samples have no log-probs",
    length: "Inspect's samples count tokens of all calls together",
  },
  notes: [],
};

function rowOf(sample: Fields): LoggedRollout {
  const group = sample.id('id');
  const scores = sample.value('scores') === undefined ? undefined : fieldsOf(sample.value('scores'), 'scores');
  const [name] = scores?.names ?? [];
  const score = name === undefined ? undefined : fieldsOf(scores?.value(name), `scores.${name}`);
  const mark = score?.value('value');
  return rollout({
    group,
    ...chatOf(messagesOf(sample.value('messages') ?? [], 'messages')),
    reward: typeof mark === 'string' && Object.hasOwn(MARKS, mark) ? MARKS[mark] : score?.outcome('value'),
    sample: `${group}/${sample.id('epoch')}`,
  });
}
