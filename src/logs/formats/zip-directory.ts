// Reads the directory of an untrusted zip file, as np.savez writes it, with yauzl. Members may not overlap, which is
// what zip bombs are made of, and reads are bounded.
import { isUtf8 } from 'node:buffer';
import { createRequire } from 'node:module';
import type { Entry, RandomAccessReader } from 'yauzl';
import { FileError } from '../../checks/errors.js';
import { moduleUrl } from '../../checks/package-root.js';
import { printable } from '../../checks/words.js';
import type { ByteSource, ReadOptions } from '../stores/byte-source.js';
import { MOST_DEFLATED } from './decompression-limits.js';

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

/** How large a directory may be, and what to do about a file that is none. */
export interface ZipLimits {
  readonly members: number;
  readonly bytes: number;
  readonly advice: string;
}

/** A step has some 20 arrays; the limit leaves room for what else is saved with it. */
const OF_A_STEP: ZipLimits = { members: 4096, bytes: 4 * 2 ** 20, advice: 'write the file again with np.savez' };
const LOCAL_HEADER = 0x04034b50;
const LOCAL_HEADER_BYTES = 30;
const CENTRAL_HEADER_BYTES = 46;
/** Signatures of what may follow the directory. */
const END_RECORDS: readonly number[] = [0x06054b50, 0x06064b50];

/**
 * Reads the directory and the local header of each member.
 * @returns members by name, and the bytes that say so
 * @throws FileError unless the file is a zip file that can be read here
 */
export async function readZipDirectory(
  source: ByteSource,
  options: ReadOptions,
  limits = OF_A_STEP,
): Promise<{ members: ReadonlyMap<string, ZipMember>; directory: Buffer }> {
  const { path } = source;
  const { RandomAccessReader, fromRandomAccessReaderPromise } = loadYauzl();
  const reader = new BlockReader(source, options);
  try {
    const settings = { lazyEntries: true, autoClose: false, decodeStrings: false, validateEntrySizes: false };
    const zip = await fromRandomAccessReaderPromise(asked(reader, RandomAccessReader), source.bytes, settings);
    // A number, though its type says otherwise.
    const cursor = () => Number(zip.readEntryCursor);
    const begin = cursor();
    const found = new Map<string, Declared>();
    let end = begin;
    checkSize(path, begin, zip.entryCount, 0, limits);
    for await (const entry of zip.eachEntry()) {
      checkSize(path, begin, zip.entryCount, cursor() - begin, limits);
      const member = parseEntry(path, entry, end);
      if (found.has(member.name)) fail(path, end, `member ${printable(member.name)} comes twice`);
      found.set(member.name, member);
      end = cursor();
    }
    if (!END_RECORDS.includes((await reader.bytes(end, 4)).readUInt32LE())) {
      fail(path, end, `the directory of ${found.size} members does not end here`);
    }
    return { members: await locate(reader, path, found, begin), directory: await reader.bytes(begin, end - begin) };
  } catch (error) {
    options.signal?.throwIfAborted();
    if (error instanceof FileError) {
      const problem = error.problem.replace(OF_A_STEP.advice, limits.advice);
      throw problem === error.problem ? error : new FileError({ path, offset: error.offset ?? 0 }, problem);
    }
    if (!(error instanceof Error)) throw error;
    const advice = limits.advice.replace('the file', 'it');
    const problem = `not a zip file, truncated or still being written: ${advice} (${error.message})`;
    throw new FileError({ path }, problem, { cause: error });
  }
}

function checkSize(path: string, offset: number, members: number, bytes: number, most: ZipLimits): void {
  if (members <= most.members && bytes <= most.bytes) return;
  const what =
    most === OF_A_STEP ? 'that a step is taken with: save fewer arrays' : 'that are read: write several files';
  const problem = `a directory of ${members} members in ${bytes} bytes, more than the ${most.members} in ${most.bytes} ${what}`;
  throw new FileError({ path, offset }, problem);
}

type Declared = Omit<ZipMember, 'begin'>;

function parseEntry(path: string, entry: Entry, here: number): Declared {
  const { fileNameRaw, compressionMethod, compressedSize: packedBytes, uncompressedSize: bytes } = entry;
  // U+FFFD in the place of bytes that are not text would make several names one.
  if (!isUtf8(fileNameRaw)) fail(path, here + CENTRAL_HEADER_BYTES, 'the name of a member is not UTF-8');
  const name = fileNameRaw.toString();
  const said = `member ${printable(name)}`;
  if (entry.isEncrypted()) fail(path, here, `${said} is encrypted`);
  if (!entry.canDecodeFileData()) {
    fail(path, here, `${said} is packed with method ${compressionMethod}, expected stored or deflated`);
  }
  const method = entry.isCompressed() ? 'deflated' : 'stored';
  if (method === 'stored' && bytes !== packedBytes) {
    fail(path, here, `${said} is stored in ${packedBytes} bytes, but has ${bytes}`);
  }
  if (bytes > packedBytes * MOST_DEFLATED) {
    fail(path, here, `${said}: ${packedBytes} deflated bytes cannot hold the ${bytes} that the directory promises`);
  }
  return { name, method, headerAt: entry.relativeOffsetOfLocalHeader, packedBytes, bytes, crc: entry.crc32 };
}

/** Finds where each member's bytes begin: local headers have fields of their own length. */
async function locate(
  reader: BlockReader,
  path: string,
  found: ReadonlyMap<string, Declared>,
  directoryAt: number,
): Promise<Map<string, ZipMember>> {
  const members = new Map<string, ZipMember>();
  let free = 0;
  let previous = 'the beginning of the file';
  // By position, so that a remote store is read in one direction.
  for (const member of [...found.values()].sort((a, b) => a.headerAt - b.headerAt)) {
    const { headerAt, name, method, packedBytes } = member;
    const said = `member ${printable(name)}`;
    const header = await reader.bytes(headerAt, LOCAL_HEADER_BYTES, 0);
    const same = header.readUInt32LE(0) === LOCAL_HEADER && header.readUInt16LE(8) === (method === 'stored' ? 0 : 8);
    if (!same) fail(path, headerAt, `${said} is not here, where the directory says`);
    if (headerAt < free) fail(path, headerAt, `${said} overlaps ${previous}`);
    const begin = headerAt + LOCAL_HEADER_BYTES + header.readUInt16LE(26) + header.readUInt16LE(28);
    free = begin + packedBytes;
    previous = said;
    if (free > directoryAt) fail(path, headerAt, `${said} ends at offset ${free}, within the directory`);
    members.set(name, { ...member, begin });
  }
  return members;
}

/** yauzl asks for the directory in pieces of some 60 bytes. */
const AHEAD_BYTES = 64 * 2 ** 10;

/**
 * Reads through a block, so that a remote store sees few requests: the end of the file first, often the whole of it.
 */
class BlockReader {
  #block: Buffer = Buffer.alloc(0);
  #blockAt = 0;

  constructor(
    private readonly source: ByteSource,
    private readonly options: ReadOptions,
  ) {}

  async bytes(position: number, length: number, ahead = AHEAD_BYTES): Promise<Buffer> {
    const { path, bytes } = this.source;
    if (position + length > bytes) fail(path, position, `${length} bytes that the zip file points to lie outside it`);
    const from = position - this.#blockAt;
    if (from >= 0 && from + length <= this.#block.length) return this.#block.subarray(from, from + length);
    const block = Buffer.allocUnsafe(Math.min(Math.max(ahead, length), bytes - position));
    await this.source.read(block, position, this.options);
    if (ahead > 0) [this.#block, this.#blockAt] = [block, position];
    return block.subarray(0, length);
  }
}

/** Loaded with the first zip file: every start of the command would wait for it. */
const loadYauzl = () => createRequire(moduleUrl)('yauzl') as typeof import('yauzl');

/** The same reader as yauzl asks it. */
function asked(blocks: BlockReader, Base: typeof RandomAccessReader): RandomAccessReader {
  class Asked extends Base {
    override read(...[target, offset, length, position, callback]: Parameters<RandomAccessReader['read']>): void {
      blocks.bytes(position, length).then(
        (bytes) => {
          bytes.copy(target, offset);
          callback(null);
        },
        // The reason of an abort may be anything.
        (error: unknown) => callback(error instanceof Error ? error : new Error(String(error))),
      );
    }
  }
  return new Asked();
}

function fail(path: string, offset: number, problem: string): never {
  throw new FileError({ path, offset }, `${problem}: ${OF_A_STEP.advice}`);
}
