// Reads the wanted fields of a line of JSON straight from the bytes: of the others only the end is found, and nothing
// is built. Accepts NaN and Infinity, which Python's json writes and JSON lacks.
import { constants } from 'node:buffer';
import { Fields, LineProblem, wrong } from '../fields.js';
import type { LoggedText } from '../logged-text.js';
import { parseJsonLine } from './json-line.js';
import { PLACE_INTS, type ScannedLines } from './scanned-lines.js';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;

/** Strings are mostly long: after this many bytes the search is handed to the system's memchr. */
const NEAR = 48;

/** Values of fewer bytes are read here, where they are simple. */
const SHORT = 64;
/** An integer of at most this many digits is exact. */
const MOST_DIGITS = 15;

/** Lists and objects within one another: Python writes a thousand at most. */
const MOST_DEPTH = 2 ** 16;

/** V8 has no longer strings. */
const LONGEST_TEXT = constants.MAX_STRING_LENGTH;

/** Of the names wanted, in the order given: where each value begins and ends. */
export class JsonFields extends Fields {
  /** By name: where its entries begin in `#places`. */
  readonly #wanted: ReadonlyMap<string, number>;
  /** Of each name its entries in ScannedLines: −1 if there is nothing. */
  readonly #places: Int32Array;
  #bytes: Buffer = Buffer.alloc(0);
  #scanned: ScannedLines | undefined;
  /** When all of these are found, the rest is not looked at. */
  readonly #enough: readonly string[] | undefined;

  /**
   * @param names top-level keys to find
   * @param enough those of the names that end the search of a line once all are found
   */
  constructor(names: readonly string[], enough?: readonly string[]) {
    super();
    this.#wanted = new Map(names.map((name, index) => [name, PLACE_INTS * index]));
    this.#places = new Int32Array(PLACE_INTS * names.length);
    this.#enough = enough;
  }

  /**
   * Reads the line `bytes[begin, end)`, without its end.
   * @throws {LineProblem} if it is not a JSON object
   */
  read(bytes: Buffer, begin: number, end: number): this {
    this.#bytes = bytes;
    const places = this.#places.fill(-1);
    let left = this.#enough?.length;
    scanObject(bytes, begin, end, (name, from, to) => {
      const index = this.#wanted.get(name);
      if (index === undefined) return true;
      if (left !== undefined && (places[index] as number) < 0 && this.#enough?.includes(name)) left--;
      // As Python and JSON.parse: the last of two equal keys counts.
      places[index] = from;
      places[index + 1] = to;
      return left !== 0;
    });
    return this;
  }

  /** A line that was scanned, and read: its fields are there. @param scanned for the names of these fields */
  take(scanned: ScannedLines, line: number): this {
    this.#bytes = scanned.bytes;
    this.#scanned = scanned;
    scanned.copyPlaces(line, this.#places);
    return this;
  }

  has(name: string): boolean {
    return this.#begin(name) >= 0;
  }

  value(name: string): unknown {
    const begin = this.#begin(name);
    if (begin < 0) return undefined;
    return valueAt(this.#bytes, begin, this.#end(name));
  }

  override written(name: string): LoggedText | undefined {
    const index = this.#wanted.get(name);
    const begin = index === undefined ? -1 : (this.#places[index + 2] as number);
    const end = index === undefined ? -1 : (this.#places[index + 3] as number);
    return begin < 0 || end - begin > LONGEST_TEXT ? this.text(name) : this.#scanned?.text(begin, end);
  }

  override isText(name: string): boolean {
    const begin = this.#begin(name);
    return begin >= 0 && this.#bytes[begin] === QUOTE;
  }

  override isNested(name: string): boolean {
    const begin = this.#begin(name);
    if (begin < 0 || this.#bytes[begin] !== OPEN_LIST) return false;
    return this.#bytes[skipSpace(this.#bytes, begin + 1, this.#end(name))] === OPEN_LIST;
  }

  override single(name: string): Fields {
    const begin = this.#begin(name);
    const only = new JsonFields([name]);
    only.#bytes = this.#bytes;
    only.#places.fill(-1);
    if (begin < 0) return only;
    const inner = onlyElement(this.#bytes, begin, this.#end(name));
    if (inner !== undefined) only.#places.set(inner);
    return only;
  }

  /** As the digits are written: an id of 64 bits must not be rounded. */
  override id(name: string): string | undefined {
    const begin = this.#begin(name);
    if (begin < 0) return undefined;
    const first = this.#bytes[begin] as number;
    if (first === QUOTE || first === OPEN_LIST || first === OPEN_OBJECT) return super.id(name);
    const word = this.#bytes.toString('latin1', begin, this.#end(name));
    if (word === 'NaN') return undefined;
    return /^-?\d+$/.test(word) ? word : super.id(name);
  }

  override tokens(name: string): Int32Array | undefined {
    const begin = this.#begin(name);
    if (begin < 0) return undefined;
    return integersAt(this.#bytes, begin, this.#end(name)) ?? super.tokens(name);
  }

  #begin(name: string): number {
    const index = this.#wanted.get(name);
    if (index === undefined) throw new TypeError(`the reader does not look for "${name}"`);
    return this.#places[index] as number;
  }

  #end(name: string): number {
    return this.#places[(this.#wanted.get(name) as number) + 1] as number;
  }
}

/**
 * The keys of an object, as far as they are in `bytes[begin, end)`, including that of a value which is cut: of a long
 * first line the beginning is enough.
 */
export function keysOf(bytes: Buffer, begin: number, end: number): Set<string> {
  const keys = new Set<string>();
  try {
    scanObject(
      bytes,
      begin,
      end,
      () => true,
      (name) => keys.add(name),
    );
  } catch (error) {
    if (!(error instanceof LineProblem)) throw error;
  }
  return keys;
}

/**
 * @param member called with each key and where its value begins and ends; ends the scan with false
 * @param key called with each key before its value is looked at
 */
function scanObject(
  bytes: Buffer,
  begin: number,
  end: number,
  member: (name: string, from: number, to: number) => boolean,
  key?: (name: string) => void,
): void {
  // Windows' editors begin a file with a byte order mark.
  const isMarked = bytes[begin] === 0xef && bytes[begin + 1] === 0xbb && bytes[begin + 2] === 0xbf;
  let at = skipSpace(bytes, isMarked ? begin + 3 : begin, end);
  if (bytes[at] !== OPEN_OBJECT || at >= end) unexpected(bytes, at, end, 'a JSON object');
  at = skipSpace(bytes, at + 1, end);
  if (at < end && bytes[at] === CLOSE_OBJECT) {
    checkEnd(bytes, at + 1, end);
    return;
  }
  for (;;) {
    if (at >= end || bytes[at] !== QUOTE) unexpected(bytes, at, end, 'a key in double quotes');
    const closed = stringEnd(bytes, at, end);
    const name = stringAt(bytes, at, closed);
    at = skipSpace(bytes, closed, end);
    if (at >= end || bytes[at] !== COLON) unexpected(bytes, at, end, '":"');
    key?.(name);
    const from = skipSpace(bytes, at + 1, end);
    const to = valueEnd(bytes, from, end);
    if (!member(name, from, to)) return;
    at = skipSpace(bytes, to, end);
    if (at < end && bytes[at] === CLOSE_OBJECT) break;
    if (at >= end || bytes[at] !== COMMA) unexpected(bytes, at, end, '"," or "}"');
    at = skipSpace(bytes, at + 1, end);
  }
  checkEnd(bytes, at + 1, end);
}

/** Nothing may follow the object. */
function checkEnd(bytes: Buffer, at: number, end: number): void {
  const rest = skipSpace(bytes, at, end);
  if (rest >= end) return;
  if (bytes[rest] === OPEN_OBJECT) {
    const problem = `holds several JSON values one after the other (column ${column(bytes, rest)}): write a line each (jq -c . FILE)`;
    throw new LineProblem(problem, true);
  }
  unexpected(bytes, rest, end, 'the end of the line');
}

function skipSpace(bytes: Buffer, begin: number, end: number): number {
  let at = begin;
  while (at < end) {
    const byte = bytes[at] as number;
    if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0d && byte !== 0x0a) break;
    at++;
  }
  return at;
}

/** End of the string whose quote is at `at`: behind its closing quote. */
function stringEnd(bytes: Buffer, at: number, end: number): number {
  let from = at + 1;
  for (;;) {
    let quote = -1;
    const near = Math.min(end, from + NEAR);
    for (let next = from; next < near; next++) {
      if (bytes[next] === QUOTE) {
        quote = next;
        break;
      }
    }
    if (quote < 0 && near < end) quote = bytes.indexOf(QUOTE, near);
    if (quote < 0 || quote >= end) throw new LineProblem(`a string that is not closed (column ${column(bytes, at)})`);
    let backslashes = 0;
    while (bytes[quote - 1 - backslashes] === BACKSLASH) backslashes++;
    if (backslashes % 2 === 0) return quote + 1;
    from = quote + 1;
  }
}

/**
 * Where the value that begins at `at` ends. Of lists and objects only strings are looked at, and brackets: each closes
 * one of its kind.
 */
function valueEnd(bytes: Buffer, at: number, end: number): number {
  const first = at < end ? (bytes[at] as number) : -1;
  if (first === QUOTE) return stringEnd(bytes, at, end);
  if (first === OPEN_OBJECT || first === OPEN_LIST) {
    /** What closes each that is open. */
    const open: number[] = [];
    const enter = (closing: number): void => {
      if (open.push(closing) > MOST_DEPTH)
        throw new LineProblem(`lists and objects nested deeper than ${MOST_DEPTH} (column ${column(bytes, at)})`);
    };
    for (let next = at; next < end; next++) {
      const byte = bytes[next] as number;
      if (byte === QUOTE) next = stringEnd(bytes, next, end) - 1;
      else if (byte === OPEN_OBJECT) enter(CLOSE_OBJECT);
      else if (byte === OPEN_LIST) {
        enter(CLOSE_LIST);
        // Lists of numbers are most of a log of token ids: to their end it is a jump.
        next = flatListEnd(bytes, next, end);
      } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
        if (open.pop() !== byte) wrongAt(bytes, next, end, byte === CLOSE_LIST ? '"}"' : '"]"');
        if (open.length === 0) return next + 1;
      }
    }
    throw new LineProblem(`a list or an object that is not closed (column ${column(bytes, at)})`);
  }
  let next = at;
  while (next < end && isWordByte(bytes[next] as number)) next++;
  if (next === at) unexpected(bytes, at, end, 'a JSON value');
  return next;
}

/** Next positions of bytes, cached: each is searched for once over all lines of a block. */
class NextByte {
  #bytes: Buffer | undefined;
  #from = 0;
  #found = 0;

  constructor(private readonly byte: number) {}

  after(bytes: Buffer, at: number): number {
    if (this.#bytes === bytes && this.#from <= at && at <= this.#found) return this.#found;
    const found = bytes.indexOf(this.byte, at);
    this.#bytes = bytes;
    this.#from = at;
    this.#found = found < 0 ? bytes.length : found;
    return this.#found;
  }
}

const NEXT_CLOSE = new NextByte(CLOSE_LIST);
const NEXT_INSIDE = [OPEN_LIST, OPEN_OBJECT, CLOSE_OBJECT, QUOTE].map((byte) => new NextByte(byte));

/** Just before the end of the list that opens at `at`, if it has no other bracket and no string; else `at`. */
function flatListEnd(bytes: Buffer, at: number, end: number): number {
  const close = NEXT_CLOSE.after(bytes, at);
  if (close >= end) return at;
  for (const inside of NEXT_INSIDE) if (inside.after(bytes, at + 1) < close) return at;
  return close - 1;
}

function isWordByte(byte: number): boolean {
  const isDigit = byte >= 0x30 && byte <= 0x39;
  const isLetter = (byte >= 0x61 && byte <= 0x7a) || (byte >= 0x41 && byte <= 0x5a);
  return isDigit || isLetter || byte === 0x2b || byte === 0x2d || byte === 0x2e;
}

function stringAt(bytes: Buffer, begin: number, end: number): string {
  for (let at = begin + 1; at < end - 1; at++) {
    if (bytes[at] === BACKSLASH) return valueAt(bytes, begin, end) as string;
  }
  return bytes.toString('utf8', begin + 1, end - 1);
}

/** The value at `bytes[begin, end)`; undefined for null. */
function valueAt(bytes: Buffer, begin: number, end: number): unknown {
  if (begin < end && end - begin <= SHORT) {
    const short = shortValue(bytes, begin, end);
    if (short !== undefined) return short;
  }
  if (end - begin > LONGEST_TEXT)
    throw new LineProblem(`a value of ${end - begin} bytes, more than the ${LONGEST_TEXT} that are read`);
  const text = bytes.toString('utf8', begin, end);
  try {
    // A string has no numbers. What would be rounded stays as its digits, and what JSON has no word for as its letters.
    const value: unknown = bytes[begin] === QUOTE ? JSON.parse(text) : parseJsonLine(text);
    return value === null ? undefined : value;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new LineProblem(`no JSON value (column ${column(bytes, begin)}): ${short(text)}`);
  }
}

/** A whole number, or a string of ASCII without escapes: most values are, and JSON.parse takes a while to begin. */
function shortValue(bytes: Buffer, begin: number, end: number): number | string | undefined {
  const first = bytes[begin] as number;
  if (first === QUOTE) {
    for (let at = begin + 1; at < end - 1; at++) {
      const byte = bytes[at] as number;
      if (byte < 0x20 || byte > 0x7e || byte === BACKSLASH || byte === QUOTE) return undefined;
    }
    return bytes[end - 1] === QUOTE && end - begin > 1 ? bytes.toString('latin1', begin + 1, end - 1) : undefined;
  }
  // 0 before other digits is not a number, and −0 not an integer.
  if (end - begin > MOST_DIGITS || (first === 0x30 && end - begin > 1)) return undefined;
  let value = 0;
  for (let at = begin; at < end; at++) {
    const digit = (bytes[at] as number) - 0x30;
    if (digit < 0 || digit > 9) return undefined;
    value = value * 10 + digit;
  }
  return value;
}

/** Of `[…]` with one element, where that begins and ends. */
function onlyElement(bytes: Buffer, begin: number, end: number): [number, number] | undefined {
  if (bytes[begin] !== OPEN_LIST) return undefined;
  const from = skipSpace(bytes, begin + 1, end);
  if (bytes[from] === CLOSE_LIST) return undefined;
  const to = valueEnd(bytes, from, end);
  return bytes[skipSpace(bytes, to, end)] === CLOSE_LIST ? [from, to] : undefined;
}

/**
 * A flat list of integers of 0 or more; undefined for anything else, which is then read the long way, and refused
 * there.
 */
function integersAt(bytes: Buffer, begin: number, end: number): Int32Array | undefined {
  if (bytes[begin] !== OPEN_LIST) return undefined;
  // Every number but the last has a comma: two bytes at least.
  const found = new Int32Array((end - begin) >> 1);
  let count = 0;
  let at = skipSpace(bytes, begin + 1, end);
  if (bytes[at] === CLOSE_LIST) return new Int32Array(0);
  for (;;) {
    const from = at;
    let value = 0;
    for (; at < end; at++) {
      const digit = (bytes[at] as number) - 0x30;
      if (digit < 0 || digit > 9) break;
      value = value * 10 + digit;
    }
    if (at === from || at - from > 10 || value > 0x7fffffff || (bytes[from] === 0x30 && at - from > 1))
      return undefined;
    found[count++] = value;
    at = skipSpace(bytes, at, end);
    const next = bytes[at];
    if (next === CLOSE_LIST) return found.slice(0, count);
    if (next !== COMMA) return undefined;
    at = skipSpace(bytes, at + 1, end);
  }
}

function lineBegin(bytes: Buffer, at: number): number {
  return at === 0 ? 0 : bytes.lastIndexOf(0x0a, at - 1) + 1;
}

/** Of the byte at `at` in its line, from 1. */
function column(bytes: Buffer, at: number): number {
  return at - lineBegin(bytes, at) + 1;
}

function unexpected(bytes: Buffer, at: number, end: number, expected: string): never {
  if (at >= end) throw new LineProblem(`the line ends where ${expected} was expected`);
  return wrongAt(bytes, at, end, expected);
}

function wrongAt(bytes: Buffer, at: number, end: number, expected: string): never {
  return wrong(`column ${column(bytes, at)}`, bytes.toString('utf8', at, Math.min(end, at + 24)), expected);
}

function short(text: string): string {
  return JSON.stringify(text.length > 24 ? `${text.slice(0, 24)}…` : text);
}
