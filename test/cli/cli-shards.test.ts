// plan, map, merge and finalize as a user meets them: the bytes of one analysis, whatever it was cut into.
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { elementOf, exampleRuns, putStep, smallStep } from '../support/analysis-logs.js';
import { uniformNumbers } from '../support/random-numbers.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { collapsar, keeping } from './cli-streams.js';

const directory = temporaryDirectory();

let made = 0;
/** A path of its own. */
function fresh(name: string): string {
  const path = join(directory, `${made++}-${name}`);
  mkdirSync(path, { recursive: true });
  return path;
}

/** Names and contents of the files in a directory, those that begin with a dot too. */
function contents(path: string): Record<string, string> {
  return Object.fromEntries(readdirSync(path).map((name) => [name, readFileSync(join(path, name), 'latin1')]));
}

async function succeed(args: readonly string[], environment?: Record<string, string>): Promise<string> {
  const { status, out, err } = await collapsar(
    args,
    environment && { environment: { LANG: 'C.UTF-8', ...environment } },
  );
  expect({ status, err }).toEqual({ status: 0, err: '' });
  return out;
}

interface Planned {
  readonly manifest: string;
  readonly states: string;
  readonly shards: number;
}

async function planned(source: readonly string[], ...options: readonly string[]): Promise<Planned> {
  const place = fresh('plan');
  const manifest = join(place, 'manifest.json');
  const { out } = await collapsar(['plan', ...source, '--out', manifest, '--json', ...options]);
  return { manifest, states: join(place, 'state'), shards: JSON.parse(out).shards };
}

const mapArgs = ({ manifest, states }: Planned, index: number): string[] => [
  'map',
  '--manifest',
  manifest,
  '--out',
  states,
  '--index',
  String(index),
];
const stateOf = ({ states }: Planned, index: number): string =>
  join(states, 'shards', `${String(index).padStart(5, '0')}.state`);

async function mapAll(plan: Planned): Promise<string[]> {
  const all = Array.from({ length: plan.shards }, (_, index) => index);
  for (const index of all) expect((await collapsar([...mapArgs(plan, index), '--quiet'])).status).toBe(0);
  return all.map((index) => stateOf(plan, index));
}

/** Merges states a few at a time, chosen at random, until one is left. */
async function mergedAtRandom(states: readonly string[], seed: number): Promise<string> {
  const place = fresh('merges');
  const random = uniformNumbers(seed);
  let left = [...states];
  for (let round = 0; left.length > 1; round++) {
    const count = Math.min(left.length, 2 + Math.floor(random() * 9));
    const chosen: string[] = [];
    for (let i = 0; i < count; i++) chosen.push(...left.splice(Math.floor(random() * left.length), 1));
    const out = join(place, `${round}.state`);
    await succeed(['merge', ...chosen, '--out', out, '--fan-in', String(2 + Math.floor(random() * 4))]);
    left = [...left, out];
  }
  return left[0] as string;
}

describe('one analysis in shards', () => {
  const options = ['--permutations', '9'];

  it('gives the very bytes of analyze: 1, 7 and 64 shards, merged in random trees', async () => {
    const whole = fresh('whole');
    const table = await collapsar(['analyze', exampleRuns, ...options, '--out', whole, '--quiet']);
    const lines = await collapsar(['analyze', exampleRuns, ...options, '--jsonl', '--quiet']);
    const merged = new Set<string>();
    for (const shards of [1, 7, 64]) {
      const plan = await planned([exampleRuns], '--shards', String(shards), ...options);
      expect(plan.shards).toBe(shards);
      const states = await mapAll(plan);
      const state = await mergedAtRandom(states, shards);
      const out = fresh('results');
      const final = await collapsar([
        'finalize',
        '--manifest',
        plan.manifest,
        '--state',
        state,
        '--out',
        out,
        '--quiet',
      ]);
      expect(final).toEqual(table);
      expect(contents(out)).toEqual(contents(whole));
      // From the directory of states, without a merge.
      const direct = ['finalize', '--manifest', plan.manifest, '--state', plan.states, '--jsonl', '--quiet'];
      if (shards === 7) expect(await collapsar(direct)).toEqual(lines);
      // Everything but the name of the manifest in its first line is the same for any number of shards.
      merged.add(readFileSync(state, 'utf8').split('\n').slice(1, -2).join('\n'));
    }
    expect(merged.size).toBe(1);
  }, 60_000);
});

/** Steps 1 to `good`, one with a NaN and one that is no step file. */
async function runWithBad(good: number): Promise<string> {
  const run = join(fresh('run'), 'grpo');
  for (let step = 1; step <= good; step++) await putStep(join(run, `${step}.safetensors`), smallStep(step));
  const withNaN = smallStep(good + 1);
  withNaN.logprobs.data[elementOf(1, 2, 0)] = Number.NaN;
  await putStep(join(run, `${good + 1}.safetensors`), withNaN);
  writeFileSync(join(run, `${good + 2}.safetensors`), '{}');
  return run;
}

describe('a bad file among many', () => {
  it('is recorded, and finalize gives the rest, with the exit status and the words of analyze', async () => {
    const run = await runWithBad(5);
    const whole = fresh('whole');
    const expected = await collapsar(['analyze', run, '--permutations', '9', '--out', whole, '--quiet']);
    expect(expected.status).toBe(1);

    const manifest = join(fresh('plan'), 'manifest.json');
    const plan = { manifest, states: fresh('states'), shards: 3 };
    const planning = await collapsar(['plan', run, '--permutations', '9', '--shards', '3', '--out', manifest]);
    expect(planning).toMatchObject({ status: 0, out: expect.stringContaining('6 steps') });
    expect(planning.err).toMatch(
      /^1 file or path could not be used; 6 steps are in the plan\.\n .*grpo\/7\.safetensors/,
    );

    for (const index of [0, 1]) expect(await collapsar(mapArgs(plan, index))).toMatchObject({ status: 0, err: '' });
    const mapping = await collapsar(mapArgs(plan, 2));
    expect(mapping).toMatchObject({ status: 0, out: `${stateOf(plan, 2)}: 2 steps, 1 of them failed\n` });
    expect(mapping.err).toMatch(
      /^1 file or path could not be used; the state has 1 of 2 steps\.\n .*grpo\/6\.safetensors.*NaN/,
    );
    const again = await collapsar([...mapArgs(plan, 2), '--strict']);
    expect(again).toMatchObject({ status: 1, err: '', out: expect.stringContaining('complete before') });

    const out = fresh('results');
    const final = await collapsar([
      'finalize',
      '--manifest',
      manifest,
      '--state',
      plan.states,
      '--out',
      out,
      '--quiet',
    ]);
    expect(final).toEqual(expected);
    // Of a shard's steps the states have what was measured.
    const { '.collapsar-journal': journal, ...results } = contents(whole);
    expect(journal).toBeDefined();
    expect(contents(out)).toEqual(results);
    expect(Object.keys(contents(out))).toContain('failures.jsonl');
  });

  it('is exit status 1 of plan with --strict, or where there is nothing else', async () => {
    const run = await runWithBad(1);
    const out = join(fresh('plan'), 'manifest.json');
    expect((await collapsar(['plan', run, '--out', out, '--strict'])).status).toBe(1);
    expect(existsSync(out)).toBe(true);
    const none = join(fresh('plan'), 'manifest.json');
    const planning = await collapsar(['plan', join(run, '3.safetensors'), '--out', none]);
    expect(planning).toMatchObject({ status: 1, out: '' });
    expect(planning.err).toContain('0 steps are in the plan');
    expect(existsSync(none)).toBe(false);
  });
});

describe('a path that a shell would take apart', () => {
  it('is quoted in the commands that plan and finalize name', async () => {
    const step = join(exampleRuns, 'healthy', 'step_00001.safetensors');
    const manifest = join(fresh('plan'), 'my plan.json');
    expect(await succeed(['plan', step, '--out', manifest])).toContain(`collapsar map --manifest '${manifest}' --out`);
    const two = await planned([step, step.replace('1.', '4.')], '--shards', '2', '--permutations', '0');
    await succeed(mapArgs(two, 1));
    const moved = join(fresh('plan'), "it's.json");
    copyFileSync(two.manifest, moved);
    const { err } = await collapsar(['finalize', '--manifest', moved, '--state', two.states]);
    expect(err).toContain(`collapsar map --manifest '${moved.replace("'", "'\\''")}' --out`);
  });
});

it('a file that cannot be written is named as it was given', async () => {
  // Long enough for the name to be taken, and the temporary one not.
  const manifest = join(fresh('plan'), 'm'.repeat(250));
  const { status, err } = await collapsar(['plan', exampleRuns, '--out', manifest]);
  expect(status).toBe(1);
  expect(err).toBe(`error: ${manifest}: cannot write here: the path is too long for the file system (ENAMETOOLONG)\n`);
});

it('a path with control characters is shown on stderr without them', async () => {
  const place = join(fresh('bell'), 'a\u0007b');
  const plan = await planned([join(exampleRuns, 'healthy', 'step_00001.safetensors')], '--permutations', '0');
  const moved = { ...plan, states: place };
  await succeed(mapArgs(moved, 0));
  writeFileSync(stateOf(moved, 0), 'x');
  const { err } = await collapsar([...mapArgs(moved, 0), '--quiet']);
  expect(err).toContain('a\\u{7}b/shards/00000.state: this is no state');
  expect(err).not.toContain('\u0007');
  const twice = await collapsar(['merge', place, place, '--out', join(place, 'x')]);
  expect(twice.err).toContain('a\\u{7}b/shards/00000.state is given twice');
  expect(twice.err).not.toContain('\u0007');
});

describe('merge', () => {
  it('into one of its states, or of one twice, is wrong usage that names the option', async () => {
    const step = join(exampleRuns, 'healthy', 'step_00001.safetensors');
    const plan = await planned([step], '--shards', '1', '--permutations', '0');
    await succeed(['map', '--manifest', plan.manifest, '--out', plan.states, '--index', '0']);
    const beyond = await collapsar(['map', '--manifest', plan.manifest, '--out', plan.states, '--index', '1']);
    expect(beyond.err).toContain(`1, but ${plan.manifest} has 1 shard: 0\n`);
    const state = join(plan.states, 'shards', '00000.state');
    const onto = await collapsar(['merge', state, '--out', state]);
    expect(onto).toMatchObject({ status: 2, out: '' });
    expect(onto.err).toContain(`error: --out: ${state} is also one of the states to merge: name another file`);
    const twice = await collapsar(['merge', state, state, '--out', join(plan.states, 'out')]);
    expect(twice).toMatchObject({ status: 2, out: '' });
    expect(twice.err).toContain(`error: ${state} is given twice: a step counts once, so leave out one of the two`);
    const link = join(plan.states, 'link');
    symlinkSync(state, link);
    const linked = await collapsar(['merge', state, link, '--out', join(plan.states, 'out')]);
    expect(linked.err).toContain(`error: ${link} and ${state} are the same file`);
    const into = await collapsar(['merge', state, '--out', plan.states]);
    expect(into.status).toBe(1);
    expect(into.err).toContain(`${plan.states}: cannot write here: this is a directory: name a file`);
  });

  it.skipIf(process.platform === 'win32')('does not take the place of a device or a pipe', async () => {
    const plan = await planned([join(exampleRuns, 'healthy', 'step_00001.safetensors')], '--permutations', '0');
    await mapAll(plan);
    const pipe = join(plan.states, 'pipe');
    spawnSync('mkfifo', [pipe]);
    for (const command of [
      ['merge', plan.states],
      ['plan', exampleRuns],
    ]) {
      const { status, out, err } = await collapsar([...command, '--out', pipe]);
      expect({ status, out }).toEqual({ status: 1, out: '' });
      expect(err).toBe(
        `error: ${pipe}: cannot write here: this is a device, a pipe or a socket, and a file would take its place: name a file\n`,
      );
      expect(lstatSync(pipe).isFIFO()).toBe(true);
    }
    expect(readdirSync(plan.states).sort()).toEqual(['completions', 'pipe', 'shards']);
  });
});

describe('the index', () => {
  const variables = [
    'SLURM_ARRAY_TASK_ID',
    'JOB_COMPLETION_INDEX',
    'AWS_BATCH_JOB_ARRAY_INDEX',
    'OMPI_COMM_WORLD_RANK',
  ];

  it.each(variables)('is taken from %s', async (variable) => {
    const plan = await planned(
      [(await runWithBad(3)).concat('/*.safetensors')],
      '--shards',
      '4',
      '--permutations',
      '0',
    );
    const args = ['map', '--manifest', plan.manifest, '--out', plan.states];
    await succeed(args, { [variable]: '1' });
    await succeed(args, { [variable]: '0', COLLAPSAR_INDEX_OFFSET: '2' });
    expect(readdirSync(join(plan.states, 'completions')).sort()).toEqual(['00001', '00002']);
    // What the user says counts.
    await succeed([...args, '--index', '0'], { [variable]: '1', COLLAPSAR_INDEX_OFFSET: '2' });
    expect(readdirSync(join(plan.states, 'completions')).sort()).toEqual(['00000', '00001', '00002']);
  });

  it.each([
    [{}, 'which shard\\? Give --index, or start it where one of these is set: SLURM_ARRAY_TASK_ID'],
    [{ SLURM_ARRAY_TASK_ID: '' }, 'which shard'],
    [{ SLURM_ARRAY_TASK_ID: 'x' }, 'SLURM_ARRAY_TASK_ID is "x"'],
    [{ JOB_COMPLETION_INDEX: '-1' }, 'expected a whole number'],
    [{ JOB_COMPLETION_INDEX: '0', COLLAPSAR_INDEX_OFFSET: 'a' }, 'COLLAPSAR_INDEX_OFFSET is "a"'],
    [
      { SLURM_ARRAY_TASK_ID: '0', OMPI_COMM_WORLD_RANK: '1' },
      'SLURM_ARRAY_TASK_ID is 0, but OMPI_COMM_WORLD_RANK is 1',
    ],
    [{ SLURM_ARRAY_TASK_ID: '4' }, 'has 4 shards: 0 to 3'],
  ])('of %j is wrong usage', async (environment, message) => {
    const plan = await planned([exampleRuns], '--shards', '4');
    const { status, out, err } = await collapsar(['map', '--manifest', plan.manifest, '--out', plan.states], {
      environment,
    });
    expect({ status, out }).toEqual({ status: 2, out: '' });
    expect(err).toMatch(new RegExp(message));
    expect(existsSync(plan.states)).toBe(false);
  });
});

describe('wrong usage', () => {
  it.each([
    [['plan', exampleRuns], '--out'],
    [['plan', '--out', 'x'], 'PATH'],
    [['plan', exampleRuns, '--out', 'x', '--shards', '0'], 'whole number from 1'],
    [['plan', exampleRuns, '--out', 'x', '--target-bytes', 'much'], 'number of bytes'],
    [['plan', exampleRuns, '--out', 'x', '--target-bytes', '1GiB', '--shards', '2'], 'cannot be used with'],
    [['map', '--out', 'x'], '--manifest'],
    [['map', '--manifest', 'x'], '--out'],
    [['map', '--manifest', 'x', '--out', 'y', '--index', '-1'], 'whole number'],
    [['merge', 'x'], '--out'],
    [['merge', '--out', 'x'], 'STATE'],
    [['merge', 'x', '--out', 'y', '--fan-in', '1'], 'whole number from 2'],
    [['plan', exampleRuns, '--out', 's3://b/manifest.json'], 'Results go to a file system'],
    [['plan', exampleRuns, '--out', '-'], 'results do not go to stdout'],
    [['map', '--manifest', 'x', '--out', 'gs://b/w'], 'Results go to a file system'],
    [['merge', 'x', '--out', 's3://b/x.state'], 'Results go to a file system'],
    [['finalize', '--manifest', 'x', '--state', 'y', '--out', 's3://b/out'], 'Results go to a file system'],
    [['submit', 'x', '--engine', 'slurm', '--work', 's3://b/w', '--out', 'y'], 'Results go to a file system'],
    [['submit', 'x', '--engine', 'slurm', '--work', 'y', '--out', 'https://b/o'], 'Results go to a file system'],
    [['finalize', '--manifest', 'x'], '--state'],
    [['finalize', '--state', 'x'], '--manifest'],
    [['finalize', '--manifest', 'x', '--state', 'y', '--json', '--jsonl'], 'cannot be used with'],
  ])('%j ends with 2 and says what to do', async (args, hint) => {
    const { status, out, err } = await collapsar(args);
    expect({ status, out }).toEqual({ status: 2, out: '' });
    expect(err).toContain(hint);
    expect(err).toContain('--help');
  });

  it('names in --metrics that no metric has are found before anything is planned', async () => {
    const out = join(fresh('plan'), 'manifest.json');
    const planning = ['plan', exampleRuns, '--metrics', 'mi_estimate,nothing_such', '--out', out];
    expect(await collapsar(planning)).toMatchObject({
      status: 2,
      out: '',
      err: expect.stringContaining('"nothing_such"'),
    });
    const work = join(fresh('work'), 'w');
    const submitting = ['submit', exampleRuns, '--engine', 'slurm', '--work', work, '--out', work, '--metrics', 'x'];
    expect(await collapsar(submitting)).toMatchObject({ status: 2, out: '', err: expect.stringContaining('"x"') });
    expect([existsSync(out), existsSync(work)]).toEqual([false, false]);
  });

  it('names in --metrics that no metric of the steps has are found at the end, as by analyze', async () => {
    const run = await runWithBad(2);
    const good = [join(run, '1.safetensors'), join(run, '2.safetensors')];
    // There are no rewards.
    const options = ['--permutations', '0', '--metrics', 'mi_estimate,filter_gate'];
    const expected = await collapsar(['analyze', ...good, ...options]);
    expect(expected.status).toBe(2);
    const plan = await planned(good, ...options);
    await mapAll(plan);
    const results = fresh('results');
    const final = ['finalize', '--manifest', plan.manifest, '--state', plan.states];
    expect(await collapsar([...final, '--out', results])).toEqual(expected);
    expect(contents(results)).toEqual({});
    const others = ['--metrics', 'mi_upper_bound'];
    const { out } = await collapsar(['analyze', ...good, '--permutations', '0', ...others, '--jsonl']);
    expect(await collapsar([...final, ...others, '--jsonl'])).toEqual({ status: 0, out, err: '' });
  });
});

describe('merge --json', () => {
  it('tells what the metrics were, as summary.json does', async () => {
    const plan = await planned([exampleRuns], '--shards', '5', '--permutations', '0');
    await mapAll(plan);
    const results = fresh('results');
    await succeed(['finalize', '--manifest', plan.manifest, '--state', plan.states, '--out', results]);
    const summary = JSON.parse(readFileSync(join(results, 'summary.json'), 'utf8'));
    const out = join(fresh('merged'), 'state');
    const stringify = vi.spyOn(JSON, 'stringify');
    const text = await succeed(['merge', plan.states, '--out', out, '--json']);
    const longest = Math.max(...stringify.mock.results.map(({ value }) => String(value).length));
    stringify.mockRestore();
    const merged = JSON.parse(text);
    expect(text).toBe(`${JSON.stringify(merged)}\n`);
    // A run at a time: of very many no string holds them all.
    expect(longest).toBeLessThan(text.length / 2);
    expect(merged).toMatchObject({ state: out, states: 5, steps: 153, failures: 0, metrics: summary.statistics });
    expect(merged.runs.map(({ metrics }: { metrics: object }) => metrics)).toEqual(
      summary.runs.map(({ statistics }: { statistics: object }) => statistics),
    );
  });
});

describe('progress', () => {
  it('is a bar on a terminal, for map and merge too, and gone at the end', async () => {
    const plan = await planned([exampleRuns], '--shards', '1', '--permutations', '99');
    const err = keeping({ isTTY: true, columns: 120 });
    await collapsar(mapArgs(plan, 0), { err });
    expect(err.text).toMatch(/[0-9]+\/153 steps .*\/s +ETA /);
    expect(err.pieces.at(-1)).toBe('\r\u001b[K');
    const quiet = keeping({ isTTY: true, columns: 120 });
    await collapsar([...mapArgs(plan, 0), '--redo', '--quiet'], { err: quiet });
    expect(quiet.text).toBe('');
  });
});
