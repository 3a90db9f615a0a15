// Plain data <-> JSON that loses nothing: NaN, infinities, −0 and bigints come back as they were. What JSON can say is
// said as JSON says it, so that the text is readable by anything; the rest is an object with the one key "$".
import { ArgumentError, StateError } from '../../checks/errors.js';
import { keyQuoter } from './quoted-keys.js';

/** Our data are not nested deeper, and what is would exhaust the stack. */
const MAX_DEPTH = 64;
/** Bigints are ids of 64 bits; converting digits takes time that grows with their square. */
const MAX_BIGINT_DIGITS = 1000;

/** The key of what JSON has no word for. Keys of the data that begin with it are written with one more. */
const MARK = '$';
const SPECIAL: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  '-Infinity': Number.NEGATIVE_INFINITY,
  '-0': -0,
};

/**
 * One line of text; properties that are undefined are left out, as in JSON. Equal data with its keys in the same order
 * gives equal text.
 * @param value plain data: numbers of any kind, strings, booleans, null, bigints, and arrays and plain objects of them
 * @throws {ArgumentError} unless it is plain data: for functions, class instances, typed arrays, undefined in an array,
 *   cycles
 */
export function stringifyLossless(value: unknown): string {
  return write(value, 0);
}

const quoted = keyQuoter((key) => (key.startsWith(MARK) ? MARK + key : key));

function write(value: unknown, depth: number): string {
  switch (typeof value) {
    case 'number':
      return writeNumber(value);
    case 'string':
      return JSON.stringify(value);
    case 'boolean':
      return String(value);
    case 'bigint':
      return writeBigint(value);
    case 'object':
      break;
    default:
      throw notPlain(`a value of type ${typeof value}`);
  }
  if (value === null) return 'null';
  if (depth >= MAX_DEPTH) throw notPlain(`data nested deeper than ${MAX_DEPTH}, or within itself`);
  if (Array.isArray(value)) {
    let text = '';
    for (let at = 0; at < value.length; at++) text += (at > 0 ? ',' : '') + write(value[at], depth + 1);
    return `[${text}]`;
  }
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null)
    throw notPlain(`an instance of ${prototype.constructor?.name}`);
  const object = value as Record<string, unknown>;
  let text = '';
  for (const key of Object.keys(object)) {
    const member = object[key];
    if (member === undefined) continue;
    // Nearly all members are numbers.
    const written = typeof member === 'number' ? writeNumber(member) : write(member, depth + 1);
    text += text === '' ? quoted(key) + written : `,${quoted(key)}${written}`;
  }
  return `{${text}}`;
}

function writeNumber(value: number): string {
  if (value !== 0 && value - value === 0) return `${value}`;
  if (Object.is(value, 0)) return '0';
  return `{"${MARK}":"${Object.is(value, -0) ? '-0' : value}"}`;
}

function writeBigint(value: bigint): string {
  const digits = String(value);
  if (digits.length > MAX_BIGINT_DIGITS) throw notPlain(`a bigint of ${digits.length} digits`);
  return `{"${MARK}":"${digits}n"}`;
}

function notPlain(what: string): ArgumentError {
  return new ArgumentError(
    'value',
    `${what}, expected plain data: numbers, strings, bigints, arrays and plain objects`,
  );
}

/**
 * The data that `stringifyLossless` was given, from text that anyone may have written.
 * @throws {StateError} unless it is JSON that `stringifyLossless` can have written
 */
export function parseLossless(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new StateError(`not JSON: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
  return restore(value, 0);
}

function restore(value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (depth >= MAX_DEPTH) throw new StateError(`not exact JSON: nested deeper than ${MAX_DEPTH}`);
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at++) value[at] = restore(value[at], depth + 1);
    return value;
  }
  const object = value as Record<string, unknown>;
  if (Object.hasOwn(object, MARK)) return special(object);
  const keys = Object.keys(object);
  if (!keys.some((key) => key.startsWith(MARK))) {
    for (const key of keys) {
      const member = object[key];
      // Only what may hold something special is written again; "__proto__" is then an own key, but assigning to it is
      // not safe.
      if (typeof member === 'object' && member !== null) define(object, key, restore(member, depth + 1));
    }
    return object;
  }
  // Built anew, so that keys keep their order.
  const restored: Record<string, unknown> = {};
  for (const key of keys) {
    const escaped = key.startsWith(MARK);
    if (escaped && !key.startsWith(MARK + MARK))
      throw new StateError(`not exact JSON: unknown key ${JSON.stringify(key)}`);
    define(restored, escaped ? key.slice(MARK.length) : key, restore(object[key], depth + 1));
  }
  return restored;
}

function define(object: Record<string, unknown>, key: string, value: unknown): void {
  if (key === '__proto__') {
    Object.defineProperty(object, key, { value, configurable: true, enumerable: true, writable: true });
  } else {
    object[key] = value;
  }
}

function special(object: Record<string, unknown>): number | bigint {
  const name = object[MARK];
  if (typeof name === 'string' && Object.keys(object).length === 1) {
    if (Object.hasOwn(SPECIAL, name)) return SPECIAL[name] as number;
    if (name.length <= MAX_BIGINT_DIGITS + 1 && /^(0|-?[1-9][0-9]*)n$/.test(name)) return BigInt(name.slice(0, -1));
  }
  throw new StateError(`not exact JSON: ${JSON.stringify(object).slice(0, 80)} stands for no value`);
}
