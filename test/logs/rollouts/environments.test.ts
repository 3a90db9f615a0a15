// Which environment each row's prompt is of, as each trainer's log says it.
import { join } from 'node:path';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { describe, expect, it } from 'vitest';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { putLogs, readAll, readOne } from './rollout-logs.js';

const root = temporaryDirectory();
let count = 0;
const folder = (files: Parameters<typeof putLogs>[1]): string => putLogs(join(root, `log${count++}`), files);

describe('environments', () => {
  const verl = (input: string, more: object = {}) => ({ input, output: 'o', score: 1, step: 1, ...more });
  const episode = (id: string, more: object, trace: object = {}) => ({
    id,
    group: { id },
    traces: [{ id, nodes: [{ message: { role: 'user', content: 'q' } }], ...trace }],
    ...more,
  });
  const skyrl = (input_prompt: string, more: object = {}) => ({
    input_prompt,
    output_response: 'o',
    score: 1,
    ...more,
  });
  const results = (example_id: number, more: object) => ({
    example_id,
    prompt: `q${example_id}`,
    completion: 'c',
    reward: 1,
    ...more,
  });
  const nemo = (idx: number, more: object = {}) => ({
    token_ids: [[idx, 2]],
    token_loss_mask: [[0, 1]],
    input_lengths: [2],
    rewards: [1],
    idx,
    ...more,
  });
  const tinker = (group_idx: number, tags?: string[]) => ({
    iteration: 1,
    group_idx,
    traj_idx: 0,
    total_reward: 1,
    ...(tags && { tags }),
  });
  const ragen = (group_id: number, more: object) => ({
    custom_id: `r${group_id}`,
    messages: [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: 'a' },
    ],
    metadata: { group_id, ...more },
  });
  const response = { prompt_tokens: [1], response_tokens: [2], reward: 1, step: 1 };
  const exported = { step: 1, rank: 0, micro_step: 0, token_ids: [1, 2], loss_mask: [0, 1] };

  it.each([
    ['verl', '1.jsonl', [verl('a', { data_source: 'gsm8k' }), verl('b')], ['gsm8k', undefined]],
    [
      'prime-rl',
      'rollouts/step_1/train/all/traces.jsonl',
      [
        episode('a', { env: { id: 'taskset', name: 'math' } }),
        episode('b', { env: { id: 'wordle', name: null } }),
        episode('c', { env: { id: '' }, run: { work: { env_id: 'of the work' } } }),
        episode('d', { env_name: 'of the row' }),
        episode('e', { task: { type: 'Gsm8kTask' } }, { info: { env: 'of the trace' } }),
        episode('f', { task: { type: 'Gsm8kTask' } }),
      ],
      ['math', 'wordle', 'of the work', 'of the row', 'of the trace', 'Gsm8kTask'],
    ],
    [
      'prime-rl-tokens',
      'token_exports/step_1/rank_0.jsonl',
      [
        { ...exported, env_name: 'math' },
        { ...exported, micro_step: 1, token_ids: [3, 2], env_name: null },
      ],
      ['math', undefined],
    ],
    [
      'verifiers',
      'results.jsonl',
      [
        results(0, { task: 'env_0', info: { env_id: 'first' } }),
        results(1, { task: 'env_1', info: '{"env_id": "second"}' }),
        results(2, { task: 'env_2', info: {} }),
        results(3, { env_id: 'owner/env' }),
      ],
      ['first', 'second', 'env_2', 'owner/env'],
    ],
    [
      'nemo-rl',
      'train_data_step1.jsonl',
      [nemo(0, { agent_ref: [{ type: 'responses_api_agents', name: 'math_agent' }] }), nemo(1)],
      ['math_agent', undefined],
    ],
    [
      'skyrl',
      'dumped_evals/global_step_1_evals/openai_gsm8k.jsonl',
      [skyrl('a', { data_source: 'openai/gsm8k' }), skyrl('b')],
      ['openai/gsm8k', 'openai_gsm8k'],
    ],
    [
      'tinker',
      'iteration_000001/train_rollout_summaries.jsonl',
      [tinker(0, ['math', 'hard']), tinker(1, ['code']), tinker(2, []), tinker(3)],
      ['math/hard', 'code', undefined, undefined],
    ],
    [
      'ragen',
      'val_rollouts.jsonl',
      [ragen(0, { tag: 'CoordSokoban', env_id: 7 }), ragen(1, { env_id: 8 })],
      ['CoordSokoban', undefined],
    ],
    [
      'roll',
      'rollout_dump_data.step_1.jsonl',
      [
        {
          global_step: [1, 1],
          prompt: ['a', 'b'],
          responses: ['c', 'd'],
          scores: [1, 0],
          domain: ['math_rule', null],
          tag: ['x', 'kodcode'],
        },
      ],
      ['math_rule', 'kodcode'],
    ],
    [
      'open-instruct',
      'run_rollouts_000000.jsonl',
      [
        { ...response, prompt_idx: 0, sample_idx: 0, dataset: 'gsm8k' },
        { ...response, prompt_idx: 1, sample_idx: 1, dataset: ['math', 'ifeval'] },
      ],
      ['gsm8k', 'math/ifeval'],
    ],
    [
      'rollouts',
      'r.jsonl',
      [
        { step: 1, group: 1, output: 'o', reward: 1, environment: 'math' },
        { step: 1, group: 2, output: 'o', reward: 1, environment: 7 },
        { step: 1, group: 3, output: 'o', reward: 1, environment: null },
      ],
      ['math', '7', undefined],
    ],
    ['texts', 'step_00001.texts.jsonl', [{ row: 0, group: 1, reasoning: 'r', environment: 'math' }], ['math']],
  ] as const)('are read from %s', async (format, name, rows, expected) => {
    const step = await readOne(folder({ [name]: rows }));
    expect(step.format).toBe(format);
    expect(step.environment).toEqual(expected);
    expect(step.absent).not.toHaveProperty('environment');
  });

  it('are read from a column of the data set that TRL has logged', async () => {
    const columns = (name: string, type: 'STRING' | 'DOUBLE', data: unknown[]) =>
      folder({
        'completions_00001.parquet': new Uint8Array(
          parquetWriteBuffer({
            columnData: [
              { name: 'step', data: [1n, 1n], type: 'INT64' },
              { name: 'prompt', data: ['a', 'b'], type: 'STRING' },
              { name: 'completion', data: ['c', 'd'], type: 'STRING' },
              { name: 'right', data: [1, 0], type: 'DOUBLE' },
              { name: 'advantage', data: [1, -1], type: 'DOUBLE' },
              { name, data, type },
            ],
          }),
        ),
      });
    const found = await readOne(columns('data_source', 'STRING', ['gsm8k', 'apps']));
    expect(found).toMatchObject({ format: 'trl', environment: ['gsm8k', 'apps'] });
    expect(Object.keys(found.rewards ?? {})).toEqual(['right']);
    // A number is a reward unless the user says what it is.
    const kinds = columns('kind', 'DOUBLE', [3, 4]);
    const named = await readOne(kinds, { columns: { environment: 'kind' } });
    expect(named).toMatchObject({ format: 'trl', environment: ['3', '4'] });
    expect([...(named.reward ?? [])]).toEqual([1, 0]);
  });

  it('are absent, with a reason, where the log says none', async () => {
    const step = await readOne(folder({ '1.jsonl': [verl('a')] }));
    expect(step.environment).toBeUndefined();
    expect(step.absent.environment).toBe('the log has no environment');
  });

  it.each([[{ format: 'verl', columns: { environment: 'topic' } }], [{ columns: { environment: 'topic' } }]])(
    'come from the column that is named beside a format: %j',
    async (options) => {
      const log = folder({
        '1.jsonl': [
          verl('a', { data_source: 'x', topic: 'algebra' }),
          verl('a', { data_source: 'x' }),
          verl('b', { data_source: 'y', topic: ['code', 'rust'] }),
        ],
      });
      const step = await readOne(log, options);
      expect(step).toMatchObject({ format: 'verl', environment: ['algebra', 'algebra', 'code/rust'] });
      expect(step.prompt).toEqual(['a', 'a', 'b']);
    },
  );

  it('of a named column go by row in lines of several rows', async () => {
    const line = { global_step: 1, prompt: ['a', 'b'], responses: ['c', 'd'], scores: [1, 0], source: ['s', 't'] };
    const log = folder({ 'rollout_dump_data.step_1.jsonl': [line] });
    expect(await readOne(log, { columns: { environment: 'source' } })).toMatchObject({ environment: ['s', 't'] });
  });

  it('are those of the prompt in rows that say none', async () => {
    const log = folder({ '1.jsonl': [verl('a'), verl('a', { data_source: 'math' }), verl('b')] });
    expect((await readOne(log)).environment).toEqual(['math', 'math', undefined]);
  });

  it('of which one prompt has two are an error that names both', async () => {
    const log = folder({ '1.jsonl': [verl('a', { data_source: 'math' }), verl('a', { data_source: 'code' })] });
    const { steps, errors } = await readAll(log);
    expect(steps).toEqual([]);
    expect(errors.map(({ message }) => message)).toEqual([
      expect.stringContaining('prompt "a" is of two environments, "math" and "code": a prompt has one'),
    ]);
  });
});
