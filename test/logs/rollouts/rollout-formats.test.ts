// What each trainer's log is read as: the fixtures are written by hand from the trainers' sources, with what goes wrong
// in them.
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { describe, expect, it } from 'vitest';
import { RolloutLogs } from '../../../src/logs/rollouts/rollout-logs.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { jsonLines, putLogs, readAll, readOne } from './rollout-logs.js';

const root = temporaryDirectory();
let count = 0;
const folder = (files: Parameters<typeof putLogs>[1]): string => putLogs(join(root, `log${count++}`), files);

describe('verl', () => {
  const row = (uid: string, output: string, score: number, input = 'user\n1 + 1\nassistant\n') => ({
    input,
    output,
    gts: null,
    score,
    step: 7,
    uid,
  });

  it('groups V1 rows by the uid without its session and output, which are episode and turn', async () => {
    const uid = '5e0730b3-cc17-4c31-87ee-c61bbf9703c0';
    const step = await readOne(
      folder({
        'rollouts/7.jsonl': [
          row(`${uid}_0_0`, '<think>two</think> <answer> 2 </answer>!', 1),
          row(`${uid}_0_1`, '<think>still two</think>\n 2 \n', 1),
          row(`${uid}_1_0`, '<think>never closed', 0),
          row('other_thing_0_0', 'no tags', 0.5, 'user\n2 + 2\nassistant\n'),
        ],
      }),
    );
    expect(step).toMatchObject({ format: 'verl', step: 7, run: 'rollouts', rows: 4, groupSource: 'id' });
    expect(step.groupIds).toEqual([uid, 'other_thing']);
    expect([...(step.group ?? [])]).toEqual([0, 0, 0, 1]);
    expect(step.episode).toEqual([`${uid}_0`, `${uid}_0`, `${uid}_1`, 'other_thing_0']);
    expect([...(step.turn ?? [])]).toEqual([0, 1, 0, 0]);
    expect(step.reasoning).toEqual(['two', 'still two', 'never closed', 'no tags']);
    expect(step.action).toEqual(['2', '2', undefined, undefined]);
    expect([...(step.truncated ?? [])]).toEqual([0, 0, 1, 0]);
    expect([...(step.reward ?? [])]).toEqual([1, 1, 0, 0.5]);
    expect(step.absent.logprobs).toContain("verl's dump has no log-probs");
    expect(step.absent).not.toHaveProperty('group');
  });

  it('groups legacy rows, which are in no order, by equal inputs, and takes acc as the outcome', async () => {
    const legacy = (input: string, score: number, acc: unknown) => ({
      input,
      output: 'o',
      gts: '4',
      score,
      step: 3,
      acc,
    });
    const step = await readOne(
      folder({ '3.jsonl': [legacy('a', 0.5, true), legacy('b', 1, false), legacy('a', 0, 0), legacy('b', 2, 1.0)] }),
    );
    expect(step.groupSource).toBe('prompt');
    expect(step.groupIds).toEqual(['a', 'b']);
    expect([...(step.group ?? [])]).toEqual([0, 1, 0, 1]);
    expect([...(step.outcome ?? [])]).toEqual([1, 0, 0, 1]);
  });

  it('takes the step from the rows where the name has none, and notes rows that contradict the name', async () => {
    const lines = [5, 6, 5].map((step) => ({ input: 'a', output: `${step}`, score: step, step }));
    const { steps } = await readAll(folder({ 'all.jsonl': lines }));
    expect(steps.map(({ step, rows }) => [step, rows])).toEqual([
      [5, 2],
      [6, 1],
    ]);
    const named = await readOne(folder({ '5.jsonl': lines }));
    expect(named.notes.join()).toContain('1 row of step 5, as the path has it, say another step');
  });

  it('reads NaN, Infinity and null of Python as what they are', async () => {
    const line = (score: string) =>
      `{"input": "a\\nNaN", "output": "x, NaN: \\"Infinity\\"", "score": ${score}, "step": 1}`;
    const step = await readOne(folder({ '1.jsonl': ['NaN', '-Infinity', 'Infinity', 'null', '1e-3'].map(line) }));
    expect([...(step.reward ?? [])]).toEqual([Number.NaN, -Infinity, Infinity, Number.NaN, 0.001]);
    expect(step.output?.[0]).toBe('x, NaN: "Infinity"');
  });
});

describe("the extras of verl's reward functions", () => {
  it('are the outcome and the action: pred, however it is written, and acc in numpy’s words', async () => {
    const row = (input: string, acc: unknown, pred: unknown) => ({
      ...{ input, output: '<think>o</think><answer>7</answer>', gts: '4', score: 1, step: 3, acc, pred },
    });
    const rows = [row('a', 'True', '4'), row('a', 'False', null), row('b', true, 4.5), row('b', 0, ['4'])];
    const step = await readOne(folder({ '3.jsonl': rows }));
    expect([...(step.outcome ?? [])]).toEqual([1, 0, 1, 0]);
    expect(step.action).toEqual(['4', '7', '4.5', '7']);
  });
});

describe('trl', () => {
  const table = (columns: Record<string, unknown[]>) =>
    new Uint8Array(
      parquetWriteBuffer({
        columnData: Object.entries(columns).map(([name, data]) => ({
          name,
          data,
          type:
            name === 'step' ? 'INT64' : typeof (data.find((v) => v !== null) ?? 0) === 'string' ? 'STRING' : 'DOUBLE',
        })) as Parameters<typeof parquetWriteBuffer>[0]['columnData'],
        rowGroupSize: [3],
      }),
    );
  const columns = {
    step: [12n, 12n, 12n, 12n],
    prompt: ['p', 'p', 'q', 'q'],
    completion: ['<think>a</think>b', 'c', 'd', 'e'],
    format_reward: [0.5, Number.NaN, null, Number.NaN],
    answer_reward: [1, 0.25, -1, Number.NaN],
    source: ['x', 'x', 'y', 'y'],
    advantage: [1, -1, 1, -1],
  };

  it('sums the reward columns, of which NaN has not scored, and groups by prompt', async () => {
    const step = await readOne(folder({ 'run/completions/completions_00012.parquet': table(columns) }));
    expect(step).toMatchObject({
      format: 'trl',
      step: 12,
      run: 'run',
      rows: 4,
      groupSource: 'prompt',
      groupIds: ['p', 'q'],
    });
    expect([...(step.reward ?? [])]).toEqual([1.5, 0.25, -1, Number.NaN]);
    expect(Object.keys(step.rewards ?? {})).toEqual(['format_reward', 'answer_reward']);
    expect([...(step.rewards?.format_reward ?? [])]).toEqual([0.5, Number.NaN, Number.NaN, Number.NaN]);
    expect(step.reasoning).toEqual(['a', 'c', 'd', 'e']);
    expect(step.notes.join()).toContain(
      'the plain sum format_reward + answer_reward, for weights are not told: too few groups have advantages; ' +
        'name its columns and weights: --reward-columns format_reward,answer_reward=0.1',
    );
  });

  it('takes the answers that a reward function has logged as actions, and its texts for no rewards', async () => {
    const logged = { ...columns, solution: ['1', '1', '2', '2'], answer_parsed: ['[]', '[1]', '[2]', '[skipped]'] };
    const step = await readOne(folder({ 'completions/completions_00012.parquet': table(logged) }));
    expect(step.action).toEqual(['[]', '[1]', '[2]', '[skipped]']);
    expect(Object.keys(step.rewards ?? {})).toEqual(['format_reward', 'answer_reward']);
    const { answer_parsed: extracted_answer, ...others } = logged;
    const own = await readOne(folder({ 'completions_00012.parquet': table({ ...others, extracted_answer }) }));
    expect(own.action).toEqual(step.action);
  });

  it('reads the completions of a distillation, which has no rewards', async () => {
    const { step: at, prompt, completion } = columns;
    const step = await readOne(folder({ 'completions_00012.parquet': table({ step: at, prompt, completion }) }));
    expect(step).toMatchObject({ format: 'trl', step: 12, rows: 4, reward: undefined, groupSource: 'prompt' });
  });

  it('finds several steps in a file by its step column, in any order', async () => {
    const mixed = { ...columns, step: [2n, 1n, 2n, 1n] };
    const { steps } = await readAll(folder({ 'merged.parquet': table(mixed) }));
    expect(steps.map(({ step, output }) => [step, output])).toEqual([
      [1, ['c', 'e']],
      [2, ['<think>a</think>b', 'd']],
    ]);
  });

  it('names a file that is being written, and reads the others', async () => {
    const bytes = table(columns);
    const path = folder({ 'completions_00001.parquet': bytes.subarray(0, -10), 'completions_00012.parquet': bytes });
    const { steps, errors } = await readAll(path);
    expect(steps.map(({ step }) => step)).toEqual([12]);
    expect(errors.map(({ message }) => message)).toEqual([
      expect.stringMatching(/completions_00001\.parquet: does not end as Parquet does/),
    ]);
  });
});

describe('prime-rl', () => {
  const user = {
    parent: undefined,
    message: { role: 'user', content: 'Go.' },
    token_ids: [1, 2, 3],
    mask: [false, false, false],
  };
  const node = (parent: number, content: string, token_ids: number[], mask: boolean[], logprobs?: unknown[]) => ({
    parent,
    message: { role: 'assistant', content },
    sampled: true,
    token_ids,
    mask,
    ...(logprobs && { logprobs }),
  });
  const episode = (id: string, traces: unknown[], group = 'g1') => ({
    id,
    env: { id: 'e', name: 'e' },
    task: {},
    group: { id: group },
    run: { work: { step: 4 } },
    ok: true,
    traces,
  });
  const trace = (id: string, nodes: unknown[], more: object = {}) => ({
    id,
    nodes,
    rewards: { right: { score: 1, weight: 0.5 }, style: { score: -2, weight: 0.25 } },
    ...more,
  });

  it('lays compact log-probs beside the sampled tokens alone', async () => {
    const first = node(0, '<think>ok</think>left', [9, 10, 11], [false, true, true], [-0.5, -0.25]);
    const tool = { parent: 1, message: { role: 'tool', content: 'wall' }, token_ids: [20, 21], mask: [false, false] };
    const last = node(2, 'right', [30], [true], [-1]);
    const step = await readOne(
      folder({
        'out/rollouts/step_4/train/all/traces.jsonl': [episode('ep', [trace('t', [user, first, tool, last])])],
      }),
    );
    expect(step).toMatchObject({ format: 'prime-rl', step: 4, run: 'out', rows: 1, groupIds: ['g1'], sample: ['t/3'] });
    expect(step.promptTokens).toEqual([Int32Array.of(1, 2, 3, 9)]);
    expect(step.tokens).toEqual([Int32Array.of(10, 11, 30)]);
    expect(step.logprobs).toEqual([Float64Array.of(-0.5, -0.25, -1)]);
    expect(step.output).toEqual(['<think>ok</think>left\nright']);
    expect(step.prompt).toEqual(['user\nGo.']);
    expect([...(step.reward ?? [])]).toEqual([0]);
    expect([...(step.length ?? [])]).toEqual([3]);
  });

  it('takes each path from root to leaf as a sample, and leaves out traces that are not trained', async () => {
    const nodes = [
      user,
      node(0, 'a', [5], [true], [-1]),
      node(1, 'b', [6], [true], [-2]),
      node(1, 'c', [7], [true], [-3]),
    ];
    const judge = trace('j', [user, node(0, 'fine', [8], [true])], { agent: { trainable: false } });
    const step = await readOne(folder({ 'step_4/traces.jsonl': [episode('ep', [trace('t', nodes), judge])] }));
    expect(step.output).toEqual(['a\nb', 'a\nc']);
    expect(step.sample).toEqual(['t/2', 't/3']);
    expect(step.logprobs).toEqual([Float64Array.of(-1, -2), Float64Array.of(-1, -3)]);
  });

  it('reads what has no group, reward, tokens or log-probs, and says so', async () => {
    const bare = {
      id: 'e',
      env: {},
      traces: [
        {
          nodes: [
            { message: { role: 'user', content: 'hi' } },
            { parent: 0, sampled: true, message: { role: 'assistant', content: 'ho', reasoning_content: 'hm' } },
          ],
        },
      ],
    };
    const step = await readOne(folder({ 'rollouts/step_2/train/all/traces.jsonl': [bare, { ...bare, id: 'f' }] }));
    expect(step).toMatchObject({
      step: 2,
      rows: 2,
      groupSource: 'prompt',
      reasoning: ['hm', 'hm'],
      action: ['ho', 'ho'],
    });
    expect(step.absent).toMatchObject({
      reward: 'the log has no reward',
      tokens: 'the log has no token ids of the response',
    });
  });

  it('refuses log-probs that fit neither the mask nor the tokens', async () => {
    const bad = node(0, 'a', [5, 6, 7], [false, true, true], [-1]);
    const path = folder({
      'step_1/traces.jsonl': [episode('ep', [trace('t', [user, bad])]), episode('ok', [trace('u', [user])])],
    });
    const { errors, steps } = await readAll(path);
    expect(errors.map(({ message }) => message)).toEqual([
      expect.stringMatching(/traces\.jsonl, offset 0: line 1: logprobs of trace t: 1 values for 2 sampled tokens$/),
    ]);
    expect(steps[0]).toMatchObject({ rows: 1, badRows: 1 });
  });

  it('keeps evaluations apart, and passes over the effective half of a step', async () => {
    const line = [episode('ep', [trace('t', [user, node(0, 'a', [5], [true], [-1])])])];
    const path = folder({
      'out/rollouts/step_4/train/all/traces.jsonl': line,
      'out/rollouts/step_4/train/effective/traces.jsonl': line,
      'out/rollouts/step_4/eval/all/traces.jsonl': line,
    });
    const { steps } = await readAll(path);
    expect(steps.map(({ run, step, rows }) => [run, step, rows])).toEqual([
      ['out', 4, 1],
      ['out/eval', 4, 1],
    ]);
  });
});

describe("prime-rl's stream of episodes", () => {
  const episode = (id: string, run: object | undefined, output: string, info?: object, more: object = {}) => ({
    id,
    env: { id: 'e' },
    group: { id: 'g' },
    ...(run && { run }),
    traces: [
      {
        id: `t-${id}`,
        nodes: [
          { message: { role: 'user', content: 'Go.' } },
          { parent: 0, sampled: true, message: { role: 'assistant', content: output } },
        ],
        rewards: { right: { score: 1 } },
        ...(info && { info }),
        ...more,
      },
    ],
  });
  const work = (type: string, step: number) => ({ type: 'train', id: 'r', work: { type, step } });
  const STREAM = 'out/monitors/file/traces/stream';
  const read = async (path: string) =>
    (await readAll(path)).steps.map(({ run, step, output }) => [run, step, output] as const);

  it('takes step and kind from each row, across chunks', async () => {
    const path = folder({
      [`${STREAM}/00000.jsonl`]: [
        episode('a', work('train', 0), 'a'),
        episode('b', work('eval', 0), 'b'),
        episode('c', work('train', 1), 'c'),
        episode('d', work('train', 0), 'd'),
      ],
      [`${STREAM}/00001.jsonl`]: [episode('e', work('train', 1), 'e'), episode('f', work('train', 12), 'f')],
      'out/monitors/file/traces/stream.index.jsonl': [{ line: 1, chunk: 0, offset: 0, id: 'a', kind: 'train' }],
      'out/monitors/file/traces/live/t.jsonl': [{ open: {}, traces: [] }],
    });
    const expected = [
      ['out', 0, ['a', 'd']],
      ['out', 1, ['c', 'e']],
      ['out', 12, ['f']],
      ['out/eval', 0, ['b']],
    ];
    expect(await read(path)).toEqual(expected);
    expect(await read(join(path, STREAM))).toEqual(expected);
    expect(await read(join(path, `${STREAM}/00001.jsonl`))).toEqual([
      ['out', 1, ['e']],
      ['out', 12, ['f']],
    ]);
    expect((await readAll(path)).notes).toEqual([]);
  });

  it('takes the kind from the trace where the run does not say it, and an evaluation of verifiers as one', async () => {
    const path = folder({
      [`${STREAM}/00000.jsonl`]: [
        episode('a', { work: { step: 3 } }, 'a', { kind: 'train' }),
        episode('b', { work: { step: 3 } }, 'b', { kind: 'eval' }),
      ],
      'gsm8k--m--h/7f3a/traces.jsonl': [episode('c', { type: 'eval', id: 'r' }, 'c'), episode('d', undefined, 'd')],
    });
    expect(await read(path)).toEqual([
      ['7f3a/eval', 1, ['c', 'd']],
      ['out', 3, ['a']],
      ['out/eval', 3, ['b']],
    ]);
  });

  it('tells as verifiers does which traces were cut', async () => {
    const cut = async (more: object) => {
      const step = await readOne(folder({ 'x/traces.jsonl': [episode('a', undefined, 'a', undefined, more)] }));
      return step.truncated && [...step.truncated];
    };
    const call = (finish_reason: string, error?: object) => ({ finish_reason, ...(error && { error }) });
    expect(await cut({ stop_condition: 'max_turns', calls: [call('stop')] })).toEqual([1]);
    expect(await cut({ stop_condition: 'agent_completed', calls: [call('stop')] })).toEqual([0]);
    expect(await cut({ calls: [call('length'), call('error', { type: 'X' })] })).toEqual([1]);
    expect(await cut({ calls: [call('length'), call('stop')] })).toEqual([0]);
    expect(await cut({ stop_condition: 'agent_completed' })).toEqual([0]);
    expect(await cut({})).toBeUndefined();
  });

  it('measures a step of a chunk no other once the chunk is complete', async () => {
    const lines = [episode('a', work('train', 0), 'a'), episode('b', work('train', 1), 'b')];
    const identities = async (name: string, content: string | Uint8Array) => {
      const logs = new RolloutLogs({ choice: undefined, gathering: { reasoning: 'all' } as never }, undefined);
      const { steps } = await logs.find(folder({ [name]: content }));
      await logs.close();
      return steps.map(({ identity }) => identity);
    };
    const live = await identities(`${STREAM}/00000.jsonl`, jsonLines(lines));
    expect(live).toHaveLength(2);
    expect(await identities(`${STREAM}/00000.jsonl.gz`, gzipSync(jsonLines(lines)))).toEqual(live);
  });
});

describe('prime-rl-tokens', () => {
  it('gives tokens, log-probs and entropy, and says that rewards and groups are elsewhere', async () => {
    const line = (micro_step: number) => ({
      schema_version: 1,
      step: 3,
      rank: 0,
      micro_step,
      micro_sequence_idx: 0,
      token_ids: [1, 2, 3, 4],
      loss_mask: [false, true, false, true],
      inference_logprobs: [null, -1, -5, null],
      trainer_logprobs: [null, -1.5, -6, null],
      entropy: [9, 0.5, 9, 1.5],
    });
    const step = await readOne(
      folder({
        'out/token_exports/step_3/rank_0.jsonl': [line(0)],
        'out/token_exports/step_3/rank_1.jsonl': [line(1)],
        'out/token_exports/step_3/STABLE': '',
      }),
    );
    expect(step).toMatchObject({ format: 'prime-rl-tokens', step: 3, run: 'out/tokens', rows: 2 });
    expect(step.tokens?.[0]).toEqual(Int32Array.of(2, 4));
    expect(step.logprobs?.[0]).toEqual(Float64Array.of(-1, Number.NaN));
    expect(step.trainerLogprobs?.[0]).toEqual(Float64Array.of(-1.5, Number.NaN));
    expect([...(step.entropy ?? [])]).toEqual([1, 1]);
    expect(step.absent.reward).toContain('its traces do');
  });
});

describe('nemo-rl', () => {
  const line = (idx: number, more: object = {}) => ({
    content: ['prompt and response'],
    rewards: [1],
    input_lengths: [5],
    token_ids: [[1, 2, 3, 4, 5, 0, 0]],
    token_loss_mask: [[0, 0, 1, 0, 1, 1, 1]],
    sample_loss_mask: [1],
    generation_logprobs: [[0, 0, -0.5, 0, -0.25, 0, 0]],
    prev_logprobs: [[0, 0, -0.75, 0, -0.5, 0, 0]],
    idx,
    ...more,
  });

  it('takes the one entry of each list, cut at the input length', async () => {
    const step = await readOne(
      folder({
        'train_data_step12.jsonl': [
          line(0),
          line(1),
          line(2, {
            token_ids: [[9, 2, 3, 4, 5]],
            token_loss_mask: [[0, 0, 1, 1, 1]],
            generation_logprobs: [[0, 0, -1, -1, -1]],
            prev_logprobs: [[0, 0, -1, -1, -2]],
          }),
        ],
      }),
    );
    expect(step).toMatchObject({
      format: 'nemo-rl',
      step: 12,
      rows: 3,
      groupSource: 'prompt',
      groupIds: ['1 2', '9 2'],
    });
    expect(step.tokens?.[0]).toEqual(Int32Array.of(3, 5));
    expect(step.logprobs?.[0]).toEqual(Float64Array.of(-0.5, -0.25));
    expect(step.trainerLogprobs?.[0]).toEqual(Float64Array.of(-0.75, -0.5));
    expect(step.absent.output).toContain('prompt and response in one');
  });

  it('takes the filtered reward, and none that is not the row’s', async () => {
    const rows = [
      line(0, { rewards: [0, 1, 0], filtered_rewards: [0.75] }),
      line(1, { rewards: [] }),
      line(2, { rewards: [1, 0] }),
    ];
    const step = await readOne(folder({ 'train_data_step1.jsonl': rows }));
    expect([...(step.reward ?? [])]).toEqual([0.75, Number.NaN, Number.NaN]);
  });

  it('reads validations as chats of a run of their own', async () => {
    const chat = [
      [
        { role: 'user', content: 'q' },
        { role: 'assistant', content: '<think>r</think>a' },
      ],
    ];
    const step = await readOne(folder({ 'logs/val_data_step3.jsonl': [{ content: chat, rewards: [0.5], idx: 0 }] }));
    expect(step).toMatchObject({ run: 'logs/val', step: 3, prompt: ['user\nq'], reasoning: ['r'], action: ['a'] });
  });
});

describe('skyrl', () => {
  it('sums scores that are a list, and joins the data sets of a step', async () => {
    const line = (input_prompt: string, score: unknown, stop_reason: unknown) => ({
      input_prompt,
      output_response: 'x<|im_end|>',
      score,
      stop_reason,
      env_class: 'gsm8k',
      env_extras: {},
      data_source: 'd',
    });
    const at = 'export/dumped_evals/global_step_20_evals';
    const step = await readOne(
      folder({
        [`${at}/gsm8k.jsonl`]: [line('a', [0, 0, 1.5], 'stop'), line('a', 0.5, 'length')],
        [`${at}/math.jsonl`]: [line('b', [], null)],
        [`${at}/aggregated_results.jsonl`]: [{ mean: 1 }],
      }),
    );
    expect(step).toMatchObject({ format: 'skyrl', step: 20, run: 'export/eval', rows: 3, groupIds: ['a', 'b'] });
    expect([...(step.reward ?? [])]).toEqual([1.5, 0.5, 0]);
    expect([...(step.truncated ?? [])]).toEqual([0, 1, 0]);
    expect(step.files).toHaveLength(2);
  });
});

describe('areal', () => {
  it('takes a file as a group, of old and new fields', async () => {
    const old = {
      task_id: 17,
      sample_idx: 0,
      seqlen: 10,
      prompt_len: 4,
      head_version: 3,
      tail_version: 3,
      reward: 1,
      prompt: 'p',
      completion: 'c',
    };
    const { task_id, ...rest } = old;
    const fresh = {
      ...rest,
      sample_idx: 1,
      version_rle: [[3, 6]],
      segments: [
        { role: 'prompt', len: 4, text: 'p' },
        { role: 'gen', len: 2, text: 'one' },
        { role: 'context', len: 5, text: 'tool' },
        { role: 'gen', len: 1, text: 'two' },
      ],
      completion: 'one tool two',
    };
    const step = await readOne(
      folder({ 'log/rollout/3/17.jsonl': [old], 'log/rollout/3/18.jsonl': [{ ...fresh, task_id: '18' }] }),
    );
    expect(step).toMatchObject({
      format: 'areal',
      step: 3,
      run: 'log',
      rows: 2,
      groupIds: ['17', '18'],
      output: ['c', 'one\ntwo'],
    });
    expect([...(step.length ?? [])]).toEqual([6, 3]);
    expect(step.sample).toEqual(['17/0', '18/1']);
  });
});

describe('roll', () => {
  it('reads the columns of one line, of which some may be missing', async () => {
    const line = {
      global_step: [5, 5, 5],
      id: ['a', 'a', 'b'],
      prompt: ['p', 'p', 'q'],
      responses: ['x', 'y', 'z'],
      scores: [1, 0, null],
    };
    const step = await readOne(folder({ 'rollout_dump_data.step_5.jsonl': [line] }));
    expect(step).toMatchObject({ format: 'roll', step: 5, rows: 3, groupIds: ['p', 'q'], output: ['x', 'y', 'z'] });
    expect([...(step.reward ?? [])]).toEqual([1, 0, Number.NaN]);
    const bare = await readOne(folder({ 'other.jsonl': [{ global_step: [5], prompt: ['p'], responses: ['x'] }] }));
    expect(bare).toMatchObject({ step: 5, rows: 1 });
    expect(bare.absent.reward).toBe('the log has no reward');
  });

  it('refuses columns of different lengths, and passes over a line that was cut', async () => {
    const { errors, steps } = await readAll(
      folder({
        'rollout_dump_data.step_1.jsonl': [{ prompt: ['p'], responses: ['x', 'y'], scores: [1, 2] }],
        'rollout_dump_data.step_2.jsonl': '{"prompt": ["p", "q"], "responses": ["x", "y',
      }),
    );
    expect(errors.map(({ message }) => message)).toEqual([
      expect.stringMatching(/line 1: prompt has 1 entries, the others 2$/),
    ]);
    expect(steps).toEqual([]);
  });

  it('reads agentic chats, also as JSON in a string', async () => {
    const chat = [
      { role: 'user', content: 'go' },
      { role: 'assistant', content: '<think>t</think>up' },
    ];
    const step = await readOne(
      folder({
        'rollout_dump_data.step_9.jsonl': [
          {
            global_step: [9, 9],
            exp_name: ['e', 'e'],
            messages: [chat, JSON.stringify(chat)],
            trajectory_data: ['{}', null],
          },
        ],
      }),
    );
    expect(step).toMatchObject({ rows: 2, prompt: ['user\ngo', 'user\ngo'], action: ['up', 'up'] });
  });
});

describe('open-instruct', () => {
  const line = (step: number, sample_idx: number, prompt_idx: number, more: object = {}) => ({
    step,
    sample_idx,
    prompt_idx,
    prompt_tokens: [1, 2],
    response_tokens: [7, 8],
    reward: 1,
    advantage: 0,
    finish_reason: 'stop',
    dataset: 'd',
    ground_truth: null,
    request_info: null,
    logprobs: [-1, -2],
    ...more,
  });

  it('splits shards into steps, wherever a shard ends', async () => {
    const rows = [line(1, 0, 0), line(1, 1, 0), line(1, 2, 1), line(2, 0, 0), line(2, 1, 1)];
    const path = folder({
      'r_rollouts_000000.jsonl': rows.slice(0, 2),
      'r_rollouts_000001.jsonl': rows.slice(2),
      'r_metadata.jsonl': [{ run_name: 'r' }],
    });
    const { steps, notes } = await readAll(path);
    expect(steps.map(({ step, rows: count, groupIds, files }) => [step, count, groupIds, files.length])).toEqual([
      [1, 3, ['0', '1'], 2],
      [2, 2, ['0', '1'], 1],
    ]);
    expect(notes).toEqual([]);
    expect(steps[0]?.notes.join()).toContain('written after the filters');
  });

  it('reads NaN among log-probs, and leaves out those of rows with tools', async () => {
    const nan = JSON.stringify(line(1, 0, 0)).replace('[-1,-2]', '[-1, NaN]');
    const tools = line(1, 1, 0, { request_info: { num_calls: [2] }, logprobs: [-1, 0], finish_reason: 'length' });
    const step = await readOne(folder({ 'r_rollouts_000000.jsonl': [nan, tools] }));
    expect(step.logprobs).toEqual([Float64Array.of(-1, Number.NaN), undefined]);
    expect([...(step.truncated ?? [])]).toEqual([0, 1]);
  });

  it('splits tokens by the ids of the tags', async () => {
    const rows = [[5, 1, 2, 6, 9], [1, 6, 9], [5, 3], [4]].map((response_tokens, at) =>
      line(1, at, 0, { response_tokens, logprobs: null }),
    );
    const path = folder({ 'r_rollouts_000000.jsonl': rows });
    const tokenizer = { added_tokens: [{ id: 5, content: '<think>' }], model: { vocab: { '</think>': 6 } } };
    const file = join(
      putLogs(join(root, 'tokenizer'), { 'tokenizer.json': JSON.stringify(tokenizer) }),
      'tokenizer.json',
    );
    for (const options of [{ tagTokens: [5, 6] as const }, { tokenizer: file }]) {
      const step = await readOne(path, options);
      expect(step.reasoningTokens).toEqual([Int32Array.of(1, 2), Int32Array.of(1), Int32Array.of(3), Int32Array.of(4)]);
      expect([...(step.truncated ?? [])]).toEqual([0, 0, 1, 0]);
    }
    expect((await readOne(path)).reasoningTokens?.[0]).toEqual(Int32Array.of(5, 1, 2, 6, 9));
  });
});

describe('tinker', () => {
  it('gives rewards, groups and lengths, and says why there are no texts', async () => {
    const line = (group_idx: number, traj_idx: number) => ({
      schema_version: 1,
      split: 'train',
      iteration: 2,
      group_idx,
      traj_idx,
      tags: [],
      total_reward: group_idx + traj_idx / 10,
      final_reward: 0,
      steps: [
        { step_idx: 0, ob_len: 5, ac_len: 3, reward: 0 },
        { step_idx: 1, ob_len: 9, ac_len: 4, reward: 1 },
      ],
    });
    const step = await readOne(
      folder({ 'run/iteration_000002/train_rollout_summaries.jsonl': [line(0, 0), line(0, 1), line(1, 0)] }),
    );
    expect(step).toMatchObject({ format: 'tinker', run: 'run', step: 2, rows: 3, groupIds: ['0', '1'] });
    expect([...(step.length ?? [])]).toEqual([7, 7, 7]);
    expect([...(step.reward ?? [])]).toEqual([0, 0.1, 1]);
    expect(step.absent.output).toContain('no text figures');
  });
});

describe('chats', () => {
  const chat = [
    { role: 'system', content: 'You play.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'state 1' },
        { type: 'image_url', image_url: {} },
      ],
    },
    { role: 'assistant', content: '<think>a</think><answer>up</answer>' },
    { role: 'user', content: 'state 2' },
    { role: 'assistant', content: '<think>b</think><answer>down</answer>' },
  ];

  it('of ragen: the group stands in the metadata, files without steps follow one another', async () => {
    const line = (id: string, group_id: number) => ({
      custom_id: id,
      messages: chat,
      metadata: { env_id: 1, group_id, num_turns: 2, total_reward: 0.5, success: true, entropy: 1.25, n_tokens: 40 },
    });
    const { steps } = await readAll(
      folder({
        'val_rollouts_2.jsonl': [line('traj_0', 3)],
        'val_rollouts_10.jsonl': [line('traj_0', 3), line('traj_1', 4)],
      }),
    );
    expect(steps.map(({ format, step, rows }) => [format, step, rows])).toEqual([
      ['ragen', 1, 1],
      ['ragen', 2, 2],
    ]);
    const [, step] = steps;
    expect(step).toMatchObject({
      groupIds: ['3', '4'],
      prompt: Array(2).fill(expect.stringMatching(/^system\nYou play\.\nuser\nstate 1<image_url [0-9a-f]{16}>$/)),
    });
    expect(step?.output?.[0]).toBe('<think>a</think><answer>up</answer>\n<think>b</think><answer>down</answer>');
    expect([...(step?.outcome ?? []), ...(step?.entropy ?? []), ...(step?.length ?? [])]).toEqual([
      1, 1, 1.25, 1.25, 40, 40,
    ]);
    expect(step?.notes.join()).toContain('files are taken to be steps');
  });

  it('of verifiers: prompt and completion are chats or texts', async () => {
    const step = await readOne(
      folder({
        'step_3/results.jsonl': [
          { example_id: 0, prompt: chat.slice(0, 2), completion: chat.slice(2), reward: 1, is_truncated: false },
          {
            example_id: 0,
            token_usage: { output_tokens: 12.0 },
            prompt: 'plain',
            completion: 'text',
            reward: 0,
            is_truncated: true,
          },
        ],
      }),
    );
    expect(step).toMatchObject({
      format: 'verifiers',
      step: 3,
      groupIds: ['0'],
      prompt: [expect.stringMatching(/^system\nYou play\.\nuser\nstate 1<image_url [0-9a-f]{16}>$/), 'plain'],
    });
    expect(step.output?.[1]).toBe('text');
    expect([...(step.truncated ?? [])]).toEqual([0, 1]);
    expect([...(step.length ?? [])]).toEqual([Number.NaN, 12]);
  });

  it('of art: a line is a group', async () => {
    const choice = { finish_reason: 'stop', message: { role: 'assistant', content: 'up' } };
    const one = (reward: number) => ({
      reward,
      metrics: {},
      metadata: {},
      messages_and_choices: [chat[1], choice],
      logs: [],
    });
    const step = await readOne(
      folder({
        'model/trajectories/train/0012.jsonl': [{ trajectories: [one(0), one(1)] }, { trajectories: [one(0.5)] }],
      }),
    );
    expect(step).toMatchObject({
      format: 'art',
      step: 12,
      run: 'model',
      groupIds: ['1', '2'],
      output: ['up', 'up', 'up'],
    });
    expect([...(step.group ?? [])]).toEqual([0, 0, 1]);
  });
});

describe('texts', () => {
  it('reads what stands beside step files, by the name of the file', async () => {
    const rows = [
      { row: 3, group: 7, prompt: 'p', reasoning: 'because <think> of it', reward: true },
      { row: 1, group: 7, prompt: 'p', reasoning: '', reward: 0.5 },
      { row: 0, group: 'x', prompt: 'q', reasoning: 'why', reward: null },
    ];
    const step = await readOne(folder({ 'step_00042.texts.jsonl': rows }));
    expect(step).toMatchObject({ format: 'texts', step: 42, rows: 3, groupSource: 'id', groupIds: ['7', 'x'] });
    expect([...(step.row ?? [])]).toEqual([3, 1, 0]);
    expect(step.reasoning).toEqual(['because <think> of it', '', 'why']);
    expect(step.prompt).toEqual(['p', 'p', 'q']);
    expect([...(step.reward ?? [])]).toEqual([1, 0.5, Number.NaN]);
    expect(step.absent.output).toBe('the log has no text of the response');
    // By another name the same lines are of no format.
    expect((await readAll(folder({ 'step_00042.jsonl': rows }))).errors.join()).toContain(
      'no rollouts that a reader knows',
    );
  });
});

describe('rollouts', () => {
  it('reads our own columns, ids of 64 bits to the last digit', async () => {
    const line = (group: string, sample: string) =>
      `{"step": 1, "run": "r", "group": ${group}, "output": "o", "tokens": [1, 2], "prompt": "p", "reward": true, "turn": 1, "entropy": [0.5, 1.5], "sample": ${sample}, "logprobs": [-1, null], "action": " a "}`;
    const path = folder({
      'x.jsonl': [line('1152921504606846977', '"a"'), line('1152921504606846976', '"b"'), line('-3', '"c"')],
    });
    const step = await readOne(path);
    expect(step).toMatchObject({
      format: 'rollouts',
      run: 'r',
      groupIds: ['1152921504606846977', '1152921504606846976', '-3'],
    });
    expect(step.action).toEqual(['a', 'a', 'a']);
    expect([...(step.entropy ?? []), ...(step.length ?? [])]).toEqual([1, 1, 1, 2, 2, 2]);
    expect(step.logprobs?.[0]).toEqual(Float64Array.of(-1, Number.NaN));
  });

  it('reads them from Parquet, lists and all', async () => {
    const bytes = parquetWriteBuffer({
      schema: [
        { name: 'root', num_children: 4 },
        { name: 'step', type: 'INT32', repetition_type: 'REQUIRED' },
        { name: 'group', type: 'INT64', repetition_type: 'REQUIRED' },
        { name: 'tokens', converted_type: 'LIST', repetition_type: 'OPTIONAL', num_children: 1 },
        { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
        { name: 'element', type: 'INT32', repetition_type: 'OPTIONAL' },
        { name: 'logprobs', converted_type: 'LIST', repetition_type: 'OPTIONAL', num_children: 1 },
        { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
        { name: 'element', type: 'FLOAT', repetition_type: 'OPTIONAL' },
      ],
      columnData: [
        { name: 'step', data: [1, 1] },
        { name: 'group', data: [1152921504606846977n, 5n] },
        { name: 'tokens', data: [[1, 2], []] },
        { name: 'logprobs', data: [[-0.5, -0.25], []] },
      ] as Parameters<typeof parquetWriteBuffer>[0]['columnData'],
    });
    const step = await readOne(folder({ 'x.parquet': new Uint8Array(bytes) }));
    expect(step).toMatchObject({ rows: 2, groupIds: ['1152921504606846977', '5'] });
    expect(step.tokens).toEqual([Int32Array.of(1, 2), new Int32Array(0)]);
    expect(step.logprobs?.[0]).toEqual(Float64Array.of(-0.5, -0.25));
  });
});
