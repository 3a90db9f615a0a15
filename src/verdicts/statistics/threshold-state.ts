// Compares a figure's interval with half of its start step by step: fallen below, standing above, in between unchanged,
// and unknown before the first of either. Keeps since when and how certain it is.
import { count, fields, oneOf, type Shape } from '../../checks/saved.js';
import { sharedWidth } from './shared-level.js';

/**
 * A figure below this share of its start has fallen: the template regime of RAGEN-2 has lost most of its MI, noise
 * halves nothing.
 */
export const FALLEN = 0.5;

/** Half-widths of 95% and 99.9% intervals in standard errors. */
export const WIDTH_95 = 1.96;
const WIDTH_999 = 3.29;

/** Steps that agree, from which a state is a verdict. */
const SURE = 2;

export const thresholdStateShape = fields({
  state: oneOf('stands', 'fallen'),
  /** First step of the unbroken stretch. */
  since: count,
  /** Computed steps of the stretch whose own interval said so; one beyond doubt is SURE at once. */
  sure: count,
});

export type ThresholdState = typeof thresholdStateShape extends Shape<infer T> ? T : never;

export interface Comparison {
  readonly state: 'stands' | 'fallen' | 'open';
  readonly beyondDoubt: boolean;
}

/**
 * Where a value with its 95% half-widths lies against a threshold that has a standard error of its own.
 * @param tests that share the level at which it has fallen
 */
export function compare(
  value: number,
  above: number,
  below: number,
  threshold: number,
  error: number,
  tests = 1,
): Comparison {
  const reach = (half: number, scale: number): number => Math.hypot(half * scale, WIDTH_95 * scale * error);
  const scale = sharedWidth(WIDTH_95, tests) / WIDTH_95;
  if (value + reach(above, scale) < threshold) {
    const wide = sharedWidth(WIDTH_999, tests) / WIDTH_95;
    return { state: 'fallen', beyondDoubt: value + reach(above, wide) < threshold };
  }
  return { state: value - reach(below, 1) > threshold ? 'stands' : 'open', beyondDoubt: false };
}

/** @returns null until a step's interval has said something */
export function advance(before: ThresholdState | null, now: Comparison, step: number): ThresholdState | null {
  if (now.state === 'open') return before;
  const told = now.beyondDoubt ? SURE : 1;
  if (before?.state !== now.state) return { state: now.state, since: step, sure: told };
  return { ...before, sure: before.sure + told };
}

/**
 * Whether two computed steps have said that the figure has fallen, or one beyond doubt: so a stray interval raises no
 * alarm.
 */
export function isSurelyFallen(state: ThresholdState | null): state is ThresholdState {
  return state?.state === 'fallen' && state.sure >= SURE;
}
