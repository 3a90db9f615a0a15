// Tinker cookbook: iteration_{N}/{base}_logtree.json, an object a file: the tree of an HTML page, with the chats of a
// few groups as data. Members of a group run at once, so a reward is a response's only where the page leaves no other.
// utils/logtree.py, rl/rollouts.py, rl/problem_env.py, rl/preference_envs.py of 0.6.1.
import { type Fields, fieldsOf } from '../../fields.js';
import { hasAll, type RolloutFormat, rollout } from '../../format.js';
import { chatOf, messagesOf, promptText, spokenIn } from '../../messages.js';
import type { LoggedRollout } from '../../rollout.js';
import { iterationPlace } from '../tinker/reader.js';

export const reader: RolloutFormat = {
  name: 'tinker-logtree',
  containers: ['json-lines'],
  needs: 'title, started_at, root (a tree of tag, attrs, children, data)',
  setting: '`num_groups_to_log`, 4 by default; `iteration_*/*_logtree.json`',
  gives: 'chats and groups; rewards where the page tells whose they are',
  recognises: (keys) => hasAll(keys, 'title', 'started_at', 'root'),
  fields: ['root'],
  // The summaries of the same steps are beside them: of all groups, so the transcripts are a run of their own.
  place: (path) => {
    const place = iterationPlace(path, 'logtree', 'json');
    return { ...place, split: place.split === undefined ? 'transcripts' : `${place.split}_transcripts` };
  },
  rows: (line) => groupsIn(line.object('root')).flatMap((parts, group) => rowsOf(parts, String(group))),
  absent: {
    tokens: "Tinker's transcripts have texts alone",
    logprobs: "Tinker's transcripts have no log-probs",
    reward: "Tinker's transcripts do not tell whose the rewards are: those of all trajectories are in the summaries",
    truncated: "Tinker's transcripts do not say which responses were cut",
    length: "Tinker's transcripts have no token counts of responses",
    sample: "Tinker's transcripts have no ids of responses",
  },
  notes: [
    'the transcripts are of a few groups of the step (num_groups_to_log): rewards of all are in the summaries beside them',
  ],
};

/** A chat or a table, below the headings that it stands under. */
interface Part {
  readonly headings: readonly string[];
  readonly messages?: unknown;
  readonly table?: ReadonlyMap<string, string>;
}

/** Of each group that was rolled out, in the order of the page. */
function groupsIn(root: Fields): Part[][] {
  const groups: Part[][] = [];
  const open: { node: Fields; headings: readonly string[] }[] = [{ node: root, headings: [] }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { node } = next;
    const children = nodesIn(node);
    const heading = node.value('tag') === 'section' ? textOf(children.find((one) => /^h\d$/.test(tagOf(one)))) : '';
    const headings = heading === '' ? next.headings : [...next.headings, heading];
    if (heading === 'Group Rollout') groups.push([]);
    const data = node.value('data') === undefined ? undefined : node.object('data');
    const isChat = data?.value('type') === 'conversation';
    if (isChat) groups.at(-1)?.push({ headings, messages: data.list('messages') ?? [] });
    else if (tagOf(node) === 'table') groups.at(-1)?.push({ headings, table: tableIn(node) });
    else for (const child of children.reverse()) open.push({ node: child, headings });
  }
  return groups;
}

function nodesIn(node: Fields | undefined): Fields[] {
  return (node?.list('children') ?? [])
    .filter((one) => typeof one !== 'string')
    .map((one) => fieldsOf(one, 'children'));
}

function tagOf(node: Fields): string {
  return node.text('tag') ?? '';
}

function textOf(node: Fields | undefined): string {
  return (node?.list('children') ?? []).filter((one) => typeof one === 'string').join('');
}

/** Its rows of two cells. */
function tableIn(table: Fields): Map<string, string> {
  const rows = nodesIn(table)
    .flatMap(nodesIn)
    .map((row) => nodesIn(row).map(textOf));
  return new Map(rows.filter(({ length }) => length === 2) as [string, string][]);
}

function rowsOf(parts: readonly Part[], group: string): LoggedRollout[] {
  const rows: LoggedRollout[] = [];
  /** Rewards said between a response and the next, and by the number of the trajectory. */
  const said: string[][] = [];
  const totals = new Map<string, string>();
  const places: (string | undefined)[] = [];
  let prompt: string | undefined;
  for (const { headings, messages, table } of parts) {
    const number = headings.map((heading) => /^Trajectory (\d+) Episode$/.exec(heading)?.[1]).find(Boolean);
    const total = table?.get('total_return');
    if (number !== undefined && total !== undefined) totals.set(number, total);
    const reward = table?.get('reward') ?? table?.get('total_reward');
    if (number === undefined && reward !== undefined) said.at(-1)?.push(reward);
    if (messages === undefined) continue;
    const chat = messagesOf(messages, 'messages');
    const heading = headings.at(-1) ?? '';
    const place = /^Completion (\d+)$/.exec(heading)?.[1];
    const isResponse = heading === 'Policy Response' || place !== undefined;
    if (!isResponse && (heading === 'Prompt' || !chat.some(({ role }) => role === 'assistant'))) {
      prompt = promptText(chat);
      continue;
    }
    rows.push(rollout({ group, ...(isResponse ? { prompt, ...spokenIn(chat) } : chatOf(chat)) }));
    said.push([]);
    places.push(place);
  }
  // Where responses and rewards take turns, each reward is of the response before it; a group may add to them.
  const sorted = (rewards: Iterable<string>): string =>
    [...rewards]
      .map(Number)
      .sort((a, b) => a - b)
      .join();
  const isWhole = totals.size === 0 || sorted(said.flat()) === sorted(totals.values());
  const takesTurns = isWhole && said.every(({ length }) => length === 1);
  const common = new Set(totals.values()).size === 1 ? [...totals.values()][0] : undefined;
  return rows.map((row, at) => {
    const place = places[at];
    const reward = (place === undefined ? (takesTurns ? said[at]?.[0] : undefined) : totals.get(place)) ?? common;
    return reward === undefined ? row : { ...row, reward: fieldsOf({ reward }, 'a table').number('reward') as number };
  });
}
