// Joins successive steps of an environment that has too few prompts per step, and gives the figures of all of their
// prompts in the form of one batch.
import { dependenceAmong } from '../levels/comparable-dependence.js';
import type { Instrument } from '../levels/instrument.js';
import { mean } from '../levels/run-level.js';
import type { Estimate, MiAt, StepLevels } from '../levels/step-levels.js';
import { atPowersOfTwo } from '../levels/text-levels.js';
import { studentWidth } from '../statistics/shared-level.js';
import { type EnvironmentStep, scaledTo } from './environment-step.js';
import { fisher } from './pooled-level.js';

/** @param steps two or more, of the same instrument */
export function joinedLevels(steps: readonly EnvironmentStep[], instrument: Instrument): StepLevels {
  const isScored = instrument.source === 'scores';
  const most = Math.max(...steps.map(({ prompts }) => prompts));
  const isSteady = steps.every(({ prompts }) => prompts === most);
  const prompts = steps.reduce((sum, step) => sum + step.prompts, 0);
  const each = <Value>(of: (step: EnvironmentStep) => Value | null): Value[] | null => {
    const values = steps.map(of);
    return values.includes(null) ? null : (values as Value[]);
  };
  const meanOf = (of: (step: EnvironmentStep) => number | null): number | null => {
    const values = each(of);
    return values && mean(values);
  };
  const two = meanEstimate(each((step) => step.two));
  const all =
    isScored && !isSteady ? null : meanEstimate(steps.map((step) => (isScored ? step.all : scaledTo(most, step))));
  // Texts have no figure of two prompts, and are scaled to the most that a step had.
  const whole = (all ?? two ?? meanEstimate(steps.map((step) => step.all))) as Estimate;
  const ofTexts = isScored ? whole : studentised(whole, prompts - steps.length);
  const mi: MiAt[] = isScored ? [] : atPowersOfTwo(ofTexts, most);
  if (isScored && two !== null) mi.push({ prompts: 2, ...two });
  if (isScored && (two === null || (all !== null && most > 2))) mi.push({ prompts: isSteady ? most : 0, ...whole });
  const [pairs, together] = (['pairs', 'whole'] as const).map((key) => {
    const among = key === 'pairs' ? 2 : most;
    const values = each(({ ofPrompts, prompts: own }) => (key === 'whole' && own !== most ? null : ofPrompts[key]));
    return values && dependenceAmong(mean(values.map(({ value }) => value)), errorOfMean(values), among);
  }) as [StepLevels['dependence']['pairs'], StepLevels['dependence']['whole']];
  const p = fisher(steps.map(({ pValue }) => pValue));
  return {
    instrument: { ...instrument, mi: `${instrument.mi} over ${steps.length} steps` },
    mi,
    whole: ofTexts,
    // Each step has a mean of its own.
    dependence: { pairs, whole: together, prompts: prompts - steps.length + 1 },
    margin: meanEstimate(each((step) => step.margin)),
    entropy: mean(steps.map(({ entropy }) => entropy)),
    tokens: meanOf((step) => step.tokens),
    prompts,
    rows: steps.reduce((sum, { rows }) => sum + rows, 0),
    retrieval: meanOf((step) => step.retrieval),
    chance: meanOf((step) => step.chance),
    pValue: p,
    retrievalP: isScored ? fisher(steps.map(({ retrievalP }) => retrievalP)) : p,
  };
}

const errorOfMean = (values: readonly { readonly error: number }[]): number =>
  Math.hypot(...values.map(({ error }) => error)) / values.length;

/** The mean, errors and intervals of which add up as squares. */
function meanEstimate(values: readonly Estimate[] | null): Estimate | null {
  if (values === null) return null;
  const value = mean(values.map((one) => one.value));
  const above = Math.hypot(...values.map((one) => one.high - one.value)) / values.length;
  const below = Math.hypot(...values.map((one) => one.value - one.low)) / values.length;
  return { value, low: value - below, high: value + above, error: errorOfMean(values) };
}

/** Adds the 95% interval for an error with `freedom` degrees of freedom. */
function studentised({ value, error }: Estimate, freedom: number): Estimate {
  const half = studentWidth(freedom) * error;
  return { value, low: value - half, high: value + half, error };
}
