// Paths to files, and files to steps in order: what cannot be used is reported and never stops the others.
import { chmod, mkdir, readdir, rename, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FileError } from '../../src/checks/errors.js';
import { findSteps, listSteps, readSteps } from '../../src/logs/steps/read-steps.js';
import type { StepData } from '../../src/logs/steps/step-data.js';
import { readStepFile } from '../../src/logs/steps/step-file.js';
import { naturalOrder } from '../../src/logs/stores/natural-order.js';
import { fileErrorOf, fileOf, put, smallStep } from '../support/logs-files.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { canBeUnprivileged, withoutPrivileges } from '../support/unprivileged.js';

const folder = temporaryDirectory();

async function tree(name: string, files: Record<string, Uint8Array | string>): Promise<string> {
  const root = join(folder, name);
  for (const [file, content] of Object.entries(files)) {
    await mkdir(dirname(`${root}/${file}`), { recursive: true });
    await put(`${root}/${file}`, Buffer.from(content));
  }
  return root;
}

function stepBytes(step: number, run?: string): Buffer {
  return fileOf(smallStep(), run === undefined ? { step: String(step) } : { step: String(step), run });
}

async function collect(steps: AsyncIterable<StepData>): Promise<StepData[]> {
  const list = [];
  for await (const step of steps) list.push(step);
  return list;
}

describe('an address that no store opens', () => {
  it.each(['gs://bucket/run', 'https://host/run/*.safetensors', 'az://x'])(
    '%s: is told which there are',
    async (path) => {
      const { problems } = await findSteps([path]);
      expect(problems.map(({ message }) => message)).toEqual([
        expect.stringContaining('from local paths and from s3://'),
      ]);
      const { message } = await fileErrorOf(readStepFile(path));
      expect(message).toContain('from local paths and from s3://');
    },
  );
});

describe('findSteps', () => {
  it('searches directories, in natural order, by run', async () => {
    const root = await tree('a', {
      'r10/s_9.safetensors': '',
      'r10/s_10.safetensors': '',
      'r2/deep/s.safetensors': '',
      'r2/s_1.safetensors': '',
      'r2/notes.txt': '',
      'r2/.s.safetensors': '',
      'r2/.hidden/s.safetensors': '',
    });
    const { files, problems } = await findSteps([root, `${root}/./r2`]);
    expect(problems).toEqual([]);
    expect(files.map((file) => file.path.slice(root.length + 1))).toEqual([
      'r2/s_1.safetensors',
      'r2/deep/s.safetensors',
      'r10/s_9.safetensors',
      'r10/s_10.safetensors',
    ]);
    expect(files[0]?.runDirectory).toBe(`${root}/r2`);
  });

  it('takes a named file whatever its name, and each file once', async () => {
    const root = await tree('b', { 'x.bin': '', 's.safetensors': '' });
    await symlink(`${root}/s.safetensors`, `${root}/link.safetensors`);
    await symlink(root, `${root}/loop`);
    const paths = [`${root}/x.bin`, `${root}/s.safetensors`, `${root}/./s.safetensors`, root, `${root}/loop`];
    const { files, problems } = await findSteps(paths);
    expect(problems).toEqual([]);
    expect(files.map((file) => file.path)).toEqual([`${root}/s.safetensors`, `${root}/x.bin`]);
  });

  it('leaves a step in its run, wherever links to it are', async () => {
    const root = await tree('linked', { 'grpo/s_1.safetensors': '', 'grpo/s_2.safetensors': '', 'best/x.txt': '' });
    await mkdir(`${root}/outside`);
    await writeFile(`${root}/outside/s_9.safetensors`, '');
    await mkdir(`${root}/runs`);
    for (const name of ['best', 'grpo']) await rename(`${root}/${name}`, `${root}/runs/${name}`);
    await symlink('../grpo/s_2.safetensors', `${root}/runs/best/s_2.safetensors`);
    await symlink('../../outside/s_9.safetensors', `${root}/runs/best/s_9.safetensors`);
    for (const paths of [['runs/best', 'runs'], ['runs/*/s_*.safetensors'], ['runs/best/s_2.safetensors', 'runs']]) {
      const { files, problems } = await findSteps(paths.map((path) => `${root}/${path}`));
      expect(problems).toEqual([]);
      expect(files.map(({ path }) => path.slice(root.length + 1))).toEqual([
        'runs/best/s_9.safetensors',
        'runs/grpo/s_1.safetensors',
        'runs/grpo/s_2.safetensors',
      ]);
    }
    const { files } = await findSteps(`${root}/runs/best/s_2.safetensors`);
    expect(files.map(({ runDirectory }) => runDirectory)).toEqual([`${root}/runs/best`]);
  });

  it('matches globs, of files and of directories, but only what does not exist', async () => {
    const root = await tree('c', {
      'run1/s_1.safetensors': '',
      'run2/s_1.safetensors': '',
      'run2/s_2.safetensors': '',
      'other/s.safetensors': '',
      'README.md': '',
      '[x].safetensors': '',
    });
    const names = async (pattern: string) => {
      const { files, problems } = await findSteps([`${root}/${pattern}`]);
      expect(problems).toEqual([]);
      return files.map((file) => file.path.slice(root.length + 1));
    };
    expect(await names('run*')).toEqual(['run1/s_1.safetensors', 'run2/s_1.safetensors', 'run2/s_2.safetensors']);
    expect(await names('**/s_1.*')).toEqual(['run1/s_1.safetensors', 'run2/s_1.safetensors']);
    expect(await names('run{1,2}/*_2.safetensors')).toEqual(['run2/s_2.safetensors']);
    expect(await names('[x].safetensors')).toEqual(['[x].safetensors']);
    const nothing = await findSteps([`${root}/none*`, `${root}/*.md`]);
    expect(nothing.files).toEqual([]);
    expect(nothing.problems.map((problem) => problem.message)).toEqual([
      expect.stringContaining('matches no directory'),
      expect.stringContaining('matches no directory'),
    ]);
  });

  it('says that a path is empty', async () => {
    const { files, problems } = await findSteps('');
    expect(files).toEqual([]);
    expect(problems.map(({ message }) => message)).toEqual([
      '"": an empty path, as of a variable that is not set: name step files or folders',
    ]);
  });

  it('reports what is missing, empty, dangling or circular, beside what it finds', async () => {
    const root = await tree('d', {
      'good/s.safetensors': '',
      'empty/below/notes.txt': '',
      'empty2/notes.txt': '',
      'links/s_1.safetensors': '',
    });
    await symlink(`${root}/gone`, `${root}/links/s_2.safetensors`);
    await symlink(`${root}/gone`, `${root}/links/run`);
    await symlink(`${root}/gone`, `${root}/links/latest.log`);
    await symlink(`${root}/circle`, `${root}/circle`);
    const paths = [
      'none',
      'empty2',
      'empty',
      'good',
      'links',
      'links/run',
      'circle',
      'good/s.safetensors/x',
      'empty/below',
    ];
    const { files, problems } = await findSteps(paths.map((path) => `${root}/${path}`));
    expect(files.map((file) => file.path)).toEqual([`${root}/good/s.safetensors`, `${root}/links/s_1.safetensors`]);
    const told = problems.map((problem) => [
      problem.path.slice(root.length + 1),
      problem.message.slice(problem.path.length),
    ]);
    const dangling = expect.stringContaining(`a link to ${root}/gone, which is not there`);
    expect(told.sort()).toEqual([
      ['circle', expect.stringContaining('leads back to itself')],
      ['empty', expect.stringContaining('hold a *.safetensors file')],
      ['empty/below', expect.stringContaining('hold a *.safetensors file')],
      ['empty2', expect.stringContaining('hold a *.safetensors file')],
      ['good/s.safetensors/x', expect.stringContaining('is a file, not a directory')],
      ['links/run', dangling],
      ['links/run', dangling],
      ['links/s_2.safetensors', dangling],
      ['none', expect.stringContaining('no such file or directory')],
    ]);
    expect(problems.every((problem) => problem instanceof FileError)).toBe(true);
  });

  it.skipIf(process.platform !== 'linux')('a file whose name is not UTF-8 is told for what it is', async () => {
    const root = await tree('latin', { 'good.safetensors': '' });
    await writeFile(Buffer.from(`${root}/s\xe9ance.safetensors`, 'latin1'), '');
    const errors: FileError[] = [];
    await listSteps(root, { onError: (error) => errors.push(error) });
    expect(errors.map(({ message }) => message)).toContainEqual(
      expect.stringMatching(/ance\.safetensors: the name is not UTF-8, .*rename it \(ENOENT\)$/),
    );
  });

  it('a directory whose steps were found on another way is not empty', async () => {
    const root = await tree('e', { 'runs/s.safetensors': '', 'links/notes.txt': '' });
    await symlink(`${root}/runs`, `${root}/links/current`);
    const { files, problems } = await findSteps([`${root}/runs`, `${root}/links`, `${root}/links`]);
    expect(problems).toEqual([]);
    expect(files.map((file) => file.path)).toEqual([`${root}/runs/s.safetensors`]);
  });

  it.skipIf(!canBeUnprivileged)('reports a directory and a file without rights', async () => {
    const root = await tree('f', {
      'good/s.safetensors': stepBytes(1),
      'shut/s.safetensors': stepBytes(2),
      'good/shut.safetensors': stepBytes(3),
      'below/shut/s.safetensors': stepBytes(4),
    });
    const shut = ['shut', 'good/shut.safetensors', 'below/shut'];
    for (const name of shut) await chmod(`${root}/${name}`, 0o000);
    const errors: FileError[] = [];
    try {
      const onError = (error: FileError) => errors.push(error);
      const paths = [`${root}/good`, `${root}/shut`, `${root}/shut/s.safetensors`, `${root}/below`];
      const steps = await withoutPrivileges(() => collect(readSteps(paths, { onError })));
      expect(steps.map((step) => step.file)).toEqual([`${root}/good/s.safetensors`]);
    } finally {
      for (const name of shut) await chmod(`${root}/${name}`, 0o700);
    }
    const told = errors.map((error) => error.path.slice(root.length + 1));
    expect(told).toEqual(['shut', 'shut/s.safetensors', 'below/shut', 'good/shut.safetensors']);
    for (const error of errors) expect(error.message).toContain('no permission');
  });
});

it('naturalOrder is a total order that counts', () => {
  const names = ['s10', 's9', 's', 's09', 's1a', 's1', '10', '9', 's00', 'S1', 's1.0', ''];
  expect([...names].sort(naturalOrder)).toEqual([
    '',
    '9',
    '10',
    'S1',
    's',
    's00',
    's1',
    's1.0',
    's1a',
    's09',
    's9',
    's10',
  ]);
});

it('naturalOrder compares runs of digits by value, and the rest by code units', () => {
  const runs = (name: string): string[] => name.match(/[0-9]+|[^0-9]+/g) ?? [];
  const units = (a: string, b: string): number => Number(a > b) - Number(a < b);
  const expected = (a: string, b: string): number => {
    const others = runs(b);
    for (const [at, run] of runs(a).entries()) {
      const other = others[at];
      if (other === undefined) return 1;
      const numbers = /^[0-9]/.test(run) && /^[0-9]/.test(other);
      const order = numbers
        ? Number(BigInt(run) > BigInt(other)) - Number(BigInt(run) < BigInt(other))
        : units(run, other);
      if (order !== 0) return order;
    }
    return Math.sign(runs(a).length - others.length) || units(a, b);
  };
  const part = fc.array(fc.constantFrom('0', '1', '2', '9', '00', 'a', 'b', '_', '-', '.', 'é', '\u{1F600}', '\n'), {
    maxLength: 8,
  });
  fc.assert(
    fc.property(part, part, part, (same, a, b) => {
      const [one, other] = [[...same, ...a].join(''), [...same, ...b].join('')];
      expect(Math.sign(naturalOrder(one, other))).toBe(expected(one, other));
    }),
    { numRuns: 3000 },
  );
});

describe('readSteps', () => {
  it('comes by run, step and name', async () => {
    const root = await tree('g', {
      'b/z.safetensors': stepBytes(2),
      'b/y.safetensors': stepBytes(10),
      'b/x10.safetensors': stepBytes(2),
      'b/x9.safetensors': stepBytes(2),
      'a/later.safetensors': stepBytes(1, 'zz'),
      'a/first.safetensors': stepBytes(300, 'aa'),
    });
    const steps = await collect(readSteps(root));
    expect(steps.map((step) => [step.run, step.step, step.file.slice(root.length + 1)])).toEqual([
      ['aa', 300, 'a/first.safetensors'],
      ['zz', 1, 'a/later.safetensors'],
      ['b', 2, 'b/x9.safetensors'],
      ['b', 2, 'b/x10.safetensors'],
      ['b', 2, 'b/z.safetensors'],
      ['b', 10, 'b/y.safetensors'],
    ]);
    const listed = await listSteps([root]);
    expect(listed.map((step) => step.file)).toEqual(steps.map((step) => step.file));
    expect(listed[0]).toMatchObject({ runDirectory: `${root}/a`, bytes: steps[0]?.bytes });
  });

  it('gives all the others to whoever takes the errors, and rejects otherwise', async () => {
    const bad = fileOf({ ...smallStep(), lengths: { dtype: 'I32', shape: [4], data: Int32Array.of(9, 9, 9, 9) } });
    const root = await tree('h', {
      's1.safetensors': stepBytes(1),
      's2.safetensors': stepBytes(2).subarray(0, 100),
      's3.safetensors': bad,
      's4.safetensors': stepBytes(4),
    });
    const errors: FileError[] = [];
    const steps = await collect(readSteps([`${root}/none`, root], { onError: (error) => errors.push(error) }));
    expect(steps.map((step) => step.step)).toEqual([1, 4]);
    expect(errors.map((error) => error.path.slice(root.length + 1))).toEqual([
      'none',
      's2.safetensors',
      's3.safetensors',
    ]);
    expect((await fileErrorOf(collect(readSteps([`${root}/none`, root])))).path).toBe(`${root}/none`);
    expect((await fileErrorOf(collect(readSteps(root)))).path).toBe(`${root}/s2.safetensors`);
    expect((await fileErrorOf(collect(readSteps(`${root}/s3.safetensors`)))).tensor).toBe('lengths');
  });

  it('passes steps of another origin on', async () => {
    const root = await tree('i', { 's.safetensors': stepBytes(5) });
    async function* origin() {
      yield await readStepFile(`${root}/s.safetensors`);
    }
    expect((await collect(readSteps(origin()))).map((step) => step.step)).toEqual([5]);
  });

  it('stops for a signal', async () => {
    const root = await tree('j', { 's.safetensors': stepBytes(5) });
    await expect(collect(readSteps(root, { signal: AbortSignal.abort('stop') }))).rejects.toBe('stop');
  });

  it.skipIf(process.platform !== 'linux')('holds few files open, however many there are', async () => {
    const files = Array.from({ length: 300 }, (_, i) => [`s${i}.safetensors`, stepBytes(i)]);
    const root = await tree('k', Object.fromEntries(files));
    const before = (await readdir('/proc/self/fd')).length;
    let most = 0;
    let steps = 0;
    const watch = setInterval(async () => {
      most = Math.max(most, (await readdir('/proc/self/fd')).length);
    }, 1);
    for await (const step of readSteps(root)) expect(step.step).toBe(steps++);
    clearInterval(watch);
    expect(steps).toBe(300);
    expect(most).toBeLessThan(before + 24);
    expect((await readdir('/proc/self/fd')).length).toBeLessThanOrEqual(before + 1);
  });
});

describe('examples/data', () => {
  it('is found by a glob from the working directory', async () => {
    const { files, problems } = await findSteps(['examples/data/{filtered,healthy}', 'examples/data/*/step_00001.*']);
    expect(problems).toEqual([]);
    expect(files.length).toBe(103);
    expect(files[0]?.path).toBe('examples/data/collapse/step_00001.safetensors');
  });

  it.each(['collapse', 'filtered', 'healthy'])('has 51 steps of 16 × 128 × 14 in %s', async (run) => {
    const steps = await collect(readSteps(`examples/data/${run}`));
    expect(steps.length).toBe(51);
    expect(steps.at(-1)).toMatchObject({ step: 200, run, scores: { kind: 'logprobs', shape: [16, 128, 14] } });
    expect(steps[0]?.prompts?.length).toBe(16);
  });
});
