// What the longer benchmarks, and checks, have in common: wrong options measure nothing and are no success, no earlier
// result is overwritten, and Ctrl-C leaves none of their gigabytes behind.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { buildIfStale } from '../support/built-command.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const bench = fileURLToPath(new URL('../../bench/', import.meta.url));
const folder = temporaryDirectory();

beforeAll(buildIfStale);

describe('options', () => {
  const results = join(bench, 'results');
  const wrong: [string, string[], RegExp][] = [
    ['coverage', ['--draws', 'many'], /--draws many: expected a whole number from 1 on/],
    ['coverage', ['--only', 'weak,feeble'], /expected zero, weak, strong, bound, saturated/],
    ['coverage', ['--drawz', '1'], /Unknown option '--drawz'/],
    ['false-alarms', ['--runs', '0'], /--runs 0: expected/],
    ['false-alarms', ['--only', 'ill'], /there is no ill; there are flat/],
    ['score-savings', ['--negatives', '3,x'], /--negatives 3,x: expected/],
    ['filter', ['--groups', 'many'], /--groups many: expected a whole number from 1 on/],
    ['filter', ['1000'], /Unexpected argument '1000'/],
    ['monitor-memory', ['--steps', '0'], /--steps 0: expected/],
    ['event-loop', ['--gigabytes', 'x'], /--gigabytes x: expected a number above 0/],
    ['terabytes', [], /expected DIRECTORY/],
    ['terabytes', ['/no/such/directory'], /is no directory/],
    ['terabytes', ['.', '--memory', 'x'], /--memory x: expected a number above 0/],
    ['terabytes', ['.', '--shape', '64x512'], /expected PROMPTSxRESPONSESxTOKENS/],
  ];
  it.each(wrong)('are refused where wrong: %s %j', (name, args, message) => {
    const before = readdirSync(results);
    const { status, stderr } = spawnSync(process.execPath, [join(bench, `${name}.mjs`), ...args], { encoding: 'utf8' });
    expect(stderr).toMatch(message);
    expect(status).toBe(2);
    expect(readdirSync(results)).toEqual(before);
  });
});

it.each([
  ['scripts/fault-runs.mjs', ['--only', 'nosuch'], /--only nosuch: expected killed, full disk/],
  ['scripts/fault-runs.mjs', ['--runs', 'abc'], /--runs abc: expected a whole number/],
  ['fuzz/run.mjs', ['--seconds', 'abc', 'npy'], /--seconds abc: expected a number above 0/],
  ['fuzz/run.mjs', ['nosuch'], /no target nosuch/],
])('%s %j does not pass for having checked something', (script, args, message) => {
  const { status, stderr } = spawnSync(process.execPath, [join(bench, '..', script), ...args], { encoding: 'utf8' });
  expect(stderr).toMatch(message);
  expect(status).toBe(2);
});

it('keeps what an earlier run of the day has stored', async () => {
  const { storeResult } = await import(new URL('../../bench/stored.mjs', import.meta.url).href);
  const store = (run: number): Promise<string> => storeResult('date', { run }, 1, pathToFileURL(join(folder, '/')));
  expect([await store(1), await store(2), await store(3)]).toEqual(
    ['date', 'date-2', 'date-3'].map((name) => `bench/results/${name}.json`),
  );
  expect(JSON.parse(readFileSync(join(folder, 'date.json'), 'utf8'))).toEqual({ run: 1 });
});

it('removes its step files when it is interrupted', async () => {
  const here = mkdtempSync(join(folder, 'data-'));
  const args = [join(bench, 'terabytes.mjs'), here, '--gigabytes', '4', '--shape', '8x64x1024', '--without-torch'];
  const child = spawn(process.execPath, args, { stdio: 'ignore' });
  const ended = new Promise((resolve) => child.on('close', resolve));
  while (child.exitCode === null && readdirSync(here, { recursive: true }).length < 3) await sleep(5);
  child.kill('SIGINT');
  expect(await ended).toBe(130);
  expect(existsSync(here)).toBe(true);
  expect(readdirSync(here)).toEqual([]);
});
