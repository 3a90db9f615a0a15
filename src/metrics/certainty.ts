// How sure the MI and retrieval figures of a step are: the engine's inference under the figures' keys (metrics.md §3, repair 8).
import type { Figure, FigureInference, StepInference } from '../engine/operations.js';
import type { Certainty, Interval } from './step-metrics.js';

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

function interval(low: number, high: number, error: number, shift: number, absent: string): Interval {
  return Number.isFinite(low) && Number.isFinite(high) ? { low: low - shift, high: high - shift, error } : { absent };
}

function certaintyOf(found: FigureInference, shift: number, permutations: number): Certainty {
  return {
    batch: interval(found.batchLow, found.batchHigh, found.batchError, shift, 'too few rows: at least two are needed'),
    population: interval(
      found.populationLow,
      found.populationHigh,
      found.populationError,
      shift,
      'too few prompts with rows: at least three are needed',
    ),
    pValue: Number.isFinite(found.pValue)
      ? found.pValue
      : { absent: permutations === 0 ? 'permutations is 0' : 'nothing to permute' },
  };
}

/**
 * Certainty by key, for those keys that have a value.
 * @param retrieval what tells of retrieval, where that is asked of other columns
 */
export function certaintyByKey(
  inference: StepInference,
  retrieval: StepInference,
  values: Readonly<Record<string, number>>,
  permutations: number,
): Record<string, Certainty> {
  const result: Record<string, Certainty> = {};
  for (const [key, { figure, minus }] of Object.entries(FIGURE_OF)) {
    if (!(key in values)) continue;
    const shift = minus === undefined ? 0 : (values[minus] as number);
    const { figures } = key.startsWith('retrieval') ? retrieval : inference;
    result[key] = certaintyOf(figures[figure], shift, permutations);
  }
  return result;
}

interface FlatKeys {
  readonly batchLow: string;
  readonly batchHigh: string;
  readonly populationLow: string;
  readonly populationHigh: string;
  readonly pValue: string;
}

const FLAT_KEYS = new Map<string, FlatKeys>(
  Object.keys(FIGURE_OF).map((key) => [
    key,
    {
      batchLow: `${key}_batch_low`,
      batchHigh: `${key}_batch_high`,
      populationLow: `${key}_population_low`,
      populationHigh: `${key}_population_high`,
      pValue: `${key}_p_value`,
    },
  ]),
);

/** Every key that `flattenCertainty` can give. */
export const CERTAINTY_KEYS: readonly string[] = [...FLAT_KEYS.values()].flatMap((keys) => Object.values(keys));

/** The same as flat numbers: `<key>_batch_low`, `_batch_high`, `_population_low`, `_population_high`, `_p_value`. */
export function flattenCertainty(certainty: Readonly<Record<string, Certainty>>): Record<string, number> {
  const flat: Record<string, number> = {};
  for (const [key, { batchLow, batchHigh, populationLow, populationHigh, pValue: pValueKey }] of FLAT_KEYS) {
    const found = certainty[key];
    if (found === undefined) continue;
    const { batch, population, pValue } = found;
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
