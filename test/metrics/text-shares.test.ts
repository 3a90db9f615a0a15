import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readRollouts, textStepOf } from '../../src/exports/logs.js';
import { openEngine, textMetrics } from '../../src/index.js';

describe('figures of a log whose texts each name their prompt', () => {
  it('are shares within [0, 1] and no figures that only rounding has left', async () => {
    const engine = await openEngine({ device: 'cpu', threads: 1 });
    let steps = 0;
    for await (const step of readRollouts(join(import.meta.dirname, '../inputs/share-above-one.jsonl'))) {
      const texts = textStepOf(step);
      if (texts === undefined) continue;
      const { values } = await textMetrics(engine, texts, { permutations: 19 });
      steps++;
      for (const [key, value] of Object.entries(values)) {
        if (/accuracy|_share|novelty|repetition/.test(key)) {
          expect(value, key).toBeGreaterThanOrEqual(0);
          expect(value, key).toBeLessThanOrEqual(1);
        }
        expect(value === 0 || Math.abs(value) >= 1e-12, `${key} is ${value}`).toBe(true);
        expect(Object.is(value, -0), key).toBe(false);
      }
    }
    await engine.dispose();
    expect(steps).toBeGreaterThan(0);
  });
});
