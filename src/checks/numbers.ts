// Numbers as people read them: in sentences, and in columns, where they line up.

/** In a sentence: three significant digits. */
export function figure(value: number): string {
  const text = value.toPrecision(3);
  return text.includes('e') ? String(Number(text)) : text;
}

/** The least p-value that permutations can give, in float32 too, is not a measured one, but means "or less". */
export function isLeastP(p: number, permutations: number): boolean {
  return p <= (1 + 1e-6) / (permutations + 1);
}

/**
 * `p = 0.0300`, and `p ≤ 0.001` where no permutation reached the figure.
 * @param permutations behind it
 */
export function pWords(p: number, permutations: number): string {
  return isLeastP(p, permutations) ? `p ≤ ${Number(p.toPrecision(3))}` : `p = ${figure(p)}`;
}

/** A share of 1 in a sentence: 34%, 240%. */
export function percent(share: number): string {
  return `${Math.round(100 * share)}%`;
}

/** The same of what was set or saved, where a tenth counts: 1.5%, 82.8%. */
export function exactPercent(share: number): string {
  return `${Number((100 * share).toPrecision(3))}%`;
}

/** A value's share of another, which may be 0: H(Z|X) is, where a policy is certain of all it says. */
export function percentOf(value: number, whole: number): string {
  if (whole !== 0) return percent(value / whole);
  return value === 0 ? '100%' : 'more than 100%';
}

export const MISSING = '—';

/** In a column: three significant digits, at most three decimals; exponents beyond 0.001 and 100,000. */
export function shortNumber(value: number | null | undefined): string {
  if (value === undefined) return MISSING;
  if (value === null || Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? '+inf' : '-inf';
  const size = Math.abs(value);
  if (size === 0) return '0.000';
  if (size < 1e-3 || size >= 1e5) return value.toExponential(1).replace('e+', 'e');
  const decimals = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toFixed(decimals);
}

/** 1.5 GB; powers of 1,000. */
export function shortBytes(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** 3:07, or 2:03:07 with hours. */
export function shortDuration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const two = (value: number): string => String(value).padStart(2, '0');
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

/** Of sums whose terms cancel, what is left by rounding. */
const ROUNDING = 1e-12;

/** A figure that only rounding keeps from 0: neither −0 nor 1e-16 is shown or logged. */
export function withoutRounding(value: number): number {
  return Math.abs(value) < ROUNDING ? 0 : value;
}

/** A share that only rounding takes out of [0, 1], or keeps from its ends. What is further off stays as it is. */
export function shareWithoutRounding(value: number): number {
  return Math.abs(value - 1) < ROUNDING ? 1 : withoutRounding(value);
}

/**
 * exp I(X;Z) is the number of prompts that the reasoning separates: `tells apart about 8 of 32 prompts`, with the ends
 * of the interval `about 8 [7.1, 9] of 32`.
 * @param interval of I(X;Z), in nats as `mi` is
 */
export function toldApart(
  mi: number,
  prompts: number,
  interval?: { readonly low: number; readonly high: number },
): string {
  const count = (nats: number): string => String(Number(Math.min(prompts, Math.max(1, Math.exp(nats))).toPrecision(2)));
  const ends = interval === undefined ? '' : ` [${count(interval.low)}, ${count(interval.high)}]`;
  return `tells apart about ${count(mi)}${ends} of ${prompts} prompts`;
}
