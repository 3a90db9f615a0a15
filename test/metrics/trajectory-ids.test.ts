// Which rows are turns of one trajectory, whether episodes are numbered over the step or within each group, and whether
// a group is a task or the prompt of a turn.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { crossScoreMetrics, type Engine, Judge, openEngine, type SamplerKind } from '../../src/index.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ threads: 1 });
});
afterAll(() => engine.dispose());

// 4 tasks, 3 rollouts of each, 4 turns of each rollout, which go up, down, up, down or stay where they are.
const TURNS = 4;
const rows = Array.from({ length: 4 * 3 * TURNS }, (_, row) => {
  const [task, rollout, turn] = [Math.floor(row / 12), Math.floor(row / TURNS) % 3, row % TURNS];
  return { task, rollout, turn, reward: rollout === 0 ? 1 : 0, action: (task + rollout) % 2 === 0 ? turn % 2 : 2 };
});
const column = (of: (row: (typeof rows)[number]) => number) => rows.map(of);
const turns = column(({ turn }) => turn);
const tasks = column(({ task }) => task);
const overTheStep = column(({ task, rollout }) => 100 * task + rollout);

/** In all three the trajectories are the same. */
const numberings = {
  'over the step, groups are tasks': { groups: tasks, episodes: overTheStep },
  'within each group, groups are tasks': { groups: tasks, episodes: column(({ rollout }) => rollout) },
  // All rollouts of a task begin with one prompt; what they see next is their own.
  'over the step, groups are the prompts of turns': {
    groups: column(({ task, rollout, turn }) => (turn === 0 ? task : 1000 * (task + 1) + 10 * rollout + turn)),
    episodes: overTheStep,
  },
};

describe.each(Object.entries(numberings))('episodes numbered %s', (_, { groups, episodes }) => {
  it.each<[SamplerKind, number]>([
    ['first_turn', 12],
    ['turn', 48],
  ])('are what the sampler %s takes for trajectories', async (kind, used) => {
    const columns = [...new Set(groups)];
    const sums = {
      data: Float64Array.from({ length: 48 * columns.length }, (_, at) => -1 - (at % 7) / 10),
      dtype: 'float64',
      shape: [48, columns.length],
    };
    const scores = { sums: sums as never, lengths: rows.map(() => 1), groups, episodes, turns };
    const { rows: found } = await crossScoreMetrics(engine, scores, { sampler: { kind }, permutations: 0 });
    expect(found).toMatchObject({ used });
  });

  it('are what verdicts take for rollouts', () => {
    const judge = new Judge();
    const given = {
      groups,
      episodes,
      turns,
      rewards: Float64Array.from(rows, ({ reward }) => reward),
      actions: column(({ action }) => action),
    };
    const { oscillation, triage } = judge.add({ step: 1, rows: given });
    expect(oscillation).toMatchObject({ episodes: 12, periodicShare: 0.5 });
    expect(triage.map(({ group, rewardMean }) => [group, rewardMean])).toEqual(
      [0, 1, 2, 3].map((task) => [task, 1 / 3]),
    );
  });
});

it('without turns are told apart by group and episode', () => {
  const { groups, episodes } = numberings['within each group, groups are tasks'];
  const { oscillation } = new Judge().add({
    step: 1,
    rows: { groups, episodes, actions: column(({ action }) => action) },
  });
  expect(oscillation).toMatchObject({ episodes: 12, periodicShare: 0.5 });
});
