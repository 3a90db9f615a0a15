// ROLL: rollout_dump_data.step_{N}.jsonl, with `rollout_dump_dir`: one line, an object of columns, of which only those
// that exist are there. pipeline/rlvr/utils.py. The agentic pipeline has chats instead of prompts and responses.

import { type Fields, LineProblem, numberOf, ObjectFields } from '../../fields.js';
import { hasAll, placeByName, type RolloutFormat, rollout } from '../../format.js';
import { chatOf, messagesOf, promptText, spokenIn } from '../../messages.js';
import type { LoggedRollout } from '../../rollout.js';
import { environmentName } from '../../rows/environments.js';

export const reader: RolloutFormat = {
  name: 'roll',
  containers: ['json-lines'],
  needs: 'columns prompt, responses, scores in one object; agentic: messages, exp_name, global_step',
  setting: '`rollout_dump_dir=/DIR` (it must begin with a slash)',
  gives: 'texts, rewards, groups by prompt',
  environment: '`domain`, else `tag`',
  recognises: (keys) =>
    (hasAll(keys, 'responses', 'prompt') && !keys.has('rewards')) ||
    hasAll(keys, 'global_step', 'messages', 'exp_name') ||
    keys.has('trajectory_data'),
  fields: ['global_step', 'prompt', 'messages', 'responses', 'scores', 'domain', 'tag'],
  stepField: 'global_step',
  place: (path) => placeByName(path, /\.step_(\d+)\.jsonl$/),
  rows: (line) => {
    const step = listOrOne(line, 'global_step');
    const columns = {
      prompt: line.list('prompt'),
      responses: line.list('responses'),
      scores: line.list('scores'),
      messages: listOrOne(line, 'messages'),
    };
    const [domains, tags] = [listOrOne(line, 'domain'), listOrOne(line, 'tag')];
    const lengths = Object.entries(columns).flatMap(([name, column]) =>
      column ? [{ name, length: column.length }] : [],
    );
    const rows = columns.responses?.length ?? columns.messages?.length ?? 0;
    const other = lengths.find(({ length }) => length !== rows);
    if (other !== undefined) throw new LineProblem(`${other.name} has ${other.length} entries, the others ${rows}`);
    const found: LoggedRollout[] = [];
    for (let row = 0; row < rows; row++) {
      const [prompt, output, score, messages] = [
        columns.prompt?.[row],
        columns.responses?.[row],
        columns.scores?.[row],
        columns.messages?.[row],
      ];
      const isChat = output === undefined && isThere(messages);
      found.push(
        rollout({
          step: countOf(step?.[row] ?? step?.[0]),
          ...(isChat && chatOf(messagesOf(messages, `messages[${row}]`))),
          ...(isThere(prompt) && { prompt: promptText(messagesOf(prompt, `prompt[${row}]`)) }),
          ...(isThere(output) && spokenIn(messagesOf(output, `responses[${row}]`))),
          reward: score === undefined || score === null ? undefined : numberOf(score, `scores[${row}]`),
          environment: environmentName(domains?.[row]) ?? environmentName(tags?.[row]),
        }),
      );
    }
    return found;
  },
  absent: {
    tokens: "ROLL's dump has texts alone",
    logprobs: "ROLL's dump has no log-probs",
    sample: "ROLL's ids are those of its data set",
    outcome: "ROLL's dump has scores alone",
    truncated: "ROLL's dump does not say which responses were cut",
    length: "ROLL's dump has no token counts",
  },
  notes: [],
};

function countOf(value: unknown): number | undefined {
  return value === undefined ? undefined : new ObjectFields({ global_step: value }).count('global_step');
}

/** A column of chats; of a row by itself, its chat. */
function listOrOne(line: Fields, name: string): readonly unknown[] | undefined {
  const value = line.value(name);
  if (value === undefined) return undefined;
  if (!Array.isArray(value)) return [value];
  const isChat = value.length > 0 && typeof value[0] === 'object' && value[0] !== null && 'role' in value[0];
  return isChat ? [value] : value;
}

function isThere(value: unknown): boolean {
  return value !== undefined && value !== null;
}
