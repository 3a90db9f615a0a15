// Plain data <-> JSON that loses nothing: NaN, infinities, −0 and bigints are texts that begin with a NUL, and a text that
// does so itself has one more.

const MARK = '\0';
const SPECIAL: ReadonlyMap<string, number> = new Map([
  ['NaN', Number.NaN],
  ['Infinity', Number.POSITIVE_INFINITY],
  ['-Infinity', Number.NEGATIVE_INFINITY],
  ['-0', -0],
]);

/**
 * One line of text; properties that are undefined are left out, as in JSON. Equal data with its keys in the same order
 * gives equal text.
 * @param value numbers of any kind, strings, booleans, null, bigints, and arrays and plain objects of them
 */
export function stringifyLossless(value: unknown): string {
  return JSON.stringify(value, written);
}

function written(_: string, value: unknown): unknown {
  if (typeof value === 'number') {
    if (Object.is(value, -0)) return `${MARK}-0`;
    return value - value === 0 ? value : `${MARK}${value}`;
  }
  if (typeof value === 'bigint') return `${MARK}${value}n`;
  return typeof value === 'string' && value.startsWith(MARK) ? MARK + value : value;
}

/**
 * The data that `stringifyLossless` was given.
 * @throws {SyntaxError} unless it is JSON
 */
export function parseLossless(text: string): unknown {
  return text.includes('"\\u0000') ? JSON.parse(text, restored) : JSON.parse(text);
}

function restored(_: string, value: unknown): unknown {
  if (typeof value !== 'string' || !value.startsWith(MARK)) return value;
  const rest = value.slice(MARK.length);
  if (rest.startsWith(MARK)) return rest;
  return SPECIAL.get(rest) ?? BigInt(rest.slice(0, -1));
}
