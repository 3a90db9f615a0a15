// What each reader makes of its seeds, against what Python has counted in the same objects before it wrote them.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { seedsOf } from '../../../fuzz/seeds.js';
import { buildIfStale } from '../../support/built-command.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { putLogs, readAll } from './rollout-logs.js';

// Threads run what is in dist/.
beforeAll(buildIfStale, 180_000);

const FORMATS = 'src/logs/rollouts/formats';
const root = temporaryDirectory();

interface Figures {
  readonly steps: readonly number[];
  readonly rows: number;
  readonly groups: number;
  readonly rewards: readonly number[] | null;
  readonly lengths?: readonly number[];
}

const figures = JSON.parse(readFileSync('test/golden/logs/reader-figures.json', 'utf8')) as Record<string, Figures>;

describe('a reader that nobody names', () => {
  it.each(Object.entries(figures))('knows %s, and finds the rows that were written', async (seed, expected) => {
    // Alone in a folder, as a run leaves it.
    const folder = join(root, seed.replaceAll('/', '-'));
    mkdirSync(folder);
    const path = join(folder, basename(seed));
    const [reader = '', , name = ''] = seed.split('/');
    writeFileSync(path, seedsOf(join(FORMATS, reader, 'seeds')).get(name) as Buffer);
    const { steps, errors } = await readAll(path);
    expect(errors).toEqual([]);
    expect(steps.map(({ format }) => format)).toEqual(expected.steps.map(() => seed.split('/')[0]));
    expect(steps.map(({ step }) => step)).toEqual(expected.steps);
    const sum = (of: (step: (typeof steps)[number]) => number) => steps.reduce((total, step) => total + of(step), 0);
    expect(sum(({ rows, repeats }) => rows + repeats)).toBe(expected.rows);
    expect(sum(({ groupIds }) => groupIds.length)).toBe(expected.groups);
    if (expected.rewards !== null) {
      const rewards = steps.flatMap(({ reward }) => [...(reward ?? [])]);
      expect(rewards).toHaveLength(expected.rewards.length);
      for (const [at, reward] of rewards.entries()) expect(reward).toBeCloseTo(expected.rewards[at] as number, 5);
    }
    if (expected.lengths !== undefined) {
      expect(steps.flatMap(({ length }) => [...(length ?? [])])).toEqual(expected.lengths);
    }
  });

  it('knows older results of verifiers, whose ids do not name one prompt', async () => {
    const row = (at: number) => ({
      ...{ id: at % 2, task: 'default', answer: 'a', reward: (at % 3) / 2 },
      prompt: [{ role: 'user', content: `question ${at >> 2}?` }],
      completion: [{ role: 'assistant', content: `answer ${at}` }],
    });
    const rows = Array.from({ length: 12 }, (_, at) => row(at));
    const { steps, errors } = await readAll(
      join(putLogs(join(root, 'older'), { 'results.jsonl': rows }), 'results.jsonl'),
    );
    expect(errors).toEqual([]);
    expect(steps[0]).toMatchObject({ format: 'verifiers', rows: 12, groupSource: 'prompt' });
    expect(steps[0]?.groupIds).toHaveLength(3);
  });

  it('takes the trials of a job as rows of one step, and nothing else that they leave', async () => {
    const trial = (task: string, words: string) => ({
      ...{ schema_version: 'ATIF-v1.7', session_id: 's', agent: { name: 'a', version: '1' } },
      steps: [
        { step_id: 1, source: 'user', message: `${task}, at ${words}` },
        { step_id: 2, source: 'agent', message: words, metrics: { completion_tokens: words.length } },
      ],
    });
    const names = ['one__aaaaaaa', 'one__bbbbbbb', 'two__ccccccc', 'two__ddddddd'];
    const files = names.flatMap((name) => [
      [`${name}/agent/trajectory.json`, JSON.stringify(trial(name, `words of ${name}`), null, 1)],
      [`${name}/agent/trajectory.cont-1.json`, JSON.stringify(trial(name, 'more'))],
      [`${name}/result.json`, '{"verifier_result": {"rewards": {"reward": 1}}}'],
    ]);
    const { steps, errors } = await readAll(putLogs(join(root, 'job'), Object.fromEntries(files)));
    expect(errors).toEqual([]);
    expect(steps).toHaveLength(1);
    expect(steps[0]).toMatchObject({ format: 'atif', run: 'job', rows: 4, groupSource: 'id' });
    expect(steps[0]?.groupIds).toEqual(['one', 'two']);
    expect([...(steps[0]?.length ?? [])]).toEqual([21, 21, 21, 21]);
  });

  it('tells transcripts of Tinker from the summaries of the same steps', async () => {
    const tree = seedsOf(join(FORMATS, 'tinker-logtree', 'seeds')).get('read-problems.json') as Buffer;
    const summary = { ...{ iteration: 3, group_idx: 0, total_reward: 1, tags: [] }, steps: [{ ac_len: 5 }] };
    const folder = putLogs(join(root, 'tinker'), {
      'iteration_000003/train_logtree.json': tree,
      'iteration_000003/train_rollout_summaries.jsonl': [0, 1, 2, 3].map((at) => ({ ...summary, traj_idx: at })),
    });
    const { steps, errors } = await readAll(folder);
    expect(errors).toEqual([]);
    expect(steps.map(({ run, step, rows }) => [run, step, rows])).toEqual([
      ['tinker', 3, 4],
      ['tinker/transcripts', 3, 8],
    ]);
  });
});
