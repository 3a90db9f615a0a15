// A line of JSON as trainers write it: with Python's NaN and infinities, and with ids of 64 bits.

/**
 * As JSON.parse, but for numbers that it would refuse or change, which become strings of their characters: NaN and
 * infinities, for which JSON has no word but Python's json.dumps writes one, and integers too long for a double, which
 * would make two hashed ids one.
 * @throws {SyntaxError} as JSON.parse
 */
export function parseJsonLine(line: string): unknown {
  return JSON.parse(quotedNumbers(line));
}

/** An integer too long for a double: parseJsonLine gives its digits. */
export const isLongInteger = (text: string): boolean =>
  /^-?[1-9]\d{15,}$/.test(text) && !Number.isSafeInteger(Number(text));

/**
 * Goes through the line once: an expression for whole strings would begin again at each quote of one that is not
 * closed.
 */
function quotedNumbers(line: string): string {
  if (!/NaN|Infinity|(?<![.\d])\d{16}/.test(line)) return line;
  let inString = false;
  return line.replace(/\\.|"|-?(?:NaN|Infinity)|-?\d[\d.eE+-]*/g, (found) => {
    if (found === '"') inString = !inString;
    if (inString || found === '"' || found.startsWith('\\')) return found;
    return /^-?\d/.test(found) && !isLongInteger(found) ? found : `"${found}"`;
  });
}
