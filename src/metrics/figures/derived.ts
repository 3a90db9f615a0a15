// Figures that follow from another one (−x, exp x, x less a constant): their values, intervals and errors, made in one
// way whatever measured the other.
import type { Certainty, Interval } from '../step-metrics.js';
import type { DerivedFigure, EngineCertainty, ScoreFigure, ValueOrReason } from './figure.js';
import { SCORE_FIGURES } from './score-figures.js';

export function isDerived(entry: ScoreFigure): entry is DerivedFigure {
  return 'by' in entry;
}

/** What both profiles have alike, and what only one has. */
export function isOfProfile(entry: ScoreFigure, profile: 'strict' | 'ragen'): boolean {
  return entry.profile === undefined || entry.profile === profile;
}

function entryOf(key: string): ScoreFigure | undefined {
  return SCORE_FIGURES.find((entry) => entry.key === key);
}

/** The engine's interval behind a figure, and the key of the constant that is subtracted from it. */
export function engineCertainty(entry: ScoreFigure): (EngineCertainty & { readonly minus?: string }) | undefined {
  if ('certainty' in entry) return entry.certainty;
  if (!isDerived(entry) || typeof entry.by === 'string') return undefined;
  const base = entryOf(entry.of);
  return base && 'certainty' in base && base.certainty ? { ...base.certainty, ...entry.by } : undefined;
}

/** Whether a step can have an interval of the figure: all five companions, or only that of the batch. */
export function intervalOf(entry: ScoreFigure): 'all' | 'batch' | undefined {
  if ('subset' in entry) return entry.batchOnly ? 'batch' : undefined;
  if (engineCertainty(entry) !== undefined) return 'all';
  const base = isDerived(entry) ? entryOf(entry.of) : undefined;
  return base && intervalOf(base);
}

/** Figure or reason by key. */
export interface ValuesOrReasons {
  readonly values: Record<string, number>;
  readonly absent: Record<string, string>;
}

/**
 * Values of some figures in their order, each measured once.
 * @param measure of figures that are not derived; undefined: something else gives it
 */
export function valuesOf<Entry extends ScoreFigure>(
  entries: readonly Entry[],
  measure: (entry: Exclude<Entry, DerivedFigure>) => ValueOrReason | undefined,
): ValuesOrReasons {
  const measured = new Map<string, ValueOrReason | undefined>();
  const found = (entry: Entry): ValueOrReason | undefined => {
    if (measured.has(entry.key)) return measured.get(entry.key);
    const value = isDerived(entry) ? derived(entry) : measure(entry as Exclude<Entry, DerivedFigure>);
    measured.set(entry.key, value);
    return value;
  };
  const ofKey = (key: string): ValueOrReason | undefined => {
    const entry = entries.find((other) => other.key === key);
    return entry && found(entry);
  };
  const derived = ({ of, by }: DerivedFigure): ValueOrReason | undefined => {
    const base = ofKey(of);
    if (typeof base !== 'number') return base;
    if (by === 'negative') return -base;
    if (by === 'exp') return Math.exp(base);
    const less = ofKey(by.minus);
    return typeof less === 'number' ? base - less : less;
  };
  const [values, absent]: [Record<string, number>, Record<string, string>] = [{}, {}];
  for (const entry of entries) {
    const value = found(entry);
    if (typeof value === 'number') values[entry.key] = value;
    else if (value !== undefined) absent[entry.key] = value;
  }
  return { values, absent };
}

/** Puts beside the certainty of figures that of those that follow from them, where they have a value. */
export function addDerivedCertainty(
  certainty: Record<string, Certainty>,
  values: Readonly<Record<string, number>>,
  entries: readonly ScoreFigure[] = SCORE_FIGURES,
): void {
  for (const entry of entries) {
    if (!isDerived(entry) || entry.key in certainty) continue;
    const [known, value] = [certainty[entry.of], values[entry.key]];
    if (known === undefined || value === undefined) continue;
    const moved = (interval: Interval): Interval => movedInterval(interval, entry, value, values);
    certainty[entry.key] = {
      batch: moved(known.batch),
      population: moved(known.population),
      pValue: known.pValue,
    };
  }
}

function movedInterval(
  interval: Interval,
  { by }: DerivedFigure,
  value: number,
  values: Readonly<Record<string, number>>,
): Interval {
  if ('absent' in interval) return interval;
  const { low, high, error } = interval;
  if (by === 'negative') return { low: -high, high: -low, error };
  if (by === 'exp') return { low: Math.exp(low), high: Math.exp(high), error: value * error };
  const less = values[by.minus] as number;
  return { low: low - less, high: high - less, error };
}
