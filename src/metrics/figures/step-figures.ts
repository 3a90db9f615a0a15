// Computes one step's figures from all its scores, under both profiles: values, reasons of absence, and notes.
import type { MeasuredStep } from '../measured-step.js';
import type { MarginalSpread, Profile, StepSpread } from '../step-metrics.js';
import { certaintyKeys } from './certainty.js';
import { intervalOf, isOfProfile, type ValuesOrReasons, valuesOf } from './derived.js';
import type { AveragedFigure, StepFound } from './figure.js';
import { mostInformation } from './saturation.js';
import { MARGINAL_STD_FLOOR, SCORE_FIGURES } from './score-figures.js';

/** Figures of each profile, in the order of their entries. */
export const OF_PROFILE = {
  strict: SCORE_FIGURES.filter((entry) => isOfProfile(entry, 'strict')),
  ragen: SCORE_FIGURES.filter((entry) => isOfProfile(entry, 'ragen')),
};

const AVERAGED = SCORE_FIGURES.filter((entry): entry is AveragedFigure => 'averaged' in entry);

interface StepFigures extends ValuesOrReasons {
  readonly notes: string[];
  readonly spread: StepSpread;
}

/**
 * With the moving averages of a run's first step.
 * @param retrieval the same rows among each prompt once: `step` has a prompt as often as a sampler drew it
 */
export function stepFigures(profile: Profile, step: MeasuredStep, retrieval: MeasuredStep): StepFigures {
  const spread = spreadOf(profile, step);
  const found: StepFound = { profile, step, retrieval, spread, most: mostInformation(step.rowsByEquivalents) };
  const notes: string[] = [];
  const figures = valuesOf(OF_PROFILE[profile], (entry) => {
    if ('averaged' in entry) return entry.averaged(spread, spread.current);
    if ('subset' in entry) return undefined;
    const note = profile === 'strict' ? entry.note?.(found) : undefined;
    if (note !== undefined) notes.push(note);
    return entry.value(found);
  });
  return { ...figures, notes, spread };
}

function spreadOf(profile: Profile, { moments, lengths }: MeasuredStep): StepSpread {
  const floor = profile === 'strict' ? MARGINAL_STD_FLOOR : 0;
  const meanLength = profile === 'strict' ? totalOf(lengths) / moments.rows : 0;
  return {
    current: { std: moments.marginalToken.std, stdSeq: moments.marginalSeq.std },
    excess: { token: moments.excessToken.mean, seq: moments.excessSeq.mean },
    floor: { std: floor, stdSeq: floor * meanLength },
  };
}

function totalOf(lengths: MeasuredStep['lengths']): number {
  let total = 0;
  for (let row = 0; row < lengths.length; row++) total += Number(lengths[row]);
  return total;
}

/** The figures of a step that its run's average changes. */
export function averagedFigures(profile: Profile, spread: StepSpread, average: MarginalSpread): Record<string, number> {
  const entries = AVERAGED.filter((entry) => entry.profile === profile);
  return Object.fromEntries(entries.map(({ key, averaged }) => [key, averaged(spread, average)]));
}

/** Keys of all those. */
export const AVERAGED_KEYS: readonly string[] = AVERAGED.map(({ key }) => key);

/** Every key that a step has under `strict`: what is absent when nothing can be computed. */
export function strictKeys(distinct: number): string[] {
  return OF_PROFILE.strict.flatMap((entry) => ('subset' in entry ? entry.subset(distinct) : [entry.key]));
}

/** As many columns as a tensor can have. */
const MOST_PROMPTS = 2 ** 30;

/** Every key that any step can have under the profile, with those of intervals. */
export function possibleFigures(profile: Profile): string[] {
  return OF_PROFILE[profile].flatMap((entry) => {
    const keys = 'subset' in entry ? entry.subset(MOST_PROMPTS) : [entry.key];
    const interval = profile === 'strict' ? intervalOf(entry) : undefined;
    return interval === undefined ? keys : keys.flatMap((key) => [key, ...certaintyKeys(key, interval === 'batch')]);
  });
}
