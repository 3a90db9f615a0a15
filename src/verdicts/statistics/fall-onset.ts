// Estimates since when the level of a figure has fallen, and by how much: the posterior of a fall that takes 1 to 32
// steps (docs/reference/verdicts.md, `dependence_lower`).
import { informationOf, preference, varianceAt } from './dependence-scale.js';
import { fixedExp, fixedLog } from './fixed-math.js';

/** Steps that a fall takes, each dividing the last; shares of d that are lost in it. All are as likely beforehand. */
const SPANS = [1, 2, 4, 8, 16, 32];
const MOST_STEPS = 32;
const LOSSES = Array.from({ length: 10 }, (_, at) => 0.1 + at * 0.1);

/** Fewest values before the fall. */
const LEAST_BEFORE = 2;

/** Chance that the set of first steps holds the true one; tails outside the interval of the share lost. */
const [SET, TAIL] = [0.95, 0.025];

/** Figures without any error: what does not fit is then impossible. */
const LEAST_DISPERSION = 1e-12;

/** Places among the values, from 0; shares of d that are lost at the last value. */
export interface FallOnset {
  /** The likeliest first step of the fall; the first and last step of the 95% set. */
  readonly at: number;
  readonly low: number;
  readonly high: number;
  /** Mean, and the ends of the 95% interval. */
  readonly lost: number;
  readonly lostLow: number;
  readonly lostHigh: number;
}

/**
 * @param values three or more, oldest first
 * @param prompts different prompts that they are among; infinite if that is not known
 * @param dispersion c²: a value's variance is that multiple of varianceAt(its level)
 */
export function fallOnset(values: readonly number[], prompts: number, dispersion: number): FallOnset {
  const steps = values.length;
  const parts = MOST_STEPS + 1;
  const factor = Math.max(dispersion, LEAST_DISPERSION);
  const [levels, scales, logs] = [new Float64Array(parts), new Float64Array(parts), new Float64Array(parts)];
  const cases: { first: number; lost: number; log: number }[] = [];
  let before = 0;
  for (let first = 0; first < steps; first++) {
    if (first >= LEAST_BEFORE) {
      const start = before / first;
      const d = preference(start, prompts);
      for (const loss of LOSSES) {
        // At 0, 1, … 32 of 32 steps of the fall; a fall that takes fewer skips some.
        for (let part = 0; part <= MOST_STEPS; part++) {
          const level = part === 0 ? start : informationOf((1 - loss * (part / MOST_STEPS)) * d, prompts);
          const variance = varianceAt(level, prompts);
          levels[part] = level;
          scales[part] = factor * variance;
          logs[part] = fixedLog(variance);
        }
        for (const span of SPANS) {
          let log = 0;
          for (let step = 0; step < steps; step++) {
            const part = Math.min(MOST_STEPS, Math.max(0, step - first + 1) * (MOST_STEPS / span));
            const off = (values[step] as number) - (levels[part] as number);
            log += (off * off) / (scales[part] as number) + (logs[part] as number);
          }
          cases.push({ first, lost: loss * Math.min(1, (steps - first) / span), log: -0.5 * log });
        }
      }
    }
    before += values[first] as number;
  }
  const highest = cases.reduce((most, { log }) => Math.max(most, log), Number.NEGATIVE_INFINITY);
  const weights = cases.map(({ log }) => fixedExp(log - highest));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const chances = new Array<number>(steps).fill(0);
  let lost = 0;
  cases.forEach(({ first, lost: share }, at) => {
    const chance = (weights[at] as number) / total;
    chances[first] = (chances[first] as number) + chance;
    lost += chance * share;
  });
  const byShare = cases.map((one, at) => ({ lost: one.lost, chance: (weights[at] as number) / total }));
  byShare.sort((a, b) => a.lost - b.lost);
  const likeliest = [...chances.keys()].sort((a, b) => (chances[b] as number) - (chances[a] as number) || a - b);
  const kept = likeliest.slice(
    0,
    reached(
      likeliest.map((step) => chances[step] as number),
      SET,
    ) + 1,
  );
  const shareAt = (chance: number): number =>
    (
      byShare[
        reached(
          byShare.map((one) => one.chance),
          chance,
        )
      ] as { lost: number }
    ).lost;
  return {
    at: likeliest[0] as number,
    low: Math.min(...kept),
    high: Math.max(...kept),
    lost,
    lostLow: shareAt(TAIL),
    lostHigh: shareAt(1 - TAIL),
  };
}

/** The place up to which the chances add up to as much; the last one where they never do. */
function reached(chances: readonly number[], wanted: number): number {
  let sum = 0;
  for (const [at, chance] of chances.entries()) {
    sum += chance;
    if (sum >= wanted) return at;
  }
  return chances.length - 1;
}
