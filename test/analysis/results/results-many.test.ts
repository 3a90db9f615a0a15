// A thousand step files, one of them bad: 999 results, the bad one named, and no file left open.
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { collapsar } from '../../cli/cli-streams.js';
import { putStep, smallStep } from '../../support/analysis-logs.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';

const directory = temporaryDirectory();
const run = join(directory, 'run');
const STEPS = 1000;
const BAD = 617;
const nameOf = (step: number) => join(run, `step_${step}.safetensors`);

beforeAll(async () => {
  mkdirSync(run);
  for (let step = 0; step < STEPS; step++) {
    // Few different ones are enough, and quickly made: step numbers may come again.
    if (step < 20) await putStep(nameOf(step), smallStep(step, step / 20));
    else copyFileSync(nameOf(step % 20), nameOf(step));
  }
  truncateSync(nameOf(BAD), 500);
});

it('gives 999 results, names the bad file, and ends with 1', async () => {
  const openFiles = () => (existsSync('/proc/self/fd') ? readdirSync('/proc/self/fd').length : 0);
  const out = join(directory, 'out');
  const command = ['analyze', run, '--out', out, '--permutations', '0', '--quiet'];
  // What is opened once and stays: the engine's, and modules.
  await collapsar(['analyze', nameOf(0), '--permutations', '0']);
  const before = openFiles();
  const { status, err } = await collapsar(command);
  expect(openFiles()).toBeLessThanOrEqual(before);
  expect(status).toBe(1);
  const lines = err.trimEnd().split('\n');
  expect(lines).toHaveLength(2);
  expect(lines[0]).toBe('1 file or path could not be used; 999 steps were reported.');
  expect(lines[1]).toContain(nameOf(BAD));
  const records = readFileSync(join(out, 'metrics.jsonl'), 'utf8').trimEnd().split('\n');
  expect(new Set(records.map((line) => JSON.parse(line).file)).size).toBe(999);
  expect(JSON.parse(readFileSync(join(out, 'failures.jsonl'), 'utf8')).file).toBe(nameOf(BAD));
  expect(JSON.parse(readFileSync(join(out, 'summary.json'), 'utf8'))).toMatchObject({ steps: 999, failures: 1 });
});
