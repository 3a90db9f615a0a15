import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { JsonLinesSink, LINE_SHAPES } from '../../src/sinks/lines/json-lines-sink.js';
import { ResultsSink } from '../../src/sinks/lines/results-sink.js';
import { fileNameOf } from '../../src/sinks/run-file.js';
import { TensorBoardSink } from '../../src/sinks/tensorboard/tensorboard-sink.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { MI, reportWith } from './sink-reports.js';

const folder = temporaryDirectory();
const LONG = 'ü'.repeat(150);
/** Each with others that a file system, or a cut, would make the same name of. */
const RUNS = [
  'a_b',
  'a:b',
  'a/b',
  'a\\b',
  'exp/1',
  'exp_1',
  '',
  '_',
  '.',
  '_.',
  '..',
  `${LONG}x`,
  `${LONG}y`,
  '\ud800',
  '\ud801',
  'e\u0301',
];

describe('names of files for runs', () => {
  it('are as many as there are runs, of one component and at most 200 bytes', () => {
    const any = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string(),
      fc.constantFrom(...RUNS),
      fc.string({ minLength: 150, unit: 'grapheme' }),
    );
    fc.assert(
      fc.property(fc.uniqueArray(any, { maxLength: 30 }), (runs) => {
        const names = runs.map((run) => fileNameOf(run));
        expect(new Set(names).size).toBe(runs.length);
        for (const name of names) {
          expect(Buffer.byteLength(name)).toBeLessThanOrEqual(200);
          expect(name).not.toMatch(/^\.*$|[/\\:*?"<>|]/);
          expect(Buffer.from(name).toString()).toBe(name);
        }
      }),
      { numRuns: 300 },
    );
    expect(fileNameOf('grpo-7b lr=1e-6.β')).toBe('grpo-7b lr=1e-6.β');
  });

  it('keep every run in every sink that writes a file a run', async () => {
    const sinks = {
      lines: new JsonLinesSink(join(folder, 'lines'), LINE_SHAPES.verl),
      results: new ResultsSink(join(folder, 'results')),
      board: new TensorBoardSink(join(folder, 'board')),
    };
    for (const [name, sink] of Object.entries(sinks)) {
      for (const run of RUNS) await sink.step(reportWith({ run, step: 1, metrics: { [MI]: 1 } }));
      await sink.close();
      expect(readdirSync(join(folder, name)), name).toHaveLength(RUNS.length);
    }
    const found = readdirSync(join(folder, 'results')).map(
      (name) => JSON.parse(readFileSync(join(folder, 'results', name, 'summary.json'), 'utf8')).runs[0].run,
    );
    expect(found.map((run) => JSON.stringify(run)).sort()).toEqual(RUNS.map((run) => JSON.stringify(run)).sort());
  });
});
