// The entries of figures: what every list of keys, the words and the pages are read from.
import { describe, expect, it } from 'vitest';
import {
  addDerivedCertainty,
  intervalOf,
  isDerived,
  isOfProfile,
  valuesOf,
} from '../../src/metrics/figures/derived.js';
import type { DerivedFigure, MeasuredFigure, ScoreFigure } from '../../src/metrics/figures/figure.js';
import { SCORE_FIGURES } from '../../src/metrics/figures/score-figures.js';
import { possibleFigures, strictKeys } from '../../src/metrics/figures/step-figures.js';
import { TEXT_FIGURES } from '../../src/metrics/figures/text-entries.js';
import type { Certainty } from '../../src/metrics/step-metrics.js';

const words = { definition: 'A figure.', formula: 'x', advice: 'Read it.' };

describe('the entry of a figure', () => {
  it('does not compile without what a plan of pairs gives', () => {
    // @ts-expect-error `ofPairs` is missing
    const forgotten: MeasuredFigure = { key: 'x', value: () => 1, words };
    // @ts-expect-error `ofPairs` is missing
    const inTable: ScoreFigure = { key: 'x', value: () => 1, words };
    const whole: ScoreFigure = { key: 'x', value: () => 1, ofPairs: 'every pair', words };
    expect([forgotten, inTable, whole].map(({ key }) => key)).toEqual(['x', 'x', 'x']);
  });

  it.each(['strict', 'ragen'] as const)(
    'is the only one of its key under %s, and follows from one that is there',
    (profile) => {
      const entries = SCORE_FIGURES.filter((entry) => isOfProfile(entry, profile));
      const keys = entries.map(({ key }) => key);
      expect(new Set(keys).size).toBe(keys.length);
      const bases = entries.flatMap((entry) =>
        isDerived(entry) ? [entry.of, ...(typeof entry.by === 'object' ? [entry.by.minus] : [])] : [],
      );
      expect(bases.length).toBeGreaterThan(2);
      expect(keys).toEqual(expect.arrayContaining(bases));
    },
  );

  it('has its key in every list', () => {
    const possible = new Set(possibleFigures('strict'));
    for (const key of strictKeys(8)) expect(possible, key).toContain(key);
    expect(strictKeys(8)).toEqual(
      expect.arrayContaining(['mi_seq_at_8', 'mi_seq_at_8_standard_error', 'mi_seq_margin']),
    );
    expect(strictKeys(8)).not.toContain('mi_seq_at_16');
    for (const entry of SCORE_FIGURES.filter(({ profile }) => profile !== 'ragen')) {
      const [key] = 'subset' in entry ? entry.subset(2) : [entry.key];
      expect(possible.has(`${key}_batch_low`), key).toBe(intervalOf(entry) !== undefined);
      expect(possible.has(`${key}_p_value`), key).toBe(intervalOf(entry) === 'all');
    }
  });

  it('is shown under a name that no other figure of its instrument has', () => {
    for (const figures of [SCORE_FIGURES, TEXT_FIGURES]) {
      const names = figures.flatMap(({ shown }) => shown?.report ?? []);
      expect(new Set(names).size).toBe(names.length);
    }
  });
});

describe('a figure that follows from another one', () => {
  const base: MeasuredFigure = { key: 'x', value: () => 2, ofPairs: 'every pair', words };
  const less: MeasuredFigure = { key: 'c', value: () => 0.5, ofPairs: 'every pair', words };
  const derived = (key: string, by: DerivedFigure['by'], of = 'x'): DerivedFigure => ({ key, of, by, words });
  const entries = [
    derived('negative', 'negative'),
    derived('exp', 'exp'),
    derived('minus', { minus: 'c' }),
    derived('twice', 'negative', 'negative'),
    base,
    less,
  ];
  const certainty = (): Record<string, Certainty> => ({
    x: { batch: { low: 1, high: 4, error: 0.5 }, population: { absent: 'too few prompts' }, pValue: 0.02 },
  });

  it('has its value and interval, wherever it stands among the others', () => {
    const { values, absent } = valuesOf(entries, (entry) => ('ofPairs' in entry && entry.key === 'x' ? 2 : 0.5));
    expect(Object.keys(values)).toEqual(['negative', 'exp', 'minus', 'twice', 'x', 'c']);
    expect(values).toEqual({ negative: -2, exp: Math.exp(2), minus: 1.5, twice: 2, x: 2, c: 0.5 });
    expect(absent).toEqual({});
    const found = certainty();
    addDerivedCertainty(found, values, entries);
    expect(found.negative?.batch).toEqual({ low: -4, high: -1, error: 0.5 });
    expect(found.exp?.batch).toEqual({ low: Math.E, high: Math.exp(4), error: Math.exp(2) * 0.5 });
    expect(found.minus?.batch).toEqual({ low: 0.5, high: 3.5, error: 0.5 });
    expect(found.twice?.batch).toEqual({ low: 1, high: 4, error: 0.5 });
    for (const key of ['negative', 'exp', 'minus'])
      expect(found[key]).toMatchObject({ population: { absent: 'too few prompts' }, pValue: 0.02 });
    expect(found.c).toBeUndefined();
  });

  it('is absent for the reason of the other, and then has no interval', () => {
    const { values, absent } = valuesOf(entries, ({ key }) => (key === 'x' ? 'no row is left' : 0.5));
    expect(values).toEqual({ c: 0.5 });
    for (const key of ['x', 'negative', 'exp', 'minus', 'twice']) expect(absent[key]).toBe('no row is left');
    const found = certainty();
    addDerivedCertainty(found, values, entries);
    expect(Object.keys(found)).toEqual(['x']);
  });
});
