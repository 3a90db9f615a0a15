// bench/compare.mjs on small made-up files: what it calls slower, what it refuses, and its exit status.
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryDirectory } from '../support/temporary-directory.js';

interface Times {
  seconds: number;
  spread?: number;
}

const folder = temporaryDirectory();

/** A result file with these times of collapsar by case, and one pure read. */
function file(name: string, cases: Record<string, Times>, changes: Record<string, unknown> = {}): string {
  const common = { elements: 1e6, bytes: 4e6, isa: 'avx512', threads: 1, rounds: [] };
  const measures = Object.entries(cases).map(([id, { seconds, spread = 0.01 }]) => ({
    ...common,
    case: id,
    runner: 'collapsar',
    seconds,
    spread,
  }));
  const read = { ...common, case: 'a', runner: 'read', seconds: 1e-3, spread: 0.5 };
  const peer = { ...common, case: 'a', runner: 'peer', peer: 'numpy', seconds: changes.peer ?? 1, spread: 0 };
  const results = {
    schema: 1,
    date: '2026-01-01T00:00:00.000Z',
    suite: 'bench',
    quick: false,
    machine: { cpu: 'A processor', threads: 2 },
    load: { before: 0, after: 1 },
    calls: [{ name: 'sync', what: '', seconds: changes.sync ?? 1e-5, spread: 0.01, rounds: [] }],
    measures: [...measures, { ...read, seconds: changes.read ?? 1e-3 }, peer],
    ...changes,
  };
  const path = join(folder, `${name}.json`);
  writeFileSync(path, JSON.stringify(results));
  return path;
}

function compare(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['bench/compare.mjs', ...args], { encoding: 'utf8' });
  return { status, stdout, stderr };
}

test('the same times: nothing is slower', () => {
  const before = file('same', { a: { seconds: 1e-3 }, b: { seconds: 2 } });
  const { status, stdout } = compare(before, before);
  expect(status).toBe(0);
  expect(stdout).toBe('3 compared, 0 slower, 0 faster, 0 missing\n');
});

test('a rise above both spreads together is named and fails; one within them does not', () => {
  const before = file('before', { a: { seconds: 1e-3, spread: 0.04 }, b: { seconds: 2, spread: 0.04 } });
  const after = file('after', { a: { seconds: 1.07e-3, spread: 0.04 }, b: { seconds: 2.2, spread: 0.04 } });
  const { status, stdout } = compare(before, after);
  expect(status).toBe(1);
  expect(stdout).toContain('slower by more than the noise:\n    +10.0%  2.00 s → 2.20 s  (noise ±8.0%)  b, avx512');
  expect(stdout).toContain('1 slower, 0 faster');
  expect(stdout).not.toContain(' a, avx512');
});

test('less than 3% is no rise, however steady the runs', () => {
  const before = file('steady', { a: { seconds: 1, spread: 0 } });
  expect(compare(before, file('steady2', { a: { seconds: 1.029, spread: 0 } })).status).toBe(0);
  expect(compare(before, file('steady3', { a: { seconds: 1.031, spread: 0 } })).status).toBe(1);
});

test('a slower call fails; a slower peer or read does not', () => {
  const cases = { a: { seconds: 1e-3 } };
  const before = file('call', cases);
  const slowCall = compare(before, file('call2', cases, { sync: 1.2e-5 }));
  expect(slowCall.status).toBe(1);
  expect(slowCall.stdout).toContain('call: sync');
  const others = compare(before, file('call3', cases, { read: 2e-3, peer: 9 }));
  expect(others.status).toBe(0);
  expect(others.stdout).toContain('the pure read itself took +100.0%');
});

test('faster is told and passes', () => {
  const { status, stdout } = compare(file('slow', { a: { seconds: 2e-3 } }), file('fast', { a: { seconds: 1e-3 } }));
  expect(status).toBe(0);
  expect(stdout).toContain('faster by more than the noise:\n    −50.0%');
});

const unseen =
  'status 3: nothing is seen to be slower, but these runs cannot show it: run both again, in full, on an idle machine\n';

test('a run that the machine spoilt is named, and does not pass', () => {
  const quiet = file('quiet', { a: { seconds: 1 } });
  const busy = file('busy', { a: { seconds: 1 } }, { load: { before: 0.9, after: 1 } });
  const { status, stdout } = compare(quiet, busy);
  expect(status).toBe(3);
  expect(stdout.endsWith(unseen)).toBe(true);
  expect(stdout).toContain(`do not rely on ${busy}: other programs were running: 0.90 a hardware thread`);
  expect(stdout).not.toContain(quiet);
});

test('noise that would hide a rise is named', () => {
  const noisy = file('noisy', { a: { seconds: 1e-3, spread: 0.15 }, b: { seconds: 1 }, c: { seconds: 1 } });
  const { status, stdout } = compare(noisy, noisy);
  expect(status).toBe(0);
  expect(stdout).toContain('too noisy to show a rise of 20%');
});

test('where most of the measures are too noisy, nothing slower is no pass; something slower is a failure still', () => {
  // The rounds of calls are no part of what a run is doubted for as a whole.
  const calls = (one: number) =>
    ['x', 'y', 'z'].map((name) => ({ name, seconds: name === 'x' ? one : 1, spread: 0.15 }));
  const noisy = file('calls', { a: { seconds: 1 } }, { calls: calls(1) });
  const { status, stdout } = compare(noisy, noisy);
  expect(status).toBe(3);
  expect(stdout).not.toContain('do not rely');
  expect(stdout.endsWith(unseen)).toBe(true);
  const slower = file('calls2', { a: { seconds: 1 } }, { calls: calls(2) });
  expect(compare(noisy, slower)).toMatchObject({ status: 1, stdout: expect.not.stringContaining(unseen) });
});

test('a measure that is gone fails unless that is allowed; a new one passes', () => {
  const both = file('both', { a: { seconds: 1 }, b: { seconds: 1 } });
  const one = file('one', { a: { seconds: 1 } });
  const gone = compare(both, one);
  expect(gone.status).toBe(1);
  expect(gone.stdout).toContain('in the first file only:\n            b, avx512, 1 thread');
  expect(compare(both, one, '--allow-missing').status).toBe(0);
  expect(compare(one, both).status).toBe(0);
});

test('what cannot be compared is refused with status 2', () => {
  const cases = { a: { seconds: 1 } };
  const before = file('plain', cases);
  const other = file('other', cases, { machine: { cpu: 'Another', threads: 2 } });
  expect(compare(before, other)).toMatchObject({ status: 2, stderr: expect.stringContaining('the machines differ') });
  expect(compare(before, other, '--any-machine').status).toBe(0);
  expect(compare(before, file('quick', cases, { quick: true })).stderr).toContain('quick differs');
  expect(compare(before, file('strange', cases, { schema: 2 })).stderr).toContain('strange.json is no result');
  expect(compare(before, join(folder, 'nowhere.json')).status).toBe(2);
  expect(compare(before).stderr).toContain('usage');
  expect(compare(before, file('disjoint', { z: { seconds: 1 } }, { calls: [] }), '--allow-missing').status).toBe(2);
});

test('a file that is not whole is refused by name, wherever it stands', async () => {
  // Plain JavaScript, without declarations; a variable keeps the compiler from looking for them.
  const { readResults } = await import(new URL('../../bench/compare.mjs', import.meta.url).href);
  const cases = { a: { seconds: 1 } };
  const good = file('good', cases);
  const own = { case: 'a', runner: 'collapsar', isa: 'avx512', threads: 1, seconds: 1, spread: 0 };
  const bad: [Record<string, unknown>, string][] = [
    [{ machine: undefined }, 'names no machine'],
    [{ load: undefined }, 'names no load'],
    [{ measures: [null] }, 'has no time in measures[0]: seconds undefined'],
    [{ measures: [own, { ...own, seconds: null }] }, 'has no time in measures[1] (a): seconds null, spread 0'],
    [{ measures: [{ ...own, seconds: 0 }] }, 'has no time in measures[0] (a): seconds 0'],
    [{ measures: [{ ...own, seconds: '1' }] }, 'has no time in measures[0] (a): seconds 1'],
    [{ measures: [{ ...own, spread: null }] }, 'has no time in measures[0] (a): seconds 1, spread null'],
    [{ measures: [{ ...own, spread: -0.1 }] }, 'has no time in measures[0] (a): seconds 1, spread -0.1'],
    [{ measures: [{ ...own, runner: 'read', seconds: null }] }, 'has no time in measures[0] (a)'],
    [{ calls: [{ name: 'sync', spread: 0 }] }, 'has no time in calls[0] (sync): seconds undefined'],
  ];
  for (const [changes, problem] of bad) {
    const path = file('bad', cases, changes);
    const { message } = await readResults(path).catch((error: Error) => error);
    expect(message).toContain(`${path} ${problem}`);
    expect(message).toContain(': run npm run bench again');
  }
  const cut = join(folder, 'cut.json');
  writeFileSync(cut, '{"schema": 1,');
  for (const pair of [
    [good, cut],
    [cut, good],
  ]) {
    const { status, stdout, stderr } = compare(...pair);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toContain(`compare: ${cut} is no JSON (`);
  }
  expect((await readResults(good)).suite).toBe('bench');
});
