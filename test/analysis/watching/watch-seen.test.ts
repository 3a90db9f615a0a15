// What a look at folders takes from the look before: files of the same size and time are not read again.
import { appendFileSync, openSync, readFileSync, statSync, utimesSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type StepFile, type StepFilesOptions, stepFiles } from '../../../src/analysis/measuring/step-source.js';
import { logReading } from '../../../src/logs/rollouts/log-options.js';
import { RolloutLogs, type SeenLogs } from '../../../src/logs/rollouts/rollout-logs.js';
import { putLogs } from '../../logs/rollouts/rollout-logs.js';
import { putStep, smallStep } from '../../support/analysis-logs.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';

const root = temporaryDirectory();

/** Its first bytes are others now, and neither its size nor its time. */
function overwrite(path: string): void {
  const { atime, mtime } = statSync(path);
  writeSync(openSync(path, 'r+'), 'x'.repeat(8), 0);
  utimesSync(path, atime, mtime);
}

describe('a look after another', () => {
  it('reads the headers of no step files but of those that are new or changed', async () => {
    const folder = join(root, 'steps');
    for (const step of [1, 2]) await putStep(join(folder, `step_${step}.safetensors`), smallStep(step));
    const seen: StepFilesOptions['seen'] = new Map();
    const problems: string[] = [];
    const look = async () => {
      problems.length = 0;
      const options = { seen, onError: (error: Error) => problems.push(error.message) };
      return (await stepFiles(folder, options, undefined, false)).map(({ step }: StepFile) => step);
    };
    expect(await look()).toEqual([1, 2]);
    const [first] = [...seen.keys()].sort() as [string];
    // Times of whole milliseconds, as utimes sets them.
    utimesSync(first, 1e9, 1e9);
    expect(await look()).toEqual([1, 2]);
    overwrite(first);
    await putStep(join(folder, 'step_3.safetensors'), smallStep(3));
    expect(await look()).toEqual([1, 2, 3]);
    expect(problems).toEqual([]);
    utimesSync(first, 1e9, 1e9 + 1);
    expect(await look()).toEqual([2, 3]);
    expect(problems).toHaveLength(1);
  });

  it('reads the rows of no logs but of those that are new or changed', async () => {
    const line = (step: number) => `${JSON.stringify({ step, group: 1, output: 'a b', reward: 1 })}\n`;
    const path = join(putLogs(join(root, 'logs'), { 'a.jsonl': line(1) + line(2) }), 'a.jsonl');
    utimesSync(path, 1e9, 1e9);
    const seen: SeenLogs = { files: new Map(), lines: new Map(), parts: new Map(), contents: new Map() };
    const look = async () => {
      const logs = new RolloutLogs({ ...logReading({}), threads: 1, seen }, undefined);
      const { steps, problems } = await logs.find(join(root, 'logs'));
      await logs.close();
      return [steps.map(({ step }) => step), problems.length];
    };
    expect(await look()).toEqual([[1, 2], 0]);
    const text = readFileSync(path);
    writeFileSync(path, line(7) + line(8));
    expect(statSync(path).size).toBe(text.length);
    utimesSync(path, 1e9, 1e9);
    expect(await look()).toEqual([[1, 2], 0]);
    writeFileSync(path, text);
    appendFileSync(path, line(3));
    expect(await look()).toEqual([[1, 2, 3], 0]);
  });
});
