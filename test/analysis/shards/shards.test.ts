// plan, map, merge and finalize as functions: the same bits as one analysis, whatever was cut, merged, repeated or went
// wrong.
import {
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
import { markerPath, statePath } from '../../../src/analysis/shards/completion.js';
import { readManifest } from '../../../src/analysis/shards/manifest-reader.js';
import { mergeStates } from '../../../src/analysis/shards/merge.js';
import { plan, shardsByNumber, shardsOfSize, usualBytes } from '../../../src/analysis/shards/plan.js';
import { StateWriter } from '../../../src/analysis/shards/state-writer.js';
import { ArgumentError, FileError, StateError } from '../../../src/checks/errors.js';
import { probeCuda } from '../../../src/engine/device/cuda-probe.js';
import type { Engine } from '../../../src/engine/engine.js';
import { openEngine } from '../../../src/engine/open-engine.js';
import { type ListingProgress, listSteps, readSteps } from '../../../src/logs/steps/read-steps.js';
import { exampleRuns, putStep, smallStep } from '../../support/analysis-logs.js';
import { npyDict, npyOf } from '../../support/numpy-files.js';
import { uniformNumbers } from '../../support/random-numbers.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { canBeUnprivileged, withoutPrivileges } from '../../support/unprivileged.js';
import {
  analyzed,
  finalized,
  mapAll,
  mapOne,
  mergeAtRandom,
  planRuns,
  putRuns,
  SETTINGS,
  VERSION,
} from './shards-runs.js';

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

const namesIn = (path: string): string[] => readdirSync(path).sort();

describe('shards', () => {
  const sizes = fc.array(fc.record({ bytes: fc.integer({ min: 1, max: 1000 }) }), { minLength: 1, maxLength: 50 });

  it('hold every step once, in order', () => {
    fc.assert(
      fc.property(sizes, fc.integer({ min: 1, max: 3000 }), fc.integer({ min: 1, max: 80 }), (steps, target, count) => {
        const bySize = shardsOfSize(steps, target);
        const byNumber = shardsByNumber(steps, count);
        for (const shards of [bySize, byNumber]) {
          let next = 0;
          for (const { first, steps: held, bytes } of shards) {
            expect(first).toBe(next);
            next += held;
            expect(bytes).toBe(steps.slice(first, next).reduce((total, step) => total + step.bytes, 0));
          }
          expect(next).toBe(steps.length);
        }
        for (const { bytes, steps: held } of bySize) expect(held === 1 || (held > 0 && bytes <= target)).toBe(true);
        expect(byNumber).toHaveLength(count);
        const total = steps.reduce((sum, { bytes }) => sum + bytes, 0);
        const largest = Math.max(...steps.map(({ bytes }) => bytes));
        for (const { bytes } of byNumber) expect(bytes).toBeLessThanOrEqual(total / count + largest);
      }),
    );
  });

  it('by number have one step each where there are as many of one size', () => {
    for (const count of [1, 2, 7, 64]) {
      const steps = Array.from({ length: count }, () => ({ bytes: 133_952 }));
      expect(shardsByNumber(steps, count).map((shard) => shard.steps)).toEqual(steps.map(() => 1));
    }
  });
});

describe('planning', () => {
  it('of what is no path is refused', async () => {
    const options = { out: join(fresh(), 'manifest.json') };
    for (const source of [5, [{}], readSteps(exampleRuns)]) {
      await expect(plan(source as unknown as string, options)).rejects.toThrow(ArgumentError);
    }
    expect(existsSync(options.out)).toBe(false);
  });
});

describe('a directory that this user may only write to', () => {
  it.skipIf(!canBeUnprivileged)('takes states and manifests', async () => {
    const shut = join(directory, 'shut');
    mkdirSync(shut);
    chmodSync(shut, 0o333);
    const path = join(shut, 'one.state');
    const { digest } = await withoutPrivileges(async () => (await StateWriter.open(path)).complete('{'));
    chmodSync(shut, 0o700);
    expect(readFileSync(path, 'utf8')).toContain(digest);
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
    await once(() => plan(root, { out: join(fresh(), 'manifest.json'), onListing, onFailure }));
    await once(() => analyze(root, { permutations: 0, onListing, onFailure }).next());
  });
});

describe('shards whose size nobody says', () => {
  // 64 prompts × 512 responses × 1,024 tokens in float32, with header and columns.
  const bytes = 134_224_256;
  const shardsOf = (steps: number) => {
    const sizes = Array.from({ length: steps }, () => ({ bytes }));
    return shardsOfSize(sizes, usualBytes(steps * bytes)).length;
  };

  it.each([
    [1, 1],
    [16, 2],
    [100, 7],
    [1000, 67],
    [10_000, 65],
    [200_000, 392],
  ])('of %i steps are %i', (steps, shards) => {
    expect(shardsOf(steps)).toBe(shards);
  });

  it('are of 2 GiB to 64 GiB', () => {
    expect([1, 2 ** 37, 2 ** 40, 2 ** 42, 2 ** 50].map((total) => usualBytes(total) / 2 ** 30)).toEqual([
      2, 2, 16, 64, 64,
    ]);
  });
});

describe('any number of shards, merged in any tree', () => {
  it('gives the same bits as one analysis', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 3 }),
        fc.constantFrom(0, 3, 4),
        fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 2, maxLength: 2 }),
        fc.nat(),
        async (steps, bad, counts, seed) => {
          const source = await putRuns(join(fresh(), 'runs'), steps, bad);
          const expected = await analyzed(engine, source);
          const states = new Set<string>();
          for (const shards of counts) {
            const place = fresh();
            const runs = await planRuns(source, place, { shards });
            const state = await mergeAtRandom(await mapAll(runs, engine), join(place, 'merged'), uniformNumbers(seed));
            expect(await finalized(runs.manifest, state)).toEqual(expected);
            expect(await finalized(runs.manifest, runs.states)).toEqual(expected);
            // The first line and the last name the manifest, and it the shards.
            states.add(readFileSync(state, 'utf8').split('\n').slice(1, -2).join('\n'));
          }
          expect(states.size).toBe(1);
        },
      ),
      { numRuns: 12 },
    );
  });

  it('is the same state, to the byte, for any order and grouping', async () => {
    const source = await putRuns(join(fresh(), 'runs'), [4, 3, 5], 5);
    const place = fresh();
    const runs = await planRuns(source, place, { shards: 9 });
    const paths = await mapAll(runs, engine);
    await mergeStates(paths, { out: join(place, 'whole') });
    const whole = readFileSync(join(place, 'whole'), 'utf8');
    await fc.assert(
      fc.asyncProperty(fc.nat(), async (seed) => {
        const merged = await mergeAtRandom(paths, join(place, 'tree'), uniformNumbers(seed));
        expect(readFileSync(merged, 'utf8')).toBe(whole);
      }),
      { numRuns: 25 },
    );
  });

  it('opens no more states at a time than --fan-in, however they lie across each other', async () => {
    const source = await putRuns(join(fresh(), 'runs'), [12]);
    const place = fresh();
    const runs = await planRuns(source, place, { shards: 12 });
    const paths = await mapAll(runs, engine);
    // Six states that each begin at the start and end at the end of the run.
    const across: string[] = [];
    for (let i = 0; i < 6; i++) {
      const out = join(place, `across-${i}`);
      await mergeStates([paths[i] as string, paths[11 - i] as string], { out });
      across.push(out);
    }
    const merged = join(place, 'merged');
    await mergeStates(across, { out: join(merged, 'narrow'), fanIn: 2 });
    await mergeStates(paths, { out: join(merged, 'wide') });
    expect(readFileSync(join(merged, 'narrow'), 'utf8')).toBe(readFileSync(join(merged, 'wide'), 'utf8'));
    expect(namesIn(merged)).toEqual(['narrow', 'wide']);
  });

  it('takes shards without steps', async () => {
    const source = await putRuns(join(fresh(), 'runs'), [2]);
    const runs = await planRuns(source, fresh(), { shards: 5 });
    const paths = await mapAll(runs, engine);
    expect(paths).toHaveLength(5);
    expect(await finalized(runs.manifest, runs.states)).toEqual(await analyzed(engine, source));
  });

  it('names files that could not be planned, and paths that are not there', async () => {
    const source = await putRuns(join(fresh(), 'runs'), [3], 2);
    writeFileSync(join(source, 'a', '9.safetensors'), '{}');
    const sources = [source, join(source, 'missing')];
    const expected = await analyzed(engine, sources);
    expect(expected.failures).toHaveLength(3);
    const runs = await planRuns(sources, fresh(), { shards: 2 });
    await mapAll(runs, engine);
    expect(await finalized(runs.manifest, runs.states)).toEqual(expected);
  });
});

describe('merging', () => {
  it('refuses a step that is in two states, and names both', async () => {
    const runs = await planRuns(await putRuns(join(fresh(), 'runs'), [4]), fresh(), { shards: 4 });
    const [a, b, c] = (await mapAll(runs, engine)) as [string, string, string];
    const place = fresh();
    await mergeStates([a, b], { out: join(place, 'ab') });
    await mergeStates([b, c], { out: join(place, 'bc') });
    const out = join(place, 'out');
    for (const pair of [
      [join(place, 'ab'), b],
      [join(place, 'ab'), join(place, 'bc')],
    ] as const) {
      const merging = mergeStates(pair, { out });
      await expect(merging).rejects.toThrow(StateError);
      for (const path of pair) await expect(merging).rejects.toThrow(path);
      await expect(merging).rejects.toThrow('entry 1 of the manifest is in');
    }
    await expect(mergeStates([a, b, a], { out })).rejects.toThrow(/given twice/);
    expect(namesIn(place)).toEqual(['ab', 'bc']);
  });

  it('refuses states of different manifests, and files that are none', async () => {
    const source = await putRuns(join(fresh(), 'runs'), [2]);
    const one = await planRuns(source, fresh(), { shards: 2 });
    const other = await planRuns(source, fresh(), { shards: 2, seed: 6 });
    const [a] = (await mapAll(one, engine)) as [string];
    const [, b] = (await mapAll(other, engine)) as [string, string];
    const out = join(fresh(), 'out');
    await expect(mergeStates([a, b], { out })).rejects.toThrow(/different manifests/);
    await expect(mergeStates([a, one.manifest], { out })).rejects.toThrow(/this is no state/);
    await expect(mergeStates([a, join(source, 'missing')], { out })).rejects.toThrow(FileError);
    await expect(mergeStates([a], { out: a })).rejects.toThrow(/also one of the states/);
    await expect(mergeStates([], { out })).rejects.toThrow(ArgumentError);
    await expect(mergeStates([a], { out, fanIn: 1 })).rejects.toThrow(ArgumentError);
    await expect(finalized(other.manifest, a)).rejects.toThrow(/another manifest/);
    expect(existsSync(out)).toBe(false);
  });

  it('takes a directory for the states in it, and a part of them for what it is', async () => {
    const source = await putRuns(join(fresh(), 'runs'), [3, 2]);
    const runs = await planRuns(source, fresh(), { shards: 5 });
    await mapAll(runs, engine);
    rmSync(statePath(runs.states, 3));
    const out = join(fresh(), 'part');
    expect(await mergeStates([runs.states], { out })).toMatchObject({ states: 4, steps: 4, runs: 2 });
    // As a shell has state/*: the states, and the markers beside them.
    const all = namesIn(runs.states).map((name) => join(runs.states, name));
    expect(all.map((path) => path.slice(runs.states.length))).toEqual(['/completions', '/shards']);
    expect(await mergeStates(all, { out })).toMatchObject({ states: 4, steps: 4, runs: 2 });
    await expect(mergeStates([all[0] as string], { out })).rejects.toThrow(/there is no \*\.state file here/);
    const missing = finalized(runs.manifest, out);
    await expect(missing).rejects.toThrow(StateError);
    await expect(missing).rejects.toThrow(/1 step is missing, all of shard 3: run collapsar map .* --index 3/);
    await mapOne(runs, engine, 3);
    expect(await finalized(runs.manifest, runs.states)).toEqual(await analyzed(engine, source));
  });
});

describe('finalize', () => {
  it('says which shards are missing', async () => {
    const runs = await planRuns(await putRuns(join(fresh(), 'runs'), [12]), fresh(), { shards: 12 });
    for (const index of [2, 7, 8]) await mapOne(runs, engine, index);
    await expect(finalized(runs.manifest, runs.states)).rejects.toThrow(
      /9 of 12 steps are missing, all of shards 0 to 1, 3 to 6, 9 to 11: run collapsar map .* and then finalize again$/,
    );
    const merged = join(fresh(), 'merged.state');
    await mergeStates([runs.states], { out: merged });
    await expect(finalized(runs.manifest, merged)).rejects.toThrow(/all of shards 0 to 1, .* and then merge again$/);
  });

  it('says what to run where there is no state at all', async () => {
    const runs = await planRuns(await putRuns(join(fresh(), 'runs'), [1]), fresh());
    await expect(finalized(runs.manifest, runs.states)).rejects.toThrow('collapsar map');
    mkdirSync(runs.states);
    await expect(finalized(runs.manifest, runs.states)).rejects.toThrow('run collapsar map with --out');
  });
});

describe('a step file that is no longer the planned one', () => {
  const replace: [string, (path: string) => unknown][] = [
    ['replaced by another step', (path) => putStep(path, smallStep(7, 2))],
    ['touched', (path) => utimesSync(path, new Date(), new Date(Date.now() + 5000))],
    ['cut', (path) => truncateSync(path, statSync(path).size - 1)],
    ['gone', (path) => rmSync(path)],
  ];
  it.each(replace)('%s: is named, and the others are given', async (_, change) => {
    const source = await putRuns(join(fresh(), 'runs'), [3]);
    const runs = await planRuns(source, fresh(), { shards: 2 });
    const path = join(source, 'a', '2.safetensors');
    await change(path);
    await mapAll(runs, engine);
    const { reports, failures } = await finalized(runs.manifest, runs.states);
    expect(reports).toHaveLength(2);
    expect(failures).toHaveLength(1);
    expect(failures[0]).toContain(path);
    expect(failures[0]).toMatch(/changed|cut|no such file|truncated|short|beyond|ends/);
  });

  it('with the same header and size, but another time, is named as replaced', async () => {
    const source = await putRuns(join(fresh(), 'runs'), [2]);
    const runs = await planRuns(source, fresh());
    const other = smallStep(2, 0.77);
    await putStep(join(source, 'a', '2.safetensors'), other);
    const failures: FileError[] = [];
    await mapOne(runs, engine, 0, { onFailure: (failure: FileError) => failures.push(failure) });
    expect(failures.map(({ message }) => message)).toEqual([
      `${join(source, 'a', '2.safetensors')}: the file was replaced or changed after it was planned: ` +
        'run collapsar plan again when it is complete',
    ]);
  });
});

describe('a file that is repaired', () => {
  it('is not the planned one: redo does not take it, a new plan does', async () => {
    const source = await putRuns(join(fresh(), 'runs'), [3]);
    const [first, second] = [1, 2].map((step) => join(source, 'a', `${step}.safetensors`)) as [string, string];
    const [good, also] = [readFileSync(first), readFileSync(second)];
    // One that plan cannot read, and one that only map finds bad.
    writeFileSync(first, '{}');
    const bad = await putRuns(join(fresh(), 'other'), [2], 2);
    writeFileSync(second, readFileSync(join(bad, 'a', '2.safetensors')));
    const runs = await planRuns(source, fresh());
    await mapAll(runs, engine);
    writeFileSync(first, good);
    writeFileSync(second, also);
    await mapOne(runs, engine, 0, { redo: true });
    const { failures, reports } = await finalized(runs.manifest, runs.states);
    expect(reports).toHaveLength(1);
    expect(failures).toEqual([
      expect.stringContaining(first),
      expect.stringMatching(
        /2\.safetensors: the file was replaced or changed after it was planned: run collapsar plan/,
      ),
    ]);
    const again = await planRuns(source, fresh());
    await mapAll(again, engine);
    const given = await finalized(again.manifest, again.states);
    expect(given).toEqual(await analyzed(engine, source));
    expect(given.reports).toHaveLength(3);
  });
});

describe('mapping', () => {
  it('leaves a complete shard as it is', async () => {
    const source = await putRuns(join(fresh(), 'runs'), [3], 2);
    const runs = await planRuns(source, fresh(), { shards: 1 });
    expect(await mapOne(runs, engine, 0)).toMatchObject({ steps: 3, failures: 1, wasComplete: false });
    const [state, marker] = [statePath(runs.states, 0), markerPath(runs.states, 0)];
    const before = [state, marker].map((path) => [readFileSync(path, 'utf8'), statSync(path).ino]);
    expect(await mapOne(runs, engine, 0)).toMatchObject({ steps: 3, failures: 1, wasComplete: true });
    expect([state, marker].map((path) => [readFileSync(path, 'utf8'), statSync(path).ino])).toEqual(before);
    // Killed between the state and its marker.
    rmSync(marker);
    expect(await mapOne(runs, engine, 0)).toMatchObject({ wasComplete: true });
    expect([readFileSync(marker, 'utf8'), statSync(state).ino]).toEqual([before[1]?.[0], before[0]?.[1]]);
    expect(namesIn(join(runs.states, 'shards'))).toEqual(['00000.state']);
    expect(namesIn(join(runs.states, 'completions'))).toEqual(['00000']);
  });

  it('measures again what is damaged, and says so', async () => {
    const runs = await planRuns(await putRuns(join(fresh(), 'runs'), [3]), fresh());
    const { state } = await mapOne(runs, engine, 0);
    const good = readFileSync(state);
    truncateSync(state, good.length - 10);
    expect(await mapOne(runs, engine, 0)).toMatchObject({
      wasComplete: false,
      replaced: expect.stringContaining('damaged'),
    });
    expect(readFileSync(state).equals(good)).toBe(true);
  });

  it('clears up what a killed process left, when the shard is complete', async () => {
    const runs = await planRuns(await putRuns(join(fresh(), 'runs'), [2]), fresh());
    mkdirSync(join(runs.states, 'shards'), { recursive: true });
    writeFileSync(join(runs.states, 'shards', '.00000.state.other.1.abc.tmp'), 'half');
    writeFileSync(join(runs.states, 'shards', '.00001.state.other.1.abc.tmp'), 'of another shard');
    // Killed before the marker had its name.
    mkdirSync(join(runs.states, 'completions'));
    writeFileSync(join(runs.states, 'completions', '.00000.other.1.abc.tmp'), '{}');
    await mapOne(runs, engine, 0);
    expect(namesIn(join(runs.states, 'shards'))).toEqual(['.00001.state.other.1.abc.tmp', '00000.state']);
    expect(namesIn(join(runs.states, 'completions'))).toEqual(['00000']);
  });

  it('by two processes at a time ends with one state', async () => {
    const runs = await planRuns(await putRuns(join(fresh(), 'runs'), [6]), fresh());
    const mapped = await Promise.all([1, 2, 3].map(() => mapOne(runs, engine, 0)));
    for (const shard of mapped) expect(shard).toMatchObject({ steps: 6, failures: 0 });
    expect(namesIn(join(runs.states, 'shards'))).toEqual(['00000.state']);
    expect(namesIn(join(runs.states, 'completions'))).toEqual(['00000']);
  });

  it('does not write over the states of another plan', async () => {
    const source = await putRuns(join(fresh(), 'runs'), [2]);
    const place = fresh();
    const runs = await planRuns(source, place);
    await mapOne(runs, engine, 0);
    const other = { ...(await planRuns(source, fresh(), { seed: 6 })), states: runs.states };
    const before = readFileSync(statePath(runs.states, 0), 'utf8');
    await expect(mapOne(other, engine, 0)).rejects.toThrow(/another manifest .* into another directory/);
    expect(readFileSync(statePath(runs.states, 0), 'utf8')).toBe(before);
  });

  it.skipIf(process.getuid?.() === 0)('again, with redo, takes files that can be read by now', async () => {
    const source = await putRuns(join(fresh(), 'runs'), [2]);
    const runs = await planRuns(source, fresh());
    const path = join(source, 'a', '1.safetensors');
    chmodSync(path, 0);
    expect(await mapOne(runs, engine, 0)).toMatchObject({ failures: 1 });
    chmodSync(path, 0o600);
    expect(await mapOne(runs, engine, 0)).toMatchObject({ failures: 1, wasComplete: true });
    expect(await mapOne(runs, engine, 0, { redo: true })).toMatchObject({ failures: 0, wasComplete: false });
  });

  it('again, with redo, takes a file that is back by now', async () => {
    const source = await putRuns(join(fresh(), 'runs'), [2]);
    const runs = await planRuns(source, fresh());
    const path = join(source, 'a', '1.safetensors');
    renameSync(path, `${path}.away`);
    expect(await mapOne(runs, engine, 0)).toMatchObject({ failures: 1 });
    renameSync(`${path}.away`, path);
    expect(await mapOne(runs, engine, 0, { redo: true })).toMatchObject({ failures: 0, wasComplete: false });
    expect(await finalized(runs.manifest, runs.states)).toEqual(await analyzed(engine, source));
  });

  it('where none of the files can be reached writes no state: the machine is at fault', async () => {
    const source = await putRuns(join(fresh(), 'runs'), [4]);
    const runs = await planRuns(source, fresh(), { shards: 2 });
    renameSync(source, `${source}.away`);
    const mapping = mapOne(runs, engine, 1);
    await expect(mapping).rejects.toThrow(FileError);
    await expect(mapping).rejects.toThrow(
      /a\/3\.safetensors: out of reach from here: .*ENOENT.* Mount what it lies on/,
    );
    expect(namesIn(join(runs.states, 'shards'))).toEqual([]);
    expect(existsSync(join(runs.states, 'completions'))).toBe(false);
    renameSync(`${source}.away`, source);
    await mapAll(runs, engine);
    expect(await finalized(runs.manifest, runs.states)).toEqual(await analyzed(engine, source));
  });

  it('where some of the files are out of reach writes no state, and keeps what it measured', async () => {
    const source = await putRuns(join(fresh(), 'runs'), [12, 3]);
    const runs = await planRuns(source, fresh());
    const away = join(source, 'b');
    renameSync(away, `${away}.away`);
    await expect(mapOne(runs, engine, 0)).rejects.toThrow(/b\/1\.safetensors: out of reach .* plan again without it/);
    expect(namesIn(join(runs.states, 'shards'))).toEqual(['.00000.journal']);
    expect(existsSync(join(runs.states, 'completions'))).toBe(false);
    renameSync(`${away}.away`, away);
    const resumed: number[] = [];
    await mapOne(runs, engine, 0, { onProgress: (state: { resumed?: number }) => resumed.push(state.resumed ?? 0) });
    // Those that were under way then may have been measured, too.
    expect(resumed.at(-1)).toBeGreaterThanOrEqual(8);
    expect(await finalized(runs.manifest, runs.states)).toEqual(await analyzed(engine, source));
  });

  it('that is aborted leaves no state, and what it measured is not measured again', async () => {
    const runs = await planRuns(await putRuns(join(fresh(), 'runs'), [20]), fresh());
    const whole = { ...runs, states: fresh() };
    await mapOne(whole, engine, 0);
    const ending = new AbortController();
    const abort = ({ done }: { done: number }) => {
      if (done === 5) ending.abort(new Error('enough'));
    };
    await expect(mapOne(runs, engine, 0, { signal: ending.signal, onProgress: abort })).rejects.toThrow('enough');
    expect(namesIn(join(runs.states, 'shards'))).toEqual(['.00000.journal']);
    expect(existsSync(join(runs.states, 'completions'))).toBe(false);

    const resumed: number[] = [];
    const onProgress = (state: { resumed?: number }) => resumed.push(state.resumed ?? 0);
    await mapOne(runs, engine, 0, { onProgress });
    // Those ahead of the fifth may have been measured too, the last was not.
    expect(resumed.at(-1)).toBeGreaterThanOrEqual(5);
    expect(resumed.at(-1)).toBeLessThan(20);
    expect(namesIn(join(runs.states, 'shards'))).toEqual(['00000.state']);
    expect(readFileSync(statePath(runs.states, 0)).equals(readFileSync(statePath(whole.states, 0)))).toBe(true);
  });

  it('that is aborted with an error of another file blames no step', async () => {
    const runs = await planRuns(await putRuns(join(fresh(), 'runs'), [20]), fresh());
    const ending = new AbortController();
    const reason = new FileError({ path: 'elsewhere' }, 'the disk is full');
    const onProgress = ({ done }: { done: number }) => {
      if (done === 5) ending.abort(reason);
    };
    await expect(mapOne(runs, engine, 0, { signal: ending.signal, onProgress })).rejects.toBe(reason);
    expect(namesIn(join(runs.states, 'shards'))).toEqual(['.00000.journal']);
  });

  it('that is aborted before anything was measured leaves nothing', async () => {
    const runs = await planRuns(await putRuns(join(fresh(), 'runs'), [3]), fresh());
    await expect(mapOne(runs, engine, 0, { signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow('enough');
    expect(existsSync(runs.states)).toBe(false);
  });

  it('that can open no engine leaves no state that was begun', async () => {
    const runs = await planRuns(await putRuns(join(fresh(), 'runs'), [3]), fresh());
    const mapping = mapOne(runs, engine, 0, { engine: undefined, threads: 2000 });
    await expect(mapping).rejects.toMatchObject({ argument: 'options.threads' });
    expect(namesIn(join(runs.states, 'shards'))).toEqual([]);
  });

  it('looks for no GPU', async () => {
    const runs = await planRuns(await putRuns(join(fresh(), 'runs'), [1]), fresh());
    vi.mocked(probeCuda).mockClear();
    await mapOne(runs, engine, 0, { engine: undefined, threads: 1 });
    expect(probeCuda).not.toHaveBeenCalled();
  });

  it('goes on where a step file has changed since, without what was measured of it', async () => {
    const source = await putRuns(join(fresh(), 'runs'), [6]);
    const runs = await planRuns(source, fresh());
    const ending = new AbortController();
    const abort = ({ done }: { done: number }) => {
      if (done === 3) ending.abort(new Error('enough'));
    };
    await expect(mapOne(runs, engine, 0, { signal: ending.signal, onProgress: abort })).rejects.toThrow('enough');
    await putStep(join(source, 'a', '1.safetensors'), { ...smallStep(1), step: 1 });
    const replanned = { ...(await planRuns(source, fresh())), states: runs.states };
    await mapOne(replanned, engine, 0);
    expect(await finalized(replanned.manifest, runs.states)).toEqual(await analyzed(engine, source));
  });

  it('refuses shards that are not there, and manifests of another version', async () => {
    const runs = await planRuns(await putRuns(join(fresh(), 'runs'), [2]), fresh(), { shards: 2 });
    await expect(mapOne(runs, engine, 2)).rejects.toThrow(/has 2 shards: 0 to 1/);
    await expect(mapOne(runs, engine, 0, { version: '9.9.9' })).rejects.toThrow(
      /planned by collapsar 1.2.3-test, this is 9.9.9/,
    );
    expect(existsSync(runs.states)).toBe(false);
  });

  it('tells how far it is', async () => {
    const source = await putRuns(join(fresh(), 'runs'), [4]);
    const runs = await planRuns(source, fresh());
    const seen: string[] = [];
    const bytes = (await readManifest(runs.manifest)).bytes;
    await mapOne(runs, engine, 0, {
      onProgress: (state: { done: number; total: number; totalBytes: number }) =>
        seen.push(`${state.done}/${state.total} ${state.totalBytes === bytes}`),
    });
    expect(seen).toEqual(['1/4 true', '2/4 true', '3/4 true', '4/4 true']);
  });
});

describe('paths', () => {
  const home = process.cwd();
  afterEach(() => process.chdir(home));

  it('stay as they were given, and are found from another working directory', async () => {
    const place = fresh();
    await putRuns(join(place, 'runs'), [3], 2);
    process.chdir(place);
    const expected = await analyzed(engine, 'runs');
    expect(expected.reports[0]).toContain('"file":"runs/a/1.safetensors"');
    expect(expected.failures[0]).toMatch(/^runs\/a\/2\.safetensors, tensor "cross_logprobs", offset \d+: /);
    const runs = await planRuns('runs', place, { shards: 2 });
    process.chdir(fresh());
    await mapAll(runs, engine);
    expect(await finalized(runs.manifest, runs.states)).toEqual(expected);
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
    const runs = await planRuns('runs', place, { shards: 2 });
    process.chdir(fresh());
    const failures: string[] = [];
    const onFailure = ({ message }: FileError) => failures.push(message);
    for (let index = 0; index < runs.shards; index++) await mapOne(runs, engine, index, { onFailure });
    expect(failures).toEqual(expected.failures);
    expect(await finalized(runs.manifest, runs.states)).toEqual(expected);
  });

  it('and settings are in the manifest, and the same plan is the same bytes', async () => {
    const source = await putRuns(join(fresh(), 'runs'), [2, 1]);
    const one = await planRuns(source, fresh(), { shards: 2, metrics: ['mi_*'] });
    const other = await planRuns(source, fresh(), { shards: 2, metrics: ['mi_*'] });
    expect(readFileSync(one.manifest, 'utf8')).toBe(readFileSync(other.manifest, 'utf8'));
    expect(JSON.parse(readFileSync(one.manifest, 'utf8'))).toMatchObject({
      format: 'collapsar/manifest',
      version: 1,
      collapsar: VERSION,
      settings: {
        profile: 'strict',
        ...SETTINGS,
        samples: 64,
        nonFinite: 'error',
        placeholders: 'exclude',
        metrics: ['mi_*'],
      },
      directory: process.cwd(),
      shards: [
        { first: 0, steps: 1 },
        { first: 1, steps: 2 },
      ],
      runs: [{ name: 'a', directory: join(source, 'a') }, { name: 'b' }],
      steps: [{ file: join(source, 'a', '1.safetensors'), run: 0, step: 1 }, { run: 0 }, { run: 1 }],
      failures: [],
    });
  });
});
