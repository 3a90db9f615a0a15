// The options of a benchmark's or a check's command line, looked at before it begins: with wrong ones it would measure
// or check nothing, and pass. Wrong usage ends with status 2.
import { basename } from 'node:path';
import { parseArgs } from 'node:util';

/** A whole number of at least so much. */
export const whole = (least) => (text) => {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < least || !Number.isSafeInteger(value))
    throw new Error(`expected a whole number from ${least} on`);
  return value;
};

/** A number above 0. */
export const positive = (text) => {
  const value = Number(text);
  if (!(Number.isFinite(value) && value > 0)) throw new Error('expected a number above 0');
  return value;
};

/** What `read` takes, several times, separated by commas. */
export const list = (read) => (text) => text.split(',').map(read);

/** One of these names. */
export const oneOf = (names) => (text) => {
  if (names.includes(text)) return text;
  throw new Error(`expected ${names.join(', ')}`);
};

/**
 * @param {Record<string, { read?: (text: string) => unknown, default?: string | boolean }>} spec  without `read`: a
 *   flag
 * @param {string[]} [places]  names of what stands without an option, all of it required; or one, `NAME...`: any number
 * @returns {Record<string, any>}
 */
export function readOptions(spec, places = []) {
  try {
    const options = Object.fromEntries(
      Object.entries(spec).map(([name, one]) => [
        name,
        {
          type: /** @type {'string' | 'boolean'} */ (one.read ? 'string' : 'boolean'),
          ...('default' in one && { default: one.default }),
        },
      ]),
    );
    const { values, positionals } = parseArgs({ options, allowPositionals: places.length > 0 });
    const rest = places[0]?.endsWith('...') ? { [places[0].slice(0, -3)]: positionals } : undefined;
    if (rest === undefined && positionals.length !== places.length)
      throw new Error(`expected ${places.join(' ')}, then options`);
    const read = Object.entries(spec).map(([name, { read }]) => [
      name,
      read && values[name] !== undefined ? readOne(name, read, values[name]) : values[name],
    ]);
    return {
      ...(rest ?? Object.fromEntries(places.map((name, at) => [name, positionals[at]]))),
      ...Object.fromEntries(read),
    };
  } catch (error) {
    return wrongUsage(error.message);
  }
}

/**
 * Ends the process.
 * @returns {never}
 */
export function wrongUsage(problem) {
  console.error(`${basename(process.argv[1])}: ${problem}`);
  process.exit(2);
}

function readOne(name, read, text) {
  try {
    return read(text);
  } catch (error) {
    throw new Error(`--${name} ${text}: ${error.message}`);
  }
}
