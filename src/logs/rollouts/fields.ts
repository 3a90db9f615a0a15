// Typed access to what one line or row says, whichever container it came from. Python's ways are understood: None is
// absent, NaN and infinities are numbers, a flag may be a number.
import { printable } from '../../checks/words.js';
import type { LoggedText } from './logged-text.js';

/** What is wrong with a line; the caller that knows its place adds it. */
export class LineProblem extends Error {
  /** @param isWhole nothing that is still to be written would make the line good */
  constructor(
    problem: string,
    readonly isWhole = false,
  ) {
    super(problem);
  }
}

const WORDS: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  nan: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  inf: Number.POSITIVE_INFINITY,
  '-Infinity': Number.NEGATIVE_INFINITY,
  '-inf': Number.NEGATIVE_INFINITY,
};

const LARGEST_TOKEN = 2 ** 31 - 1;

export abstract class Fields {
  /** Undefined for a field that is not there or null. Long integers may come as bigint or as their digits. */
  abstract value(name: string): unknown;

  /** Of a field that is a list of one, its element; undefined for another list. */
  single(name: string): Fields {
    const value = this.value(name);
    return new ObjectFields({ [name]: Array.isArray(value) && value.length === 1 ? value[0] : undefined });
  }

  text(name: string): string | undefined {
    const value = this.value(name);
    if (value === undefined || typeof value === 'string') return value;
    return wrong(name, value, 'text');
  }

  /** As `text`, without making the string yet. */
  written(name: string): LoggedText | undefined {
    return this.text(name);
  }

  isText(name: string): boolean {
    return typeof this.value(name) === 'string';
  }

  /** Whether it is a list of lists. */
  isNested(name: string): boolean {
    const value = this.value(name);
    return Array.isArray(value) && (Array.isArray(value[0]) || ArrayBuffer.isView(value[0]));
  }

  number(name: string): number | undefined {
    const value = this.value(name);
    return value === undefined ? undefined : numberOf(value, name);
  }

  /** A number, or true and false as 1 and 0, also in the words that Python prints for them. */
  outcome(name: string): number | undefined {
    const value = this.value(name);
    if (value === true || value === 'True' || value === 'true') return 1;
    if (value === false || value === 'False' || value === 'false') return 0;
    return value === undefined ? undefined : numberOf(value, name);
  }

  flag(name: string): boolean | undefined {
    const value = this.outcome(name);
    return value === undefined ? undefined : value !== 0;
  }

  /** A whole number of 0 or more, also written as 3.0 or "3". */
  count(name: string): number | undefined {
    const value = this.number(name);
    if (value === undefined || (Number.isSafeInteger(value) && value >= 0)) return value;
    return wrong(name, value, 'a whole number of 0 or more');
  }

  /** An id: text, or the digits of a number. NaN is how pandas writes that there is none. */
  id(name: string): string | undefined {
    const value = this.value(name);
    if (value === undefined || typeof value === 'string') return value;
    if (Number.isNaN(value)) return undefined;
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
      return wrong(
        name,
        value,
        'an id below 2^53, an integer of 64 bits or text: floats of that size have lost digits',
      );
    }
    if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean') return String(value);
    return wrong(name, value, 'a number or a name');
  }

  tokens(name: string): Int32Array | undefined {
    const value = this.value(name);
    return value === undefined ? undefined : tokensOf(value, name);
  }

  /** null among them is NaN. */
  floats(name: string): Float64Array | undefined {
    const value = this.value(name);
    return value === undefined ? undefined : floatsOf(value, name);
  }

  list(name: string): readonly unknown[] | undefined {
    const value = this.value(name);
    if (value === undefined || Array.isArray(value)) return value;
    return wrong(name, value, 'a list');
  }

  object(name: string): Fields {
    return fieldsOf(this.value(name) ?? {}, name);
  }
}

/** Fields of a value that is already there. */
export class ObjectFields extends Fields {
  constructor(private readonly values: Readonly<Record<string, unknown>>) {
    super();
  }

  value(name: string): unknown {
    const value = Object.hasOwn(this.values, name) ? this.values[name] : undefined;
    return value === null ? undefined : value;
  }

  get names(): string[] {
    return Object.keys(this.values);
  }
}

export function fieldsOf(value: unknown, name: string): ObjectFields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return new ObjectFields(value as Record<string, unknown>);
  }
  return wrong(name, value, 'an object');
}

export function numberOf(value: unknown, name: string): number {
  if (typeof value === 'number') return value;
  if (typeof value === 'bigint') return Number(value);
  if (typeof value === 'string' && value.trim() !== '') {
    const word = WORDS[value.trim()];
    const number = word ?? Number(value);
    if (word !== undefined || !Number.isNaN(number)) return number;
  }
  return wrong(name, value, 'a number');
}

export function tokensOf(value: unknown, name: string): Int32Array {
  if (value instanceof Int32Array) return value;
  const list = listOf(value, name, 'a list of token ids');
  const tokens = new Int32Array(list.length);
  for (let at = 0; at < tokens.length; at++) {
    const token = Number(list[at] as number);
    if (!Number.isInteger(token) || token < 0 || token > LARGEST_TOKEN || list[at] === null) {
      wrong(`${name}[${at}]`, list[at], 'a token id from 0 to 2^31 − 1');
    }
    tokens[at] = token;
  }
  return tokens;
}

export function floatsOf(value: unknown, name: string): Float64Array {
  if (value instanceof Float64Array) return value;
  const list = listOf(value, name, 'a list of numbers');
  const floats = new Float64Array(list.length);
  for (let at = 0; at < floats.length; at++) {
    const one = list[at];
    if (typeof one === 'number') floats[at] = one;
    else floats[at] = one === null || one === undefined ? Number.NaN : numberOf(one, `${name}[${at}]`);
  }
  return floats;
}

function listOf(value: unknown, name: string, expected: string): ArrayLike<unknown> {
  if (Array.isArray(value)) return value;
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) return value as unknown as ArrayLike<unknown>;
  return wrong(name, value, expected);
}

export function wrong(name: string, value: unknown, expected: string): never {
  throw new LineProblem(`${printable(name)} is ${words(value)}, expected ${expected}`);
}

function words(value: unknown): string {
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === 'string') return `the text ${printable(JSON.stringify(value))}`;
  if (typeof value === 'object' && value !== null) return 'an object';
  return String(value);
}
