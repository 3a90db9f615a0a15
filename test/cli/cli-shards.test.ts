// analyze --shard and --journals as a user meets them: the bytes of one analysis, whatever it was cut into.
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { elementOf, exampleRuns, putStep, smallStep } from '../support/analysis-logs.js';
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

async function measureAll(source: string, out: string, count: number, options: readonly string[]): Promise<void> {
  for (let index = 0; index < count; index++) {
    const shard = ['--shard', `${index}/${count}`, '--out', out, '--quiet'];
    expect(await collapsar(['analyze', source, ...shard, ...options])).toMatchObject({ status: 0 });
  }
}

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

describe('one analysis in shards', () => {
  it('gives the very bytes of analyze, in 1, 7 and 64 shards', async () => {
    const options = ['--permutations', '9'];
    const whole = fresh('whole');
    const table = await collapsar(['analyze', exampleRuns, ...options, '--out', whole, '--quiet']);
    const lines = await collapsar(['analyze', exampleRuns, ...options, '--jsonl', '--quiet']);
    for (const count of [1, 7, 64]) {
      const work = fresh('work');
      await measureAll(exampleRuns, work, count, options);
      const out = fresh('results');
      const finish = ['analyze', exampleRuns, ...options, '--journals', work];
      expect(await collapsar([...finish, '--out', out, '--quiet'])).toEqual(table);
      expect(contents(out)).toEqual(contents(whole));
      if (count === 7) expect(await collapsar([...finish, '--jsonl', '--quiet'])).toEqual(lines);
    }
  }, 120_000);

  it('gives of a bad file among many what analyze gives', async () => {
    const run = await runWithBad(5);
    const options = ['--permutations', '9'];
    const whole = fresh('whole');
    const expected = await collapsar(['analyze', run, ...options, '--out', whole, '--quiet']);
    expect(expected.status).toBe(1);
    const work = fresh('work');
    await measureAll(run, work, 3, options);
    const measuring = await collapsar(['analyze', run, ...options, '--shard', '2/3', '--out', work]);
    const journal = join(work, 'journals', '2-of-3');
    expect(measuring).toMatchObject({
      status: 0,
      out: `${journal}: 2 steps, 1 of them failed, 1 of them measured before\n`,
    });
    expect(measuring.err).toMatch(
      /^2 files or paths could not be used; 1 step is in the journal\.\n .*grpo\/7\.safetensors.*\n .*grpo\/6\.safetensors.*NaN/,
    );
    const out = fresh('results');
    const finish = ['analyze', run, ...options, '--journals', work, '--out', out, '--quiet'];
    expect(await collapsar(finish)).toEqual(expected);
    const { '.collapsar-journal': _, ...results } = contents(out);
    const { '.collapsar-journal': __, ...wanted } = contents(whole);
    expect(results).toEqual(wanted);
    expect(Object.keys(results)).toContain('failures.jsonl');
  });

  it('has names in --metrics that no metric of the steps has found at the end, as by analyze', async () => {
    const run = join(await runWithBad(2), '[12].safetensors');
    // There are no rewards.
    const options = ['--permutations', '0', '--metrics', 'mi_estimate,filter_gate'];
    const expected = await collapsar(['analyze', run, ...options]);
    expect(expected.status).toBe(2);
    const work = fresh('work');
    await measureAll(run, work, 2, ['--permutations', '0']);
    const results = fresh('results');
    expect(await collapsar(['analyze', run, ...options, '--journals', work, '--out', results])).toEqual(expected);
    expect(contents(results)).toEqual({});
  });

  it('says which journals are not used, and that a shard of other options is in the way', async () => {
    const run = await runWithBad(1);
    const work = fresh('work');
    await measureAll(run, work, 1, ['--permutations', '0']);
    const journal = join(work, 'journals', '0-of-1');
    const other = await collapsar(['analyze', run, '--permutations', '9', '--journals', work]);
    expect(other.err.replace(/\s+/g, ' ')).toContain(
      `note: ${journal} is not used: it had other options: permutations 0`,
    );
    const again = await collapsar(['analyze', run, '--permutations', '9', '--shard', '0/1', '--out', work]);
    expect(again).toMatchObject({ status: 1, out: '' });
    expect(again.err).toContain(`${journal}: another analysis wrote here: it had other options: permutations 0: give`);
    await measureAll(run, work, 1, ['--permutations', '9', '--no-resume']);
  });

  it('ends with 1 where there is no step at all', async () => {
    const work = fresh('work');
    const nothing = await collapsar(['analyze', join(work, 'gone'), '--shard', '0/1', '--out', work]);
    expect(nothing).toMatchObject({ status: 1, out: '' });
    expect(nothing.err).toContain('there is no step here that can be used');
    expect(readdirSync(join(work, 'journals'))).toEqual([]);
  });

  it('follows no link in the place of a journal', async () => {
    const work = fresh('work');
    mkdirSync(join(work, 'journals'));
    const [kept, link] = [join(work, 'kept'), join(work, 'journals', '.0-of-1')];
    writeFileSync(kept, 'mine');
    symlinkSync(kept, link);
    const { status, err } = await collapsar(['analyze', exampleRuns, '--shard', '0/1', '--out', work]);
    expect([status, err]).toEqual([1, expect.stringContaining('this is a symbolic link')]);
    expect([readFileSync(kept, 'utf8'), lstatSync(link).isSymbolicLink()]).toEqual(['mine', true]);
  });
});

describe('wrong usage', () => {
  it.each([
    [['analyze', exampleRuns, '--shard', '0/1'], '--shard needs --out'],
    [['analyze', exampleRuns, '--shard', '2/2', '--out', 'x'], 'Expected I/N, with I from 0 to N − 1'],
    [['analyze', exampleRuns, '--shard', '0/0', '--out', 'x'], 'Expected I/N'],
    [['analyze', exampleRuns, '--shard', '1', '--out', 'x'], 'Expected I/N'],
    [['analyze', exampleRuns, '--shard', '-1/2', '--out', 'x'], 'Expected I/N'],
    [['analyze', exampleRuns, '--shard', '0/10000001', '--out', 'x'], 'at most 10000000'],
    [['analyze', '--shard', '0/1', '--out', 'x'], 'PATH'],
    [['analyze', exampleRuns, '--journals', ''], 'Expected a path'],
    ...['--json', '--jsonl', '--markdown', '--keep-journal', '--journals=y', '--metrics=mi_*', '--fail-on=warning'].map(
      (option): [string[], string] => [
        ['analyze', exampleRuns, '--shard', '0/1', '--out', 'x', option],
        'cannot be used with',
      ],
    ),
    [['analyze', exampleRuns, '--shard', '0/1', '--out', 's3://b/w'], 'Results go to a file system'],
    [['submit', 'x', '--engine', 'slurm', '--work', 's3://b/w', '--out', 'y'], 'Results go to a file system'],
    [['submit', 'x', '--engine', 'slurm', '--work', 'y', '--out', 'https://b/o'], 'Results go to a file system'],
  ])('%j ends with 2 and says what to do', async (args, hint) => {
    const { status, out, err } = await collapsar(args);
    expect({ status, out }).toEqual({ status: 2, out: '' });
    expect(err).toContain(hint);
    expect(err).toContain('--help');
  });

  it('names in --metrics that no metric has are found before anything is submitted', async () => {
    const work = join(fresh('work'), 'w');
    const submitting = ['submit', exampleRuns, '--engine', 'slurm', '--work', work, '--out', work, '--metrics', 'x'];
    expect(await collapsar(submitting)).toMatchObject({ status: 2, out: '', err: expect.stringContaining('"x"') });
    expect(existsSync(work)).toBe(false);
  });
});

describe('progress', () => {
  it('of a shard is a bar on a terminal, and gone at the end', async () => {
    const work = fresh('work');
    const args = ['analyze', exampleRuns, '--permutations', '99', '--shard', '0/1', '--out', work];
    const err = keeping({ isTTY: true, columns: 120 });
    await collapsar(args, { err });
    expect(err.text).toMatch(/[0-9]+\/153 steps .*\/s +ETA /);
    expect(err.pieces.at(-1)).toBe('\r\u001b[K');
    const quiet = keeping({ isTTY: true, columns: 120 });
    await collapsar([...args, '--no-resume', '--quiet'], { err: quiet });
    expect(quiet.text).toBe('');
  });
});
