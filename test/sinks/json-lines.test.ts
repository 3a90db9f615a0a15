// Lines in the shapes of prime-rl's and verl's own files.
import { appendFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openSink } from '../../src/sinks/open-sink.js';
import type { StepReport } from '../../src/step/step-report.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { giveAll, MI, reportWith } from './sink-reports.js';

const folder = temporaryDirectory();
const linesOf = (path: string): Record<string, unknown>[] =>
  readFileSync(path, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

/** Of the run a/b. */
const NAME = 'a_b-f5effa31';

const at = (step: number, more: Record<string, number> = {}): StepReport => {
  return reportWith({ run: 'a/b', step, metrics: { [MI]: step / 8, ...more } });
};

describe('prime-rl:DIR', () => {
  it('writes { step, time, … } with finite numbers alone', async () => {
    const before = Date.now() / 1000;
    const given = [at(1, { 'text/mi_bound': Number.NaN, unknown: 1 }), at(2)];
    await giveAll(openSink(`prime-rl:${join(folder, 'p')}`), given);
    const [first, second] = linesOf(join(folder, 'p', NAME, 'metrics.jsonl'));
    expect(first).toEqual({ step: 1, time: expect.any(Number), [MI]: 0.125 });
    expect(first?.time).toBeGreaterThanOrEqual(before);
    expect(second?.step).toBe(2);
  });
});

describe('verl:DIR', () => {
  it('writes { step, data }', async () => {
    await giveAll(openSink(`verl:${join(folder, 'v')}`, 'all'), [at(1, { unknown: 1 })]);
    expect(linesOf(join(folder, 'v', `${NAME}.jsonl`))).toEqual([{ step: 1, data: { [MI]: 0.125, unknown: 1 } }]);
  });

  it('goes on after the last step that is there, also behind a line that was cut', async () => {
    const to = `verl:${join(folder, 'again')}`;
    const path = join(folder, 'again', `${NAME}.jsonl`);
    await giveAll(openSink(to), [at(1), at(2)]);
    appendFileSync(path, '{"step":3,"da');
    await giveAll(openSink(to), [at(1), at(2), at(3)]);
    const lines = readFileSync(path, 'utf8').trim().split('\n');
    expect(lines.map((line) => line.slice(0, 10))).toEqual(['{"step":1,', '{"step":2,', '{"step":3,', '{"step":3,']);
    expect(JSON.parse(lines.at(-1) as string)).toEqual({ step: 3, data: { [MI]: 0.375 } });
  });
});
