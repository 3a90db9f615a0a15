// Degrees of freedom and a level -> the quantile that an interval multiplies its standard error by. At 95% the engine has the same
// (native/engine/inference/student_t.cpp), so that a complete plan gives the engine's own intervals.

/** From here on the series below is exact to the last bit. */
const ASYMPTOTIC = 30;

/** Γ(a + ½) / (Γ(a) √a), which goes to 1. The difference of two ln Γ would lose all digits for large a. */
function gammaRatio(a: number): number {
  let factor = 1;
  let at = a;
  for (; at < ASYMPTOTIC; at++) factor *= Math.sqrt(at * (at + 1)) / (at + 0.5);
  const x = 1 / at;
  const square = x * x;
  // Tricomi and Erdélyi 1951 (DLMF 5.11.13), as a logarithm.
  return factor * Math.exp(-x * (1 / 8 - square * (1 / 192 - square * (1 / 640 - square * (17 / 14336)))));
}

/**
 * The continued fraction f of the incomplete beta function, I_x(a, b) = x^a y^b / (B(a, b) f), y = 1 − x: the even part of
 * DLMF 8.17.22 (Didonato and Morris 1992, eq. 9). With y given apart nothing cancels where x is near 1.
 */
function betaFraction(a: number, b: number, x: number, y: number): number {
  const tiny = 1e-300;
  const denominator = (m: number): number =>
    m + (m * (b - m) * x) / (a + 2 * m - 1) + ((a + m) * (a * y - b * x + 1 + m * (2 - x))) / (a + 2 * m + 1);
  // At m = 0 its first fraction is 0 times something that may be infinite.
  let value = (a * (a * y - b * x + 1)) / (a + 1) || tiny;
  let c = value;
  let d = 0;
  for (let m = 1; m < 1000; m++) {
    const numerator = (((a + m - 1) * (a + b + m - 1)) / (a + 2 * m - 1) ** 2) * m * (b - m) * x * x;
    const next = denominator(m);
    d = 1 / (next + numerator * d || tiny);
    c = next + numerator / c || tiny;
    value *= c * d;
    if (Math.abs(c * d - 1) < 1e-15) break;
  }
  return value;
}

/** P(|T| > t), P(|T| ≤ t), the smaller by itself, and t times the density of |T|. */
function probabilities(t: number, degrees: number, ratio: number): { outside: number; inside: number; slope: number } {
  const a = degrees / 2;
  const square = t * t;
  const x = degrees / (degrees + square);
  const y = square / (degrees + square);
  const power = ratio * Math.sqrt((a / Math.PI) * y) * Math.exp(-a * Math.log1p(square / degrees));
  const slope = 2 * power;
  // The fraction converges fast below the mean of the beta distribution.
  if (x < (a + 1) / (a + 2.5)) {
    const outside = power / betaFraction(a, 0.5, x, y);
    return { outside, inside: 1 - outside, slope };
  }
  const inside = power / betaFraction(0.5, a, y, x);
  return { outside: 1 - inside, inside, slope };
}

/** Beyond this the distribution is the normal one to the last bit. */
const MOST_DEGREES = 1e17;
const LEAST_DEGREES = 0.5;

/** t is multiplied by at most e^this at a time: a step too far would end where the tail is 0. */
const LONGEST_STEP = 2;

/**
 * The t with P(|T| ≤ t) = confidence, relative error below 1e-13.
 * @param degrees of freedom, not necessarily whole; below ½ taken as ½, NaN gives NaN
 */
export function studentT(degrees: number, confidence: number): number {
  if (Number.isNaN(degrees)) return degrees;
  const freedom = Math.max(LEAST_DEGREES, Math.min(degrees, MOST_DEGREES));
  const ratio = gammaRatio(freedom / 2);
  // Newton's method on the logarithms of t and of the smaller probability: that curve is concave, so that after one step too far
  // at most it closes in from one side.
  const isInside = confidence < 0.5;
  const target = Math.log(isInside ? confidence : 1 - confidence);
  let at = 0;
  for (let i = 0; i < 200; i++) {
    const { outside, inside, slope } = probabilities(Math.exp(at), freedom, ratio);
    const probability = isInside ? inside : outside;
    const excess = (Math.log(probability) - target) * (isInside ? -1 : 1);
    const step = Math.max(-LONGEST_STEP, Math.min((excess * probability) / slope, LONGEST_STEP));
    at += step;
    // The error left is about this squared.
    if (Math.abs(step) < 1e-9) break;
  }
  return Math.exp(at);
}
