// Chooses the figure of dependence by which steps are compared, with its standard error over prompts: the only place
// that chooses it.
import { PROMPT_ERROR_KEY } from '../../metrics/figures/score-figures.js';
import type { StepMetrics } from '../../metrics/step-metrics.js';

/** A figure, its standard error over prompts, and among how many different prompts it is; infinite: not known. */
export interface DependenceAmong {
  readonly value: number;
  readonly error: number;
  readonly among: number;
}

/** What a step tells; null if it has no such figure, or none with an error over prompts. */
export interface ComparableDependence {
  /** Among all different prompts of the step. */
  readonly whole: DependenceAmong | null;
  /** Among two, which batches of any number of prompts can be compared by. */
  readonly pairs: DependenceAmong | null;
  /** Different prompts of the step. */
  readonly prompts: number;
}

const MI = 'mi_seq_estimate';

/** Prompts that the degrees of freedom are those of where metrics do not say how many there were. */
const USUAL_PROMPTS = 16;

/** No response has more nats, and squares of more are beyond numbers. */
const MOST_NATS = 1e9;

/** Null unless both are there. */
export function dependenceAmong(
  value: number | undefined,
  error: number | undefined,
  among: number,
): DependenceAmong | null {
  if (value === undefined || error === undefined) return null;
  return Math.abs(value) <= MOST_NATS && error >= 0 && error <= MOST_NATS ? { value, error, among } : null;
}

/** Of cross-scores. @param prompts different ones; 0 if metrics do not say */
export function comparableDependence(
  { values, certainty, columns }: StepMetrics,
  prompts: number,
): ComparableDependence {
  const figureOf = (key: string, errorKey: string, among: number): DependenceAmong | null => {
    const { estimate, error } = certainty[key]?.overPrompts ?? { estimate: values[key], error: values[errorKey] };
    return dependenceAmong(estimate, error, among);
  };
  const whole = figureOf(MI, PROMPT_ERROR_KEY, prompts || Number.POSITIVE_INFINITY);
  // If columns repeat, only mi_seq_estimate belongs to no number of prompts.
  const repeats = prompts > 0 && columns.total !== prompts && certainty[MI]?.overPrompts === undefined;
  const pairs = figureOf('mi_seq_at_2', 'mi_seq_at_2_standard_error', 2);
  return { whole: repeats ? null : whole, pairs, prompts: prompts || USUAL_PROMPTS };
}
