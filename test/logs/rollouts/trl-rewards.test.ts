// Rewards of TRL's logs, from the file to the filter: learned from advantages, or as somebody says.
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { watch } from '../../../src/exports/logs.js';
import { analyze, measureShard, type StepReport } from '../../../src/index.js';
import { collapsar } from '../../cli/cli-streams.js';
import { buildIfStale } from '../../support/built-command.js';
import { uniformNumbers } from '../../support/random-numbers.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { putLogs, readAll } from './rollout-logs.js';
import { advantages, columnOf, completions, count, type Model } from './trl-tables.js';

// Threads run what is in dist/.
beforeAll(buildIfStale, 180_000);

const root = temporaryDirectory();
let made = 0;
const [ROWS, SIZE] = [64, 8];

interface Settings {
  readonly steps?: number;
  readonly model?: Model;
  readonly weights?: (step: number) => Record<string, number>;
  /** Columns instead of, or beside, those of a step. */
  readonly more?: (step: number, columns: Record<string, Float64Array>) => Record<string, Float64Array>;
}

/** A run whose reward is a flag and a tenth of a share; token counts were logged beside it. */
function runOf({ steps = 4, model = 'group', weights = () => ({ correct: 1, shape: 0.1 }), more }: Settings = {}) {
  const files: Record<string, Uint8Array> = {};
  for (let step = 1; step <= steps; step++) {
    const uniform = uniformNumbers(step);
    const own = {
      correct: columnOf(0, ROWS, uniform),
      shape: columnOf(1, ROWS, uniform),
      tokens: count(ROWS, uniform),
    };
    const columns: Record<string, Float64Array> = { ...own, ...more?.(step, own) };
    const given = Object.entries(weights(step));
    const parts = given.map(([name]) => columns[name] as Float64Array);
    const advantage = advantages(
      parts,
      given.map(([, weight]) => weight),
      SIZE,
      model,
    );
    files[`completions/completions_${String(step).padStart(5, '0')}.parquet`] = completions(
      step,
      columns,
      advantage,
      SIZE,
    );
  }
  return putLogs(join(root, `run${made++}`), files);
}

const sumOf = (
  rewards: Readonly<Record<string, Float64Array>> | undefined,
  weights: Record<string, number>,
  row: number,
) => Object.entries(weights).reduce((sum, [name, weight]) => sum + weight * (rewards?.[name]?.[row] as number), 0);

async function reportsOf(source: AsyncIterable<StepReport>) {
  const records = [];
  for await (const { record } of source) records.push({ ...record, file: undefined });
  return records;
}

describe("the reward of TRL's logs", () => {
  it.each(['group', 'batch', 'none', 'normalized'] as const)('is what the advantages tell: %s', async (model) => {
    const { steps, errors } = await readAll(runOf({ model }));
    expect(errors).toEqual([]);
    expect(steps).toHaveLength(4);
    for (const { reward, rewards, notes } of steps) {
      expect(Object.keys(rewards ?? {})).toEqual(['correct', 'shape']);
      for (let row = 0; row < ROWS; row++) expect(reward?.[row]).toBe(sumOf(rewards, { correct: 1, shape: 0.1 }, row));
      const [note] = notes.filter((one) => one.startsWith('the reward is'));
      expect(note).toContain('the reward is 1 × correct + 0.1 × shape, as the advantages tell');
      expect(note).toContain('no part of it: tokens');
      expect(note?.includes('known up to a factor: the largest weight is taken to be 1')).toBe(model !== 'none');
    }
  });

  it('is the same sum at each step: a column that does not vary at first has its weight from later ones', async () => {
    const more = (step: number, { shape }: Record<string, Float64Array>) => ({
      shape: step <= 2 ? new Float64Array(ROWS).fill(0.5) : (shape as Float64Array),
      epoch: new Float64Array(ROWS).fill(step / 4),
    });
    const { steps } = await readAll(runOf({ more }));
    for (const { reward, rewards, notes } of steps) {
      expect(reward?.[9]).toBe(sumOf(rewards, { correct: 1, shape: 0.1 }, 9));
      expect(notes.join()).toContain('epoch vary within no group, so that their weight is not known: left out');
    }
  });

  it('has other weights from the step on at which they were changed, and says so', async () => {
    const weights = (step: number) => (step < 4 ? { correct: 1, shape: 0.1 } : { correct: 0.5, shape: 1 });
    const { steps } = await readAll(runOf({ steps: 5, weights }));
    expect(steps[2]?.reward?.[3]).toBe(sumOf(steps[2]?.rewards, { correct: 1, shape: 0.1 }, 3));
    for (const { reward, rewards, notes } of steps.slice(3)) {
      expect(reward?.[3]).toBe(sumOf(rewards, { correct: 0.5, shape: 1 }, 3));
      expect(notes.join()).toContain("those of the run's first steps do not fit");
    }
  });

  it('is refused where columns say the same, which are named', async () => {
    const more = (_: number, { shape }: Record<string, Float64Array>) => ({
      percent: (shape as Float64Array).map((value) => 100 * value),
    });
    const path = runOf({ more });
    const { steps } = await readAll(path);
    const words = 'shape and percent say the same within groups, so that advantages do not tell their weights';
    expect(steps[0]).toMatchObject({ reward: undefined, absent: { reward: expect.stringContaining(words) } });
    const { status, err } = await collapsar(['filter', path, '--step', '1']);
    expect([status, err.replace(/\s+/g, ' ')]).toEqual([1, expect.stringContaining(`${words}: name the columns`)]);
    const named = ['filter', path, '--step', '1', '--reward-columns', 'correct,shape=0.1', '--json'];
    expect((await collapsar(named)).status).toBe(0);
  });

  it('is the plain sum where nothing fits, with the columns that were taken and how to name them', async () => {
    const hidden = await readAll(runOf({ model: 'group', weights: () => ({ correct: 1, tokens: 0.001 }) }));
    expect(hidden.steps[0]?.notes.join()).toContain('the reward is 1 × correct + 0.001 × tokens');
    const noise = (step: number) => columnOf(2, ROWS, uniformNumbers(7 * step));
    const files = [1, 2].map((step) => {
      const columns = {
        correct: columnOf(0, ROWS, uniformNumbers(step)),
        tokens: count(ROWS, uniformNumbers(step + 9)),
      };
      return [`completions/completions_0000${step}.parquet`, completions(step, columns, noise(step), SIZE)] as const;
    });
    const other = await readAll(putLogs(join(root, `run${made++}`), Object.fromEntries(files)));
    expect(other.steps[0]?.notes.join()).toContain(
      'the reward is taken to be the plain sum correct + tokens, for weights are not told: nothing that TRL makes of rewards ' +
        'gives these advantages; name its columns and weights: --reward-columns correct,tokens=0.1',
    );
  });

  it('is what somebody says, and a column that is not there is refused by name', async () => {
    const path = runOf();
    const { steps } = await readAll(path, { rewardColumns: { correct: 2, tokens: -0.01 } });
    expect(steps[0]?.reward?.[5]).toBe(sumOf(steps[0]?.rewards, { correct: 2, tokens: -0.01 }, 5));
    expect(steps[0]?.notes.join()).not.toContain('the reward');
    const { errors } = await readAll(path, { rewardColumns: { corect: 1 } });
    expect(errors[0]?.message).toContain(
      'has no column of numbers "corect" (--reward-columns); there are 3 columns of numbers: correct, shape, tokens',
    );
    const verl = putLogs(join(root, `run${made++}`), { '1.jsonl': [{ input: 'q', output: 'a', score: 1, step: 1 }] });
    expect((await readAll(verl, { rewardColumns: { score: 1 } })).errors[0]?.message).toContain(
      'the reader verl has no columns',
    );
    for (const [rewardColumns, message] of [
      [{}, 'options.rewardColumns: got'],
      [{ a: Number.NaN }, 'options.rewardColumns.a: got NaN, expected a finite weight'],
    ] as const) {
      await expect(readAll(path, { rewardColumns })).rejects.toThrow(message);
    }
    const { status, err } = await collapsar(['analyze', path, '--reward-columns', 'correct=x']);
    expect([status, err]).toEqual([2, expect.stringContaining('COLUMN=WEIGHT')]);
  });

  it('is the same in the filter, in shards and in a watch', async () => {
    const path = runOf({ steps: 6 });
    const options = { permutations: 0 } as const;
    const whole = await reportsOf(analyze(path, options));
    // Of a flag and a tenth of a share, not of counts of tokens.
    for (const record of whole) {
      const figures = record as unknown as Record<string, number>;
      expect(figures['rollout/in_group_reward_mean']).toBeGreaterThan(0.3);
      expect(figures['rollout/in_group_reward_mean']).toBeLessThan(0.8);
    }
    const out = join(root, `shards${made}`);
    for (const index of [2, 0, 1]) await measureShard(path, { ...options, out, shard: { index, count: 3 } });
    expect(await reportsOf(analyze(path, { ...options, journals: out }))).toEqual(whole);
    expect(await reportsOf(watch(path, { ...options, state: join(root, `told${made}`), once: true }))).toEqual(whole);
    const filtered = await collapsar(['filter', path, '--step', '3', '--json']);
    expect(filtered.err.replace(/\s+/g, ' ')).toContain('the reward is 1 × correct + 0.1 × shape');
    const said = await collapsar(['filter', path, '--step', '3', '--json', '--reward-columns', 'correct,shape=0.1']);
    expect(JSON.parse(said.out)).toEqual(JSON.parse(filtered.out));
  });
});
