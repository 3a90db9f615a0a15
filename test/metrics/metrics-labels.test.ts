// Names under which figures are logged: those of a run's few labels are made once, and those of many labels fill no
// memory.
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import { crossScoreMetrics } from '../../src/metrics/cross-score-metrics.js';
import { loggedKey, namesOf } from '../../src/metrics/reporting/logged-names.js';
import type { SampleLabel } from '../../src/metrics/step-metrics.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ threads: 1 });
});
afterAll(() => engine.dispose());

it('are made once for a label, and not kept for a label of every step', () => {
  const run = namesOf('run');
  expect(loggedKey(run, 'mi_estimate')).toBe('run/mi_estimate');
  expect(namesOf('run')).toBe(run);
  for (let step = 0; step < 1000; step++) namesOf(`step_${step}`);
  expect(namesOf('step_999')).not.toBe(namesOf('step_999'));
  expect(namesOf('run')).toBe(run);
});

it('are those of the label, whether it is kept or not', async () => {
  const scores = {
    sums: { data: Float64Array.of(-1, -3, -4, -2), dtype: 'float64', shape: [2, 2] } as const,
    lengths: [2, 2],
    groups: [0, 1],
  };
  for (const label of ['run', 'step_1000']) {
    // Of the types a label is one of three; whoever has none may give any.
    const options = { profile: 'strict', permutations: 0, label: label as SampleLabel } as const;
    const { logged, values } = await crossScoreMetrics(engine, scores, options);
    expect(logged[`${label}/mi_seq_estimate`]).toBe(values.mi_seq_estimate);
  }
});
