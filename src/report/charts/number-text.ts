// Numbers as the page shows them: as everywhere, but whole numbers whole, and what is missing as such.
import { shortNumber as columnNumber, isLeastP, MISSING, percent, pWords } from '../../checks/numbers.js';

export { MISSING };

export function shortNumber(value: number | null | undefined): string {
  if (value === undefined || value === null || Number.isNaN(value)) return MISSING;
  return Number.isInteger(value) && Math.abs(value) < 1e6 ? String(value) : columnNumber(value);
}

export const percentText = (share: number | null | undefined): string =>
  share === undefined || share === null || Number.isNaN(share) ? MISSING : percent(share);

/** `0.201 [0.090, 0.320]` */
export function withInterval(value: number, low: number | undefined, high: number | undefined): string {
  const text = shortNumber(value);
  if (low === undefined || high === undefined || Number.isNaN(low) || Number.isNaN(high)) return text;
  return `${text} [${shortNumber(low)}, ${shortNumber(high)}]`;
}

/** @param permutations behind it */
export function pText(p: number, permutations: number): string {
  if (Number.isNaN(p)) return '';
  return isLeastP(p, permutations) ? pWords(p, permutations) : `p = ${p.toPrecision(2)}`;
}

export const inWords = (name: string): string => name.replaceAll('_', ' ');
