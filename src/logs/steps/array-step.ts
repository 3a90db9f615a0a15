// Sorts numpy arrays by name into tensors and metadata of a step, for npz.ts and npy.ts: which array is a tensor, which
// one is metadata, what uint16 means and where the number of the step comes from.
import { isUtf8 } from 'node:buffer';
import { FileError } from '../../checks/errors.js';
import { printable } from '../../checks/words.js';
import { NPY_FIRST_BYTES, type NpyHeader, npyHeaderBytes, parseNpyHeader } from '../formats/npy-header.js';
import type { TensorEntry } from '../formats/safetensors.js';
import { type ByteSource, placeOf, type ReadOptions } from '../stores/byte-source.js';
import { nameOf } from '../stores/store.js';
import { STEP_TENSORS } from './step-layout.js';
import { ENVIRONMENT_NAMES } from './stored-environments.js';

export interface NamedArray {
  readonly header: NpyHeader;
  /** Bytes of the header as they came. */
  readonly raw: Buffer;
  /** Where the array begins, header included. */
  readonly begin: number;
}

const TENSOR_NAMES: ReadonlySet<string> = new Set(STEP_TENSORS);

export function isTensorName(name: string): boolean {
  return TENSOR_NAMES.has(name);
}

/** One read brings the header of any usual array. */
const FIRST_READ_BYTES = 256;

/**
 * Reads the header of the array at `begin`.
 * @param bytes of the array, header included
 * @throws FileError
 */
export async function readArray(
  source: ByteSource,
  name: string,
  begin: number,
  bytes: number,
  { signal }: ReadOptions,
): Promise<NamedArray> {
  const fail = (position: number, problem: string): never => {
    throw new FileError({ ...placeOf(source, begin + position), tensor: printable(name) }, problem);
  };
  const first = Buffer.allocUnsafe(Math.min(bytes, FIRST_READ_BYTES));
  await source.read(first, begin, { tensor: name, signal });
  const length = npyHeaderBytes(first.subarray(0, NPY_FIRST_BYTES), bytes, fail);
  let raw = first.subarray(0, length);
  if (raw.length < length) {
    raw = Buffer.allocUnsafe(length);
    await source.read(raw, begin, { tensor: name, signal });
  }
  return { header: parseNpyHeader(raw, bytes, fail), raw, begin };
}

/** Longest text taken as metadata. */
const MAX_TEXT_BYTES = 64 * 2 ** 10;

/** True for what a name and one value make: `step=120`, `run="grid"`; and for the names of environments. */
export function isMetadata(name: string, { header }: NamedArray): boolean {
  const { shape, elementBytes, element, dataBytes } = header;
  const isText = element.kind === 'text';
  if (shape.length > 1) return false;
  if (name === ENVIRONMENT_NAMES && isText) return dataBytes <= MAX_TEXT_BYTES;
  // Of the one name that is a tensor's and of metadata, the type decides which.
  const isFree = !isTensorName(name) || (name === 'environment' && isText);
  return isFree && (shape[0] ?? 1) === 1 && elementBytes <= MAX_TEXT_BYTES;
}

/** The value of an array of one element, as a string; an array of names as a list in JSON. */
export async function readMetadata(
  source: ByteSource,
  name: string,
  { header, begin }: NamedArray,
  { signal }: ReadOptions,
): Promise<string> {
  const bytes = Buffer.alloc(header.dataBytes);
  await source.read(bytes, begin + header.headerBytes, { tensor: name, signal });
  const { element } = header;
  if (element.kind === 'text') {
    const texts = elementsOf(bytes, header).map((one) => textOf(one, element.encoding));
    if (!texts.includes(undefined))
      return header.shape.length > 0 && name === ENVIRONMENT_NAMES ? listOf(texts as string[]) : (texts[0] ?? '');
    const problem = `text that is not ${element.encoding === 'bytes' ? 'UTF-8' : 'UTF-32'}: save it as a str of numpy`;
    throw new FileError({ ...placeOf(source, begin + header.headerBytes), tensor: printable(name) }, problem);
  }
  switch (element.dtype) {
    case 'BOOL':
      return bytes[0] === 0 ? 'false' : 'true';
    case 'U8':
      return String(bytes.readUInt8());
    case 'I8':
      return String(bytes.readInt8());
    case 'U16':
      return String(bytes.readUInt16LE());
    case 'I16':
      return String(bytes.readInt16LE());
    case 'U32':
      return String(bytes.readUInt32LE());
    case 'I32':
      return String(bytes.readInt32LE());
    case 'U64':
      return String(bytes.readBigUInt64LE());
    case 'I64':
      return String(bytes.readBigInt64LE());
    case 'F32':
      return String(bytes.readFloatLE());
    case 'F64':
      return String(bytes.readDoubleLE());
    default: {
      const problem = `a single value of dtype ${element.dtype}, expected text, a whole number, float32 or float64`;
      throw new FileError({ ...placeOf(source, begin), tensor: printable(name) }, problem);
    }
  }
}

function elementsOf(bytes: Buffer, { shape, elementBytes }: NpyHeader): Buffer[] {
  return Array.from({ length: shape[0] ?? 1 }, (_, at) => bytes.subarray(at * elementBytes, (at + 1) * elementBytes));
}

/** One text may be the list already, as JSON. */
function listOf(texts: readonly string[]): string {
  const [only] = texts;
  return texts.length === 1 && only?.startsWith('[') ? only : JSON.stringify(texts);
}

/** Undefined if the bytes are not text in this encoding. */
function textOf(bytes: Buffer, encoding: 'utf-32' | 'bytes'): string | undefined {
  if (encoding === 'bytes') return isUtf8(bytes) ? withoutPadding(bytes.toString('utf8')) : undefined;
  let text = '';
  for (let at = 0; at + 4 <= bytes.length; at += 4) {
    const code = bytes.readUInt32LE(at);
    if (!isCharacter(code)) return undefined;
    text += String.fromCodePoint(code);
  }
  return withoutPadding(text);
}

/**
 * numpy pads text with zeros. Not /\0+$/: of zeros before the last character that takes time by the square of their
 * number.
 */
function withoutPadding(text: string): string {
  let end = text.length;
  while (end > 0 && text.charCodeAt(end - 1) === 0) end--;
  return text.slice(0, end);
}

/** Refuses half of a surrogate pair, which UTF-32 can hold and files of results cannot. */
function isCharacter(code: number): boolean {
  return code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
}

/** Tensors that may be bfloat16, which numpy writes as uint16 at best. */
const HALVES: ReadonlySet<string> = new Set([
  'cross_logprobs',
  'token_entropy',
  'ablated_logprobs',
  'rewards',
  'outcome',
]);

/** @throws FileError for text, and for uint16 that nothing says to be bfloat16 */
export function tensorEntry(
  source: ByteSource,
  name: string,
  { header, begin }: NamedArray,
  metadata: ReadonlyMap<string, string>,
): TensorEntry {
  const { element, shape, headerBytes, dataBytes } = header;
  const fail = (problem: string): never => {
    throw new FileError({ ...placeOf(source, begin), tensor: name }, problem);
  };
  if (element.kind === 'text') return fail('an array of text, expected numbers');
  let { dtype } = element;
  if (dtype === 'U16' && HALVES.has(name)) {
    if (metadata.get('dtype') !== 'bfloat16') {
      fail(
        'uint16: add dtype = "bfloat16" to the metadata if these are bit patterns of bfloat16, else save floating point',
      );
    }
    dtype = 'BF16';
  }
  const first = begin + headerBytes;
  return { name, dtype, shape, begin: first, end: first + dataBytes, declaredAt: begin };
}

/**
 * `step` of the metadata, else the only number in the name of the file: step_00120.npz.
 * @param from the file that the metadata come from
 * @throws FileError if neither says it
 */
export function withStepNumber(
  path: string,
  metadata: ReadonlyMap<string, string>,
  from = path,
): ReadonlyMap<string, string> {
  const given = metadata.get('step');
  if (given !== undefined) {
    // numpy makes a float of a step that went through one.
    const whole = given.replace(/\.0+$/, '');
    if (/^[0-9]+$/.test(whole) && Number.isSafeInteger(Number(whole))) return new Map([...metadata, ['step', whole]]);
    throw new FileError(
      { path: from },
      `step is "${printable(given)}", expected the number of the training step, a whole number from 0 on, such as 120`,
    );
  }
  const numbers =
    nameOf(path)
      .replace(/\.[^.0-9]*$/, '')
      .match(/[0-9]+/g) ?? [];
  const step = Number(numbers[0]);
  if (numbers.length === 1 && Number.isSafeInteger(step)) return new Map([...metadata, ['step', String(step)]]);
  const found = numbers.length === 0 ? 'no number' : `${numbers.length} numbers`;
  const problem = `no step among the metadata, and ${found} in the file's name: add step = 120 to what is saved, or name the file step_00120`;
  throw new FileError({ path }, problem);
}
