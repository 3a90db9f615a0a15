// Rows or groups as they come -> per prompt, what each rollout earned and did. Rows that are turns make one rollout an episode:
// the last turn's reward and outcome, and all its actions in order.
import type { Integers } from '../../engine/tensor.js';
import type { StepEvidence } from './step-evidence.js';

export interface RolloutGroup {
  readonly group: number | bigint;
  readonly rewards: readonly number[];
  readonly outcomes: readonly number[] | undefined;
  /** One word for what each rollout did: equal words, equal behaviour. */
  readonly behaviours: readonly string[] | undefined;
}

/** @returns in order of first appearance; empty where no rewards are given */
export function rolloutGroups({ groups, rows }: StepEvidence): RolloutGroup[] {
  if (groups !== undefined) {
    return groups.map(({ group, rewards, outcomes, actions }) => ({
      group,
      rewards: Array.from(rewards),
      outcomes: outcomes && Array.from(outcomes),
      behaviours: actions && Array.from(actions as ArrayLike<number | bigint>, String),
    }));
  }
  if (rows?.rewards === undefined) return [];
  const { rewards, outcomes, actions } = rows;
  if (rows.episodes === undefined) {
    return Array.from(rowsByGroup(rows.groups), ([group, members]) => ({
      group,
      rewards: members.map((row) => rewards[row] as number),
      outcomes: outcomes && members.map((row) => outcomes[row] as number),
      behaviours: actions && members.map((row) => String(actions[row])),
    }));
  }
  const byGroup = new Map<number | bigint, number[][]>();
  for (const rollout of episodesOf(rows.groups, rows.episodes, rows.turns)) {
    const id = idOf(rows.groups, rollout[0] as number);
    const members = byGroup.get(id);
    if (members === undefined) byGroup.set(id, [rollout]);
    else members.push(rollout);
  }
  return [...byGroup].map(([group, rollouts]) => {
    const lastOf = (values: ArrayLike<number>): number[] =>
      rollouts.map((turns) => values[turns.at(-1) as number] as number);
    return {
      group,
      rewards: lastOf(rewards),
      outcomes: outcomes && lastOf(outcomes),
      behaviours: actions && rollouts.map((turns) => turns.map((row) => actions[row]).join(' ')),
    };
  });
}

/** Rows of each group, in order of first appearance. */
export function rowsByGroup(groups: Integers): Map<number | bigint, number[]> {
  const found = new Map<number | bigint, number[]>();
  let last: number | bigint | undefined;
  let members: number[] = [];
  for (let row = 0; row < groups.length; row++) {
    const id = idOf(groups, row);
    // Rows of one group mostly stand together.
    if (id !== last) {
      last = id;
      members = found.get(id) ?? [];
      if (members.length === 0) found.set(id, members);
    }
    members.push(row);
  }
  return found;
}

/** Rows of each episode by rising turn, in order of first appearance. */
export function episodesOf(groups: Integers, episodes: Integers, turns: Integers | undefined): number[][] {
  const found = new Map<string, number[]>();
  for (let row = 0; row < groups.length; row++) {
    // Trainers number episodes within a group or within the batch: both are told apart by group and episode.
    const key = `${groups[row]}/${episodes[row]}`;
    const members = found.get(key);
    if (members === undefined) found.set(key, [row]);
    else members.push(row);
  }
  const rank = (row: number): number => Number(turns?.[row] ?? row);
  return [...found.values()].map((rows) => rows.sort((a, b) => rank(a) - rank(b)));
}

/** 64-bit ids that a number holds exactly become numbers. */
export function idOf(ids: Integers, row: number): number | bigint {
  const id = ids[row] as number | bigint;
  return typeof id === 'bigint' && Number.isSafeInteger(Number(id)) ? Number(id) : id;
}
