// Reads the safetensors container: header length, JSON header, raw little-endian tensors. As strict as the safetensors
// library (no holes, overlaps or trailing bytes), and refuses duplicate names, which that library accepts.
import { isUtf8 } from 'node:buffer';
import { FileError } from '../../checks/errors.js';
import { printable } from '../../checks/words.js';
import { JsonScanner } from './json-scanner.js';

/** Bits of one element, for every dtype of the format (safetensors 0.8). */
const DTYPE_BITS = {
  F4: 4,
  F6_E2M3: 6,
  F6_E3M2: 6,
  BOOL: 8,
  U8: 8,
  I8: 8,
  F8_E5M2: 8,
  F8_E4M3: 8,
  F8_E8M0: 8,
  F8_E4M3FNUZ: 8,
  F8_E5M2FNUZ: 8,
  I16: 16,
  U16: 16,
  F16: 16,
  BF16: 16,
  I32: 32,
  U32: 32,
  F32: 32,
  C64: 64,
  F64: 64,
  I64: 64,
  U64: 64,
} as const;

export type SafetensorsDType = keyof typeof DTYPE_BITS;

/** The first four bytes of a zip archive, little-endian. */
const ZIP_MEMBER = 0x04034b50;

const WRITE_AGAIN = 'write the file again, with a library of the format';

/** Where one tensor lies. All offsets count from the start of the file. */
export interface TensorEntry {
  readonly name: string;
  readonly dtype: SafetensorsDType;
  readonly shape: readonly number[];
  /** First byte of the data. */
  readonly begin: number;
  /** One past its last byte. */
  readonly end: number;
  /** Where the header names it. */
  readonly declaredAt: number;
}

export interface SafetensorsHeader {
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  readonly metadata: ReadonlyMap<string, string>;
  /** Bytes of the file, as the header has them. */
  readonly bytes: number;
}

/** Bytes before the header's JSON. */
export const LENGTH_BYTES = 8;

/** Longest header taken, the limit of the safetensors library. */
const MAX_HEADER_BYTES = 100_000_000;

/** Tensors, and texts of metadata: each takes far more memory than its bytes. Whole models have some thousand. */
const MAX_ENTRIES = 2 ** 17;

/** torch and numpy have no more axes, and a list of millions would fill the memory. */
const MAX_AXES = 64;

/** Bytes of one element. Only for dtypes of whole bytes. */
export function storedBytes(dtype: SafetensorsDType): number {
  return DTYPE_BITS[dtype] / 8;
}

/** A pickle can run any code, and none is ever loaded. */
const PICKLE_PROTOCOLS: ReadonlySet<number> = new Set([2, 3, 4, 5]);

/** What trainers and downloads leave in the place of a step file, by its first bytes: no header is that long. */
function otherFormat(first: Buffer): string | undefined {
  const text = first.toString('latin1');
  if (first.readUInt32LE(0) === ZIP_MEMBER)
    return 'this is a zip archive, such as torch.save() writes: write steps with save_file() of safetensors.torch';
  if (/^[[{]/.test(text))
    return (
      'this is JSON text, such as the rollouts that trainers dump: they have no scores of rows under other prompts, which ' +
      'the trainer or a scorer has to write (docs/reference/step-file.md)'
    );
  if (first[0] === 0x80 && PICKLE_PROTOCOLS.has(first[1] as number))
    return 'this is a pickle, which is never loaded: write steps with save_file() of safetensors';
  if (text.startsWith('\x1f\x8b')) return 'this is gzip: name it .safetensors.gz';
  if (text.startsWith('version ')) return 'this is a pointer of Git LFS, not the file: fetch it with git lfs pull';
  return undefined;
}

/**
 * The header's length in bytes, from the first 8 bytes of a file of `fileBytes` bytes.
 * @throws FileError when they cannot be those of a safetensors file of that size
 */
export function headerLength(path: string, first: Buffer, fileBytes: number): number {
  if (fileBytes < LENGTH_BYTES) {
    const problem = `the file has ${fileBytes} bytes, too few for the 8 bytes of a header length: it is empty or truncated`;
    throw new FileError({ path, offset: 0 }, problem);
  }
  const length = first.readBigUInt64LE(0);
  if (length > MAX_HEADER_BYTES) {
    const other = otherFormat(first);
    const over = `header length ${length} is over the limit of ${MAX_HEADER_BYTES} bytes: this is no safetensors file`;
    throw new FileError({ path, offset: 0 }, other ?? over);
  }
  if (Number(length) > fileBytes - LENGTH_BYTES) {
    const problem = `header length ${length}, but only ${fileBytes - LENGTH_BYTES} bytes follow: the file is truncated or no safetensors file`;
    throw new FileError({ path, offset: 0 }, problem);
  }
  return Number(length);
}

/**
 * Parses the JSON header and checks every size in it against the file.
 * @param json the header's bytes, without the 8 bytes of its length
 * @param fileBytes undefined if they are not known before all is read: then the file must turn out to have `bytes`
 * @throws FileError naming the offset and, where there is one, the tensor
 */
export function parseHeader(path: string, json: Buffer, fileBytes: number | undefined): SafetensorsHeader {
  const dataStart = LENGTH_BYTES + json.length;
  if (!isUtf8(json)) throw new FileError({ path, offset: LENGTH_BYTES }, 'the header is not UTF-8');
  let tensor: string | undefined;
  const fail = (position: number, problem: string): never => {
    const where = { path, offset: LENGTH_BYTES + position };
    throw new FileError(tensor === undefined ? where : { ...where, tensor: printable(tensor) }, problem);
  };
  const scanner = new JsonScanner(json, fail);
  const tensors = new Map<string, TensorEntry>();
  let metadata: Map<string, string> | undefined;
  let entries = 0;
  const count = (position: number): void => {
    if (++entries <= MAX_ENTRIES) return;
    tensor = undefined;
    fail(
      position,
      `more than ${MAX_ENTRIES} tensors and metadata: a step has some twenty; write what else there is to another file`,
    );
  };
  scanner.object('the header', (name, at) => {
    if (name === '__metadata__') {
      if (metadata !== undefined) fail(at, `__metadata__ comes twice in the header: ${WRITE_AGAIN}`);
      metadata = scanMetadata(scanner, fail, count);
      return;
    }
    count(at);
    tensor = name;
    if (tensors.has(name)) fail(at, `this name comes twice in the header: ${WRITE_AGAIN}`);
    tensors.set(name, scanEntry(scanner, fail, name, at, dataStart, fileBytes));
    tensor = undefined;
  });
  scanner.end();
  const bytes = checkCoverage(path, tensors, dataStart, fileBytes);
  return { tensors, metadata: metadata ?? new Map(), bytes };
}

/** A tensor to be written: its bytes are as many as dtype and shape say. */
export interface TensorToWrite {
  readonly name: string;
  readonly dtype: SafetensorsDType;
  readonly shape: readonly number[];
  readonly bytes: number;
}

/**
 * Header of a file that holds `tensors` one after the other in the order given: the 8 bytes of length and the JSON,
 * padded with spaces so that the data begins at a multiple of 8.
 */
export function encodeHeader(tensors: readonly TensorToWrite[], metadata: ReadonlyMap<string, string>): Uint8Array {
  const members: string[] = [];
  const strings = [...metadata].map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`);
  if (strings.length > 0) members.push(`"__metadata__":{${strings.join(',')}}`);
  let begin = 0;
  for (const { name, dtype, shape, bytes } of tensors) {
    const entry = { dtype, shape, data_offsets: [begin, begin + bytes] };
    members.push(`${JSON.stringify(name)}:${JSON.stringify(entry)}`);
    begin += bytes;
  }
  const json = Buffer.from(`{${members.join(',')}}`);
  const header = Buffer.alloc(LENGTH_BYTES + Math.ceil(json.length / 8) * 8, ' ');
  header.writeBigUInt64LE(BigInt(header.length - LENGTH_BYTES), 0);
  json.copy(header, LENGTH_BYTES);
  return header;
}

type Fail = (position: number, problem: string) => never;

function scanMetadata(scanner: JsonScanner, fail: Fail, count: (position: number) => void): Map<string, string> {
  const metadata = new Map<string, string>();
  scanner.object('__metadata__', (key, at) => {
    count(at);
    if (metadata.has(key)) fail(at, `__metadata__ has the key ${printable(key)} twice`);
    metadata.set(key, scanner.string(`the value of __metadata__ ${printable(key)} (only strings are allowed)`));
  });
  return metadata;
}

function scanEntry(
  scanner: JsonScanner,
  fail: Fail,
  name: string,
  at: number,
  dataStart: number,
  fileBytes: number | undefined,
): TensorEntry {
  let dtype: string | undefined;
  let shape: number[] | undefined;
  let offsets: number[] | undefined;
  scanner.object('the entry of a tensor', (key, keyAt) => {
    if (key === 'dtype') {
      if (dtype !== undefined) fail(keyAt, 'dtype comes twice');
      dtype = scanner.string('dtype');
    } else if (key === 'shape') {
      if (shape !== undefined) fail(keyAt, 'shape comes twice');
      shape = scanIntegers(scanner, 'shape', fail);
    } else if (key === 'data_offsets') {
      if (offsets !== undefined) fail(keyAt, 'data_offsets comes twice');
      offsets = scanIntegers(scanner, 'data_offsets', fail);
    } else {
      scanner.skip();
    }
  });
  if (dtype === undefined || shape === undefined || offsets === undefined) {
    return fail(at, 'its entry must have dtype, shape and data_offsets');
  }
  if (!isDType(dtype)) {
    return fail(at, `dtype ${printable(dtype)} is not one of ${Object.keys(DTYPE_BITS).join(', ')}`);
  }
  const [begin, end] = offsets;
  if (begin === undefined || end === undefined || offsets.length !== 2 || begin > end) {
    return fail(at, `data_offsets [${printable(offsets.join(', '))}] must be [begin, end] with begin ≤ end`);
  }
  const bytes = tensorBytes(dtype, shape);
  if (bytes === undefined) {
    return fail(at, `${describe(dtype, shape)} is no whole number of bytes below 2^53`);
  }
  if (bytes !== end - begin) {
    return fail(
      at,
      `data_offsets [${begin}, ${end}] hold ${end - begin} bytes, but ${describe(dtype, shape)} has ${bytes}`,
    );
  }
  const available = (fileBytes ?? Number.MAX_SAFE_INTEGER) - dataStart;
  if (end > available) {
    const problem = `data_offsets end at byte ${end} of the data, but the file has only ${available}: it is truncated or still being written`;
    return fail(at, problem);
  }
  return { name, dtype, shape, begin: dataStart + begin, end: dataStart + end, declaredAt: LENGTH_BYTES + at };
}

function scanIntegers(scanner: JsonScanner, what: string, fail: Fail): number[] {
  const values: number[] = [];
  scanner.array(what, () => {
    if (values.length === MAX_AXES) fail(scanner.position, `${what} has more than ${MAX_AXES} elements`);
    values.push(scanner.integer(`an element of ${what}`));
  });
  return values;
}

function isDType(name: string): name is SafetensorsDType {
  return Object.hasOwn(DTYPE_BITS, name);
}

/** Bytes of a dense tensor; undefined if that is not a whole number or overflows 2^53 bits. */
function tensorBytes(dtype: SafetensorsDType, shape: readonly number[]): number | undefined {
  let bits: number = DTYPE_BITS[dtype];
  for (const size of shape) {
    bits *= size;
    if (bits > Number.MAX_SAFE_INTEGER) return undefined;
  }
  return bits % 8 === 0 ? bits / 8 : undefined;
}

function describe(dtype: SafetensorsDType, shape: readonly number[]): string {
  return `${dtype} of shape [${printable(shape.join(', '))}]`;
}

/** Tensors must fill the file from the end of the header to its own end, which is returned, each byte once. */
function checkCoverage(
  path: string,
  tensors: ReadonlyMap<string, TensorEntry>,
  dataStart: number,
  fileBytes: number | undefined,
): number {
  const entries = [...tensors.values()].sort((a, b) => a.begin - b.begin || a.end - b.end);
  let covered = dataStart;
  let previous = 'the header';
  for (const entry of entries) {
    const where = { path, tensor: printable(entry.name), offset: entry.begin };
    if (entry.begin < covered) {
      throw new FileError(where, `overlaps ${previous}, which ends at offset ${covered}: ${WRITE_AGAIN}`);
    }
    if (entry.begin > covered) {
      const problem = `${entry.begin - covered} bytes between it and ${previous} belong to no tensor, and the format allows no holes: ${WRITE_AGAIN}`;
      throw new FileError(where, problem);
    }
    covered = entry.end;
    previous = `tensor "${printable(entry.name)}"`;
  }
  if (fileBytes !== undefined && covered !== fileBytes) {
    const problem = `${fileBytes - covered} bytes after the last tensor belong to no tensor: ${WRITE_AGAIN}`;
    throw new FileError({ path, offset: covered }, problem);
  }
  return covered;
}
