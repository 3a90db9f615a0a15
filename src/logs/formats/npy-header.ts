// Scans the untrusted header of an .npy file (numpy/lib/format): element type, shape and where the data begins, or what
// is wrong and where. The dict, a Python literal, is never evaluated; pickled objects are refused unread.
import { printable } from '../../checks/words.js';
import type { SafetensorsDType } from './safetensors.js';

const MAGIC = Buffer.from('\x93NUMPY', 'latin1');
/** Magic and version. */
const START_BYTES = 8;
/**
 * Longest header taken: those of plain arrays have 118 bytes, only structured types come near numpy's limit of 10,000.
 */
const MAX_NPY_HEADER_BYTES = 64 * 2 ** 10;
/** numpy allows no more axes. */
const MAX_AXES = 64;

/** `text`: fixed-width strings, UTF-32 or bytes. */
export type NpyElement =
  | { readonly kind: 'number'; readonly dtype: SafetensorsDType }
  | { readonly kind: 'text'; readonly encoding: 'utf-32' | 'bytes' };

export interface NpyHeader {
  readonly element: NpyElement;
  /** Bytes of one element. */
  readonly elementBytes: number;
  readonly shape: readonly number[];
  /** Bytes before the data. */
  readonly headerBytes: number;
  /** Bytes of the data. */
  readonly dataBytes: number;
}

/** Called with the position in the array's bytes and what is wrong; must throw. */
export type NpyFailure = (position: number, problem: string) => never;

/** Bytes that `npyHeaderBytes` needs to find the length of the header. */
export const NPY_FIRST_BYTES = 12;

/**
 * Bytes of magic, version, length and dict together.
 * @param first the first bytes of the array, NPY_FIRST_BYTES or as many as it has
 * @param available bytes of the array, header included
 */
export function npyHeaderBytes(first: Buffer, available: number, fail: NpyFailure): number {
  if (available < 10 || first.length < 10)
    fail(0, `${available} bytes are too few for an .npy header: it is truncated`);
  if (!first.subarray(0, MAGIC.length).equals(MAGIC))
    fail(0, 'it does not begin with \\x93NUMPY: this is no .npy array');
  const major = first[6] as number;
  const minor = first[7] as number;
  if (major < 1 || major > 3 || minor !== 0) {
    fail(6, `.npy version ${major}.${minor}, expected 1.0, 2.0 or 3.0: write it with np.save`);
  }
  const wide = major > 1;
  if (wide && first.length < NPY_FIRST_BYTES) fail(0, 'the file ends within the length of its header: it is truncated');
  const length = wide ? first.readUInt32LE(START_BYTES) : first.readUInt16LE(START_BYTES);
  const total = START_BYTES + (wide ? 4 : 2) + length;
  if (length > MAX_NPY_HEADER_BYTES) {
    fail(
      START_BYTES,
      `header length ${length} is over the limit of ${MAX_NPY_HEADER_BYTES} bytes: no plain array has such`,
    );
  }
  if (total > available) {
    fail(START_BYTES, `header length ${length}, but the array has only ${available} bytes: it is truncated`);
  }
  return total;
}

/**
 * @param header the bytes that npyHeaderBytes counted
 * @param available bytes of the array, header included: the data must fill them
 */
export function parseNpyHeader(header: Buffer, available: number, fail: NpyFailure): NpyHeader {
  const begin = (header[6] as number) > 1 ? START_BYTES + 4 : START_BYTES + 2;
  const { descr, fortran, shape } = new LiteralScanner(header, begin, fail).dict();
  const { element, elementBytes } = elementOf(descr.text, descr.at, fail);
  if (fortran.value && shape.value.filter((size) => size > 1).length > 1) {
    const problem = 'the array is in Fortran order: save np.ascontiguousarray(array), whose last axis is contiguous';
    fail(fortran.at, problem);
  }
  let dataBytes = elementBytes;
  for (const size of shape.value) dataBytes *= size;
  const given = available - header.length;
  // Products beyond 2^53 are inexact, and then larger than any file.
  if (dataBytes !== given) {
    const problem = `${descr.text} of shape (${shape.value.join(', ')}) has ${dataBytes} bytes, but ${given} follow the header: ${
      dataBytes > given ? 'it is truncated or still being written' : 'nothing may follow the array'
    }`;
    fail(shape.at, problem);
  }
  return { element, elementBytes, shape: shape.value, headerBytes: header.length, dataBytes };
}

const NUMBERS: Readonly<Record<string, SafetensorsDType>> = {
  f2: 'F16',
  f4: 'F32',
  f8: 'F64',
  i1: 'I8',
  i2: 'I16',
  i4: 'I32',
  i8: 'I64',
  u1: 'U8',
  u2: 'U16',
  u4: 'U32',
  u8: 'U64',
  b1: 'BOOL',
  c8: 'C64',
  // numpy has no bfloat16: ml_dtypes writes it as raw elements of two bytes.
  V2: 'BF16',
};

function elementOf(descr: string, at: number, fail: NpyFailure): { element: NpyElement; elementBytes: number } {
  const [, order = '', type = '', count = ''] = /^([<>|=]?)([A-Za-z])([0-9]{0,7})$/.exec(descr) ?? [];
  if (type === 'O') {
    fail(at, 'elements are pickled Python objects, which are never read: save an array of numbers (array.astype(...))');
  }
  const size = Number(count);
  const text = type === 'U' || type === 'S';
  const dtype = NUMBERS[type + count];
  if (type === '' || (!text && dtype === undefined)) {
    fail(at, `dtype ${printable(descr)} is no number that a step has: save it as one with array.astype(...)`);
  }
  if (order === '>' && (type === 'U' || (!text && size > 1))) {
    fail(at, `dtype ${descr} is big-endian: save array.astype(array.dtype.newbyteorder("<"))`);
  }
  if (text) {
    const encoding = type === 'U' ? 'utf-32' : 'bytes';
    return { element: { kind: 'text', encoding }, elementBytes: type === 'U' ? 4 * size : size };
  }
  return { element: { kind: 'number', dtype: dtype as SafetensorsDType }, elementBytes: size };
}

interface Dict {
  descr: { text: string; at: number };
  fortran: { value: boolean; at: number };
  shape: { value: number[]; at: number };
}

/** Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }` and nothing else. */
class LiteralScanner {
  #position: number;

  constructor(
    private readonly bytes: Buffer,
    begin: number,
    private readonly fail: NpyFailure,
  ) {
    this.#position = begin;
  }

  dict(): Dict {
    let descr: Dict['descr'] | undefined;
    let fortran: Dict['fortran'] | undefined;
    let shape: Dict['shape'] | undefined;
    const begin = this.#position;
    this.#expect('{');
    while (!this.#takes('}')) {
      const keyAt = this.#here();
      const key = this.#string('a key of the header');
      this.#expect(':');
      const at = this.#here();
      if (key === 'descr' && descr === undefined) {
        if (this.#peek() === '[')
          this.fail(at, 'the array has a structured dtype: save each field as an array of its own');
        descr = { text: this.#string('the dtype'), at };
      } else if (key === 'fortran_order' && fortran === undefined) {
        fortran = { value: this.#boolean(), at };
      } else if (key === 'shape' && shape === undefined) {
        shape = { value: this.#tuple(), at };
      } else {
        this.fail(keyAt, `key ${printable(key)}, expected descr, fortran_order and shape, each once`);
      }
      if (!this.#takes(',')) {
        this.#expect('}');
        break;
      }
    }
    this.#space();
    if (this.#position < this.bytes.length) this.#unexpected('nothing but spaces after the dict');
    if (descr === undefined || fortran === undefined || shape === undefined) {
      return this.fail(begin, 'the header must have descr, fortran_order and shape');
    }
    return { descr, fortran, shape };
  }

  #tuple(): number[] {
    const sizes: number[] = [];
    this.#expect('(');
    while (!this.#takes(')')) {
      if (sizes.length === MAX_AXES) this.fail(this.#position, `more than ${MAX_AXES} axes`);
      sizes.push(this.#size());
      if (!this.#takes(',')) {
        this.#expect(')');
        break;
      }
    }
    return sizes;
  }

  /** A whole number, with the L that Python 2 wrote after long ones. */
  #size(): number {
    const at = this.#here();
    let end = at;
    while (isDigit(this.bytes[end]) && end - at < 17) end++;
    const digits = this.bytes.toString('latin1', at, end);
    const value = Number(digits);
    if (digits === '' || !Number.isSafeInteger(value)) this.#unexpected('a size from 0 to 2^53 − 1');
    this.#position = this.bytes[end] === 0x4c ? end + 1 : end;
    return value;
  }

  #boolean(): boolean {
    const at = this.#here();
    const value = this.bytes[at] === 0x54;
    const word = value ? 'True' : 'False';
    if (this.bytes.toString('latin1', at, at + word.length) !== word) this.#unexpected('True or False');
    this.#position = at + word.length;
    return value;
  }

  #string(what: string): string {
    const at = this.#here();
    const quote = this.bytes[at];
    if (quote !== 0x27 && quote !== 0x22) this.#unexpected(`${what} in quotes`);
    const end = this.bytes.indexOf(quote as number, at + 1);
    if (end < 0) this.fail(at, `a string without its closing quote (${what})`);
    const text = this.bytes.toString('latin1', at + 1, end);
    if (text.includes('\\')) this.fail(at, `a string with an escape (${what})`);
    this.#position = end + 1;
    return text;
  }

  #peek(): string {
    return String.fromCharCode(this.bytes[this.#here()] ?? 0);
  }

  #takes(character: string): boolean {
    if (this.#peek() !== character) return false;
    this.#position++;
    return true;
  }

  #expect(character: string): void {
    if (!this.#takes(character)) this.#unexpected(`"${character}"`);
  }

  /** Position of the next byte that is not a space. */
  #here(): number {
    this.#space();
    return this.#position;
  }

  #space(): void {
    for (let byte = this.bytes[this.#position]; byte === 0x20 || byte === 0x0a; byte = this.bytes[this.#position]) {
      this.#position++;
    }
  }

  #unexpected(expected: string): never {
    const rest = this.bytes.toString('latin1', this.#position, this.#position + 16);
    const came = rest === '' ? 'the end of the header' : printable(JSON.stringify(rest));
    return this.fail(this.#position, `expected ${expected}, found ${came}`);
  }
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}
