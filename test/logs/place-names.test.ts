// The one rule of places: what names of files and folders say of step, run, parts and splits.
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { placeByNames } from '../../src/logs/place-names.js';
import { listSteps, readSteps } from '../../src/logs/steps/read-steps.js';
import { fileOf, smallStep } from '../support/logs-files.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { putLogs, readAll } from './rollouts/rollout-logs.js';

const root = temporaryDirectory();
let count = 0;
const folder = (files: Parameters<typeof putLogs>[1]): string => putLogs(join(root, `logs${count++}`), files);

const runs = fc.array(fc.constantFrom('grpo', 'a.b', 'lr-1e-6', 'stepwise', 'ranking', 'evaluate_x', 'run7'), {
  minLength: 1,
  maxLength: 3,
});
const numbers = fc
  .tuple(fc.integer({ min: 0, max: 2 ** 40 }), fc.integer({ min: 0, max: 12 }))
  .map(([step, zeros]) => ({ step, digits: `${'0'.repeat(zeros)}${step}` }));
const signs = fc.constantFrom('_', '-', '.', '=', '');
const steps = fc
  .tuple(fc.constantFrom('step', 'global_step', 'Iteration', 'iter', 'checkpoint', 'STEP'), signs, numbers)
  .map(([word, sign, { step, digits }]) => ({ step, name: `${word}${sign}${digits}` }));
const parts = fc
  .tuple(fc.constantFrom('rank', 'shard', 'part', 'worker', 'Rank'), signs, fc.nat(99))
  .map(([word, sign, at]) => `${word}${sign}${at}`);
const splits = fc.constantFrom(
  ['train', undefined],
  ['eval', 'eval'],
  ['val', 'val'],
  ['validation', 'val'],
  ['test', 'test'],
  ['Test', 'test'],
) as fc.Arbitrary<[string, string | undefined]>;

describe('names of a file and its folders', () => {
  it('say step, run and split wherever they stand between the folder that was given and the file', () => {
    fc.assert(
      fc.property(
        runs,
        steps,
        fc.array(parts, { maxLength: 2 }),
        fc.option(splits, { nil: undefined }),
        fc.constantFrom('folder', 'file'),
        fc.nat(99),
        fc.constantFrom('/data/logs', 's3://bucket/logs'),
        (run, { step, name }, some, split, where, seed, given) => {
          // A step's folder stands below those of its run; parts and splits stand anywhere.
          const folders = [...run, ...(where === 'folder' ? [name] : [])];
          for (const [at, part] of some.entries()) folders.splice((seed * (at + 3)) % (folders.length + 1), 0, part);
          if (split !== undefined) folders.splice((seed * 7) % (folders.length + 1), 0, split[0]);
          const file = where === 'file' ? `rollouts_${name}.jsonl` : 'rollouts.jsonl.gz';
          const place = placeByNames([given, ...folders, file].join('/'), given);
          expect({ ...place, partOf: undefined }).toEqual({
            runDirectory: [given, ...run].join('/'),
            step,
            ...(split?.[1] !== undefined && { split: split[1] }),
            partOf: undefined,
          });
          expect(place.partOf === undefined).toBe(some.length === 0);
        },
      ),
      { numRuns: 2000 },
    );
  });

  it('above the folder that was given say nothing, and its own say something where no other folder follows', () => {
    fc.assert(
      fc.property(runs, steps, splits, steps, (run, above, [split, word], { step, name }) => {
        const given = ['', above.name, split, ...run].join('/');
        expect(placeByNames(`${given}/x.jsonl`, given)).toEqual({ runDirectory: given });
        const other = { runDirectory: given, step };
        expect(placeByNames(`${given}/${name}/x.jsonl`, `${given}/${name}`)).toEqual(other);
        expect(placeByNames(`${given}/${name}/x.jsonl`)).toEqual(other);
        expect(placeByNames(`${given}/${split}/x.jsonl`, `${given}/${split}`)).toEqual({
          runDirectory: given,
          ...(word !== undefined && { split: word }),
        });
        expect(placeByNames(`${given}/${split}/run/x.jsonl`, `${given}/${split}`)).toEqual({
          runDirectory: `${given}/${split}/run`,
        });
      }),
    );
  });

  it.each([
    ['r/checkpoint-100/step_5.jsonl', { runDirectory: '/g/r/checkpoint-100', step: 5 }],
    ['r/step_5/out_step_00005.jsonl', { runDirectory: '/g/r', step: 5 }],
    ['r/step_5/rollouts/all/x.jsonl', { runDirectory: '/g/r', step: 5 }],
    ['r/global_step_20_evals/x.jsonl', { runDirectory: '/g/r', step: 20, split: 'eval' }],
    ['math_step_5/x.jsonl', { runDirectory: '/g/math', step: 5 }],
    ['test/val/x.jsonl', { runDirectory: '/g/test', split: 'val' }],
    ['eval/train_x.jsonl', { runDirectory: '/g', split: 'eval' }],
    ['r/step_99999999999999999999/x.jsonl', { runDirectory: '/g/r/step_99999999999999999999' }],
    ['r/footstep_5/x.jsonl', { runDirectory: '/g/r/footstep_5' }],
    ['r/step_5b/x.jsonl', { runDirectory: '/g/r/step_5b' }],
    ['r/contest.jsonl', { runDirectory: '/g/r' }],
    ['r/train-00001-of-00004.parquet', { runDirectory: '/g/r', partOf: 'r/train-' }],
  ])('are read in %s', (path, expected) => {
    expect(placeByNames(`/g/${path}`, '/g')).toEqual(expected);
  });

  it('of the root of a disk and of a bucket are not left', () => {
    expect(placeByNames('/step_5/x.jsonl', '/')).toEqual({ runDirectory: '/', step: 5 });
    expect(placeByNames('s3://eval/x.jsonl', 's3://eval')).toEqual({ runDirectory: 's3://eval' });
  });
});

const rows = (of: number, more: object = {}) =>
  [0, 1, 2, 3].map((at) => ({ group: at >> 1, output: `a ${of} ${at}`, reward: at, ...more }));

describe('rollout logs by the names of their places', () => {
  const found = async (path: string | string[], options: object = {}) => {
    const { steps, errors, notes } = await readAll(path as string, options);
    expect(errors).toEqual([]);
    return { notes, steps: steps.map(({ run, step, rows: number }) => [run, step, number]) };
  };

  it('of ranks are parts of one step, whatever stands between them and the run, and where no step is said', async () => {
    const columns = { columns: { group: 'group', output: 'output', reward: 'reward' } };
    const path = folder({
      'r/rank_0/out/a.jsonl': rows(0),
      'r/rank_1/out/a.jsonl': rows(1),
      'q/x-rank0.jsonl': rows(2),
      'q/x-rank1.jsonl': rows(3),
      'q/y-rank0.jsonl': rows(4),
    });
    const { steps } = await found(path, columns);
    expect(steps).toEqual([
      ['q', 1, 8],
      ['q', 2, 4],
      ['out', 1, 8],
    ]);
  });

  it('of splits are never merged, also where rows name the run', async () => {
    const path = folder(
      Object.fromEntries(
        ['train', 'eval', 'val', 'test'].map((split, at) => [`${split}/a.jsonl`, rows(at, { step: 3, run: 'grpo' })]),
      ),
    );
    expect((await found(path)).steps.sort()).toEqual([
      ['grpo', 3, 4],
      ['grpo/eval', 3, 4],
      ['grpo/test', 3, 4],
      ['grpo/val', 3, 4],
    ]);
  });

  it('are found by a glob as they are in the folder that it begins with', async () => {
    const path = folder({ 'r/rank_0/step_4/a.jsonl': rows(0), 'r/rank_1/step_4/a.jsonl': rows(1) });
    expect((await found(path)).steps).toEqual([['r', 4, 8]]);
    expect((await found(join(path, '*/rank_*/step_*/*.jsonl'))).steps).toEqual([['r', 4, 8]]);
  });

  it('of a trainer keep its own layout, in runs, parts and splits by the rule', async () => {
    const line = (step: number) =>
      [0, 1].map((at) => ({ input: 'q', output: `x ${step} ${at}`, score: at, step, gts: '1' }));
    const path = folder({
      'v/rollout/3.jsonl': line(3),
      'v/val/3.jsonl': line(3),
      'w/rank_0/7.jsonl': line(7),
      'w/rank_1/7.jsonl': line(7).map((row) => ({ ...row, output: `${row.output} b` })),
    });
    expect((await found(path)).steps).toEqual([
      ['v/val', 3, 2],
      ['rollout', 3, 2],
      ['w', 7, 4],
    ]);
  });
});

describe('a file that its trainer named after a step', () => {
  const line = (step: number, at: number) => ({ input: 'q', output: `x ${step} ${at}`, score: at, step, gts: '1' });

  it('is of the steps that its rows say where none of the first says the name', async () => {
    const path = folder({
      '3.jsonl': [line(7, 0), line(7, 1), line(8, 0), line(8, 1)],
      '4.jsonl': [line(4, 0), line(5, 1)],
    });
    const { steps } = await readAll(path);
    expect(steps.map(({ step, rows: number }) => [step, number])).toEqual([
      [4, 2],
      [7, 2],
      [8, 2],
    ]);
    expect(steps.map(({ notes }) => notes.filter((note) => / (says?) /.test(note)).join())).toEqual([
      '1 row of step 4, as the path has it, say another step',
      'the path says step 3, rows say 7: what rows say counts',
      'the path says step 3, rows say 8: what rows say counts',
    ]);
  });
});

describe('step files by the names of their places', () => {
  const step = (number: number, run?: string) =>
    fileOf(smallStep(), { step: String(number), ...(run !== undefined && { run }) });

  it('in a folder a step are one run, and splits runs of their own', async () => {
    const path = folder({
      'r/step_1/scores.safetensors': step(1),
      'r/step_2/scores.safetensors': step(2),
      'r/eval/step_2/scores.safetensors': step(2),
      'named/train/1.safetensors': step(1, 'grpo'),
      'named/test/1.safetensors': step(1, 'grpo'),
    });
    const listed = await listSteps(path);
    expect(listed.map(({ run, step: number }) => [run, number])).toEqual([
      ['grpo', 1],
      ['grpo/test', 1],
      ['r', 1],
      ['r', 2],
      ['r/eval', 2],
    ]);
    expect(new Set(listed.map(({ runDirectory }) => runDirectory))).toEqual(
      new Set([join(path, 'named'), join(path, 'r')]),
    );
    const read = [];
    for await (const { run } of readSteps(path)) read.push(run);
    expect(read).toEqual(listed.map(({ run }) => run));
  });

  it('say their step themselves: a folder of another step is a run, and so is each part', async () => {
    const path = folder({
      'checkpoint-100/a.safetensors': step(5),
      'rank_0/a.safetensors': step(5),
      'rank_1/a.safetensors': step(5),
    });
    expect((await listSteps(path)).map(({ run, step: number }) => [run, number])).toEqual([
      ['checkpoint-100', 5],
      ['rank_0', 5],
      ['rank_1', 5],
    ]);
  });
});
