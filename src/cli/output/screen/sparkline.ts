// A series as one line of bars, and a run's states as one line of letters, column by column below it.

const BARS = '▁▂▃▄▅▆▇█';
/** For terminals without UTF-8: higher characters look higher. */
const ASCII_BARS = '_.-:=+*#';
/** Mark for a bar that is not higher than chance. */
export const CHANCE = { unicode: '╌', ascii: '~' };

export interface Scale {
  readonly low: number;
  readonly high: number;
}

/**
 * @param values in order; NaN and undefined leave a gap; what is beyond the scale is drawn at its end
 * @param width most characters; longer series show the mean of neighbours
 * @param chance value whose bar, and all lower ones, are drawn as a line
 */
export function sparkline(
  values: readonly (number | undefined)[],
  width: number,
  { low, high }: Scale,
  unicode: boolean,
  chance = Number.NEGATIVE_INFINITY,
): string {
  const bars = unicode ? BARS : ASCII_BARS;
  const heightOf = (value: number): number => {
    const share = high > low ? (value - low) / (high - low) : 0;
    return Math.max(0, Math.min(bars.length - 1, Math.floor(share * bars.length)));
  };
  const floor = Number.isFinite(chance) ? heightOf(chance) : -1;
  return buckets(values, width)
    .map((bucket) => {
      const finite = bucket.filter((value) => value !== undefined && Number.isFinite(value)) as number[];
      if (finite.length === 0) return ' ';
      const height = heightOf(finite.reduce((sum, value) => sum + value, 0) / finite.length);
      return height <= floor ? CHANCE[unicode ? 'unicode' : 'ascii'] : bars[height];
    })
    .join('');
}

/**
 * @param letters one a step, undefined if the state is not known
 * @returns of each column the letter that most of its steps have, of equals the latest
 */
export function ribbon(letters: readonly (string | undefined)[], width: number, unicode: boolean): string {
  return buckets(letters, width)
    .map((bucket) => {
      const count = (letter: string | undefined): number => bucket.filter((other) => other === letter).length;
      const most = bucket.reduce((best, letter) => (count(letter) >= count(best) ? letter : best));
      return most ?? (unicode ? '·' : '.');
    })
    .join('');
}

/** The column in which both draw the value at `index` of `count`. */
export function characterAt(index: number, count: number, width: number): number {
  if (count <= width) return index;
  let column = Math.floor((index * width) / count);
  while (Math.floor(((column + 1) * count) / width) <= index) column++;
  return column;
}

function buckets<T>(values: readonly T[], width: number): T[][] {
  if (values.length <= width) return values.map((value) => [value]);
  return Array.from({ length: width }, (_, at) =>
    values.slice(Math.floor((at * values.length) / width), Math.floor(((at + 1) * values.length) / width)),
  );
}
