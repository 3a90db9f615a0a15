// A series as one line of bars.

const BARS = '▁▂▃▄▅▆▇█';
/** For terminals without UTF-8: higher characters look higher. */
const ASCII_BARS = '_.-:=+*#';

/**
 * @param values in order; NaN and undefined leave a gap
 * @param width most characters; longer series show the mean of neighbours
 */
export function sparkline(values: readonly (number | undefined)[], width: number, unicode: boolean): string {
  const bars = unicode ? BARS : ASCII_BARS;
  const shown = shrink(values, width);
  const finite = shown.filter(isFigure);
  const low = Math.min(...finite);
  const high = Math.max(...finite);
  return shown
    .map((value) => {
      if (!isFigure(value)) return ' ';
      // A constant series is a line in the middle: neither low nor high.
      const height = high > low ? (value - low) / (high - low) : 0.5;
      return bars[Math.min(bars.length - 1, Math.floor(height * bars.length))];
    })
    .join('');
}

function isFigure(value: number | undefined): value is number {
  return value !== undefined && Number.isFinite(value);
}

function shrink(values: readonly (number | undefined)[], width: number): (number | undefined)[] {
  if (values.length <= width) return [...values];
  return Array.from({ length: width }, (_, at) => {
    const from = Math.floor((at * values.length) / width);
    const to = Math.floor(((at + 1) * values.length) / width);
    const bucket = values.slice(from, to).filter(isFigure);
    return bucket.length === 0 ? undefined : bucket.reduce((sum, value) => sum + value, 0) / bucket.length;
  });
}
