// Step files -> reports: in order, whole, and each failure for itself.
import { readFileSync, writeFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AnalyzeOptions, analyze } from '../../src/analysis/analyze.js';
import { mapAhead } from '../../src/analysis/measuring/map-ahead.js';
import { measureOptions } from '../../src/analysis/measuring/measure-options.js';
import { measureStepFile } from '../../src/analysis/measuring/measure-step-data.js';
import { MetricChoice } from '../../src/analysis/measuring/metric-choice.js';
import { possibleKeys } from '../../src/analysis/measuring/metric-names.js';
import type { StepSource } from '../../src/analysis/measuring/step-source.js';
import { ArgumentError, FileError } from '../../src/checks/errors.js';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import { listSteps } from '../../src/logs/steps/read-steps.js';
import { readStepFile } from '../../src/logs/steps/step-file.js';
import type { StepToWrite } from '../../src/logs/steps/write-step.js';
import { crossScoreMetrics } from '../../src/metrics/cross-score-metrics.js';
import { RunningState } from '../../src/metrics/reporting/running-state.js';
import { Run, startRun } from '../../src/step/run.js';
import type { StepMeasurement } from '../../src/step/step-measurement.js';
import { allFigures } from '../../src/step/step-record.js';
import type { StepReport } from '../../src/step/step-report.js';
import { resolveEarlyStop } from '../../src/verdicts/early-stop/early-stops.js';
import { putLogs } from '../logs/rollouts/rollout-logs.js';
import { elementOf, exampleRuns, putStep, smallStep } from '../support/analysis-logs.js';
import { expectSameMetrics } from '../support/golden.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const directory = temporaryDirectory();
const LABEL = 'collapse_first_turn_sample';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine();
});
afterAll(() => engine.dispose());

async function collect(source: string | string[], options: AnalyzeOptions = {}) {
  const reports: StepReport[] = [];
  const failures: FileError[] = [];
  const all = analyze(source, {
    engine,
    permutations: 99,
    onFailure: (failure) => failures.push(failure),
    ...options,
  });
  for await (const report of all) reports.push(report);
  return { reports, failures };
}

function numbersOf({ file, step, run, absent, notes, ...metrics }: StepReport['record']): Record<string, number> {
  return metrics as Record<string, number>;
}

describe('the example runs', () => {
  it.each(['collapse', 'filtered', 'healthy'])('%s gives the reference numbers, EMA carried along', async (run) => {
    const golden = JSON.parse(readFileSync(new URL(`../golden/tiny-rl.${run}.json`, import.meta.url), 'utf8')) as {
      file: string;
      step: number;
      metrics: Record<string, number>;
    }[];
    const { reports, failures } = await collect(join(exampleRuns, run), { profile: 'ragen' });
    expect(failures).toEqual([]);
    expect(reports.map(({ step }) => step)).toEqual(golden.map(({ step }) => step));
    for (const [at, { record }] of reports.entries()) {
      expect(record.file).toBe(join(exampleRuns, run, golden[at]?.file as string));
      expect(record.run).toBe(run);
      expect(record).not.toHaveProperty('absent');
      expect(record).not.toHaveProperty('notes');
      expectSameMetrics(numbersOf(record), golden[at]?.metrics as Record<string, number>);
    }
  });

  it('equal crossScoreMetrics under strict, step by step and bit for bit, however small the blocks', async () => {
    const run = join(exampleRuns, 'collapse');
    const { reports } = await collect(run, { blockBytes: 3 * 128 * 14 * 4 });
    const state = new RunningState();
    for (const name of (await readdir(run)).filter((file) => file.endsWith('.safetensors')).sort()) {
      const data = await readStepFile(join(run, name));
      if (data.scores.kind !== 'logprobs') throw new Error('expected token log-probs');
      for await (const { logprobs } of data.scores.blocks()) {
        const { lengths, group: groups, columnGroup: columnGroups, prompts: promptTokens } = data;
        const scores = { logprobs, lengths, groups, columnGroups, promptTokens };
        const wanted = await crossScoreMetrics(engine, scores, { state, step: data.step, permutations: 99 });
        const report = reports.shift();
        expect(report?.step).toBe(data.step);
        expect(report?.samples).toEqual([wanted]);
      }
    }
    expect(reports).toEqual([]);
  });
});

describe('order', () => {
  it('is by run, then step, whatever the names of the files; each run has averages of its own', async () => {
    const root = join(directory, 'order');
    for (const [run, file, step] of [
      ['b', 'x', 3],
      ['b', 'a', 10],
      ['b', 'z', 2],
      ['a', 'y', 7],
      ['a', 'w', 1],
    ] as const) {
      await putStep(join(root, run, `${file}.safetensors`), smallStep(step, step / 10));
    }
    const { reports } = await collect(root, { profile: 'ragen' });
    expect(reports.map(({ run, step }) => `${run}${step}`)).toEqual(['a1', 'a7', 'b2', 'b3', 'b10']);
    const [a1, a7, b2] = reports.map(({ record }) => record) as [
      StepReport['record'],
      StepReport['record'],
      StepReport['record'],
    ];
    const [std, ema] = [`${LABEL}/marginal_std`, `${LABEL}/marginal_std_ema`];
    expect(a1[ema]).toBe(a1[std]);
    expect(a7[ema]).toBeCloseTo(0.9 * (a1[std] as number) + 0.1 * (a7[std] as number), 12);
    expect(b2[ema]).toBe(b2[std]);
  });

  it('tells how far it is, failed files included', async () => {
    const root = join(directory, 'progress');
    await putStep(join(root, '1.safetensors'), smallStep(1));
    const broken = smallStep(2);
    broken.logprobs.data[elementOf(0, 0, 0)] = Number.NaN;
    await putStep(join(root, '2.safetensors'), broken);
    await putStep(join(root, '3.safetensors'), smallStep(3));
    const seen: string[] = [];
    const size = readFileSync(join(root, '1.safetensors')).length;
    await collect(root, {
      onProgress: ({ done, total, bytes, totalBytes }) =>
        seen.push(`${done}/${total} ${bytes / size}/${totalBytes / size}`),
    });
    expect(seen).toEqual(['1/3 1/3', '2/3 2/3', '3/3 3/3']);
  });
});

describe('scores that cannot be right', () => {
  it.each([Number.NaN, Number.POSITIVE_INFINITY])('%d within a row fails the file, naming where', async (value) => {
    const step = smallStep(1);
    step.logprobs.data[elementOf(2, 5, 1)] = value;
    const path = await putStep(join(directory, `bad${value}`, 'step.safetensors'), step);
    // Blocks of one prompt: the place must be that of the file, not of the block.
    const { reports, failures } = await collect(path, { blockBytes: 1 });
    expect(reports).toEqual([]);
    expect(failures).toHaveLength(1);
    const [failure] = failures as [FileError];
    expect(failure).toBeInstanceOf(FileError);
    expect(failure.path).toBe(path);
    expect(failure.tensor).toBe('cross_logprobs');
    expect(failure.message).toContain('prompt 2, row 5, token 1');
    expect((await readFile(path)).readFloatLE(failure.offset as number)).toBe(value);
  });

  it('past the length of a row is nobody’s affair', async () => {
    const step = smallStep(1);
    step.lengths[5] = 1;
    step.logprobs.data[elementOf(2, 5, 1)] = Number.NaN;
    const path = await putStep(join(directory, 'padding', 'step.safetensors'), step);
    const { reports, failures } = await collect(path);
    expect(failures).toEqual([]);
    expect(reports[0]?.samples[0]?.rows).toMatchObject({ used: 12, nonFinite: [] });
  });

  it('leaves placeholders out, or fails the file where asked to', async () => {
    const step = smallStep(1);
    const [prompts, , tokens] = step.logprobs.shape as [number, number, number];
    for (let p = 0; p < prompts; p++) for (let t = 0; t < tokens; t++) step.logprobs.data[elementOf(p, 5, t)] = 0;
    const path = await putStep(join(directory, 'placeholders', 'step.safetensors'), step);
    const { reports } = await collect(path);
    expect(reports[0]?.samples[0]?.rows).toMatchObject({ total: 12, used: 11, placeholders: [5] });
    const { failures } = await collect(path, { placeholders: 'error' });
    expect(failures).toMatchObject([{ code: 'ERR_FILE', path, tensor: 'cross_logprobs' }]);
    expect(failures[0]?.message).toMatch(/score of row 5 is 0 under every prompt.*--placeholders exclude/);
    expect((await collect(path, { placeholders: 'error', profile: 'ragen' })).failures).toEqual([]);
    const whole = smallStep(2);
    whole.logprobs.data.fill(0);
    const empty = await collect(await putStep(join(directory, 'zeros', 'step.safetensors'), whole));
    expect(empty.failures).toEqual([]);
    expect(empty.reports[0]?.record.notes?.join()).toMatch(/every row has the same score under every prompt/);
  });

  it('leaves the row out where asked to, counted and named', async () => {
    const step = smallStep(1);
    step.logprobs.data[elementOf(2, 5, 1)] = Number.NaN;
    const path = await putStep(join(directory, 'exclude', 'step.safetensors'), step);
    const { reports, failures } = await collect(path, { nonFinite: 'exclude' });
    expect(failures).toEqual([]);
    expect(reports[0]?.samples[0]?.rows).toMatchObject({ total: 12, used: 11, nonFinite: [5] });
    expect(reports[0]?.record.notes?.join()).toContain('row 5');
    expect(numbersOf(reports[0]?.record as StepReport['record'])[`${LABEL}/mi_seq_estimate`]).toBeGreaterThan(0);
  });

  it('propagates under ragen, and is null in the record', async () => {
    const step = smallStep(1);
    step.logprobs.data[elementOf(2, 5, 1)] = Number.NaN;
    const path = await putStep(join(directory, 'propagate', 'step.safetensors'), step);
    const { reports, failures } = await collect(path, { profile: 'ragen' });
    expect(failures).toEqual([]);
    expect(reports[0]?.record[`${LABEL}/mi_seq_estimate`]).toBeNull();
    expect(reports[0]?.samples[0]?.values.mi_seq_estimate).toBeNaN();
  });

  it('in sums is treated alike; minus infinity only leaves out its row', async () => {
    const sums = Float64Array.from({ length: 12 * 4 }, (_, at) => -3 - (at % 7) / 4);
    const { logprobs, ...step } = smallStep(1);
    const write = (name: string) =>
      putStep(join(directory, 'sums', name), { ...step, sums: { data: sums, dtype: 'float64', shape: [12, 4] } });
    const good = await write('good.safetensors');
    sums[3 * 4 + 1] = Number.NEGATIVE_INFINITY;
    sums[3 * 4 + 3] = Number.NEGATIVE_INFINITY;
    const infinite = await write('infinite.safetensors');
    sums[7 * 4 + 2] = Number.NaN;
    const bad = await write('bad.safetensors');
    const { reports, failures } = await collect([good, infinite, bad]);
    expect(reports.map(({ file }) => file)).toEqual([good, infinite]);
    expect(reports[1]?.samples[0]?.rows.nonFinite).toEqual([3]);
    const [failure] = failures as [FileError];
    expect(failure).toMatchObject({ path: bad, tensor: 'cross_logprob_sums' });
    expect((await readFile(bad)).readDoubleLE(failure.offset as number)).toBeNaN();
    expect(failure.message).toContain('row 7 under prompt 2');
  });

  it('in sums fails the file whether or not a sampler draws the row, and however few the prompts; a row without reasoning may hold it', async () => {
    const { logprobs, group, ...step } = smallStep(1);
    const sums = Float64Array.from({ length: 12 * 4 }, (_, at) => -3 - (at % 7) / 4);
    sums[7 * 4 + 2] = Number.NaN;
    const rows = Array.from({ length: 12 }, (_, row) => row);
    // Rows 4 to 7 are second turns.
    const episode = Int32Array.from(rows, (row) => (row < 8 ? row % 4 : row));
    const turn = Int32Array.from(rows, (row) => (row >= 4 && row < 8 ? 1 : 0));
    const write = (name: string, prompts: number, last = 3) =>
      putStep(join(directory, 'unused', name), {
        ...step,
        episode,
        turn,
        group: prompts === 1 ? new Int32Array(12) : group,
        lengths: Int32Array.from(rows, (row) => (row === 7 ? last : 3)),
        sums: {
          data: prompts === 1 ? sums.filter((_, at) => at % 4 === 2) : sums,
          dtype: 'float64',
          shape: [12, prompts],
        },
      });
    const several = await write('several.safetensors', 4);
    const one = await write('one.safetensors', 1);
    const silent = await write('silent.safetensors', 4, 0);
    for (const seed of [0, 1, 2, 3]) {
      const { reports, failures } = await collect([several, one, silent], { seed, samples: 2, permutations: 0 });
      expect(reports.map(({ file }) => file)).toEqual([silent]);
      const messages = failures.map(({ message }) => message).sort();
      expect(messages).toEqual([
        expect.stringContaining('row 7 under prompt 0 is NaN'),
        expect.stringContaining('row 7 under prompt 2 is NaN'),
      ]);
    }
  });

  it('does not touch the averages of the run', async () => {
    const root = join(directory, 'averages');
    const bad = smallStep(2, 0.9);
    bad.logprobs.data.fill(-0.1);
    bad.logprobs.data[0] = Number.NaN;
    await putStep(join(root, 'with', '1.safetensors'), smallStep(1));
    await putStep(join(root, 'with', '2.safetensors'), bad);
    await putStep(join(root, 'with', '3.safetensors'), smallStep(3));
    await putStep(join(root, 'without', '1.safetensors'), smallStep(1));
    await putStep(join(root, 'without', '3.safetensors'), smallStep(3));
    const { reports, failures } = await collect(root);
    expect(failures).toHaveLength(1);
    const last = reports.filter(({ step }) => step === 3).map(({ samples }) => samples[0]?.values);
    expect(last[0]).toEqual(last[1]);
  });
});

describe('files that cannot be used', () => {
  it('are told one by one while the others are reported', async () => {
    const root = join(directory, 'mixed');
    await putStep(join(root, '1.safetensors'), smallStep(1));
    writeFileSync(join(root, '2.safetensors'), readFileSync(join(root, '1.safetensors')).subarray(0, 700));
    writeFileSync(join(root, '3.safetensors'), 'no step file');
    await putStep(join(root, '4.safetensors'), smallStep(4));
    const { reports, failures } = await collect([root, join(directory, 'missing')]);
    expect(reports.map(({ step }) => step)).toEqual([1, 4]);
    expect(failures.map(({ path }) => path).sort()).toEqual(
      [join(directory, 'missing'), join(root, '2.safetensors'), join(root, '3.safetensors')].sort(),
    );
  });

  it('end the iteration where nobody takes failures', async () => {
    const root = join(directory, 'mixed');
    await expect(collect(root, { onFailure: undefined })).rejects.toBeInstanceOf(FileError);
  });
});

describe('samples', () => {
  it('are given each under its own label where rows are turns of trajectories', async () => {
    const turns = Array.from({ length: 12 }, (_, row) => row);
    const step = {
      ...smallStep(1),
      // Six trajectories of two turns.
      episode: Int32Array.from(turns, (row) => row >> 1),
      turn: Int32Array.from(turns, (row) => row & 1),
    };
    const path = await putStep(join(directory, 'turns', 'step.safetensors'), step);
    const { reports, failures } = await collect(path, { samples: 10, seed: 5 });
    expect(failures).toEqual([]);
    const [report] = reports as [StepReport];
    expect(report.samples.map(({ label }) => label)).toEqual([
      'collapse_first_turn_sample',
      'collapse_trajectory_sample',
      'collapse_turn_sample',
    ]);
    expect(report.samples.map(({ rows }) => rows.used)).toEqual([6, 10, 10]);
    const again = await collect(path, { samples: 10, seed: 5 });
    expect(again.reports[0]?.record).toEqual(report.record);
    expect(report.record['collapse_trajectory_sample/mi_seq_estimate']).toBeTypeOf('number');
    expect(report.record['collapse/first_turn_num_total']).toBe(6);
  });

  it('that cannot give a metric say why', async () => {
    const { logprobs, ...step } = smallStep(1);
    const path = await putStep(join(directory, 'one-prompt', 'step.safetensors'), {
      ...step,
      group: new Int32Array(12),
      logprobs: { data: logprobs.data.subarray(0, 36), dtype: 'float32', shape: [1, 12, 3] },
    });
    const strict = await collect(path);
    expect(strict.reports[0]?.record.absent?.[`${LABEL}/mi_seq_estimate`]).toMatch(/2 prompts/);
    expect(strict.reports[0]?.record).not.toHaveProperty([`${LABEL}/mi_seq_estimate`]);
    const ragen = await collect(path, { profile: 'ragen' });
    expect(ragen.reports[0]?.record).not.toHaveProperty('absent');
  });
});

describe('the keys that can be chosen', () => {
  it.each(['strict', 'ragen'] as const)('are known before anything is read: %s', async (profile) => {
    const [turns, tiny] = [
      join(directory, 'turns', 'step.safetensors'),
      join(directory, 'one-prompt', 'step.safetensors'),
    ];
    const texts = putLogs(join(directory, `texts-${profile}`), {
      'x.jsonl': Array.from({ length: 36 }, (_, row) => ({
        step: 1,
        group: row % 18,
        tokens: [row % 18, 3, 4, 5, 6, row],
        logprobs: [-1, -1, -1, -1, -1, -1],
        entropy: 1,
        truncated: row === 0,
        reward: row % 2,
        environment: `env/${row % 2}`,
      })),
    });
    const named = await putStep(join(directory, 'named', 'step.safetensors'), {
      ...smallStep(1),
      environments: Array.from({ length: 12 }, (_, row) => (row % 4 < 2 ? 'a' : 'b')),
    });
    const { reports } = await collect([exampleRuns, turns, tiny, named, ...(profile === 'strict' ? [texts] : [])], {
      profile,
      permutations: 19,
    });
    const parts = new Set(['file', 'step', 'run', 'absent', 'notes']);
    const logged = new Set<string>();
    for (const { record } of reports) {
      for (const key of [...Object.keys(allFigures(record)), ...Object.keys(record.absent ?? {})]) {
        if (!parts.has(key)) logged.add(key);
      }
    }
    const possible = possibleKeys(profile);
    const ofWhole = (key: string) => key.replace(/^environment\/[^/]+\//, '');
    expect([...logged].filter((key) => !possible.includes(ofWhole(key)))).toEqual([]);
    expect(logged.has('environment/env%2F1/text/mi_bound')).toBe(profile === 'strict');
    // Together these steps have all names there are, though not of every sample.
    const unprefixed = (key: string) => key.replace(/^.*\//, '').replace(/^(mi_seq_at_)\d+/, '$1<k>');
    const names = (keys: Iterable<string>) => [...new Set([...keys].map(unprefixed))].sort();
    expect(names(logged)).toEqual(names(possible));
  });
});

describe('ending', () => {
  it('early takes nothing from the engine', async () => {
    for await (const report of analyze(exampleRuns, { engine })) {
      expect(report.step).toBe(1);
      break;
    }
    expect((await collect(join(exampleRuns, 'healthy'))).reports).toHaveLength(51);
  });

  it('by abort rejects with the reason', async () => {
    const controller = new AbortController();
    const reason = new Error('enough');
    const reading = async () => {
      for await (const { step } of analyze(exampleRuns, { engine, signal: controller.signal })) {
        if (step === 8) controller.abort(reason);
      }
    };
    await expect(reading()).rejects.toBe(reason);
    const late = analyze(exampleRuns, { engine, signal: controller.signal }).next();
    await expect(late).rejects.toBe(reason);
  });

  it('by abort gives none of what was measured ahead, not even where that is all there is', async () => {
    const controller = new AbortController();
    const reports = analyze(join(exampleRuns, 'healthy', 'step_0000*'), {
      engine,
      profile: 'ragen',
      signal: controller.signal,
    });
    expect((await reports.next()).value?.step).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 100)); // the two others are measured meanwhile
    controller.abort(new Error('enough'));
    await expect(reports.next()).rejects.toThrow('enough');
    expect(await reports.next()).toEqual({ done: true, value: undefined });
  });

  it.each([
    new FileError({ path: 'elsewhere' }, 'the disk is full'),
    new ArgumentError('theirs', 'is wrong'),
    new RangeError('too long'),
  ])('blames no step when aborted, whatever the reason: %s', async (reason) => {
    const controller = new AbortController();
    const failures: FileError[] = [];
    const onFailure = (failure: FileError) => failures.push(failure);
    const reading = async () => {
      for await (const { step } of analyze(exampleRuns, { engine, signal: controller.signal, onFailure })) {
        if (step === 8) controller.abort(reason);
      }
    };
    await expect(reading()).rejects.toBe(reason);
    expect(failures).toEqual([]);
  });

  it('opens and disposes an engine of its own where none is given', async () => {
    const reports = [];
    for await (const report of analyze(join(exampleRuns, 'healthy', 'step_00001.safetensors'), { threads: 1 })) {
      reports.push(report);
    }
    expect(reports).toHaveLength(1);
  });

  it.each([
    [{ profile: 'lenient' }, 'options.profile'],
    [{ nonFinite: 'ignore' }, 'options.nonFinite'],
    [{ placeholders: 'ignore' }, 'options.placeholders'],
    [{ permutations: -1 }, 'options.permutations'],
    [{ seed: 0.5 }, 'options.seed'],
    [{ samples: 0 }, 'options.samples'],
    [{ threads: 0 }, 'options.threads'],
    [{ metrics: 'mi_estimate' }, 'options.metrics'],
    [{ metrics: [1] }, 'options.metrics'],
    [{ signal: 3 }, 'options.signal'],
    [{ onProgress: 3 }, 'options.onProgress'],
    [{ onFailure: {} }, 'options.onFailure'],
    [{ engine: {} }, 'options.engine'],
    [{ journal: 'results' }, 'options.journal'],
    [null, 'options'],
    [7, 'options'],
  ])('comes at once with %j', async (options, argument) => {
    const started = analyze(exampleRuns, options as AnalyzeOptions).next();
    await expect(started).rejects.toBeInstanceOf(ArgumentError);
    await expect(started).rejects.toMatchObject({ argument });
  });

  it('comes at once without a path', async () => {
    await expect(analyze([]).next()).rejects.toBeInstanceOf(ArgumentError);
  });

  it.each<[unknown, string, string]>([
    [5, 'source', 'got 5, expected paths'],
    [null, 'source', 'got null, expected paths'],
    [undefined, 'source', 'got undefined, expected paths'],
    [{}, 'source', 'got a value of type Object, expected paths'],
    [[smallStep(1)], 'source[0]', 'ReadableStream.from(steps)'],
    [['run', undefined], 'source[1]', 'got undefined, expected a path'],
    [new Set([smallStep(1)]), 'source', 'ReadableStream.from(steps)'],
  ])('at once for %j as the source', async (source, argument, problem) => {
    const started = analyze(source as StepSource).next();
    await expect(started).rejects.toBeInstanceOf(ArgumentError);
    await expect(started).rejects.toMatchObject({ argument, message: expect.stringContaining(problem) });
  });
});

describe('MetricChoice', () => {
  const keys = [
    'collapse_turn_sample/mi_estimate',
    'collapse_turn_sample/retrieval_accuracy@2',
    'collapse/first_turn_num_total',
  ];
  it.each([
    [['collapse_turn_sample/mi_estimate'], [0]],
    [['mi_estimate'], [0]],
    [['mi'], []],
    [['*_turn_*'], [0, 1, 2]],
    [
      ['retrieval_accuracy@?', 'first_turn_*'],
      [1, 2],
    ],
    [['mi.estimate', 'mi+'], []],
    [undefined, [0, 1, 2]],
  ])('chooses by %j', (patterns, chosen) => {
    const choice = new MetricChoice(patterns);
    expect(keys.filter((key) => choice.has(key))).toEqual(chosen.map((at) => keys[at]));
  });

  it('knows which patterns named nothing', () => {
    const choice = new MetricChoice(['mi_*', 'entropy']);
    for (const key of keys) choice.has(key);
    expect(choice.unmatched).toEqual(['entropy']);
    expect(choice.namesSeen).toEqual(['first_turn_num_total', 'mi_estimate', 'retrieval_accuracy@2']);
  });
});

describe('mapAhead', () => {
  const later = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

  it('keeps the order and works on no more than it may', async () => {
    let working = 0;
    let most = 0;
    const work = async (item: number) => {
      most = Math.max(most, ++working);
      await later(item % 2 === 0 ? 8 : 1);
      working--;
      return item * 10;
    };
    const results = [];
    for await (const result of mapAhead([...Array(9).keys()], 2, work, () => {})) results.push(result);
    expect(results).toEqual([0, 10, 20, 30, 40, 50, 60, 70, 80]);
    expect(most).toBe(3);
  });

  it('stops the rest at the first failure, and waits for it', async () => {
    let ended = 0;
    let stopped = false;
    const work = async (item: number) => {
      if (item === 1) throw new Error('one');
      await later(10);
      ended++;
      return item;
    };
    const reading = async () => {
      for await (const _ of mapAhead([0, 1, 2, 3, 4, 5, 6, 7], 3, work, () => {
        stopped = true;
      }));
    };
    await expect(reading()).rejects.toThrow('one');
    expect(stopped).toBe(true);
    // 0 and those that were under way beside it.
    expect(ended).toBe(4);
  });
});

describe('Run', () => {
  it('gives steps that were measured in any order what one analysis gives them', async () => {
    const root = join(exampleRuns, 'collapse');
    const { reports } = await collect(root);
    const steps = await listSteps(root);
    const options = measureOptions({ permutations: 99 });
    const { signal } = new AbortController();
    const measured = new Map<string, StepMeasurement>();
    for (const { file } of [...steps].reverse()) {
      measured.set(file, await measureStepFile(engine, file, options, 1, signal));
    }
    const replay = new Run('collapse', root, startRun({ seed: 0 }, resolveEarlyStop(false)));
    for (const [at, { file, step }] of steps.entries()) {
      const { samples, judgement } = replay.take({ step, file, bytes: 0 }, measured.get(file) as StepMeasurement);
      expect(samples[0]?.logged).toEqual(reports[at]?.samples[0]?.logged);
      expect(judgement).toEqual(reports[at]?.judgement);
    }
    expect(replay.summary?.()).toEqual(reports.at(-1)?.summary?.());
  });
});

describe('verdicts and the filter’s view', () => {
  it('are in every report of a run with rewards, and the run has a summary', async () => {
    const { reports } = await collect(join(exampleRuns, 'collapse'));
    for (const { record, judgement, filter } of reports) {
      expect(record.regime).toEqual({
        name: judgement?.regime.regime,
        since: judgement?.regime.since,
        sentence: judgement?.regime.sentence,
        ...(judgement?.regime.regime && {
          mi: { value: judgement.regime.mi?.value, start: judgement.regime.mi?.start },
          entropy: { value: judgement.regime.entropy?.value, start: judgement.regime.entropy?.start },
        }),
      });
      expect(record.verdicts ?? []).toEqual(judgement?.verdicts);
      expect(record.filter?.kept).toEqual(filter?.kept);
      const dropped = Object.values(record.filter?.dropped ?? {}).reduce((total, count) => total + count, 0);
      expect((filter?.kept.length ?? 0) + dropped).toBe(16);
      expect(record['rollout/filter_kept_count']).toBe(filter?.kept.length);
    }
    const summary = reports.at(-1)?.summary?.();
    expect(summary).toMatchObject({ firstStep: 1, lastStep: 200, steps: 51, regime: { name: 'template_collapse' } });
    expect(summary?.correlations.figures.map(({ figure }) => figure)).toContain('mi_seq_estimate');
  });

  it('use what the file has: outcomes, actions, swapped reasonings, ablated scores', async () => {
    const [rows, tokens] = [12, 3];
    const path = await putStep(join(directory, 'chain', 'step.safetensors'), {
      ...smallStep(1),
      rewards: Float32Array.from({ length: rows }, (_, row) => row % 3),
      correct: Uint8Array.from({ length: rows }, (_, row) => (row % 3 === 2 ? 1 : 0)),
      actions: Int32Array.from({ length: rows }, (_, row) => row % 2),
      actionLogprobs: { data: new Float32Array(rows * rows).fill(-1), dtype: 'float32', shape: [rows, rows] },
      ablatedLogprobs: { data: new Float32Array(rows * tokens).fill(-2), dtype: 'float32', shape: [rows, tokens] },
    });
    const { reports, failures } = await collect(path);
    expect(failures).toEqual([]);
    const { judgement } = reports[0] as StepReport;
    expect(judgement?.reasoningInformation?.estimate).toBeCloseTo(0, 12);
    expect(judgement?.actionInformation?.estimate).toBeTypeOf('number');
    expect(judgement?.grounding?.rows).toBe(rows);
    expect(judgement?.specificity?.rows).toBe(rows);
    expect(judgement?.triage).toHaveLength(4);
  });

  it('filter by the outcome where a file has one, else by what was correct, as collapsar filter does', async () => {
    const each = (of: (row: number) => number) => Float32Array.from({ length: 12 }, (_, row) => of(row));
    const columns = { rewards: each((row) => row % 3), correct: new Uint8Array(12) };
    const shapingOnly = async (name: string, step: Partial<StepToWrite>) => {
      const path = await putStep(join(directory, name, 'step.safetensors'), { ...smallStep(1), ...columns, ...step });
      return (await collect(path)).reports[0]?.record['rollout/filter_shaping_only_count'];
    };
    // No row is correct, so that rewards vary by shaping alone; by their outcomes they do not.
    expect(await shapingOnly('correct', {})).toBe(4);
    expect(await shapingOnly('outcome', { outcome: each((row) => (row % 3 === 2 ? 1 : 0)) })).toBe(0);
  });

  it('go without a column that does not fit, and say so', async () => {
    const rows = 12;
    const path = await putStep(join(directory, 'unfit', 'step.safetensors'), {
      ...smallStep(1),
      turn: new Int32Array(rows),
      actionLogprobs: { data: new Float32Array(5 * rows).fill(-1), dtype: 'float32', shape: [5, rows] },
    });
    const { reports, failures } = await collect(path);
    expect(failures).toEqual([]);
    expect(reports[0]?.judgement).toBeDefined();
    expect(reports[0]?.record.notes?.filter((note) => note.startsWith('left out'))).toEqual([
      expect.stringMatching(/^left out of the verdicts: turn: turns mean nothing without the episode/),
      expect.stringMatching(/^left out of the verdicts: action_logprobs: 5 reasonings are neither one a row \(12\)/),
    ]);
  });

  it('that cannot be given are told in the notes, and the file counts as analysed', async () => {
    const root = join(directory, 'twice');
    await putStep(join(root, 'a.safetensors'), smallStep(1));
    await putStep(join(root, 'b.safetensors'), smallStep(1));
    const { reports, failures } = await collect(root);
    expect(failures).toEqual([]);
    expect(reports[0]?.judgement).toBeDefined();
    expect(reports[1]?.judgement).toBeUndefined();
    const [one, other] = ['a', 'b'].map((name) => join(root, `${name}.safetensors`));
    expect(reports[1]?.record.notes).toContain(
      `step 1 of run twice comes from ${one} and from ${other}: it has no verdicts, and the moving averages ` +
        '(*_ema_by_step) take it for the step after; remove one of the two, or give it its own number',
    );
    expect(reports[0]?.record).not.toHaveProperty('filter');
  });

  it('are not given under ragen', async () => {
    const { reports } = await collect(join(exampleRuns, 'healthy'), { profile: 'ragen' });
    for (const { record, judgement, filter, summary } of reports) {
      expect({ judgement, filter, summary }).toEqual({});
      for (const key of ['regime', 'verdicts', 'filter', 'rollout/filter_kept_count']) {
        expect(record).not.toHaveProperty([key]);
      }
    }
  });
});
