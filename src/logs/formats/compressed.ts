// Step files that were compressed whole: NAME.safetensors.gz. They are unpacked as they are read, into memory that does
// not grow with them, once for the header and the small tensors and once for the scores.

import { createGunzip } from 'node:zlib';
import { FileError } from '../../checks/errors.js';
import { headerDigest } from '../steps/step-digest.js';
import { openBytes } from '../stores/store.js';
import type { OpenContainer } from './container.js';
import { DecompressedSource } from './decompressed-source.js';
import { checkDecompressed, MOST_DEFLATED, PACKED_LIMIT } from './decompression-limits.js';
import { headerLength, LENGTH_BYTES, parseHeader } from './safetensors.js';

/** Output of the decompressor comes in pieces of this size. */
const CHUNK_BYTES = 256 * 2 ** 10;

const GZIP_MAGIC = Buffer.of(0x1f, 0x8b);

/** @throws FileError unless it is a gzip file of a step */
export const openGzip: OpenContainer = async (path, { signal }) => {
  const unpacking = async (expected?: string) => {
    const base = await openBytes(path, { expected, signal });
    const decompress = () => createGunzip({ chunkSize: CHUNK_BYTES });
    const packed = { source: base, begin: 0, packedBytes: base.bytes, decompress, format: 'gzip', owned: true };
    return { base, source: new DecompressedSource(packed, base.bytes * MOST_DEFLATED) };
  };
  const { base, source } = await unpacking();
  try {
    const start = Buffer.alloc(Math.min(GZIP_MAGIC.length, base.bytes));
    await base.read(start, 0, { signal });
    if (!start.equals(GZIP_MAGIC)) {
      const problem = 'it does not begin as gzip data do: it is empty, truncated or something else';
      throw new FileError({ path, offset: 0 }, problem);
    }
    const lengthBytes = Buffer.allocUnsafe(LENGTH_BYTES);
    await source.read(lengthBytes, 0, { signal });
    const length = headerLength(path, lengthBytes, source.bytes);
    checkHeader(path, length, base.bytes);
    const json = Buffer.allocUnsafe(length);
    await source.read(json, LENGTH_BYTES, { signal });
    const { tensors, metadata, bytes } = parseHeader(path, json, undefined);
    checkDecompressed(path, tensors, bytes, base.bytes, MOST_DEFLATED);
    source.promise(bytes);
    return {
      source,
      tensors,
      metadata,
      bytes,
      storedBytes: base.bytes,
      digest: headerDigest(json),
      headerAt: LENGTH_BYTES,
      reopen: async () => (await unpacking(base.revision)).source.promise(bytes),
    };
  } catch (error) {
    await source.close();
    throw error;
  }
};

/** Node unpacks it from 22.15 on only: a file that is named so is refused, not passed over. */
export const ZSTD_PROBLEM = 'zstd is not read: unpack it first (zstd -d), or pack it with gzip';

export const openZstd: OpenContainer = async (path) => {
  throw new FileError({ path }, ZSTD_PROBLEM);
};

/** Headers of a folder are read side by side. */
const HEADER_LIMIT = 4 * 2 ** 20;

/** Refuses a header that a small file unpacks to: by its length field it may have 100 MB. */
function checkHeader(path: string, length: number, packedBytes: number): void {
  const limit = Math.max(HEADER_LIMIT, PACKED_LIMIT * packedBytes);
  if (length <= limit) return;
  const problem = `a header of ${length} bytes, unpacked from ${packedBytes}: more than the ${limit} that are taken from a compressed file. If that is meant, decompress it first`;
  throw new FileError({ path, offset: 0 }, problem);
}
