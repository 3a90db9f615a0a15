// Reads the figures for regimes and early warnings off a step's metrics, or says why the step gives no evidence.
import type { Interval, StepMetrics } from '../../metrics/step-metrics.js';
import { type ComparableDependence, comparableDependence } from './comparable-dependence.js';
import { CROSS_SCORES, type Instrument } from './instrument.js';
import { isMeasurable } from './run-level.js';

const MI = 'mi_seq_estimate';
const MARGIN = 'mi_seq_margin';
const ENTROPY = 'conditional_entropy_est';

/** Fewer different prompts tell too little of how much the reasoning depends on its prompt. */
export const LEAST_PROMPTS = 4;

/** A figure with its 95% batch interval. */
export interface Estimate {
  readonly value: number;
  readonly low: number;
  readonly high: number;
  readonly error: number;
}

/** I(X;Z) where the own prompt is one of `prompts` different ones, nats a response; at most ln `prompts`. */
export interface MiAt extends Estimate {
  /** 0 if metrics do not say of how many. */
  readonly prompts: number;
}

/** One computed step's figures, as far as regimes and trends need them. */
export interface StepLevels {
  readonly instrument: Instrument;
  /** By rising number of prompts; the last is of all. Never empty. */
  readonly mi: readonly MiAt[];
  /** The estimate for all prompts. */
  readonly whole: Estimate;
  /** Figure that shows a certain fall. */
  readonly dependence: ComparableDependence;
  /** The figure without a ceiling: contrastive margin, or specificity of texts; null if it is absent. */
  readonly margin: Estimate | null;
  /** How varied the reasoning is for one prompt: H(Z|X), nats a token, or what siblings do not share. */
  readonly entropy: number;
  /** Mean tokens a response, as far as the entropies tell; null if they do not. */
  readonly tokens: number | null;
  /** Different prompts, 0 if metrics do not say; rows. */
  readonly prompts: number;
  readonly rows: number;
  readonly retrieval: number | null;
  readonly chance: number | null;
  /** p-values against "Z ignores X". */
  readonly pValue: number | null;
  readonly retrievalP: number | null;
  /** Batches that are judged side by side and share a level; missing for one. */
  readonly tests?: number;
}

/**
 * @param least prompts that must differ
 * @returns the figures, or in words why the step has none that can be used
 */
export function stepLevels(metrics: StepMetrics | undefined, least: number = LEAST_PROMPTS): StepLevels | string {
  if (metrics === undefined) return 'no metrics were computed at this step';
  if (metrics.profile !== 'strict') return 'profile ragen gives no intervals; the strict profile does';
  const { values, certainty, absent } = metrics;
  const [mi, entropy] = [values[MI], values[ENTROPY]];
  if (mi === undefined || entropy === undefined) return absent[MI] ?? 'MI is not among the metrics';
  const prompts = metrics.columns?.distinct ?? 0;
  if (prompts > 0 && prompts < least) {
    return `the step has ${prompts} different prompts; fewer than ${least} give no evidence`;
  }
  if (!Number.isFinite(mi) || !Number.isFinite(entropy)) return 'MI or entropy is not finite';
  if (![mi, entropy].every(isMeasurable)) return 'MI or entropy is beyond 1e150, as no log-probs make them';
  const batch = certainty[MI]?.batch;
  if (batch === undefined || !('low' in batch)) return batch?.absent ?? 'MI has no interval';
  const whole = estimateOf(mi, batch);
  if (whole === null) return 'the interval of MI is beyond 1e150';
  const tokens = (values.conditional_entropy_seq_est ?? Number.NaN) / entropy;
  return {
    instrument: CROSS_SCORES,
    mi: byPrompts(metrics, prompts, whole),
    whole,
    dependence: comparableDependence(metrics, prompts),
    margin: figureOf(metrics, MARGIN),
    entropy,
    tokens: tokens > 0 && isMeasurable(tokens) ? tokens : null,
    prompts,
    rows: metrics.rows?.used ?? 0,
    retrieval: known(values.retrieval_accuracy),
    chance: known(values.retrieval_chance_level),
    pValue: known(certainty[MI]?.pValue),
    retrievalP: known(certainty.retrieval_accuracy?.pValue),
  };
}

/**
 * MI among 2, 4, 8 … prompts, then among all: where columns repeat unevenly, mi_seq_estimate is of no number of
 * prompts.
 */
function byPrompts(metrics: StepMetrics, prompts: number, whole: Estimate): MiAt[] {
  const found: MiAt[] = [];
  for (let k = 2; k < prompts; k *= 2) {
    const at = figureOf(metrics, `mi_seq_at_${k}`);
    if (at !== null) found.push({ prompts: k, ...at });
  }
  const repeats = prompts > 0 && metrics.columns.total !== prompts;
  const last = (repeats ? figureOf(metrics, `mi_seq_at_${prompts}`) : null) ?? whole;
  if (!repeats || last !== whole || found.length === 0) found.push({ prompts, ...last });
  return found;
}

/** Null if it is absent, or has no interval. */
function figureOf({ values, certainty }: StepMetrics, key: string): Estimate | null {
  const value = values[key];
  return value === undefined ? null : estimateOf(value, certainty[key]?.batch);
}

function estimateOf(value: number, batch: Interval | undefined): Estimate | null {
  if (batch === undefined || !('low' in batch)) return null;
  const { low, high, error } = batch;
  return [value, low, high, error].every(isMeasurable) ? { value, low, high, error } : null;
}

/** They are evidence of verdicts that are saved, as JSON, which has no NaN. */
function known(figure: unknown): number | null {
  return typeof figure === 'number' && Number.isFinite(figure) ? figure : null;
}
