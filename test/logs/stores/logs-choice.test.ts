// Which files of a run's folder are steps: what trainers keep beside them is left out with a note, damaged steps are
// not, and globs choose.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { measureShard } from '../../../src/analysis/store/shard.js';
import { findSteps, listSteps } from '../../../src/exports/logs.js';
import { analyze, FileError } from '../../../src/index.js';
import { FileChoice } from '../../../src/logs/stores/file-choice.js';
import { patternExpression } from '../../../src/logs/stores/glob-pattern.js';
import { collapsar } from '../../cli/cli-streams.js';
import { fileOf, smallStep } from '../../support/logs-files.js';
import { npyDict, npyOf, zipOf } from '../../support/numpy-files.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';

const directory = temporaryDirectory();

const step = (number: number): Buffer => fileOf(smallStep(), { step: String(number) });
const weights = fileOf({ 'lm_head.weight': { dtype: 'F32', shape: [2], data: new Float32Array(2) } }, { format: 'pt' });
const npz = (arrays: Record<string, Buffer>): Buffer => zipOf(arrays);
const randomState = npz({
  'keys.npy': npyOf(npyDict('<u4', [624]), Buffer.alloc(4 * 624)),
  'position.npy': npyOf(npyDict('<i8', []), Buffer.alloc(8)),
});
/** Of a step that was cut off, or whose scores were not written. */
const withoutScores = fileOf({ rewards: { dtype: 'F32', shape: [2], data: new Float32Array(2) } }, {});
const onlyNumber = fileOf({ weight: { dtype: 'F32', shape: [2], data: new Float32Array(2) } }, { step: '7' });

let folders = 0;
function folder(files: Record<string, Uint8Array | string>): string {
  const root = join(directory, `run_${folders++}`);
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), content);
  }
  return root;
}

async function listed(source: string | string[], options: { include?: string[]; exclude?: string[] } = {}) {
  const found = { steps: [] as string[], skipped: [] as FileError[], failed: [] as FileError[] };
  const steps = await listSteps(source, {
    ...options,
    onError: (error) => found.failed.push(error),
    onSkipped: (file) => found.skipped.push(file),
  });
  for (const { file } of steps) found.steps.push(file);
  const names = (paths: string[]) => paths.map((path) => path.split('/').at(-1));
  return {
    ...found,
    names: {
      steps: names(found.steps),
      skipped: names(found.skipped.map(({ path }) => path)),
      failed: names(found.failed.map(({ path }) => path)),
    },
  };
}

/** As a trainer leaves it. */
const usual = {
  'step_1.safetensors': step(1),
  'step_2.safetensors': step(2),
  'model.safetensors': weights,
  'rng_state_0.npz': randomState,
  'optimizer.pt': 'PK',
  'trainer_state.json': '{}',
  'checkpoint-500/model-00001-of-00002.safetensors': weights,
};

describe('files that are no steps beside step files', () => {
  it('are left out, and named with the reason', async () => {
    const { names, skipped } = await listed(folder(usual));
    expect(names).toEqual({
      steps: ['step_1.safetensors', 'step_2.safetensors'],
      skipped: ['model.safetensors', 'rng_state_0.npz', 'model-00001-of-00002.safetensors'],
      failed: [],
    });
    expect(skipped.map(({ message }) => message)).toEqual([
      expect.stringContaining('there are lm_head.weight'),
      expect.stringContaining('there are keys.npy, position.npy'),
      expect.stringContaining('there are lm_head.weight'),
    ]);
    expect(skipped.every((file) => file instanceof FileError)).toBe(true);
  });

  it('are one note of the commands, not failures', async () => {
    const root = folder(usual);
    const { status, out, err } = await collapsar(['analyze', root, '--jsonl', '--permutations', '0']);
    expect([status, out.trim().split('\n').length]).toEqual([0, 2]);
    const note = err.replace(/\s+/g, ' ').trim();
    expect(note).toContain(
      "note: 3 files found beside step files were left out: they have neither a step's tensors nor the number of a step: ",
    );
    for (const name of ['model.safetensors', 'rng_state_0.npz', 'model-00001-of-00002.safetensors'])
      expect(note).toContain(name);
    const shard = ['--shard', '0/1', '--out', join(directory, 'shards'), '--permutations', '0'];
    const measured = await collapsar(['analyze', root, ...shard]);
    expect(measured).toMatchObject({ status: 0, out: expect.stringContaining(': 2 steps\n') });
    expect(measured.err).toContain('note: 3 files found beside step files');
  });

  it('are told of by analyze and by a shard', async () => {
    const root = folder(usual);
    const skipped: string[] = [];
    const onSkipped = ({ path }: FileError) => skipped.push(path);
    const reports = [];
    for await (const report of analyze(root, { permutations: 0, onSkipped })) reports.push(report.step);
    expect([reports, skipped.length]).toEqual([[1, 2], 3]);
    const shard = { index: 0, count: 1 };
    const measured = await measureShard(root, { permutations: 0, shard, out: join(directory, 'other'), onSkipped });
    expect([measured.steps, measured.failures, skipped.length]).toEqual([2, 0, 6]);
  });

  it('named by themselves are errors, also where a folder has them too', async () => {
    const root = folder(usual);
    const path = join(root, 'model.safetensors');
    for (const source of [
      [path, root],
      [root, path],
    ]) {
      const { names } = await listed(source);
      expect([names.failed, names.skipped.length]).toEqual([['model.safetensors'], 2]);
    }
    const { status, err } = await collapsar(['analyze', root, path, '--jsonl']);
    expect([status, err]).toEqual([1, expect.stringContaining('1 file or path could not be used')]);
    // What a glob finds is found, not named.
    expect((await listed(join(root, '*.safetensors'))).names.skipped).toEqual(['model.safetensors']);
  });

  it('among no step at all are what the user has to hear of', async () => {
    const { names } = await listed(folder({ 'model.safetensors': weights, 'rng_state.npz': randomState }));
    expect(names).toEqual({ steps: [], skipped: [], failed: ['model.safetensors', 'rng_state.npz'] });
  });
});

describe('a damaged step', () => {
  it.each([
    ['cut off', step(3).subarray(0, 200)],
    ['empty', Buffer.alloc(0)],
    ['without scores', withoutScores],
    ['without anything but its number', onlyNumber],
    ['with nothing in it but the name of its siblings', weights],
  ])('is a failure: %s', async (_, content) => {
    const root = folder({ 'step_1.safetensors': step(1), 'step_03.safetensors': content });
    expect((await listed(root)).names).toEqual({
      steps: ['step_1.safetensors'],
      skipped: [],
      failed: ['step_03.safetensors'],
    });
  });

  it.each([
    [
      'without a member that is a tensor of scores',
      npz({ 'rewards.npy': npyOf(npyDict('<f4', [2]), Buffer.alloc(8)) }),
    ],
    ['with a number alone', npz({ 'step.npy': npyOf(npyDict('<i8', []), Buffer.alloc(8)) })],
    ['cut off', randomState.subarray(0, -4)],
  ])('is a failure as .npz, whatever its name: %s', async (_, content) => {
    const root = folder({ 'step_1.safetensors': step(1), 'state.npz': content });
    expect((await listed(root)).names).toMatchObject({ skipped: [], failed: ['state.npz'] });
  });
});

describe('--include and --exclude', () => {
  const tree = () =>
    folder({
      'a/step_1.safetensors': step(1),
      'a/step_2.safetensors': step(2),
      'a/old/step_3.safetensors': step(3),
      'b/step_4.safetensors': step(4),
      'b/broken.safetensors': 'no step',
    });

  it.each([
    [{ exclude: ['broken*'] }, [1, 2, 3, 4]],
    [{ include: ['step_[13].*'] }, [1, 3]],
    [{ include: ['step_*'], exclude: ['old'] }, [1, 2, 4]],
    [{ exclude: ['a/**', 'broken.safetensors'] }, [4]],
    [{ exclude: ['a/old/', 'b'] }, [1, 2]],
    [{ include: ['{a,b}/step_{1,4}.safetensors'] }, [1, 4]],
    [{ include: ['**/old/*'] }, [3]],
    [{ include: ['old'] }, [3]],
  ])('choose among what a folder has: %j', async (options, steps) => {
    const { names, failed } = await listed(tree(), options);
    expect([names.steps, failed]).toEqual([steps.map((number) => `step_${number}.safetensors`), []]);
  });

  it('are options of analyze and of a shard, and say why nothing is left', async () => {
    const root = tree();
    const chosen = ['--include', 'step_*', '--exclude', 'old', '--exclude', 'b'];
    const { status, out } = await collapsar(['analyze', root, '--jsonl', ...chosen]);
    expect([
      status,
      out
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).step),
    ]).toEqual([0, [1, 2]]);
    const shard = ['--shard', '0/1', '--out', join(directory, 'chosen'), '--permutations', '0'];
    const measured = await collapsar(['analyze', root, ...shard, ...chosen]);
    expect(measured).toMatchObject({ status: 0, out: expect.stringContaining(': 2 steps\n') });
    const none = await collapsar(['analyze', root, '--include', 'nothing*']);
    expect([none.status, none.err.replace(/\s+/g, ' ')]).toEqual([
      1,
      expect.stringContaining('that include lets through'),
    ]);
    expect((await collapsar(['analyze', root, '--include', ''])).status).toBe(2);
  });

  it('leave files that are named by themselves alone, but not those of globs', async () => {
    const root = tree();
    const path = join(root, 'a/step_1.safetensors');
    expect((await listed(path, { exclude: ['*'] })).steps).toEqual([path]);
    expect((await listed(join(root, 'a/*.safetensors'), { exclude: ['step_2*'] })).names.steps).toEqual([
      'step_1.safetensors',
    ]);
    await expect(findSteps(root, { include: 'step_*' as never })).rejects.toThrow('options.include: got "step_*"');
    await expect(findSteps(root, { exclude: [''] })).rejects.toThrow('options.exclude[0]: got "", expected a glob');
    await expect(findSteps(root, { include: [7 as never] })).rejects.toThrow(
      'options.include[0]: got 7, expected a glob',
    );
  });

  it('a glob that is none matches nothing', () => {
    expect(patternExpression('[z-a]').test('z')).toBe(false);
    expect(new FileChoice({ include: ['[z-a]'] }).takes('z')).toBe(false);
    expect(FileChoice.ALL.takes('any/path')).toBe(true);
  });
});
