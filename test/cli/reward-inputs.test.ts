// Rewards as trainers really give them, by turn, with ids of 64 bits, with gaps and in every dtype: read alike by
// analyze, filter and Monitor, or refused.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { TurnRewards } from '../../src/exports/filter.js';
import { readStepFile } from '../../src/exports/logs.js';
import { episodeRewards } from '../../src/filter/input/turn-rewards.js';
import {
  type AnalyzeOptions,
  analyze,
  crossScoreMetrics,
  type FilterOptions,
  filterGroups,
  Judge,
  Monitor,
  type MonitorOptions,
  openEngine,
  type StepReport,
  writeStep,
} from '../../src/index.js';
import { fileErrorOf, fileOf, fullStep, type RawTensor } from '../support/logs-files.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { collapsar } from './cli-streams.js';

const directory = temporaryDirectory();
const inputs = fileURLToPath(new URL('../inputs/', import.meta.url));
const examples = fileURLToPath(new URL('../../examples/data/', import.meta.url));

async function reportOf(path: string, options: AnalyzeOptions = {}): Promise<StepReport> {
  for await (const report of analyze(path, { permutations: 0, ...options })) return report;
  throw new Error('no report');
}

/** The rewards of a step file as a monitor gets them. */
async function monitored(path: string, options: MonitorOptions, step = 2) {
  const { group, rewards, episode, turn } = await readStepFile(path);
  const opened = new Monitor({ judge: {}, ...options }).step(step, {
    groups: group,
    episodes: episode,
    turns: turn,
    due: false,
  });
  return opened.finish({ rewards });
}

describe('rewards by turn', () => {
  // Two prompts, two episodes each, three turns each: 1,0,0 and 0,0,0; 0,0,1 and 0,0,1.
  const dense = join(inputs, 'dense.safetensors');
  const atTheEnd = join(inputs, 'perturn-skyrl2217.safetensors');
  /** What is kept, and the mean reward, under each rule. */
  const readings: readonly (readonly [TurnRewards, number[], number[]])[] = [
    ['sum', [0], [0.5, 1]],
    ['last', [], [0, 1]],
    ['first', [0], [0.5, 0]],
    ['mean', [0], [1 / 6, 1 / 3]],
  ];

  it.each([dense, atTheEnd])(
    'are refused by all where they disagree and nothing says what they make: %s',
    async (path) => {
      const disagree = /another turn of its episode .*say with .*turn-?rewards/i;
      const filtered = await collapsar(['filter', path]);
      expect([filtered.status, filtered.err]).toEqual([1, expect.stringMatching(disagree)]);
      const { filter, notes, judgement } = await reportOf(path);
      expect(filter).toBeUndefined();
      expect(judgement?.triage ?? []).toEqual([]);
      expect(notes).toContainEqual(expect.stringMatching(/^no filter: rewards: .*--turn-rewards/));
      expect(notes).toContainEqual(expect.stringMatching(/^left out of the verdicts: rewards: /));
      for (const options of [{}, { filter: {} }, { buckets: {} }]) {
        await expect(monitored(path, options)).rejects.toThrow(disagree);
      }
    },
  );

  it.each(readings)('are read alike by all: %s', async (turnRewards, kept, means) => {
    const named = await collapsar(['filter', dense, '--turn-rewards', turnRewards]);
    expect([named.status, named.out]).toEqual([0, kept.map((group) => `${group}\n`).join('')]);
    const printed = await collapsar(['analyze', dense, '--jsonl', '--turn-rewards', turnRewards]);
    expect(JSON.parse(printed.out).filter.kept).toEqual(kept);
    const report = await reportOf(dense, { turnRewards });
    expect(report.filter?.kept).toEqual(kept);
    const spread = report.filter?.metrics['rollout/in_group_reward_std'];
    for (const options of [{ filter: {}, turnRewards }, { filter: { turnRewards } }, { buckets: {}, turnRewards }]) {
      const found = await monitored(dense, options);
      if (options.filter) expect(found.filter?.kept).toEqual(kept);
      expect(found.metrics['rollout/in_group_reward_std']).toBe(spread);
      expect(found.judgement?.triage.map(({ rewardMean }) => rewardMean)).toEqual(means);
      expect(report.judgement?.triage.map(({ rewardMean }) => rewardMean)).toEqual(means);
      const all = found.buckets?.find(({ name }) => name === 'all');
      if (all) expect(all.rewardMean).toBeCloseTo(((means[0] as number) + (means[1] as number)) / 2, 12);
    }
  });

  it('keep the prompt whose returns differ, [1, 0] and [1, 1]', async () => {
    const { metrics } = await monitored(dense, { turnRewards: 'sum' });
    expect(metrics['rollout/in_group_reward_std']).toBeCloseTo(Math.SQRT1_2 / 2, 12);
  });

  it('are given once: an option that says another rule than the filter is refused', () => {
    const make = (turnRewards: TurnRewards, filter: FilterOptions) => new Monitor({ turnRewards, filter });
    expect(() => make('sum', { turnRewards: 'last' })).toThrow(
      /options.turnRewards: got "sum".* says "last": give it once/,
    );
    expect(make('sum', { turnRewards: 'sum' }).options.turnRewards).toBe('sum');
    expect(new Monitor({ filter: { dialect: 'ragen' } }).options.turnRewards).toBe('first');
    expect(() => make('most' as TurnRewards, {})).toThrow(/options.turnRewards/);
    expect(Monitor.restore(new Monitor({ turnRewards: 'mean' }).save()).options.turnRewards).toBe('mean');
  });

  it('of a judge by itself are settled first', () => {
    const rows = { groups: [0, 0, 0, 0], episodes: [0, 0, 1, 1], turns: [1, 0, 0, 1], rewards: [1, 0, 0, 2] };
    expect(() => new Judge().add({ step: 1, rows })).toThrow(/^evidence.rows.rewards: row 0 has 1.*episodeRewards\(\)/);
    const { rewards } = episodeRewards(rows, 'sum');
    expect(rewards).toEqual(Float64Array.of(1, 1, 2, 2));
    expect(episodeRewards(rows, 'last').rewards).toEqual(Float64Array.of(1, 1, 2, 2));
    expect(episodeRewards(rows, 'first').rewards).toEqual(Float64Array.of(0, 0, 0, 0));
    expect(episodeRewards(rows, 'mean').rewards).toEqual(Float64Array.of(0.5, 0.5, 1, 1));
    const { triage } = new Judge().add({ step: 1, rows: { ...rows, rewards } });
    expect(triage).toMatchObject([{ group: 0, rewardMean: 1.5, cause: 'varied' }]);
  });

  it('an outcome is what the last turn says, whoever reads it', () => {
    const rewards = { values: [1, 1, 1, 1], groups: [0, 0, 0, 0], episodes: [0, 0, 1, 1] };
    const { kept } = filterGroups({ rewards, outcomes: [0, 1, 0, 0] }, { dialect: 'dapo' });
    expect(kept).toEqual([0]);
  });
});

describe('ids of 64 bits', () => {
  const wide = (ids: ArrayLike<number | bigint>) => BigInt64Array.from(ids, (id) => 2n ** 60n + BigInt(id));

  it('give what the same step gives with small ids', async () => {
    const path = join(examples, 'healthy/step_00001.safetensors');
    const { group, columnGroup, ...step } = await readStepFile(path);
    if (step.scores.kind !== 'logprobs') throw new Error('token scores expected');
    const blocks = [];
    for await (const { logprobs } of step.scores.blocks()) blocks.push({ ...logprobs, data: logprobs.data.slice() });
    const hashed = join(directory, 'step_00001.safetensors');
    const ids = { group: wide(group), columnGroup: wide(columnGroup) };
    await writeStep(hashed, { ...step, run: 'healthy', ...ids, logprobs: blocks[0] });
    const [small, large] = [await reportOf(path), await reportOf(hashed)];
    expect(large.remarks).toEqual([]);
    expect(large.filter?.metrics).toEqual(small.filter?.metrics);
    expect(large.filter?.kept).toEqual(small.filter?.kept.map((id) => 2n ** 60n + BigInt(id)));
    expect(large.samples[0]?.logged).toEqual(small.samples[0]?.logged);
    const said = async (file: string) => (await collapsar(['filter', file])).out.trim().split('\n').map(BigInt);
    const plain = await said(path);
    expect(await said(hashed)).toEqual(plain.map((id) => 2n ** 60n + id));
    // In records as text, since readers of JSON would round the numbers.
    const record = JSON.parse((await collapsar(['analyze', hashed, '--jsonl'])).out);
    expect(record.filter.kept).toEqual(plain.map((id) => String(2n ** 60n + id)));
  });

  it('name groups of filterGroups as they came: bigints only where numbers would not do', () => {
    const values = [0, 1, 1, 1];
    const large = filterGroups({ rewards: { values, groups: wide([5, 5, 6, 6]) } });
    expect(large.kept).toEqual([2n ** 60n + 5n]);
    expect(large.dropped).toEqual([{ group: 2n ** 60n + 6n, reason: 'zero_score' }]);
    expect(large.groups).toEqual(wide([5, 6]));
    expect([...large.rowMask]).toEqual([1, 1, 0, 0]);
    const small = filterGroups({ rewards: { values, groups: BigInt64Array.of(5n, 5n, 6n, 6n) } });
    expect([small.kept, small.groups]).toEqual([[5], Float64Array.of(5, 6)]);
    expect(filterGroups({ rewards: { values, groups: [5n, 5, 6, 6n] } }).groups).toEqual(Float64Array.of(5, 6));
  });
});

describe('missing rewards', () => {
  it.each(['pd.jsonl', 'pd.csv'])('are as NaN is: %s', async (name) => {
    const path = join(inputs, name);
    const refused = await collapsar(['filter', path]);
    expect([refused.status, refused.err]).toEqual([
      1,
      expect.stringContaining('rewards: row 1 is missing or NaN, expected a finite number'),
    ]);
    const { status, out, err } = await collapsar(['filter', path, '--non-finite', 'exclude', '--json']);
    expect([status, JSON.parse(out).kept]).toEqual([0, ['2']]);
    expect(err.replace(/\s+/g, ' ')).toContain('left out because the reward is NaN or infinite: row 1');
  });

  it('are taken by filterGroups and by a monitor', async () => {
    for (const rewards of [
      [
        [0, null],
        [1, 0],
      ],
      { values: [0, null, 1, 0], groups: [0, 0, 1, 1] },
    ]) {
      expect(() => filterGroups({ rewards })).toThrow(/row 1.* is null, expected a finite number/);
      const { kept, rowMask } = filterGroups({ rewards }, { nonFinite: 'exclude' });
      expect([kept, [...rowMask]]).toEqual([[1], [0, 0, 1, 1]]);
    }
    const finish = (options: MonitorOptions) =>
      new Monitor(options).step(2, { groups: [0, 0, 1, 1], due: false }).finish({ rewards: [0, null, 1, 0] });
    await expect(finish({ filter: {} })).rejects.toThrow(/^outcomes.rewards: row 1 is null/);
    expect((await finish({ filter: { nonFinite: 'exclude' } })).filter?.kept).toEqual([1]);
    const other = { rewards: [0, '1', 1, 0] as never };
    await expect(new Monitor().step(2, { groups: [0, 0, 1, 1], due: false }).finish(other)).rejects.toThrow(
      'row 1 is "1"',
    );
    expect(() => filterGroups({ rewards: [[0, 1]], lengths: [[1, null as never]] })).toThrow(/lengths: .* is null/);
  });
});

describe('rows of text', () => {
  it('in Latin-1 are refused by their line, with how to convert them', async () => {
    const refused = await collapsar(['filter', join(inputs, 'latin1.csv')]);
    expect(refused.status).toBe(1);
    expect(refused.err.replace(/\s+/g, ' ')).toMatch(/latin1\.csv: line \d is not UTF-8: .*iconv/);
    const rows = join(directory, 'rows.jsonl');
    await writeFile(rows, Buffer.from('{"group":"\u00e9","length":3}\n', 'latin1'));
    const planned = await collapsar(['plan-scores', rows, '--negatives', '3']);
    expect([planned.status, planned.err]).toEqual([1, expect.stringContaining('line 1: is not UTF-8: byte 11')]);
  });

  it('with decimal commas are refused', async () => {
    const path = join(directory, 'decimal.csv');
    await writeFile(path, 'group,reward\n1,"0,5"\n1,1\n');
    const { status, err } = await collapsar(['filter', path]);
    expect([status, err.replace(/\s+/g, ' ')]).toEqual([
      1,
      expect.stringMatching(/row 1: reward is the text "0,5", expected a number/),
    ]);
  });

  it('of a log that a trainer wrote are read as analyze reads them', async () => {
    const log = join(directory, '7.jsonl');
    const lines = [0, 1, 1, 1].map((score, row) =>
      JSON.stringify({ input: row < 2 ? 'x' : 'y', output: 'o', score, step: 7 }),
    );
    await writeFile(log, lines.join('\n'));
    expect(await collapsar(['filter', log])).toMatchObject({ status: 0, out: 'x\n' });
  });
});

describe('whole numbers in doubles', () => {
  const far = [4e6, 4e6 + 1];
  const same = [4e6, 4e6];

  it('have the variance that they have, whatever stands beside them', () => {
    for (const rewards of [
      [far, same],
      [far, same, [0.1, 0.1]],
      [Float32Array.from(far), Float32Array.from(same)],
    ]) {
      const { kept, rewardVariances } = filterGroups({ rewards }, { strategy: 'top_k_abs', value: 1 });
      expect(kept).toEqual([0]);
      expect([...rewardVariances.subarray(0, 2)]).toEqual([0.5, 0]);
    }
    const large = filterGroups({ rewards: [[2 ** 52, 2 ** 52 + 1], far.map((value) => value * 1e9), same] });
    expect([...large.rewardVariances.subarray(0, 1)]).toEqual([0.5]);
  });

  it('are no rounding to the triage either', () => {
    const { triage } = new Judge().add({
      step: 1,
      groups: [
        { group: 0, rewards: far },
        { group: 1, rewards: same },
      ],
    });
    expect(triage.map(({ cause }) => cause)).toEqual(['varied', 'too_hard']);
  });

  it('fractions are those of their type: a Float32Array rounds as float32, doubles that look like it do not', () => {
    const values = [0.8, 0.8 + 2 ** -24];
    expect(filterGroups({ rewards: [Float32Array.from(values)] }).rewardVariances[0]).toBe(0);
    expect(filterGroups({ rewards: [values.map(Math.fround)] }).rewardVariances[0]).toBeGreaterThan(0);
  });
});

describe('rewards in a step file', () => {
  let files = 0;
  const fileWith = async (rewards: RawTensor): Promise<string> => {
    const path = join(directory, `step_${files++}.safetensors`);
    await writeFile(path, fileOf({ ...fullStep(), rewards }));
    return path;
  };

  it.each([
    ['I64', BigInt64Array.of(-1n, 2n ** 53n - 1n, 3n, 0n), [-1, 2 ** 53 - 1, 3, 0]],
    ['I32', Int32Array.of(-1, 2, 3, 0), [-1, 2, 3, 0]],
    ['I16', Int16Array.of(-1, 2, 3, 0), [-1, 2, 3, 0]],
    ['I8', Int8Array.of(-1, 2, 3, 0), [-1, 2, 3, 0]],
    ['U8', Uint8Array.of(255, 2, 3, 0), [255, 2, 3, 0]],
    ['BOOL', Uint8Array.of(1, 0, 1, 1), [1, 0, 1, 1]],
    ['BF16', Uint16Array.of(0x3f80, 0xc000, 0x7fc0, 0x7f80), [1, -2, Number.NaN, Number.POSITIVE_INFINITY]],
    ['F16', Uint16Array.of(0x3c00, 0xc000, 0x0001, 0x7bff), [1, -2, 2 ** -24, 65504]],
  ] as const)('are read exactly from %s', async (dtype, data, expected) => {
    const step = await readStepFile(await fileWith({ dtype, shape: [4], data }));
    expect(step.rewards).toEqual(Float64Array.from(expected));
    expect(step.float32?.includes('rewards')).toBe(dtype === 'BF16' || dtype === 'F16');
  });

  it('beyond 2^53 are refused by name, with the place', async () => {
    const path = await fileWith({ dtype: 'I64', shape: [4], data: BigInt64Array.of(0n, 2n ** 53n + 1n, 0n, 0n) });
    const error = await fileErrorOf(readStepFile(path));
    expect(error).toMatchObject({ path, tensor: 'rewards' });
    expect(error.message).toContain('9007199254740993 in row 1 is beyond 2^53');
  });

  it('are written from whole numbers, too, but not from flags', async () => {
    const step = { step: 1, sums: { data: new Float64Array(4), dtype: 'float64', shape: [2, 2] } as const };
    const rest = { lengths: Int32Array.of(1, 1), group: Int32Array.of(0, 1) };
    const path = join(directory, 'written.safetensors');
    await writeStep(path, { ...step, ...rest, rewards: BigInt64Array.of(3n, 4n) });
    expect((await readStepFile(path)).rewards).toEqual(Float64Array.of(3, 4));
    const flags = writeStep(path, { ...step, ...rest, rewards: Uint8Array.of(1, 0) as never });
    await expect(flags).rejects.toThrow(/step.rewards: got a Uint8Array.*, expected a Float32Array/);
  });
});

describe('a negative step', () => {
  it('is refused by name wherever a step is given or read', async () => {
    const sums = { data: new Float64Array(4), dtype: 'float64', shape: [2, 2] } as const;
    const rest = { sums, lengths: Int32Array.of(1, 1), group: Int32Array.of(0, 1) };
    await expect(writeStep(join(directory, 'minus.safetensors'), { step: -1, ...rest })).rejects.toThrow(
      'step.step: got -1, expected a whole number from 0 on',
    );
    const path = join(directory, 'negative.safetensors');
    await writeFile(path, fileOf(fullStep(), { step: '-1' }));
    await expect(readStepFile(path)).rejects.toThrow('step in __metadata__ is "-1", expected');
    expect(() => new Monitor().step(-1, { groups: [0, 1] })).toThrow(/^step: got -1/);
    expect(() => new Judge().add({ step: -1 })).toThrow('evidence.step');
    await using engine = await openEngine({ device: 'cpu' });
    const scores = { sums, lengths: [1, 1], groups: [0, 1] };
    await expect(crossScoreMetrics(engine, scores, { step: -1 })).rejects.toThrow('options.step: got -1');
  });
});
