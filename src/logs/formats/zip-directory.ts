// The directory of a zip file (APPNOTE 6.3.10, zip64 included), as np.savez writes it. In: any source of bytes,
// untrusted. Out: where each member lies and how it is packed; every position is checked against the file, members may
// not overlap (which is what zip bombs are made of), and what is read at once is bounded.
import { isUtf8 } from 'node:buffer';
import { FileError } from '../../checks/errors.js';
import { printable } from '../../checks/printable.js';
import type { ByteSource, ReadOptions } from '../stores/byte-source.js';

export interface ZipMember {
  readonly name: string;
  /** `stored`: the bytes as they are; `deflated`: raw deflate. */
  readonly method: 'stored' | 'deflated';
  /** Where its local header lies. */
  readonly headerAt: number;
  /** Where its bytes begin. */
  readonly begin: number;
  /** Bytes in the file. */
  readonly packedBytes: number;
  /** Bytes when unpacked. */
  readonly bytes: number;
  /** CRC-32 of the unpacked bytes. */
  readonly crc: number;
}

const END_RECORD = 0x06054b50;
const END_RECORD_BYTES = 22;
const MAX_COMMENT_BYTES = 0xffff;
const ZIP64_LOCATOR = 0x07064b50;
const ZIP64_LOCATOR_BYTES = 20;
const ZIP64_END_RECORD = 0x06064b50;
const ZIP64_END_RECORD_BYTES = 56;
const CENTRAL_HEADER = 0x02014b50;
const CENTRAL_HEADER_BYTES = 46;
const LOCAL_HEADER = 0x04034b50;
const LOCAL_HEADER_BYTES = 30;
const ZIP64_EXTRA = 0x0001;

/** A step has some 20 arrays; the limit leaves room for what else is saved with it. */
const MAX_MEMBERS = 4096;
const MAX_DIRECTORY_BYTES = 4 * 2 ** 20;
/** Deflate packs no tighter than 258 bytes into 2 bits. */
export const MOST_DEFLATED = 1032;

/**
 * Reads the directory and the local header of each member.
 * @returns members by name, and the bytes that say so
 * @throws FileError when the file is no zip file that can be read here
 */
export async function readZipDirectory(
  source: ByteSource,
  options: ReadOptions,
): Promise<{ members: ReadonlyMap<string, ZipMember>; directory: Buffer }> {
  const end = await findEnd(source, options);
  const directory = await readBytes(source, end.begin, end.bytes, options);
  const declared = parseDirectory(source.path, directory, end);
  // By position, so that a remote store is read in one direction.
  declared.sort((a, b) => a.headerAt - b.headerAt);
  const members = new Map<string, ZipMember>();
  let free = 0;
  let previous = 'the beginning of the file';
  for (const member of declared) {
    const begin = await localDataBegin(source, member, end.begin, options);
    if (member.headerAt < free)
      fail(
        source.path,
        member.headerAt,
        `member ${printable(member.name)} overlaps ${previous}: the file is damaged; write it again with np.savez`,
      );
    free = begin + member.packedBytes;
    previous = printable(member.name);
    if (free > end.begin) {
      const problem = `member ${previous} ends at offset ${free}, within the directory at ${end.begin}: the file is damaged`;
      fail(source.path, member.headerAt, problem);
    }
    members.set(member.name, { ...member, begin });
  }
  return { members, directory };
}

interface DirectoryPlace {
  begin: number;
  bytes: number;
  members: number;
}

/** The end record stands last but for a comment; what it says may be in a zip64 record before it. */
async function findEnd(source: ByteSource, options: ReadOptions): Promise<DirectoryPlace> {
  const { path } = source;
  const tailBytes = Math.min(source.bytes, END_RECORD_BYTES + MAX_COMMENT_BYTES + ZIP64_LOCATOR_BYTES);
  const tailAt = source.bytes - tailBytes;
  // Most have no comment: a small read finds the record, a second one searches as far as a comment can reach.
  const near = Math.min(tailBytes, 1024);
  let tail = await readBytes(source, source.bytes - near, near, options);
  let at = endRecordIn(tail);
  if (at < 0 && near < tailBytes) {
    tail = await readBytes(source, tailAt, tailBytes, options);
    at = endRecordIn(tail);
  }
  if (at < 0)
    fail(path, source.bytes, 'no zip directory at the end: the file is truncated, still being written, or no zip file');
  const endAt = source.bytes - tail.length + at;
  const record = tail.subarray(at);
  const disks = [record.readUInt16LE(4), record.readUInt16LE(6)];
  const place = { members: record.readUInt16LE(10), bytes: record.readUInt32LE(12), begin: record.readUInt32LE(16) };
  const wide = place.members === 0xffff || place.bytes === 0xffffffff || place.begin === 0xffffffff;
  if (!wide) {
    if (disks.some((disk) => disk !== 0)) fail(path, endAt, 'the zip file is split over several: join it');
    return checkPlace(path, place, endAt);
  }
  if (endAt < ZIP64_LOCATOR_BYTES) fail(path, endAt, 'the zip64 locator is missing: the file is damaged');
  const locator = await readBytes(source, endAt - ZIP64_LOCATOR_BYTES, ZIP64_LOCATOR_BYTES, options);
  if (locator.readUInt32LE(0) !== ZIP64_LOCATOR) {
    // A member count of 65,535 and the like may be meant as they stand.
    return checkPlace(path, place, endAt);
  }
  const recordAt = wideNumber(path, locator, 8, endAt - ZIP64_LOCATOR_BYTES);
  if (recordAt > endAt - ZIP64_LOCATOR_BYTES - ZIP64_END_RECORD_BYTES) {
    fail(path, endAt - ZIP64_LOCATOR_BYTES, `the zip64 record at offset ${recordAt} lies outside the file`);
  }
  const end64 = await readBytes(source, recordAt, ZIP64_END_RECORD_BYTES, options);
  if (end64.readUInt32LE(0) !== ZIP64_END_RECORD) fail(path, recordAt, 'no zip64 record where its locator says');
  return checkPlace(
    path,
    {
      members: wideNumber(path, end64, 32, recordAt),
      bytes: wideNumber(path, end64, 40, recordAt),
      begin: wideNumber(path, end64, 48, recordAt),
    },
    recordAt,
  );
}

/** The last end record whose comment ends with the file. */
function endRecordIn(tail: Buffer): number {
  for (let at = tail.length - END_RECORD_BYTES; at >= 0; at--) {
    if (tail.readUInt32LE(at) !== END_RECORD) continue;
    if (at + END_RECORD_BYTES + tail.readUInt16LE(at + 20) === tail.length) return at;
  }
  return -1;
}

function checkPlace(path: string, place: DirectoryPlace, endAt: number): DirectoryPlace {
  const { begin, bytes, members } = place;
  if (members > MAX_MEMBERS || bytes > MAX_DIRECTORY_BYTES) {
    const problem = `a directory of ${members} members in ${bytes} bytes, more than the ${MAX_MEMBERS} in ${MAX_DIRECTORY_BYTES} that a step is taken with`;
    fail(path, endAt, problem);
  }
  if (begin + bytes !== endAt) {
    fail(
      path,
      endAt,
      `the directory at offset ${begin} has ${bytes} bytes, which do not end here: the file is damaged`,
    );
  }
  return place;
}

type Declared = Omit<ZipMember, 'begin'>;

function parseDirectory(path: string, directory: Buffer, { begin, members }: DirectoryPlace): Declared[] {
  const names = new Set<string>();
  const found: Declared[] = [];
  let at = 0;
  for (let index = 0; index < members; index++) {
    const here = begin + at;
    if (at + CENTRAL_HEADER_BYTES > directory.length || directory.readUInt32LE(at) !== CENTRAL_HEADER) {
      fail(path, here, `the directory promises ${members} members, but member ${index} is not here`);
    }
    const nameBytes = directory.readUInt16LE(at + 28);
    const extraBytes = directory.readUInt16LE(at + 30);
    const next = at + CENTRAL_HEADER_BYTES + nameBytes + extraBytes + directory.readUInt16LE(at + 32);
    if (next > directory.length) fail(path, here, 'a member of the directory reaches past its end');
    const nameAt = at + CENTRAL_HEADER_BYTES;
    // In the place of bytes that are no text U+FFFD would stand, and make one name of several.
    if (!isUtf8(directory.subarray(nameAt, nameAt + nameBytes))) {
      fail(path, begin + nameAt, `the name of member ${index} is not UTF-8: write the file again with np.savez`);
    }
    const name = directory.toString('utf8', nameAt, nameAt + nameBytes);
    if (names.has(name)) fail(path, here, `member ${printable(name)} comes twice`);
    names.add(name);
    const extraAt = at + CENTRAL_HEADER_BYTES + nameBytes;
    found.push(
      parseMember(
        path,
        name,
        directory.subarray(at, at + CENTRAL_HEADER_BYTES),
        directory.subarray(extraAt, extraAt + extraBytes),
        here,
      ),
    );
    at = next;
  }
  if (at !== directory.length)
    fail(path, begin + at, `${directory.length - at} bytes of the directory belong to no member`);
  return found;
}

function parseMember(path: string, name: string, header: Buffer, extra: Buffer, here: number): Declared {
  const said = printable(name);
  const flags = header.readUInt16LE(8);
  if (flags & 1) fail(path, here, `member ${said} is encrypted: write it without a password`);
  const code = header.readUInt16LE(10);
  if (code !== 0 && code !== 8) {
    fail(path, here, `member ${said} is packed with method ${code}, expected stored or deflated, as np.savez writes`);
  }
  let packedBytes = header.readUInt32LE(20);
  let bytes = header.readUInt32LE(24);
  let headerAt = header.readUInt32LE(42);
  if (packedBytes === 0xffffffff || bytes === 0xffffffff || headerAt === 0xffffffff) {
    const wide = zip64Extra(path, extra, here);
    let at = 0;
    const next = (narrow: number): number => {
      if (narrow !== 0xffffffff) return narrow;
      if (at + 8 > wide.length) fail(path, here, `member ${said} lacks its zip64 sizes`);
      at += 8;
      return wideNumber(path, wide, at - 8, here);
    };
    // In this order, each only where the narrow field is full.
    bytes = next(bytes);
    packedBytes = next(packedBytes);
    headerAt = next(headerAt);
  }
  const method = code === 0 ? 'stored' : 'deflated';
  if (method === 'stored' && bytes !== packedBytes) {
    fail(path, here, `member ${said} is stored in ${packedBytes} bytes, but has ${bytes}: the file is damaged`);
  }
  if (method === 'deflated' && bytes > packedBytes * MOST_DEFLATED) {
    fail(
      path,
      here,
      `member ${said}: ${packedBytes} deflated bytes cannot hold the ${bytes} that the directory promises`,
    );
  }
  return { name, method, headerAt, packedBytes, bytes, crc: header.readUInt32LE(16) };
}

function zip64Extra(path: string, extra: Buffer, here: number): Buffer {
  for (let at = 0; at + 4 <= extra.length; ) {
    const end = at + 4 + extra.readUInt16LE(at + 2);
    if (end > extra.length) break;
    if (extra.readUInt16LE(at) === ZIP64_EXTRA) return extra.subarray(at + 4, end);
    at = end;
  }
  return fail(path, here, 'a size is said to be in a zip64 field, which is not there: the file is damaged');
}

/** Where a member's bytes begin: its local header has fields of its own length. */
async function localDataBegin(
  source: ByteSource,
  member: Declared,
  limit: number,
  options: ReadOptions,
): Promise<number> {
  const { headerAt, name } = member;
  if (headerAt + LOCAL_HEADER_BYTES > limit) {
    fail(source.path, headerAt, `member ${printable(name)} begins past the directory: the file is damaged`);
  }
  const header = await readBytes(source, headerAt, LOCAL_HEADER_BYTES, options);
  const same =
    header.readUInt32LE(0) === LOCAL_HEADER && header.readUInt16LE(8) === (member.method === 'stored' ? 0 : 8);
  if (!same) fail(source.path, headerAt, `member ${printable(name)} is not here, where the directory says`);
  return headerAt + LOCAL_HEADER_BYTES + header.readUInt16LE(26) + header.readUInt16LE(28);
}

function wideNumber(path: string, bytes: Buffer, at: number, here: number): number {
  const value = bytes.readBigUInt64LE(at);
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) fail(path, here, `${value} is no position in a file`);
  return Number(value);
}

async function readBytes(source: ByteSource, at: number, bytes: number, options: ReadOptions): Promise<Buffer> {
  const target = Buffer.allocUnsafe(bytes);
  await source.read(target, at, options);
  return target;
}

function fail(path: string, offset: number, problem: string): never {
  throw new FileError({ path, offset }, problem);
}
