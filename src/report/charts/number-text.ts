// Numbers as the page shows them.

export const MISSING = '—';

/** Three significant digits, at most three decimals; whole numbers whole. */
export function shortNumber(value: number | null | undefined): string {
  if (value === undefined || value === null || Number.isNaN(value)) return MISSING;
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value).replace('-', '−');
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e5) return value.toExponential(1).replace('e+', 'e').replaceAll('-', '−');
  const decimals = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toFixed(decimals).replace('-', '−');
}

export const percentText = (share: number | null | undefined): string =>
  share === undefined || share === null || Number.isNaN(share) ? MISSING : `${Math.round(100 * share)}%`;

/** `0.201 [0.090, 0.320]` */
export function withInterval(value: number, low: number | undefined, high: number | undefined): string {
  const text = shortNumber(value);
  if (low === undefined || high === undefined || Number.isNaN(low) || Number.isNaN(high)) return text;
  return `${text} [${shortNumber(low)}, ${shortNumber(high)}]`;
}

/** The least p-value that permutations can give is no measured one. */
export function pText(p: number): string {
  if (Number.isNaN(p)) return '';
  return p <= 0.00101 ? 'p ≤ .001' : `p = ${p.toPrecision(2).replace(/^0/, '')}`;
}

export const inWords = (name: string): string => name.replaceAll('_', ' ');
