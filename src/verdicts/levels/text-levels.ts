// Reads the figures for regimes and early warnings off text figures, or says why the step gives no evidence.
import { figure } from '../../checks/numbers.js';
import type { TextMetrics } from '../../metrics/text-metrics.js';
import { dependenceAmong } from './comparable-dependence.js';
import { TEXTS_ALONE, TEXTS_AND_LOGPROBS } from './instrument.js';
import { isMeasurable } from './run-level.js';
import { type Estimate, LEAST_PROMPTS, type MiAt, type StepLevels } from './step-levels.js';

/** What a run's texts tell variety by: the same at every step, or levels would mix two figures. */
export type Variety = 'logprobs' | 'novelty';

/**
 * @param variety of the run's steps before; null: this is the first
 * @param least prompts that must have texts
 * @returns the figures, or in words why the step has none that can be used
 */
export function textLevels(
  texts: TextMetrics | undefined,
  variety: Variety | null,
  least: number = LEAST_PROMPTS,
): StepLevels | string {
  if (texts === undefined) return 'no texts were measured at this step';
  const { values, absent, interval, pValue } = texts;
  const { mi_bound: bound, prompts_used: prompts = 0, rows_used: rows = 0 } = values;
  if (bound === undefined) return absent.mi_bound ?? 'the bound of I(X;Z) is not among the figures';
  if (prompts < least) {
    return `the step has texts of ${prompts} prompts; fewer than ${least} give no evidence`;
  }
  if (!('low' in interval)) return interval.absent;
  const whole: Estimate = { value: bound, ...interval };
  const measured = varietyOf(texts);
  const entropy = measured[variety ?? (measured.logprobs === undefined ? 'novelty' : 'logprobs')];
  if (entropy === undefined) {
    if (variety === 'logprobs') return 'the step has no log-probs, which the run’s first steps had';
    return absent.sibling_novelty ?? 'nothing tells how varied the texts are';
  }
  const { specificity } = values;
  const p = typeof pValue === 'number' && Number.isFinite(pValue) ? pValue : null;
  return {
    instrument: entropy === measured.logprobs ? TEXTS_AND_LOGPROBS : TEXTS_ALONE,
    mi: atPowersOfTwo(whole, prompts),
    whole,
    dependence: { whole: dependenceAmong(bound, interval.error, prompts), pairs: null, prompts },
    // How much it scatters is known only from step to step.
    margin:
      specificity === undefined || !isMeasurable(specificity)
        ? null
        : { value: specificity, low: specificity, high: specificity, error: 0 },
    entropy,
    // Specificity is that of a feature: the length of the texts has no part in it.
    tokens: null,
    prompts,
    rows,
    retrieval: values.retrieval_accuracy ?? null,
    chance: values.retrieval_chance_level ?? null,
    pValue: p,
    retrievalP: p,
  };
}

/** From 95% to 99.9%. */
const BEYOND_DOUBT = 3.29 / 1.96;

/** Retrieval distinguishes prompts from this multiple of chance on, or from halfway between chance and 1. */
const TOLD_TIMES = 3;

/** A bound that can be 0 and is below this share of its start is near it. */
const NEAR_SHARE = 1 / 7;

/** What texts still tell of their prompts where their bound has fallen, in words; undefined: next to nothing. */
export function stillTold(
  step: number,
  { whole, pValue, retrieval, chance }: StepLevels,
  start: number,
): string | undefined {
  if (pValue !== null && pValue > 0.05) return undefined;
  const isBeyond = whole.value - BEYOND_DOUBT * (whole.value - whole.low) > 0;
  if (isBeyond) return `At step ${step} some dependence is left beyond doubt`;
  if (retrieval === null || chance === null || whole.value < NEAR_SHARE * start) return undefined;
  if (retrieval < Math.min(TOLD_TIMES * chance, (1 + chance) / 2)) return undefined;
  return `At step ${step} the texts still tell their prompts (retrieval ${figure(retrieval)} with chance at ${figure(chance)})`;
}

function varietyOf({ values }: TextMetrics): Readonly<Record<Variety, number | undefined>> {
  const { conditional_entropy_est: logprobs, sibling_novelty: novelty } = values;
  return { logprobs: logprobs !== undefined && isMeasurable(logprobs) ? logprobs : undefined, novelty };
}

/**
 * The bound is of as many prompts as the step has: for steps of a few more or less it is scaled to the powers of two
 * next to them, as its ceiling is.
 */
export function atPowersOfTwo({ value, low, high, error }: Estimate, prompts: number): MiAt[] {
  const exponent = Math.log2(prompts);
  const powers = new Set([Math.floor(exponent), Math.ceil(exponent)].map((power) => 2 ** power));
  return [...powers].map((count) => {
    const scale = count === prompts ? 1 : Math.log(count) / Math.log(prompts);
    return { prompts: count, value: scale * value, low: scale * low, high: scale * high, error: scale * error };
  });
}
