// JSON in the members of a zip file, as one stream: unpacked member by member, into memory that does not grow with
// them.
import { pipeline, Readable } from 'node:stream';
import { createInflateRaw } from 'node:zlib';
import { FileError } from '../../checks/errors.js';
import { printable } from '../../checks/words.js';
import type { ByteSource } from '../stores/byte-source.js';
import { readZipDirectory, type ZipMember } from './zip-directory.js';

/** Samples of an evaluation that are read from one file. */
const MOST_MEMBERS = 2 ** 17;
const MOST_DIRECTORY_BYTES = 2 ** 24;

const READ_BYTES = 256 * 2 ** 10;

/** @param isWanted by the name of a member @throws {FileError} if it is not a zip file, or is damaged */
export async function* unzippedJson(
  source: ByteSource,
  isWanted: (name: string) => boolean,
): AsyncGenerator<Buffer, void, undefined> {
  const { path } = source;
  const limits = { members: MOST_MEMBERS, bytes: MOST_DIRECTORY_BYTES, advice: 'download or write it again' };
  const { members } = await readZipDirectory(source, {}, limits);
  for (const member of members.values()) {
    if (!isWanted(member.name)) continue;
    let bytes = 0;
    try {
      for await (const piece of unpacked(source, member)) {
        bytes += piece.length;
        if (bytes > member.bytes) break;
        yield piece;
      }
    } catch (error) {
      if (!(error instanceof Error) || error instanceof FileError) throw error;
      const problem = `member ${printable(member.name)} is damaged: ${error.message}`;
      throw new FileError({ path, offset: member.begin }, problem, { cause: error });
    }
    if (bytes !== member.bytes) {
      const problem = `member ${printable(member.name)} unpacks to other than the ${member.bytes} bytes that the directory promises`;
      throw new FileError({ path, offset: member.begin }, problem);
    }
    // Values of two members are never one.
    yield Buffer.from('\n');
  }
}

function unpacked(source: ByteSource, { method, begin, packedBytes }: ZipMember): AsyncIterable<Buffer> {
  async function* pieces(): AsyncGenerator<Buffer> {
    for (let at = 0; at < packedBytes; at += READ_BYTES) {
      const piece = Buffer.allocUnsafe(Math.min(READ_BYTES, packedBytes - at));
      await source.read(piece, begin + at);
      yield piece;
    }
  }
  if (method === 'stored') return pieces();
  const stream = createInflateRaw();
  pipeline(Readable.from(pieces()), stream, () => undefined);
  return stream;
}
