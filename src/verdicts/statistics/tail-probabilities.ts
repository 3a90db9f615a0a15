// Computes how rare a value is under the null: upper tails of the normal and Student's t distribution. The same bits on
// every JavaScript engine.
import { fixedExp, fixedLog } from './fixed-math.js';

/** P(T > t) of Student's t; an infinite `freedom` gives the normal distribution. */
export function studentTail(t: number, freedom: number): number {
  if (Number.isNaN(t)) return Number.NaN;
  if (freedom > 1e6) return normalTail(t);
  const half = 0.5 * incompleteBeta(freedom / (freedom + t * t), freedom / 2, 0.5);
  return t >= 0 ? half : 1 - half;
}

/** P(Z > z); relative error below 1.2e-7 (Chebyshev fit of erfc, Numerical Recipes §6.2). */
export function normalTail(z: number): number {
  const x = Math.abs(z) / Math.SQRT2;
  const t = 1 / (1 + 0.5 * x);
  const polynomial = [
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223,
    0.17087277,
  ].reduceRight((sum, coefficient) => sum * t + coefficient, 0);
  const tail = 0.5 * t * fixedExp(-x * x + polynomial);
  return z >= 0 ? tail : 1 - tail;
}

/** Regularised incomplete beta function I_x(a, b), by its continued fraction (Lentz; Numerical Recipes §6.4). */
function incompleteBeta(x: number, a: number, b: number): number {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const front = fixedExp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * fixedLog(x) + b * fixedLog(1 - x));
  return x < (a + 1) / (a + b + 2) ? (front * betaFraction(x, a, b)) / a : 1 - (front * betaFraction(1 - x, b, a)) / b;
}

function betaFraction(x: number, a: number, b: number): number {
  const tiny = 1e-300;
  const away = (value: number): number => (Math.abs(value) < tiny ? tiny : value);
  let c = 1;
  let d = 1 / away(1 - ((a + b) * x) / (a + 1));
  let result = d;
  for (let m = 1; m <= 500; m++) {
    for (const term of [
      (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m)),
      (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1)),
    ]) {
      d = 1 / away(1 + term * d);
      c = away(1 + term / c);
      result *= d * c;
    }
    if (Math.abs(d * c - 1) < 1e-14) break;
  }
  return result;
}

/** ln Γ(x), x > 0 (Lanczos, g = 5, n = 6). */
function logGamma(x: number): number {
  const series = [
    76.18009172947146, -86.50532032941678, 24.01409824083091, -1.231739572450155, 1.208650973866179e-3,
    -5.395239384953e-6,
  ].reduce((sum, coefficient, at) => sum + coefficient / (x + 1 + at), 1.000000000190015);
  return (x + 0.5) * fixedLog(x + 5.5) - (x + 5.5) + fixedLog((2.5066282746310007 * series) / x);
}
