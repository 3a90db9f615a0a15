// .npy and .npz bytes made by hand, independent of any reader: for the tests of numpy's formats.
import { crc32, deflateRawSync } from 'node:zlib';
import type { RawTensor } from './logs-files.js';

const DESCR: Readonly<Record<string, string>> = {
  F64: '<f8',
  F32: '<f4',
  F16: '<f2',
  BF16: '<V2',
  I64: '<i8',
  I32: '<i4',
  U8: '|u1',
  BOOL: '|b1',
};

/** An .npy file with any dict and version. */
export function npyOf(dict: string, data: Uint8Array = new Uint8Array(0), version = 1): Buffer {
  const start = version === 1 ? 10 : 12;
  const text = Buffer.from(dict, 'latin1');
  const padded = Buffer.alloc(Math.ceil((start + text.length + 1) / 64) * 64 - start, ' ');
  text.copy(padded);
  padded[padded.length - 1] = 0x0a;
  const head = Buffer.alloc(start);
  head.write('\x93NUMPY', 'latin1');
  head[6] = version;
  if (version === 1) head.writeUInt16LE(padded.length, 8);
  else head.writeUInt32LE(padded.length, 8);
  return Buffer.concat([head, padded, data]);
}

export function npyDict(descr: string, shape: readonly number[], fortran = 'False'): string {
  const sizes = shape.length === 1 ? `${shape[0]},` : shape.join(', ');
  return `{'descr': '${descr}', 'fortran_order': ${fortran}, 'shape': (${sizes}), }`;
}

export function npyTensor({ dtype, shape, data }: RawTensor): Buffer {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return npyOf(npyDict(DESCR[dtype] as string, shape), bytes);
}

/** Numbers of no axes, as np.savez(step=120) writes them, and text. */
export function npyScalar(value: number | string): Buffer {
  if (typeof value === 'number') {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(value));
    return npyOf(npyDict('<i8', []), bytes);
  }
  const codes = [...value].map((character) => character.codePointAt(0) as number);
  const bytes = Buffer.alloc(4 * codes.length);
  codes.forEach((code, at) => {
    bytes.writeUInt32LE(code, 4 * at);
  });
  return npyOf(npyDict(`<U${codes.length}`, []), bytes);
}

export interface ZipOptions {
  deflate?: boolean;
  /** Sizes and positions in zip64 fields, as zipfile writes them with force_zip64 and past 4 GiB. */
  zip64?: boolean;
  comment?: string;
  crc?: (crc: number) => number;
}

export function zipOf(members: Record<string, Buffer>, options: ZipOptions = {}): Buffer {
  const { deflate = false, zip64 = false, comment = '', crc = (value) => value } = options;
  const pieces: Buffer[] = [];
  const directory: Buffer[] = [];
  let at = 0;
  for (const [name, data] of Object.entries(members)) {
    const packed = deflate ? deflateRawSync(data) : data;
    const text = Buffer.from(name);
    const fields = { method: deflate ? 8 : 0, crc: crc(crc32(data)), packed: packed.length, bytes: data.length, at };
    const local = Buffer.concat([
      localHeader(text.length, fields, zip64),
      text,
      zip64Field(zip64, fields.bytes, fields.packed),
    ]);
    pieces.push(local, packed);
    const wide = zip64Field(zip64, fields.bytes, fields.packed, at);
    directory.push(Buffer.concat([centralHeader(text.length, wide.length, fields, zip64), text, wide]));
    at += local.length + packed.length;
  }
  const central = Buffer.concat(directory);
  return Buffer.concat([...pieces, central, endRecords(directory.length, central.length, at, zip64, comment)]);
}

interface MemberFields {
  method: number;
  crc: number;
  packed: number;
  bytes: number;
  at: number;
}

const FULL = 0xffffffff;

function localHeader(nameBytes: number, { method, crc, packed, bytes }: MemberFields, zip64: boolean): Buffer {
  const header = Buffer.alloc(30);
  header.writeUInt32LE(0x04034b50, 0);
  header.writeUInt16LE(zip64 ? 45 : 20, 4);
  header.writeUInt16LE(method, 8);
  header.writeUInt32LE(crc, 14);
  header.writeUInt32LE(zip64 ? FULL : packed, 18);
  header.writeUInt32LE(zip64 ? FULL : bytes, 22);
  header.writeUInt16LE(nameBytes, 26);
  header.writeUInt16LE(zip64 ? 20 : 0, 28);
  return header;
}

function centralHeader(nameBytes: number, extra: number, fields: MemberFields, zip64: boolean): Buffer {
  const header = Buffer.alloc(46);
  header.writeUInt32LE(0x02014b50, 0);
  header.writeUInt16LE(20, 4);
  header.writeUInt16LE(zip64 ? 45 : 20, 6);
  header.writeUInt16LE(fields.method, 10);
  header.writeUInt32LE(fields.crc, 16);
  header.writeUInt32LE(zip64 ? FULL : fields.packed, 20);
  header.writeUInt32LE(zip64 ? FULL : fields.bytes, 24);
  header.writeUInt16LE(nameBytes, 28);
  header.writeUInt16LE(extra, 30);
  header.writeUInt32LE(zip64 ? FULL : fields.at, 42);
  return header;
}

function zip64Field(zip64: boolean, ...values: number[]): Buffer {
  if (!zip64) return Buffer.alloc(0);
  const field = Buffer.alloc(4 + 8 * values.length);
  field.writeUInt16LE(1, 0);
  field.writeUInt16LE(8 * values.length, 2);
  values.forEach((value, index) => {
    field.writeBigUInt64LE(BigInt(value), 4 + 8 * index);
  });
  return field;
}

function endRecords(count: number, bytes: number, at: number, zip64: boolean, comment: string): Buffer {
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(zip64 ? 0xffff : count, 8);
  end.writeUInt16LE(zip64 ? 0xffff : count, 10);
  end.writeUInt32LE(zip64 ? FULL : bytes, 12);
  end.writeUInt32LE(zip64 ? FULL : at, 16);
  end.writeUInt16LE(comment.length, 20);
  const last = Buffer.concat([end, Buffer.from(comment)]);
  if (!zip64) return last;
  const wide = Buffer.alloc(56);
  wide.writeUInt32LE(0x06064b50, 0);
  wide.writeBigUInt64LE(44n, 4);
  wide.writeBigUInt64LE(BigInt(count), 24);
  wide.writeBigUInt64LE(BigInt(count), 32);
  wide.writeBigUInt64LE(BigInt(bytes), 40);
  wide.writeBigUInt64LE(BigInt(at), 48);
  const locator = Buffer.alloc(20);
  locator.writeUInt32LE(0x07064b50, 0);
  locator.writeBigUInt64LE(BigInt(at + bytes), 8);
  locator.writeUInt32LE(1, 16);
  return Buffer.concat([wide, locator, last]);
}

/** Members of an .npz file for the tensors and metadata of a step. */
export function npzMembers(
  tensors: Record<string, RawTensor>,
  metadata: Record<string, number | string> = { step: 3 },
): Record<string, Buffer> {
  const arrays = Object.entries(tensors).map(([name, tensor]) => [`${name}.npy`, npyTensor(tensor)] as const);
  const values = Object.entries(metadata).map(([name, value]) => [`${name}.npy`, npyScalar(value)] as const);
  return Object.fromEntries([...arrays, ...values]);
}
