// The monitor step by step: cadence, what a report holds, the filter and early stops at every step, and what is
// refused.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { filterGroups } from '../../src/filter/filter-groups.js';
import {
  ArgumentError,
  crossScoreMetrics,
  DisposedError,
  type Engine,
  Monitor,
  type MonitorOptions,
  openEngine,
  type StepLabels,
  type StepOutcomes,
} from '../../src/index.js';
import { RunningState } from '../../src/metrics/reporting/running-state.js';
import { Judge, type ReasoningSwaps } from '../../src/verdicts/index.js';
import { columnOf, type SmallStep, scorePrompts, smallStep } from './monitor-run.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ threads: 1 });
});
afterAll(() => engine.dispose());

const quiet: MonitorOptions = { permutations: 19, judge: false };
const open = (options: MonitorOptions = {}): Monitor => new Monitor({ engine, ...quiet, ...options });

/** Scores and finishes. */
async function take(monitor: Monitor, step: number, small: SmallStep, outcomes: StepOutcomes = small.outcomes) {
  const opened = monitor.step(step, small.labels);
  await scorePrompts(opened, small);
  return opened.finish(outcomes);
}

/** Rewards of the groups of smallStep: 4 groups of 3. */
const rewardsOf = (...groups: number[][]): number[] => groups.flat();

async function refusal(work: () => unknown): Promise<ArgumentError> {
  try {
    await work();
  } catch (error) {
    expect(error).toBeInstanceOf(ArgumentError);
    return error as ArgumentError;
  }
  throw new Error('nothing was refused');
}

describe('cadence', () => {
  it('is step 1, then every everySteps, where no judge needs a start; a step may ask otherwise', () => {
    const { labels } = smallStep(1);
    const due = (options: MonitorOptions, steps: readonly number[]) =>
      steps.filter((step) => open({ judge: false, ...options }).step(step, labels).due);
    const steps = Array.from({ length: 13 }, (_, step) => step);
    expect(due({}, steps)).toEqual([0, 1, 5, 10]);
    expect(due({ everySteps: 4 }, steps)).toEqual([0, 1, 4, 8, 12]);
    expect(due({ everySteps: 1 }, steps)).toEqual(steps);
    expect(due({ everySteps: 'never' }, steps)).toEqual([]);
    expect(due({ judge: {}, profile: 'ragen' }, steps)).toEqual([0, 1, 5, 10]);
    expect(open({ judge: false }).step(3, { ...labels, due: true }).due).toBe(true);
    expect(open().step(5, { ...labels, due: false }).due).toBe(false);
  });

  it.each([
    ['five steps with evidence', 4, [1, 2, 3, 4, 5, 10]],
    ['eight steps, where there are too few prompts for any', 3, [1, 2, 3, 4, 5, 6, 7, 8, 10]],
  ])('is every step first, until the run has its start: %s', async (_, prompts, due) => {
    const monitor = open({ judge: {}, everySteps: 5, permutations: 0 });
    const found: number[] = [];
    for (let at = 1; at <= 12; at++) {
      const small = smallStep(at, { prompts });
      const step = monitor.step(at, small.labels);
      if (step.due) {
        found.push(at);
        await scorePrompts(step, small);
      }
      await step.finish(small.outcomes);
    }
    expect(found).toEqual(due);
    expect(monitor.step(13, smallStep(13).labels).due).toBe(false);
    expect(open({ judge: {}, everySteps: 'never' }).step(1, smallStep(1).labels).due).toBe(false);
  });

  it('needs no engine and no lengths where nothing is scored', async () => {
    const { labels, outcomes } = smallStep(2);
    const monitor = new Monitor({ judge: false, everySteps: 'never' });
    const report = await monitor.step(1, { groups: labels.groups }).finish(outcomes);
    expect(report.due).toBe(false);
    expect(report).not.toHaveProperty('stepMetrics');
    await monitor.dispose();
  });

  it('opens an engine of its own when it is first needed', async () => {
    const small = smallStep(3);
    await using monitor = new Monitor({ ...quiet, threads: 1 });
    const [own, other] = [await take(monitor, 1, small), await take(open(), 1, small)];
    expect(JSON.stringify(own)).toBe(JSON.stringify(other));
  });
});

it('opens no other engine once it was disposed, and can still be saved', async () => {
  const small = smallStep(3);
  const monitor = new Monitor({ ...quiet, threads: 1 });
  const first = JSON.stringify(await take(monitor, 1, small));
  const saved = JSON.stringify(monitor.save());
  await monitor.dispose();
  const step = monitor.step(2, { ...small.labels, due: true });
  await expect(step.scoreAll({ logprobs: small.logprobs })).rejects.toThrow(DisposedError);
  expect(JSON.stringify(monitor.save())).toBe(saved);
  await using restored = Monitor.restore(monitor.save());
  expect(restored.lastStep).toBe(1);
  expect(JSON.stringify(await take(open(), 1, small))).toBe(first);
});

describe('a report', () => {
  it('has the metrics of crossScoreMetrics, averages carried along', async () => {
    for (const profile of ['strict', 'ragen'] as const) {
      const monitor = open({ profile });
      const state = new RunningState();
      for (const step of [1, 2, 5, 6, 10]) {
        const small = smallStep(step);
        const report = await take(monitor, step, small);
        expect(report.due).toBe(step !== 2 && step !== 6);
        if (!report.due) continue;
        const { labels, logprobs } = small;
        const wanted = await crossScoreMetrics(
          engine,
          { ...labels, logprobs },
          { profile, permutations: 19, step, state },
        );
        expect(JSON.stringify(report.stepMetrics)).toBe(JSON.stringify(wanted));
        const { 'collapse/valid_thinking_rate': _, ...logged } = wanted.logged;
        expect({ ...report.metrics, ...report.certainty }).toMatchObject(logged);
        expect(Object.keys(report.absent).length).toBe(profile === 'strict' ? Object.keys(wanted.absent).length : 0);
      }
    }
  });

  it('has what the rollouts tell, under the known keys', async () => {
    const { labels } = smallStep(4);
    const lengths = [0, ...Array(11).fill(2)];
    const rewards = rewardsOf([0, 1, 0], [1, 1, 1], [0, 0, 0], [0, 2, 0]);
    const outcomes: StepOutcomes = {
      rewards,
      valid: [true, false, ...Array(10).fill(1)],
      entropies: Array.from({ length: 12 }, (_, row) => row),
      responseLengths: [12, 0, ...Array(10).fill(0)],
      success: { lake: 0.25, sokoban: 0.5 },
    };
    const monitor = open();
    const { metrics, lossScale } = await monitor.step(2, { ...labels, lengths }).finish(outcomes);
    expect(metrics).toEqual({
      'collapse/valid_thinking_rate': 11 / 12,
      'actor/entropy': 0,
      'response_length/mean': 1,
      'response_length/max': 12,
      'response_length/min': 0,
      'rollout/in_group_reward_std': expect.closeTo((Math.sqrt(1 / 3) + Math.sqrt(4 / 3)) / 4, 12),
      'val-env/lake/success': 0.25,
      'val-env/sokoban/success': 0.5,
    });
    expect(lossScale).toBe(1);
    const next = await monitor
      .step(3, { ...labels, lengths })
      .finish({ success: 0.5, entropies: Array(12).fill(0.25) });
    expect(next.metrics).toEqual({
      'collapse/valid_thinking_rate': 11 / 12,
      'actor/entropy': 0.25,
      'val-env/success': 0.5,
    });
  });

  it('has the filter’s choice at every step, due or not', async () => {
    const filter = { dialect: 'ragen', value: 0.9, lossScale: 'sqrt' } as const;
    const monitor = open({ filter });
    for (const step of [1, 2, 3]) {
      const small = smallStep(step + 20);
      const { rewards, entropies, responseLengths } = small.outcomes;
      const report = await take(monitor, step, small);
      const wanted = filterGroups(
        {
          rewards: { values: rewards, groups: small.labels.groups },
          entropies: entropies as Float64Array,
          lengths: responseLengths as number[],
        },
        filter,
      );
      expect(report.filter).toEqual(wanted);
      expect(report.metrics).toMatchObject(wanted.metrics);
      expect(report.metrics['rollout/empty_after_filter']).toBe(wanted.empty ? 1 : 0);
      expect(report.lossScale).toBe(wanted.lossScale);
    }
  });

  it('has buckets, and with gradient norms their decomposition', async () => {
    const { labels } = smallStep(5);
    const rewards = rewardsOf([0, 0, 0], [0, 1, 2], [0, 5, 10], [1, 1, 4]);
    const monitor = open({ buckets: { count: 2 } });
    const step = monitor.step(2, labels);
    const buckets = step.buckets({ rewards });
    expect(buckets.map(({ name, groups }) => [name, groups])).toEqual([
      ['all', [0, 10, 20, 30]],
      ['bucket_1', [0, 10]],
      ['bucket_2', [20, 30]],
    ]);
    const gradientNorms = { bucket_1: { task: 0.25, kl: 0.75 }, bucket_2: { task: 3, kl: 1 } };
    const report = await step.finish({ rewards, gradientNorms });
    expect(report.buckets).toEqual(buckets);
    expect(report.gradients?.regularizationDominated).toEqual(['bucket_1']);
    expect(report.metrics).toMatchObject({
      'grad_norm/bucket_1/reward_std_mean': 0.5,
      'grad_norm/bucket_2/task_share': 0.75,
      'grad_norm/bucket_2/per_sample/task': 0.5,
    });
  });

  it('has buckets of all groups or of the kept ones, under keys that tell', async () => {
    const { labels } = smallStep(5);
    const rewards = rewardsOf([0, 0, 0], [0, 1, 2], [0, 5, 10], [1, 1, 4]);
    const filter = { strategy: 'top_k_abs', value: 2 } as const;
    const all = await open({ buckets: { count: 1 }, filter })
      .step(2, labels)
      .finish({ rewards });
    expect(all.metrics['grad_norm_prefilter/bucket_1/group_rv_count']).toBe(4);
    const kept = await open({ buckets: { count: 1, groups: 'kept' }, filter })
      .step(2, labels)
      .finish({ rewards });
    expect(kept.metrics['grad_norm/bucket_1/group_rv_count']).toBe(2);
    expect(kept.buckets?.[0]?.groups).toEqual(kept.filter?.kept);
  });

  it('counts the rows of an episode once', async () => {
    const small = smallStep(6, { responses: 4, turns: true });
    const report = await open().step(2, small.labels).finish({ rewards: small.outcomes.rewards });
    const episodes = Array.from({ length: 4 }, (_, group) =>
      [0, 2].map((at) => small.outcomes.rewards[4 * group + at] as number),
    );
    const stds = episodes.map(([a, b]) => Math.abs((a as number) - (b as number)) / Math.SQRT2);
    expect(report.metrics['rollout/in_group_reward_std']).toBeCloseTo(stds.reduce((x, y) => x + y) / 4, 12);
  });

  it('leaves rewards out that are no numbers, where the filter is told to', async () => {
    const { labels } = smallStep(5);
    const rewards = rewardsOf(
      [0, Number.NaN, 0],
      [0, 1, Number.NaN],
      [0, Number.POSITIVE_INFINITY, Number.NaN],
      [1, 1, 4],
    );
    const monitor = open({ filter: { nonFinite: 'exclude' }, buckets: { count: 1 }, judge: {} });
    const step = monitor.step(2, { ...labels, due: false });
    const report = await step.finish({ rewards: Float32Array.from(rewards) });
    expect(report.filter?.kept).toEqual([10, 30]);
    // The third group has one reward left, and so no std.
    expect(report.buckets?.[0]).toMatchObject({ groups: [0, 10, 30], rewardMean: 1 });
    expect(report.metrics['grad_norm_prefilter/all/reward_std_max']).toBeCloseTo(Math.sqrt(3), 6);
    expect(JSON.stringify(Monitor.restore(JSON.parse(JSON.stringify(monitor.save()))).save())).toBe(
      JSON.stringify(monitor.save()),
    );
  });

  // Under `last` the episode that is left out had a reward before its end.
  it.each([
    ['first', 0],
    ['last', 1],
  ] as const)('counts no episode with such a reward: %s', async (turnRewards, turn) => {
    const { labels, outcomes } = smallStep(6, { responses: 4, turns: true });
    const rewards = Float64Array.from(outcomes.rewards);
    // The first group has one episode left, and so no std.
    rewards[1] = Number.NaN;
    const monitor = open({ filter: { turnRewards, nonFinite: 'exclude' } });
    const report = await monitor.step(2, labels).finish({ rewards });
    const rewardOf = (group: number, episode: number) => rewards[4 * group + 2 * episode + turn] as number;
    const stds = [1, 2, 3].map((group) => Math.abs(rewardOf(group, 0) - rewardOf(group, 1)) / Math.SQRT2);
    expect(report.metrics['rollout/in_group_reward_std']).toBeCloseTo(stds.reduce((x, y) => x + y) / 3, 12);
  });

  it('knows groups by 64-bit ids', async () => {
    const small = smallStep(13);
    const wide = (values: Int32Array) => BigInt64Array.from(values, BigInt);
    const labels = { groups: wide(small.labels.groups), lengths: wide(small.labels.lengths) };
    const options: MonitorOptions = { judge: {}, filter: {}, buckets: {} };
    const report = await take(open(options), 1, { ...small, labels } as unknown as SmallStep);
    expect(JSON.stringify(report)).toBe(JSON.stringify(await take(open(options), 1, small)));
  });

  it('takes ids that no number holds, and names groups by them', async () => {
    const small = smallStep(13);
    const hashes = BigInt64Array.from(small.labels.groups, (group) => 2n ** 62n + BigInt(group));
    const labels = { groups: hashes, lengths: small.labels.lengths };
    const report = await take(open({ judge: {} }), 1, { ...small, labels } as unknown as SmallStep);
    expect(report.metrics).toEqual((await take(open({ judge: {} }), 1, small)).metrics);
    expect(report.metrics).toHaveProperty('rollout/in_group_reward_std');
    const options = { judge: {}, filter: {}, buckets: {} };
    const [wide, plain] = await Promise.all(
      [labels, small.labels].map((named) =>
        take(open(options), 1, { ...small, labels: named } as unknown as SmallStep),
      ),
    );
    const hashed = (id: number | bigint) => 2n ** 62n + BigInt(id);
    expect(wide?.metrics).toEqual(plain?.metrics);
    expect(wide?.filter?.kept).toEqual(plain?.filter?.kept.map(hashed));
    expect(wide?.filter?.groups).toEqual(BigInt64Array.from(plain?.filter?.groups as Float64Array, hashed));
    expect(wide?.buckets?.map(({ groups }) => groups)).toEqual(plain?.buckets?.map(({ groups }) => groups.map(hashed)));
  });

  it('has verdicts, unless they are switched off', async () => {
    const small = smallStep(7);
    const report = await take(open({ judge: {} }), 1, small);
    expect(report.judgement).toMatchObject({ step: 1, regime: { regime: null } });
    expect(report.judgement?.specificity?.rows).toBe(12);
    expect(await take(open(), 1, small)).not.toHaveProperty('judgement');
  });

  it('is plain data', async () => {
    const report = await take(open({ judge: {}, filter: {}, buckets: {} }), 1, smallStep(8));
    const { filter, ...rest } = report;
    expect(JSON.parse(JSON.stringify(rest))).toEqual(rest);
    expect(filter?.rowMask).toBeInstanceOf(Uint8Array);
  });
});

describe('early stops', () => {
  it('tell, and go on telling, that the filter keeps nothing', async () => {
    const monitor = open({ filter: {}, earlyStop: { emptyFilter: { steps: 2 } } });
    const alike = smallStep(9, { collapsed: true });
    const reports = [];
    for (const step of [2, 3, 4, 6])
      reports.push(await monitor.step(step, alike.labels).finish({ rewards: alike.outcomes.rewards }));
    expect(reports.map(({ stop }) => stop?.since)).toEqual([undefined, 2, 2, 2]);
    expect(reports[1]?.metrics).toMatchObject({
      'early_stopped/empty_filtered_steps': 1,
      'rollout/empty_after_filter': 1,
      'rollout/consecutive_empty_after_filter_steps': 2,
    });
    expect(reports[0]?.metrics).not.toHaveProperty('early_stopped/empty_filtered_steps');
  });

  it('watch the reward itself, with or without a filter, and validations', async () => {
    const { labels } = smallStep(10);
    const spread = (scale: number) => rewardsOf([0, scale, 0], [scale, 0, 0], [0, 0, scale], [0, scale, scale]);
    for (const filter of [undefined, { metric: 'reward', value: 1 } as const]) {
      const monitor = open({
        filter,
        earlyStop: { rewardVariance: { startSteps: 2, consecutive: 3 }, success: { validations: 2 } },
      });
      const stops = [];
      for (let step = 1; step <= 6; step++) {
        const outcomes = { rewards: spread(step <= 2 ? 1 : 0.05), ...(step % 2 === 0 && { success: 0 }) };
        const report = await monitor.step(step, { ...labels, due: false }).finish(outcomes);
        stops.push(report.stops.map(({ reason, since }) => `${reason} ${since}`));
      }
      const low = 'low_validation_success 2';
      expect(stops).toEqual([
        [],
        [],
        [],
        [low],
        ['reward_variance_collapse 3', low],
        ['reward_variance_collapse 3', low],
      ]);
    }
  });
});

describe('bad input', () => {
  it.each<[object, string, string]>([
    [{ filter: { strategy: 'top_q' } }, 'options.filter.strategy', '"top_p", "top_k", "top_k_abs" or "min_p"'],
    [{ filter: { dialect: 'verl' } }, 'options.filter.dialect', '"strict", "ragen", "paper", "upstream" or "dapo"'],
    [{ filter: { value: 1.5 } }, 'options.filter.value', 'above 0 and at most 1'],
    [{ filter: { topP: 0.9 } }, 'options.filter.topP', 'unknown option'],
    [{ filter: 'top_p' }, 'options.filter', 'expected an object'],
    [{ profile: 'paper' }, 'options.profile', '"strict" or "ragen"'],
    [{ sampler: 'first' }, 'options.sampler.kind', 'first_turn'],
    [{ sampler: { kind: 'turn', n: 0 } }, 'options.sampler.n', 'from 1 on'],
    [{ sampler: ['turn', { kind: 'turn', seed: -1 }] }, 'options.sampler[1].seed', 'from 0 on'],
    [{ sampler: ['turn', { kind: 'turn' }] }, 'options.sampler', 'there twice'],
    [{ everySteps: 0 }, 'options.everySteps', 'from 1 on, or "never"'],
    [{ everySteps: Number.POSITIVE_INFINITY }, 'options.everySteps', 'never'],
    [{ negatives: 1 }, 'options.negatives', 'integer from 3 on'],
    [{ negatives: '4' }, 'options.negatives', 'integer from 3 on'],
    [{ negatives: 4, profile: 'ragen' }, 'options.negatives', 'strict'],
    [{ negatives: 4, sampler: 'turn' }, 'options.negatives', 'sampler'],
    [{ hardShare: 0.5 }, 'options.hardShare', 'negatives'],
    [{ negatives: 4, hardShare: 2 }, 'options.hardShare', 'from 0 to 1'],
    [{ permutations: -1 }, 'options.permutations', 'from 0 on'],
    [{ seed: 0.5 }, 'options.seed', 'from 0 on'],
    [{ judge: { permutation: 9 } }, 'options.judge.permutation', 'permutations, seed'],
    [{ buckets: { count: -1 } }, 'options.buckets.count', 'from 1 to 65536'],
    [{ earlyStop: { success: { below: 7 } } }, 'options.earlyStop.success.below', 'at most 1'],
    [{ every: 3 }, 'options.every', 'everySteps'],
  ])('new Monitor(%j)', async (options, argument, words) => {
    const error = await refusal(() => new Monitor(options as MonitorOptions));
    expect([error.argument, error.message]).toEqual([argument, expect.stringContaining(words)]);
  });

  const { labels } = smallStep(11);
  it.each<[unknown, object, string, string]>([
    [1.5, labels, 'step', 'integer from 0 on'],
    [-1, labels, 'step', '-1'],
    ['2', labels, 'step', '"2"'],
    [1, { groups: labels.groups }, 'lengths', 'due'],
    [1, { ...labels, lengths: [1, 2] }, 'lengths', '2 values for 12 rows'],
    [1, { ...labels, lengths: Array(12).fill(-1) }, 'lengths', 'row 0 is -1'],
    [1, { ...labels, groups: 'abc' }, 'groups', '"abc"'],
    [1, { ...labels, groups: [0, 1.5] }, 'groups', 'row 1 is 1.5'],
    [1, { ...labels, columnGroups: [0, 10, 20] }, 'groups', 'no column'],
    [1, { ...labels, columnGroups: [0, 10, 10, 20, 30] }, 'columnGroups', 'two columns'],
    [1, { ...labels, promptTokens: [[1]] }, 'promptTokens', '1 prompt for 4 columns'],
    [1, { ...labels, lengths: null }, 'lengths', 'got null'],
    [1, { ...labels, episodes: [1] }, 'episodes', '1 value for 12 rows'],
    [1, { ...labels, turns: [1] }, 'turns', '1 value for 12 rows'],
    [1, { ...labels, group: [] }, 'labels.group', 'unknown'],
    [1, undefined as unknown as object, 'labels', 'undefined'],
  ])('step(%j, %j)', async (step, given, argument, words) => {
    const error = await refusal(() => open().step(step as number, given as StepLabels));
    expect([error.argument, error.message]).toEqual([argument, expect.stringContaining(words)]);
  });

  it.each<[MonitorOptions, object, string, string]>([
    [{}, { rewards: [1, 2] }, 'outcomes.rewards', '2 values for 12 rows'],
    [
      {},
      { rewards: [...Array(11).fill(0), Number.NaN] },
      'outcomes.rewards',
      'the option filter: { nonFinite: "exclude" }',
    ],
    [{}, { rewards: [...Array(11).fill(0), '1'] }, 'outcomes.rewards', 'row 11 is "1"'],
    [{}, { rewards: {} }, 'outcomes.rewards', 'array of numbers'],
    [{ filter: {} }, {}, 'outcomes.rewards', 'missing'],
    [
      {},
      { reasoningSwaps: { logprobs: [0, 0, 0], reasonings: 2 } },
      'outcomes.reasoningSwaps',
      '3 log-probs, expected [Q, R] = 2 × 12',
    ],
    [
      {},
      { reasoningSwaps: { logprobs: Array(24).fill(-1), reasonings: 2 } },
      'outcomes.reasoningSwaps',
      '2 reasonings are neither one a row (12) nor one a row of each group',
    ],
    [{ filter: { metric: 'entropy' } }, { rewards: Array(12).fill(0) }, 'outcomes.entropies', 'missing'],
    [{ filter: { metric: 'length' } }, { rewards: Array(12).fill(0) }, 'outcomes.responseLengths', 'missing'],
    [{ filter: {} }, { rewards: Array(12).fill(1e200) }, 'outcomes.rewards', '1e+100'],
    [{}, { entropies: [] }, 'outcomes.entropies', '0 values for 12 rows'],
    [{}, { responseLengths: Array(12).fill(0.5) }, 'outcomes.responseLengths', 'a count of tokens'],
    [{}, { valid: Array(12).fill(2) }, 'outcomes.valid', 'row 0 is 2'],
    [{}, { actions: Array(12).fill(0.5) }, 'outcomes.actions', 'row 0 is 0.5'],
    [{}, { success: 1.5 }, 'outcomes.success', 'from 0 to 1'],
    [{}, { success: { lake: -1 } }, 'outcomes.success.lake', 'from 0 to 1'],
    [{}, { figures: { loss: 'high' } }, 'outcomes.figures.loss', '"high"'],
    [{}, { gradientNorms: {} }, 'outcomes.gradientNorms', 'no buckets'],
    [{ buckets: {} }, { gradientNorms: { all: { task: 1 } } }, 'outcomes.gradientNorms.all', 'it has none'],
    [{}, { reward: [] }, 'outcomes.reward', 'unknown'],
    [{}, undefined as unknown as object, '', ''],
  ])('finish of %j with %j', async (options, outcomes, argument, words) => {
    const step = open(options).step(2, labels);
    if (outcomes === undefined) return expect((await step.finish(outcomes)).step).toBe(2);
    const error = await refusal(() => step.finish(outcomes));
    expect([error.argument, error.message]).toEqual([argument, expect.stringContaining(words)]);
  });

  it('finds in labels what the filter cannot use, and names its own options', async () => {
    const given = (more: Partial<StepLabels>) => ({ groups: [0, 0, 1], ...more });
    const finish = (filter: MonitorOptions['filter'], more: Partial<StepLabels>) =>
      refusal(() =>
        open({ filter })
          .step(2, given(more))
          .finish({ rewards: [1, 0, 1] }),
      );
    const twice = await finish({}, { episodes: [1, 1, 2], turns: [3, 3, 0] });
    expect([twice.argument, twice.message]).toEqual(['turns', expect.stringContaining('turn 3 of its episode')]);
    const unlike = await finish({}, { episodes: [1, 1, 2], turns: [0, 1, 0] });
    expect([unlike.argument, unlike.message]).toEqual([
      'outcomes.rewards',
      expect.stringContaining('say with turnRewards'),
    ]);
    const alone = await finish({ singletons: 'error' }, {});
    expect(alone.message).toContain('say with filter.singletons');
  });

  it('what is written into outcomes after finish() was called has no effect', async () => {
    const outcomesOf = () => ({
      rewards: [0, 1, 0, 1],
      reasoningSwaps: { logprobs: Float64Array.from({ length: 16 }, (_, at) => -(at % 5)), reasonings: 4 },
      gradientNorms: { all: { task: 1 } },
    });
    const finished = async (outcomes: ReturnType<typeof outcomesOf>, after: () => void) => {
      const monitor = new Monitor({ everySteps: 'never', buckets: {} });
      const finishing = monitor.step(1, { groups: [0, 0, 1, 1] }).finish(outcomes);
      after();
      return finishing;
    };
    const changed = outcomesOf();
    const report = await finished(changed, () => {
      changed.reasoningSwaps.logprobs.fill(-1);
      changed.gradientNorms.all.task = Number.NaN;
    });
    expect(report).toEqual(await finished(outcomesOf(), () => undefined));
  });

  it.each([null, 5, {}])('reasoning swaps that are none: %j', async (swaps) => {
    const step = new Monitor({ everySteps: 'never' }).step(1, { groups: [0, 0, 1, 1] });
    const reasoningSwaps = swaps as unknown as ReasoningSwaps;
    await expect(step.finish({ reasoningSwaps })).rejects.toThrow(ArgumentError);
    expect(() => new Judge().add({ step: 1, rows: { groups: [0, 0], reasoningSwaps } })).toThrow(ArgumentError);
  });

  it('a step that was given up, due or not, with the reason at every call', async () => {
    const small = smallStep(1);
    const { labels, outcomes } = small;
    const monitor = new Monitor({ engine });
    for (const due of [true, false]) {
      const step = monitor.step(1, { ...labels, due });
      step.abort(new Error('given up'));
      await expect(step.finish(outcomes)).rejects.toThrow('given up');
      // Prompts that were never scored passed for scored ones.
      await expect(step.score(0, columnOf(small, 0))).rejects.toThrow('given up');
      await expect(step.scoreAll({ logprobs: small.logprobs })).rejects.toThrow('given up');
      await expect(step.scoreRows([0], { logprobs: small.logprobs })).rejects.toThrow('given up');
      await expect(step.scoreBlock({ logprobs: small.logprobs })).rejects.toThrow('given up');
      await expect(step.scoreBlocks([])).rejects.toThrow('given up');
      expect(() => step.writable()).toThrow('given up');
    }
    expect(monitor.lastStep).toBeNull();
  });

  it('a step that is due neither yes nor no', () => {
    const { labels } = smallStep(1);
    const due = 'no' as unknown as boolean;
    expect(() => new Monitor().step(1, { ...labels, due })).toThrow('due: got "no", expected true or false');
  });

  it('a step number that goes back, when it is opened and when it is finished', async () => {
    const monitor = open();
    const early = monitor.step(3, labels);
    const twin = monitor.step(4, labels);
    await monitor.step(4, labels).finish();
    for (const step of [0, 3, 4]) {
      const error = await refusal(() => monitor.step(step, labels));
      expect([error.argument, error.message]).toEqual(['step', expect.stringContaining('step 4 was finished')]);
    }
    expect((await refusal(() => early.finish())).argument).toBe('step');
    expect((await refusal(() => twin.finish())).message).toContain('step 4 was finished already');
    expect(monitor.lastStep).toBe(4);
  });

  it('leaves everything as it was: the step can be finished again, and the run is the same', async () => {
    const options: MonitorOptions = { filter: {}, judge: {}, buckets: {}, earlyStop: { emptyFilter: { steps: 1 } } };
    const [hurt, whole] = [open(options), open(options)];
    for (const step of [1, 2, 5]) {
      const small = smallStep(step + 40, { collapsed: step === 2 });
      const opened = hurt.step(step, small.labels);
      const before = JSON.stringify(hurt.save());
      if (opened.due) await refusal(() => opened.finish(small.outcomes)); // not scored
      await scorePrompts(opened, small);
      const bad: object[] = [
        { rewards: [1] },
        {},
        { ...small.outcomes, success: 3 },
        { ...small.outcomes, gradientNorms: { bucket_99: { task: 1 } } },
        { ...small.outcomes, reasoningSwaps: { logprobs: [1, 2, 3], reasonings: 12 } },
      ];
      for (const outcomes of bad) await refusal(() => opened.finish(outcomes));
      const aborted = AbortSignal.abort(new Error('enough'));
      await expect(opened.finish(small.outcomes, { signal: aborted })).rejects.toThrow('enough');
      expect(JSON.stringify(hurt.save())).toBe(before);
      const report = await opened.finish(small.outcomes);
      expect(JSON.stringify(report)).toBe(JSON.stringify(await take(whole, step, small)));
      expect(JSON.stringify(hurt.save())).toBe(JSON.stringify(whole.save()));
    }
  });

  it('by an abort does not wait for the step before, nor lets the next one pass it', async () => {
    const small = smallStep(12);
    const monitor = open();
    const steps = [5, 10, 15].map((step) => monitor.step(step, small.labels));
    for (const step of steps) for (let p = 0; p < 4; p++) await step.score(p, columnOf(small, p));
    const controller = new AbortController();
    const ended: string[] = [];
    const end = async (name: string, finishing: Promise<unknown> | undefined): Promise<void> => {
      await finishing?.catch((reason: Error) => ended.push(reason.message));
      ended.push(name);
    };
    const all = [
      end('first', steps[0]?.finish(small.outcomes)),
      end('second', steps[1]?.finish(small.outcomes, { signal: controller.signal })),
      end('third', steps[2]?.finish(small.outcomes)),
    ];
    controller.abort(new Error('stop'));
    await Promise.all(all);
    expect(ended).toEqual(['stop', 'second', 'first', 'third']);
    expect(monitor.lastStep).toBe(15);
  });

  it('does not disturb a step that is finished at the same time', async () => {
    const small = smallStep(12);
    const [monitor, calm] = [open(), open()];
    const steps = [5, 10].map((step) => monitor.step(step, small.labels));
    for (const step of steps) for (let p = 0; p < 4; p++) await step.score(p, columnOf(small, p));
    const [first, broken, second] = await Promise.allSettled([
      steps[0]?.finish(small.outcomes),
      steps[1]?.finish({ rewards: [1] }),
      steps[1]?.finish(small.outcomes),
    ]);
    expect(broken?.status).toBe('rejected');
    const wanted = [await take(calm, 5, small), await take(calm, 10, small)];
    expect([first, second].map((of) => JSON.stringify(of?.status === 'fulfilled' && of.value))).toEqual(
      wanted.map((report) => JSON.stringify(report)),
    );
  });
});
