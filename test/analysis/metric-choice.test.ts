// Names and globs -> which metrics they choose.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MetricChoice } from '../../src/analysis/measuring/metric-choice.js';

const chooses = (pattern: string, key: string): boolean => new MetricChoice([pattern]).has(key);

describe('a glob', () => {
  it('means what an expression of .* and . does', () => {
    const glob = fc.string({ unit: fc.constantFrom('*', '?', 'a', 'b', '.', '[', '\\'), maxLength: 8 });
    const name = fc.string({ unit: fc.constantFrom('a', 'b', '.', '[', '\\', '*'), maxLength: 10 });
    fc.assert(
      fc.property(glob, name, (pattern, key) => {
        const source = pattern
          .replace(/[.[\]\\]/g, '\\$&')
          .replaceAll('*', '.*')
          .replaceAll('?', '.');
        expect(chooses(pattern, key)).toBe(new RegExp(`^${source}$`).test(key));
      }),
      { numRuns: 2000 },
    );
  });

  it('is for the whole key, or for what follows its prefix', () => {
    for (const pattern of ['mi_*', 'collapse/mi_estimate', '*estimate', 'm?_estimate', '*']) {
      expect(chooses(pattern, 'collapse/mi_estimate')).toBe(true);
    }
    for (const pattern of ['mi', 'estimate', 'collapse', '?']) {
      expect(chooses(pattern, 'collapse/mi_estimate')).toBe(false);
    }
  });

  it('of many stars takes no longer than one of few', () => {
    const began = performance.now();
    expect(chooses(`${'*a'.repeat(12)}*z`, `collapse/${'a'.repeat(120)}`)).toBe(false);
    // With seven stars an expression took seven minutes.
    expect(performance.now() - began).toBeLessThan(1000);
  });
});
