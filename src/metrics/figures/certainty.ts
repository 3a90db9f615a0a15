// How sure the MI and retrieval figures of a step are: the engine's inference under the figures' keys
// (docs/reference/intervals.md).
import type { Figure, FigureInference, StepInference } from '../../engine/operations/infer-step.js';
import type { Certainty, Interval } from '../step-metrics.js';

/** Which figure stands behind each key, and which key holds the constant that is subtracted from it. */
const FIGURE_OF: Readonly<Record<string, { figure: Figure; minus?: string }>> = {
  mi_seq_estimate: { figure: 'miSeq' },
  mi_seq_loo_estimate: { figure: 'miSeqLoo' },
  mi_per_token: { figure: 'miPerToken' },
  mi_estimate: { figure: 'miToken' },
  retrieval_accuracy: { figure: 'retrieval1' },
  'retrieval_accuracy@2': { figure: 'retrieval2' },
  'retrieval_accuracy@4': { figure: 'retrieval4' },
  'retrieval_accuracy@8': { figure: 'retrieval8' },
  retrieval_above_chance: { figure: 'retrieval1', minus: 'retrieval_chance_level' },
  'retrieval_above_chance_exact@2': { figure: 'retrieval2', minus: 'retrieval_chance_exact@2' },
  'retrieval_above_chance_exact@4': { figure: 'retrieval4', minus: 'retrieval_chance_exact@4' },
  'retrieval_above_chance_exact@8': { figure: 'retrieval8', minus: 'retrieval_chance_exact@8' },
};

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

/** No row's value of these exceeds ln P. */
const BOUNDED: ReadonlySet<string> = new Set(['mi_seq_estimate', 'mi_estimate']);

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
  for (const [key, { figure, minus }] of Object.entries(FIGURE_OF)) {
    const value = values[key];
    if (value === undefined) continue;
    const found = inference.figures[figure];
    const subtracted = minus === undefined ? 0 : (values[minus] as number);
    const isMI = key.startsWith('mi_');
    const isMoved = rowsRepeat || (promptsRepeat && isMI);
    result[key] = certaintyOf(
      found,
      {
        value,
        from: isMoved ? found.estimate : subtracted,
        to: isMoved ? value : 0,
        widening: rowsRepeat ? widening : 1,
        least: isMoved && !isMI ? -subtracted : Number.NEGATIVE_INFINITY,
        most: isMoved ? highest(key, value, values, subtracted) : Number.POSITIVE_INFINITY,
      },
      permutations,
    );
  }
  return result;
}

/** What no value of a figure exceeds. */
function highest(key: string, value: number, values: Readonly<Record<string, number>>, subtracted: number): number {
  if (BOUNDED.has(key)) return Math.max(value, values.mi_upper_bound as number);
  return key.startsWith('mi_') ? Number.POSITIVE_INFINITY : 1 - subtracted;
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

/** Every key that `flattenCertainty` can give of `certaintyByKey`. */
export const CERTAINTY_KEYS: readonly string[] = Object.keys(FIGURE_OF).flatMap((key) =>
  Object.values(flatKeysOf(key)),
);

/** Keys of the interval of a figure that has one for these very prompts alone. */
export function batchKeys(key: string): string[] {
  const { batchLow, batchHigh } = flatKeysOf(key);
  return [batchLow, batchHigh];
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
