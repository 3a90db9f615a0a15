// Shards of one analysis as functions: the same bits, whatever was cut, repeated, lost or went wrong.
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { analyze } from '../../../src/analysis/analyze.js';
import { measureShard, shardOf } from '../../../src/analysis/store/shard.js';
import { ArgumentError, FileError, StateError } from '../../../src/checks/errors.js';
import { probeCuda } from '../../../src/engine/device/cuda-probe.js';
import type { Engine } from '../../../src/engine/engine.js';
import { openEngine } from '../../../src/engine/open-engine.js';
import { type ListingProgress, listSteps, readSteps } from '../../../src/logs/steps/read-steps.js';
import { exampleRuns, putStep, smallStep } from '../../support/analysis-logs.js';
import { npyDict, npyOf } from '../../support/numpy-files.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { analyzed, finished, measureAll, measureOne, putRuns, SETTINGS, shownOf } from './shard-runs.js';

// As it is, but that its calls are counted.
vi.mock('../../../src/engine/device/cuda-probe.js', async (original) => {
  const module = await original<typeof import('../../../src/engine/device/cuda-probe.js')>();
  return { ...module, probeCuda: vi.fn(module.probeCuda) };
});

const directory = temporaryDirectory();
let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ threads: 1 });
});
afterAll(() => engine.dispose());

let made = 0;
function fresh(): string {
  const path = join(directory, String(made++));
  mkdirSync(path);
  return path;
}

const journalsIn = (out: string): string[] => readdirSync(join(out, 'journals')).sort();
const runs = (steps: readonly number[], bad = 0) => putRuns(join(fresh(), 'runs'), steps, bad);

describe('the steps of a shard', () => {
  const sizes = fc.array(fc.record({ bytes: fc.integer({ min: 0, max: 1000 }) }), { minLength: 1, maxLength: 50 });

  it('hold every step once, in order, and no shard is much larger than another', () => {
    fc.assert(
      fc.property(sizes, fc.integer({ min: 1, max: 80 }), (steps, count) => {
        const shards = Array.from({ length: count }, (_, index) => shardOf(steps, { index, count }));
        expect(shards.flat()).toEqual(steps);
        const total = steps.reduce((sum, { bytes }) => sum + bytes, 0);
        const largest = Math.max(...steps.map(({ bytes }) => bytes));
        for (const shard of shards) {
          expect(shard.reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThanOrEqual(total / count + largest);
        }
      }),
    );
  });

  it('are one each where there are as many shards as steps of one size', () => {
    for (const count of [1, 2, 7, 64]) {
      const steps = Array.from({ length: count }, () => ({ bytes: 133_952 }));
      expect(steps.map((_, index) => shardOf(steps, { index, count }).length)).toEqual(steps.map(() => 1));
    }
  });
});

describe('looking at files', () => {
  it('is told after each header, the broken one too, by all that list first', async () => {
    const root = fresh();
    await cp(join(exampleRuns, 'collapse'), root, { recursive: true });
    await writeFile(join(root, 'broken.safetensors'), 'no header');
    const told: ListingProgress[] = [];
    const onListing = (progress: ListingProgress) => told.push(progress);
    const onFailure = () => undefined;
    const once = async (list: () => Promise<unknown>) => {
      told.length = 0;
      await list();
      expect(told.map(({ done, total }) => [done, total])).toEqual(told.map((_, at) => [at + 1, 52]));
      expect(told.map(({ file }) => file).sort()).toEqual(
        readdirSync(root)
          .map((name) => join(root, name))
          .sort(),
      );
    };
    await once(() => listSteps(root, { onListing, onError: onFailure }));
    await once(() => readSteps(root, { onListing, onError: onFailure }).next());
    await once(() => measureOne(engine, root, fresh(), 0, 51, { permutations: 0, onListing }));
    await once(() => analyze(root, { permutations: 0, onListing, onFailure }).next());
  });
});

describe('any number of shards', () => {
  it('gives the same bits as one analysis, also where journals are lost, cut or damaged', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 3 }),
        fc.constantFrom(0, 3, 4),
        fc.integer({ min: 1, max: 12 }),
        fc.infiniteStream(fc.nat()),
        async (steps, bad, count, random) => {
          const below = (most: number): number => random.next().value % most;
          const source = await runs(steps, bad);
          const expected = await analyzed(engine, source);
          const out = fresh();
          const journals = await measureAll(engine, source, out, count);
          const whole = await finished(engine, source, out);
          expect(shownOf(whole)).toEqual(shownOf(expected));
          expect(whole.resumed).toBe(expected.reports.length);
          for (const journal of journals) {
            const bytes = readFileSync(journal);
            const change = [
              () => rmSync(journal),
              () => truncateSync(journal, below(bytes.length)),
              () => writeFileSync(journal, bytes.fill(0x41, below(bytes.length), below(bytes.length))),
              () => appendFileSync(journal, bytes),
              () => {},
            ][below(5)];
            change?.();
          }
          expect(shownOf(await finished(engine, source, out))).toEqual(shownOf(expected));
        },
      ),
      { numRuns: 12 },
    );
  });

  it('leaves to the analysis that finishes what failed, and what no shard had', async () => {
    const source = await runs([3], 2);
    writeFileSync(join(source, 'a', '9.safetensors'), '{}');
    const sources = [source, join(source, 'missing')];
    const out = fresh();
    for (const index of [0, 1]) {
      expect((await measureOne(engine, sources, out, index, 2)).failures).toBe(index === 1 ? 1 : 0);
    }
    const expected = await analyzed(engine, sources);
    expect(expected.failures).toHaveLength(3);
    expect(shownOf(await finished(engine, sources, out))).toEqual(shownOf(expected));
    // Repaired, and one more.
    await putStep(join(source, 'a', '2.safetensors'), smallStep(2));
    await putStep(join(source, 'a', '4.safetensors'), smallStep(4));
    const given = await finished(engine, sources, out);
    expect(given).toMatchObject({ resumed: 2, ...shownOf(await analyzed(engine, sources)) });
    expect(given.reports).toHaveLength(4);
  });

  it('can be more than there are steps', async () => {
    const source = await runs([2]);
    const out = fresh();
    expect(await measureAll(engine, source, out, 5)).toHaveLength(5);
    expect(await finished(engine, source, out)).toMatchObject({
      resumed: 2,
      ...shownOf(await analyzed(engine, source)),
    });
  });

  it('can be taken in by name, by their folder, and from several folders', async () => {
    const source = await runs([4]);
    const [one, other] = [fresh(), fresh()];
    await measureOne(engine, source, one, 0, 2);
    await measureOne(engine, source, other, 1, 2);
    const expected = shownOf(await analyzed(engine, source));
    const both = await analyzed(engine, source, { journals: [one, join(other, 'journals')] });
    expect(both).toMatchObject({ resumed: 4, ...expected });
    await expect(analyzed(engine, source, { journals: join(one, 'nothing') })).rejects.toThrow(
      /nothing: there is no such folder: name what collapsar analyze --shard wrote to/,
    );
    for (const journals of [5, [''], [7]] as unknown[]) {
      const given = analyzed(engine, source, { journals: journals as string });
      await expect(given).rejects.toMatchObject({ argument: 'options.journals' });
    }
  });
});

describe('steps of journals', () => {
  it('are known wherever their folder is mounted, and by their place in it', async () => {
    const source = await runs([3, 2]);
    const out = fresh();
    await measureAll(engine, source, out, 2);
    const moved = join(fresh(), 'elsewhere');
    renameSync(source, moved);
    const given = await finished(engine, moved, out);
    expect(given).toMatchObject({ resumed: 5, ...shownOf(await analyzed(engine, moved)) });
    // Runs that were given one by one stand in the folder that holds them.
    const [a, b] = [join(moved, 'a'), join(moved, 'b')];
    for (const paths of [[a, b], [b, a], [join(moved, '*')], [`${a}/*.safetensors`, b], [join(a, '..')]]) {
      expect(await finished(engine, paths, out)).toMatchObject({
        resumed: 5,
        ...shownOf(await analyzed(engine, paths)),
      });
    }
    expect((await finished(engine, a, out)).resumed).toBe(0);
  });

  it('of two folders with the same names and times are not taken for each other', async () => {
    const place = fresh();
    const [one, other] = [join(place, 'one'), join(place, 'other')];
    await putStep(join(one, '1.safetensors'), smallStep(1, 0.1));
    await putStep(join(other, '1.safetensors'), smallStep(1, 0.9));
    for (const run of [one, other]) utimes(join(run, '1.safetensors'));
    const out = fresh();
    await measureAll(engine, [one, other], out, 2);
    const expected = await analyzed(engine, [one, other]);
    expect(await finished(engine, [one, other], out)).toMatchObject({ resumed: 2, ...shownOf(expected) });
    expect(JSON.parse(expected.reports[0] as string).record).not.toEqual(
      JSON.parse(expected.reports[1] as string).record,
    );
  });

  it('are found in the journal that has their content, whichever is read last', async () => {
    const source = await runs([1]);
    const path = join(source, 'a', '1.safetensors');
    const [before, after] = [fresh(), fresh()];
    const old = readFileSync(path);
    utimes(path);
    await measureOne(engine, source, before, 0, 1);
    await putStep(path, smallStep(1, 0.9));
    await measureOne(engine, source, after, 0, 1);
    const given = () =>
      Promise.all(
        [
          [before, after],
          [after, before],
        ].map((journals) => analyzed(engine, source, { journals })),
      );
    for (const { resumed } of await given()) expect(resumed).toBe(1);
    writeFileSync(path, old);
    utimes(path);
    for (const one of await given()) {
      expect(one).toMatchObject({ resumed: 1, ...shownOf(await analyzed(engine, source)) });
    }
  });

  it('of other options or another build are not used, and it is said why', async () => {
    const source = await runs([2]);
    const out = fresh();
    const [journal] = (await measureAll(engine, source, out, 1)) as [string];
    const other = await analyzed(engine, source, { journals: out, seed: 6 });
    expect(other).toMatchObject({ resumed: 0, notes: [`${journal} is not used: it had other options: seed 5`] });
    expect(shownOf(other)).toEqual(shownOf(await analyzed(engine, source, { seed: 6 })));
    writeFileSync(join(out, 'journals', 'notes'), 'what somebody keeps here\n');
    const { notes } = await finished(engine, source, out);
    expect(notes).toEqual([
      `${join(out, 'journals', 'notes')} is not used: its record of measured steps cannot be read`,
    ]);
  });
});

/** Sets a time that can be set again. */
function utimes(path: string): void {
  utimesSync(path, 1_700_000_000, 1_700_000_000);
}

describe('measuring a shard', () => {
  it('again measures nothing that has not changed', async () => {
    const source = await runs([3], 2);
    const out = fresh();
    expect(await measureOne(engine, source, out, 0, 1)).toMatchObject({ steps: 3, failures: 1, resumed: 0 });
    const [name] = journalsIn(out) as [string];
    expect(name).toBe('0-of-1');
    const path = join(out, 'journals', name);
    const before = [readFileSync(path, 'utf8'), statSync(path).ino];
    expect(await measureOne(engine, source, out, 0, 1)).toMatchObject({ steps: 3, failures: 1, resumed: 2 });
    expect([readFileSync(path, 'utf8'), statSync(path).ino]).toEqual(before);
    expect(await measureOne(engine, source, out, 0, 1, { resume: false })).toMatchObject({ resumed: 0 });
    await putStep(join(source, 'a', '2.safetensors'), smallStep(2));
    expect(await measureOne(engine, source, out, 0, 1)).toMatchObject({ steps: 3, failures: 0, resumed: 2 });
    expect((await finished(engine, source, out)).resumed).toBe(3);
  });

  it('by several processes at a time ends with one journal that is whole', async () => {
    const source = await runs([6]);
    const out = fresh();
    const measured = await Promise.all([1, 2, 3].map(() => measureOne(engine, source, out, 0, 1)));
    for (const shard of measured) expect(shard).toMatchObject({ steps: 6, failures: 0 });
    expect(journalsIn(out)).toEqual(['0-of-1']);
    expect(await finished(engine, source, out)).toMatchObject({
      resumed: 6,
      ...shownOf(await analyzed(engine, source)),
    });
  });

  it('does not write over the journal of another analysis', async () => {
    const source = await runs([2]);
    const out = fresh();
    const [path] = (await measureAll(engine, source, out, 1)) as [string];
    const before = readFileSync(path, 'utf8');
    const other = measureOne(engine, source, out, 0, 1, { seed: 6 });
    await expect(other).rejects.toThrow(StateError);
    await expect(other).rejects.toThrow(
      /0-of-1: another analysis wrote here: it had other options: seed 5: give another directory, or .*--no-resume/,
    );
    expect(readFileSync(path, 'utf8')).toBe(before);
    expect(await measureOne(engine, source, out, 0, 1, { seed: 6, resume: false })).toMatchObject({ resumed: 0 });
  });

  it.skipIf(process.getuid?.() === 0)('again takes files that can be read by now', async () => {
    const source = await runs([2]);
    const out = fresh();
    const path = join(source, 'a', '1.safetensors');
    chmodSync(path, 0);
    expect(await measureOne(engine, source, out, 0, 1)).toMatchObject({ steps: 1 });
    chmodSync(path, 0o600);
    expect(await measureOne(engine, source, out, 0, 1)).toMatchObject({ steps: 2, failures: 0, resumed: 1 });
  });

  it('where no step is there gives no journal', async () => {
    const source = await runs([2]);
    const out = fresh();
    renameSync(source, `${source}.away`);
    const measuring = measureOne(engine, source, out, 1, 2);
    await expect(measuring).rejects.toThrow(FileError);
    await expect(measuring).rejects.toThrow(/runs: there is no step here that can be used/);
    expect(journalsIn(out)).toEqual([]);
  });

  it('where files are out of reach gives no journal that counts as whole, and keeps what it measured', async () => {
    const source = await runs([12, 3]);
    const out = fresh();
    const away = join(source, 'b');
    // Gone when it is to be read: a mount that is lost.
    const onListing = ({ done, total }: ListingProgress) => {
      if (done === total) renameSync(away, `${away}.away`);
    };
    await expect(measureOne(engine, source, out, 0, 1, { onListing })).rejects.toThrow(
      /b\/1\.safetensors: out of reach from here: .*ENOENT.* Mount what it lies on/,
    );
    expect(journalsIn(out)).toEqual(['.0-of-1']);
    renameSync(`${away}.away`, away);
    // Those that were under way then may have been measured, too.
    expect((await measureOne(engine, source, out, 0, 1)).resumed).toBeGreaterThanOrEqual(8);
    expect(journalsIn(out)).toEqual(['0-of-1']);
    expect(shownOf(await finished(engine, source, out))).toEqual(shownOf(await analyzed(engine, source)));
  });

  it('that is aborted goes on where it was, and what it measured serves an analysis meanwhile', async () => {
    const source = await runs([20]);
    const out = fresh();
    const ending = new AbortController();
    const onProgress = ({ done }: { done: number }) => {
      if (done === 5) ending.abort(new Error('enough'));
    };
    const { signal } = ending;
    await expect(measureOne(engine, source, out, 0, 1, { signal, onProgress })).rejects.toThrow('enough');
    expect(journalsIn(out)).toEqual(['.0-of-1']);
    const { resumed } = await finished(engine, source, out);
    // Those ahead of the fifth may have been measured too, the last was not.
    expect(resumed).toBeGreaterThanOrEqual(5);
    expect(resumed).toBeLessThan(20);
    expect(await measureOne(engine, source, out, 0, 1)).toMatchObject({ steps: 20, resumed });
    expect((await finished(engine, source, out)).resumed).toBe(20);
  });

  it('that is aborted with an error of another file blames no step', async () => {
    const source = await runs([20]);
    const out = fresh();
    const ending = new AbortController();
    const reason = new FileError({ path: 'elsewhere' }, 'the disk is full');
    const onProgress = ({ done }: { done: number }) => {
      if (done === 5) ending.abort(reason);
    };
    await expect(measureOne(engine, source, out, 0, 1, { signal: ending.signal, onProgress })).rejects.toBe(reason);
    expect(journalsIn(out)).toEqual(['.0-of-1']);
  });

  it('that is aborted before anything was measured leaves nothing', async () => {
    const out = join(fresh(), 'out');
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(measureOne(engine, await runs([3]), out, 0, 1, { signal })).rejects.toThrow('enough');
    expect(existsSync(out)).toBe(false);
  });

  it('that can open no engine leaves no journal', async () => {
    const out = fresh();
    const measuring = measureOne(engine, await runs([3]), out, 0, 1, { engine: undefined, threads: 2000 });
    await expect(measuring).rejects.toMatchObject({ argument: 'options.threads' });
    expect(journalsIn(out)).toEqual([]);
  });

  it('looks for no GPU', async () => {
    vi.mocked(probeCuda).mockClear();
    await measureOne(engine, await runs([1]), fresh(), 0, 1, { engine: undefined, threads: 1 });
    expect(probeCuda).not.toHaveBeenCalled();
  });

  it('refuses a source, a shard or an option that makes no sense', async () => {
    const [source, out] = [await runs([2]), fresh()];
    const options = { ...SETTINGS, out, shard: { index: 0, count: 1 } };
    for (const wrong of [5, [{}], readSteps(source)]) {
      await expect(measureShard(wrong as unknown as string, options)).rejects.toThrow(ArgumentError);
    }
    for (const shard of [undefined, 3, { index: 2, count: 2 }, { index: -1, count: 2 }, { index: 0, count: 0.5 }]) {
      await expect(measureShard(source, { ...options, shard: shard as never })).rejects.toMatchObject({
        argument: 'options.shard',
      });
    }
    await expect(measureShard(source, { ...options, out: undefined as never })).rejects.toThrow(ArgumentError);
    expect(readdirSync(out)).toEqual([]);
  });

  it('tells how far it is, of its own steps', async () => {
    const seen: string[] = [];
    const onProgress = ({ done, total }: { done: number; total: number }) => seen.push(`${done}/${total}`);
    await measureOne(engine, await runs([8]), fresh(), 1, 2, { onProgress });
    expect(seen).toEqual(['1/4', '2/4', '3/4', '4/4']);
  });
});

describe('paths', () => {
  const home = process.cwd();
  afterEach(() => process.chdir(home));

  it('stay as they were given, and journals are used from another working directory', async () => {
    const place = fresh();
    await putRuns(join(place, 'runs'), [3], 2);
    process.chdir(place);
    const expected = await analyzed(engine, 'runs');
    expect(expected.reports[0]).toContain('"file":"runs/a/1.safetensors"');
    expect(expected.failures[0]).toMatch(/^runs\/a\/2\.safetensors, tensor "cross_logprobs", offset \d+: /);
    process.chdir(fresh());
    const out = fresh();
    await measureAll(engine, join(place, 'runs'), out, 2);
    process.chdir(place);
    expect(await finished(engine, 'runs', out)).toMatchObject({ resumed: 2, ...shownOf(expected) });
  });

  it('of sidecars are those of the files that fail', async () => {
    const place = fresh();
    const run = join(place, 'runs', 'a');
    mkdirSync(run, { recursive: true });
    const put = (name: string, descr: string, shape: number[], data: ArrayBufferView) =>
      writeFileSync(join(run, name), npyOf(npyDict(descr, shape), Buffer.from(data.buffer)));
    for (const step of [1, 2]) {
      const { logprobs, lengths, group } = smallStep(step);
      put(`${step}.npy`, '<f4', [4, 12, 3], logprobs.data);
      put(`${step}.lengths.npy`, '<i4', [12], step === 2 ? (lengths as Int32Array).fill(9, 5, 6) : lengths);
      put(`${step}.group.npy`, '<i4', [12], group);
    }
    process.chdir(place);
    const expected = await analyzed(engine, 'runs');
    expect(expected.failures).toEqual([
      'runs/a/2.lengths.npy, tensor "lengths", offset 148: 9 in row 5, expected 0 to 3',
    ]);
    const out = fresh();
    const failures: string[] = [];
    const onFailure = ({ message }: FileError) => failures.push(message);
    for (const index of [0, 1]) await measureOne(engine, 'runs', out, index, 2, { onFailure });
    expect(failures).toEqual(expected.failures);
    expect(shownOf(await finished(engine, 'runs', out))).toEqual(shownOf(expected));
  });
});
