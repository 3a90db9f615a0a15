// Collects per prompt what each rollout earned and did. Rows that are turns make one rollout per episode, as in the
// filter: the reward and outcome that all of its turns share, and its actions in order.
import { idOf } from '../../checks/ids.js';
import type { Integers } from '../../engine/tensor/tensor.js';
import { idsWithGroups, trajectoryIds } from '../../metrics/sampling/trajectory-ids.js';
import type { RowEvidence, StepEvidence } from './step-evidence.js';

export interface RolloutGroup {
  readonly group: number | bigint;
  readonly rewards: Float64Array;
  readonly outcomes: readonly number[] | undefined;
  /** One word for what each rollout did: equal words, equal behaviour. */
  readonly behaviours: readonly string[] | undefined;
}

/** @returns in order of first appearance; empty if no rewards are given */
export function rolloutGroups({ groups, rows }: StepEvidence): RolloutGroup[] {
  if (groups !== undefined) {
    return groups.map(({ group, rewards, outcomes, actions }) => ({
      group,
      rewards: Float64Array.from(rewards),
      outcomes: outcomes && Array.from(outcomes),
      behaviours: actions && Array.from(actions as ArrayLike<number | bigint>, String),
    }));
  }
  if (rows?.rewards === undefined) return [];
  const { rewards, outcomes, actions } = rows;
  if (rows.episodes === undefined) {
    return Array.from(rowsByGroup(rows.groups), ([group, members]) => ({
      group,
      rewards: valuesAt(members, rewards),
      outcomes: outcomes && members.map((row) => outcomes[row] as number),
      behaviours: actions && members.map((row) => String(actions[row])),
    }));
  }
  const byGroup = new Map<number | bigint, number[][]>();
  for (const rollout of ordered(idsWithGroups(rows.groups, rows.episodes), rows.turns)) {
    const id = idOf(rows.groups, rollout[0] as number);
    const members = byGroup.get(id);
    if (members === undefined) byGroup.set(id, [rollout]);
    else members.push(rollout);
  }
  return [...byGroup].map(([group, rollouts]) => {
    const last = rollouts.map((turns) => turns.at(-1) as number);
    return {
      group,
      rewards: valuesAt(last, rewards),
      outcomes: outcomes && last.map((row) => outcomes[row] as number),
      behaviours: actions && rollouts.map((turns) => turns.map((row) => actions[row]).join(' ')),
    };
  });
}

/** The outcome of each trajectory, in no order that matters; empty if outcomes are not given. */
export function outcomesAlone({ groups, outcomes, episodes, turns }: RowEvidence): number[] {
  if (outcomes === undefined) return [];
  if (episodes === undefined) return Array.from(outcomes);
  return episodesOf(groups, episodes, turns).map((rows) => outcomes[rows.at(-1) as number] as number);
}

function valuesAt(rows: readonly number[], values: ArrayLike<number>): Float64Array {
  const found = new Float64Array(rows.length);
  for (let at = 0; at < found.length; at++) found[at] = values[rows[at] as number] as number;
  return found;
}

/** Rows of each group, in order of first appearance. */
export function rowsByGroup(groups: Integers): Map<number | bigint, number[]> {
  const found = new Map<number | bigint, number[]>();
  let last: number | bigint | undefined;
  let members: number[] = [];
  for (let row = 0; row < groups.length; row++) {
    const id = idOf(groups, row);
    // Rows of one group are mostly adjacent.
    if (id !== last) {
      last = id;
      members = found.get(id) ?? [];
      if (members.length === 0) found.set(id, members);
    }
    members.push(row);
  }
  return found;
}

/** Rows of each episode by rising turn (without turns: in their order), in order of first appearance. */
export function episodesOf(groups: Integers, episodes: Integers, turns: Integers | undefined): number[][] {
  return ordered(turns === undefined ? idsWithGroups(groups, episodes) : trajectoryIds(groups, episodes, turns), turns);
}

function ordered(ids: ArrayLike<number | bigint>, turns: Integers | undefined): number[][] {
  const found = new Map<string, number[]>();
  for (let row = 0; row < ids.length; row++) {
    const key = String(ids[row]);
    const members = found.get(key);
    if (members === undefined) found.set(key, [row]);
    else members.push(row);
  }
  const rank = (row: number): number => Number(turns?.[row] ?? row);
  return [...found.values()].map((rows) => rows.sort((a, b) => rank(a) - rank(b)));
}
