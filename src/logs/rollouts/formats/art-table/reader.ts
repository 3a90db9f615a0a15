// OpenPipe ART of today: trajectories/{split}/{step}.parquet, a row a trajectory; its messages are objects whose calls of
// tools are JSON. art/utils/trajectory_logging.py of openpipe-art 0.5.18. Its JSON lines of before are read by `art`.
import { fieldsOf, LineProblem } from '../../fields.js';
import { hasAll, type RolloutFormat, rollout } from '../../format.js';
import { parseJsonLine } from '../../json-lines/json-line.js';
import { chatOf, messagesOf } from '../../messages.js';
import { trajectoriesPlace } from '../art/reader.js';

export const reader: RolloutFormat = {
  name: 'art-table',
  containers: ['parquet'],
  needs: 'group_index, group_metadata, messages, reward',
  setting: 'on by default; `.art/PROJECT/models/MODEL/trajectories/SPLIT/*.parquet`',
  gives: 'chats, calls of tools, rewards, groups',
  recognises: (keys) => hasAll(keys, 'group_index', 'group_metadata', 'messages'),
  fields: ['group_index', 'messages', 'reward'],
  place: (path) => trajectoriesPlace(path),
  rows: (row) => {
    const chat = row.list('messages');
    if (chat === undefined && row.value('reward') === undefined) return [];
    const messages = chat?.map((one, at) => {
      const calls = fieldsOf(one, `messages[${at}]`).text('tool_calls');
      return { ...(one as object), tool_calls: calls === undefined ? null : callsIn(calls, at) };
    });
    return [
      rollout({
        group: row.id('group_index'),
        ...(messages && chatOf(messagesOf(messages, 'messages'))),
        reward: row.number('reward'),
      }),
    ];
  },
  absent: {
    tokens: "ART's trajectories have texts alone",
    logprobs: "ART's trajectories have no log-probs",
    sample: "ART's trajectories have no ids",
    outcome: "ART's trajectories have rewards and metrics of any name alone",
    truncated: "ART's trajectories do not say which responses were cut",
    length: "ART's trajectories have no token counts",
  },
  notes: [],
};

function callsIn(json: string, at: number): unknown {
  try {
    return parseJsonLine(json);
  } catch {
    throw new LineProblem(`messages[${at}].tool_calls is no JSON: expected a list of calls`);
  }
}
