// Reports the certainty of a step's MI and retrieval figures: the engine's inference under the figures' keys
// (docs/reference/intervals.md).
import { ENGINE_FIGURES, type FigureInference, type StepInference } from '../../engine/operations/infer-step.js';
import type { Certainty, Interval } from '../step-metrics.js';
import { addDerivedCertainty, engineCertainty, isDerived } from './derived.js';
import { SCORE_FIGURES } from './score-figures.js';

/**
 * Where the engine's interval lies for the figure: moved from one value to another, widened about it, and cut. It holds
 * the figure's value, which other sums than the engine's may leave outside by their rounding.
 */
interface Place {
  readonly value: number;
  readonly from: number;
  readonly to: number;
  readonly widening: number;
  readonly least: number;
  readonly most: number;
}

export function interval(low: number, high: number, error: number, place: Place, absent: string): Interval {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return { absent };
  const { value, from, to, widening, least, most } = place;
  return {
    low: Math.min(Math.max(to - widening * (from - low), least), value),
    high: Math.max(Math.min(to + widening * (high - from), most), value),
    error: widening * error,
  };
}

function certaintyOf(found: FigureInference, place: Place, permutations: number): Certainty {
  return {
    batch: interval(found.batchLow, found.batchHigh, found.batchError, place, 'too few rows: at least two are needed'),
    population: interval(
      found.populationLow,
      found.populationHigh,
      found.populationError,
      place,
      'too few prompts with rows: at least three are needed',
    ),
    pValue: Number.isFinite(found.pValue)
      ? found.pValue
      : { absent: permutations === 0 ? 'permutations is 0' : 'nothing to permute' },
  };
}

/** What the engine gives an interval of, in its order: figures, then those less a constant. */
const WITH_ENGINE = [false, true].flatMap((isDifference) =>
  ENGINE_FIGURES.flatMap((name) =>
    SCORE_FIGURES.flatMap((entry) => {
      const certainty = engineCertainty(entry);
      const isWanted = certainty?.figure === name && isDerived(entry) === isDifference;
      return isWanted ? [{ key: entry.key, ...certainty }] : [];
    }),
  ),
);

/** How a sample with replacement differs from its rows and prompts once each, which `inference` is of. */
interface Repeats {
  /** Prompts weigh in the marginal as often as they were drawn: MI is not that of each prompt once. */
  readonly promptsRepeat: boolean;
  /** Rows count as often as they were drawn: no figure is that of each row once. */
  readonly rowsRepeat: boolean;
  /** √(rows drawn / Kish's effective number of them): how much wider the error of a mean with unequal weights is. */
  readonly widening: number;
}

/**
 * Certainty by key, for those keys that have a value. The intervals of what a sample weighs otherwise are moved to its
 * value and widened: further draws of a prompt or a row tell nothing of others.
 */
export function certaintyByKey(
  inference: StepInference,
  values: Readonly<Record<string, number>>,
  permutations: number,
  { promptsRepeat, rowsRepeat, widening }: Repeats,
): Record<string, Certainty> {
  const result: Record<string, Certainty> = {};
  for (const { key, figure, within, minus } of WITH_ENGINE) {
    const value = values[key];
    if (value === undefined) continue;
    const found = inference.figures[figure];
    const subtracted = minus === undefined ? 0 : (values[minus] as number);
    const isShare = within === 'share';
    const isMoved = rowsRepeat || (promptsRepeat && !isShare);
    const bound = within === 'bounded information' ? (values.mi_upper_bound as number) : Number.POSITIVE_INFINITY;
    const most = isShare ? 1 - subtracted : Math.max(value, bound);
    result[key] = certaintyOf(
      found,
      {
        value,
        from: isMoved ? found.estimate : subtracted,
        to: isMoved ? value : 0,
        widening: rowsRepeat ? widening : 1,
        least: isMoved && isShare ? -subtracted : Number.NEGATIVE_INFINITY,
        most: isMoved ? most : Number.POSITIVE_INFINITY,
      },
      permutations,
    );
  }
  addDerivedCertainty(result, values);
  return result;
}

interface FlatKeys {
  readonly batchLow: string;
  readonly batchHigh: string;
  readonly populationLow: string;
  readonly populationHigh: string;
  readonly pValue: string;
}

/** Made once a key: a long run's steps have the same. */
const FLAT_KEYS = new Map<string, FlatKeys>();

function flatKeysOf(key: string): FlatKeys {
  let keys = FLAT_KEYS.get(key);
  if (keys === undefined) {
    keys = {
      batchLow: `${key}_batch_low`,
      batchHigh: `${key}_batch_high`,
      populationLow: `${key}_population_low`,
      populationHigh: `${key}_population_high`,
      pValue: `${key}_p_value`,
    };
    FLAT_KEYS.set(key, keys);
  }
  return keys;
}

/** Every key that `flattenCertainty` can give of a figure; if it has only the batch interval, of that. */
export function certaintyKeys(key: string, batchOnly = false): string[] {
  const keys = flatKeysOf(key);
  return batchOnly ? [keys.batchLow, keys.batchHigh] : Object.values(keys);
}

const CERTAINTY_KEY =
  /_((batch|population)_(low|high)|p_value|standard_error|at_least|at_most)$|\/mi_bound_(low|high)$/;

/** Whether what is logged under a key says how sure another figure is. */
export function isCertaintyKey(key: string): boolean {
  return CERTAINTY_KEY.test(key);
}

/** The same as flat numbers: `<key>_batch_low`, `_batch_high`, `_population_low`, `_population_high`, `_p_value`. */
export function flattenCertainty(certainty: Readonly<Record<string, Certainty>>): Record<string, number> {
  const flat: Record<string, number> = {};
  for (const [key, { batch, population, pValue }] of Object.entries(certainty)) {
    const { batchLow, batchHigh, populationLow, populationHigh, pValue: pValueKey } = flatKeysOf(key);
    if ('low' in batch) {
      flat[batchLow] = batch.low;
      flat[batchHigh] = batch.high;
    }
    if ('low' in population) {
      flat[populationLow] = population.low;
      flat[populationHigh] = population.high;
    }
    if (typeof pValue === 'number') flat[pValueKey] = pValue;
  }
  return flat;
}
