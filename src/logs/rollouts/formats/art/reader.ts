// OpenPipe ART before its tables: trajectories/{split}/{step}.jsonl: a line is a group of trajectories, each a chat.
// Log-probs are stripped.
import { basename } from 'node:path';
import { fieldsOf } from '../../fields.js';
import { foldersOf, type Place, plainName, type RolloutFormat, rollout } from '../../format.js';
import { chatOf, messagesOf } from '../../messages.js';

export const reader: RolloutFormat = {
  name: 'art',
  containers: ['json-lines'],
  needs: 'trajectories (each with messages_and_choices or messages, and a reward)',
  setting: 'older versions, on by default; `.art/PROJECT/models/MODEL/trajectories/SPLIT/*.jsonl`',
  gives: 'chats, rewards; a line is a group',
  recognises: (keys) => keys.has('trajectories') && !keys.has('episode_id'),
  fields: ['trajectories'],
  place: (path) => trajectoriesPlace(path),
  groupIsLine: true,
  rows: (line) =>
    (line.list('trajectories') ?? []).map((value, at) => {
      const trajectory = fieldsOf(value, `trajectories[${at}]`);
      const name = trajectory.value('messages_and_choices') === undefined ? 'messages' : 'messages_and_choices';
      // A choice is what the endpoint answered: its message is the turn.
      const chat = trajectory.list(name)?.map((one, index) => {
        const entry = fieldsOf(one, `${name}[${index}]`);
        return entry.value('message') ?? one;
      });
      return rollout({
        ...(chat && chatOf(messagesOf(chat, name))),
        reward: trajectory.number('reward'),
      });
    }),
  absent: {
    tokens: "ART's trajectories have texts alone",
    logprobs: 'ART strips log-probs from its trajectories',
    sample: "ART's trajectories have no ids",
    outcome: "ART's trajectories have rewards and metrics of any name alone",
    truncated: "ART's trajectories do not say which responses were cut",
    length: "ART's trajectories have no token counts",
  },
  notes: [],
};

export function trajectoriesPlace(path: string): Place {
  const folders = foldersOf(path);
  const step = /^(\d+)\.(?:jsonl|parquet)$/.exec(plainName(path))?.[1];
  const at = folders.findIndex(({ name }) => name === 'trajectories');
  const split = at > 0 ? basename(folders[at - 1]?.path ?? '') : undefined;
  return {
    runDirectory: (at < 0 ? folders[0]?.path : folders[at + 1]?.path) ?? path,
    step: step === undefined ? undefined : Number(step),
    split: split === 'train' ? undefined : split,
  };
}
