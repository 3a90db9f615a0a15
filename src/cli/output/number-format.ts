// Numbers as short as a person can use them, and as aligned as a column needs.

export const MISSING = '—';

/** Three significant digits, at most three decimals; exponents beyond .001 and 100,000. */
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
