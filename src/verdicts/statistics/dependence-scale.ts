// Gives the scale on which losses of I(X;Z) are shares, and how much a batch's I(X;Z) scatters at each level
// (docs/reference/verdicts.md, `dependence_lower`). An unknown number of prompts is infinite: then d is I.
import { fixedExp, fixedLog } from './fixed-math.js';

/** Least fall in nats, per share of d to be lost: 0.42 · 0.25 is a tenth fewer prompts that are distinguished. */
const LEAST_FALL = 0.42;

/** Least I(X;Z) that the scatter is proportional to. */
const LEAST_LEVEL = 0.02;

/** Lower bound of the share of prompts that are not distinguished. */
const LEAST_UNTOLD = 1e-6;

/** u² = 1 − e^I / P: the share of prompts that are not distinguished. */
function untold(information: number, prompts: number): number {
  return Math.min(1, Math.max(LEAST_UNTOLD, 1 - fixedExp(Math.min(information, 50)) / prompts));
}

/**
 * d, without a ceiling: the nats by which a response favours its own prompt over each other one, were all alike;
 * dd/dI = 1/u².
 */
export function preference(information: number, prompts: number): number {
  if (prompts === Number.POSITIVE_INFINITY) return information;
  const share = untold(information, prompts);
  return fixedLog(prompts - 1) - fixedLog(share / (1 - share));
}

/** I(X;Z) of a preference: the inverse of `preference`. */
export function informationOf(d: number, prompts: number): number {
  if (prompts === Number.POSITIVE_INFINITY) return d;
  return fixedLog(prompts) - fixedLog(1 + (prompts - 1) * fixedExp(-d));
}

/** What is left of `level` when a share of d is gone, but at least LEAST_FALL of it in nats; and its slope in `level`. */
export function floorUnder(level: number, prompts: number, lost: number): { readonly at: number; slope: number } {
  const ofShare = informationOf((1 - lost) * preference(level, prompts), prompts);
  // Where the number of prompts is not known, neither is the figure's unit.
  const least = prompts === Number.POSITIVE_INFINITY ? Number.POSITIVE_INFINITY : level - LEAST_FALL * lost;
  if (least < ofShare) return { at: least, slope: 1 };
  return { at: ofShare, slope: ((1 - lost) * untold(ofShare, prompts)) / untold(level, prompts) };
}

/** Variance of a batch's I(X;Z) at a level, up to the run's own factor c². */
export function varianceAt(level: number, prompts: number): number {
  return Math.max(level, LEAST_LEVEL) * untold(level, prompts);
}

/** A step's I(X;Z) and its error among `prompts`, as they would be among `wanted` with the same preference. */
export function amongPrompts(
  { value, error }: { readonly value: number; readonly error: number },
  prompts: number,
  wanted: number,
): { value: number; error: number } {
  if (prompts === wanted) return { value, error };
  const moved = informationOf(preference(value, prompts), wanted);
  return { value: moved, error: (error * untold(moved, wanted)) / untold(value, prompts) };
}
