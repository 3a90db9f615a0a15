// Step files that were compressed whole: NAME.safetensors.gz and NAME.safetensors.zst. They are unpacked as they are
// read, into memory that does not grow with them, once for the header and the small tensors and once for the scores.

import type { Transform } from 'node:stream';
import * as zlib from 'node:zlib';
import { FileError } from '../../checks/errors.js';
import { headerDigest } from '../steps/step-digest.js';
import type { ReadOptions } from '../stores/byte-source.js';
import { openBytes } from '../stores/store.js';
import type { StepContainer } from './container.js';
import { headerLength, LENGTH_BYTES, parseHeader } from './safetensors.js';
import { type Packed, UnfoldedSource } from './unfolded-source.js';
import { checkUnfolding, PACKED_LIMIT } from './unfolding-limits.js';
import { MOST_DEFLATED } from './zip-directory.js';
import { beginsZstd, ZSTD_MAGIC_BYTES, zstdFrames } from './zstd-frames.js';

interface Compression {
  readonly format: string;
  /** Bytes at its beginning that tell it. */
  readonly magicBytes: number;
  readonly begins: (first: Buffer) => boolean;
  /** Unpacked bytes that one byte can stand for: what a header promises beyond is not in the file. */
  readonly most: number;
  readonly unfold: () => Packed['unfold'] | undefined;
  /** Finds what the decompressor does not: gunzip goes on with the next member by itself. */
  readonly frames?: Packed['frames'];
}

/** Output of a decompressor comes in pieces of this size. */
const CHUNK_BYTES = 256 * 2 ** 10;

const GZIP: Compression = {
  format: 'gzip',
  magicBytes: 2,
  begins: (first) => first.equals(Buffer.of(0x1f, 0x8b)),
  most: MOST_DEFLATED,
  unfold: () => () => zlib.createGunzip({ chunkSize: CHUNK_BYTES }),
};

/** Part of Node from 22.15 on, and with it of its types. */
const { createZstdDecompress } = zlib as {
  createZstdDecompress?: (options: { chunkSize: number }) => Transform & { bytesWritten: number };
};

const ZSTD: Compression = {
  format: 'zstd',
  magicBytes: ZSTD_MAGIC_BYTES,
  begins: beginsZstd,
  // A block of 128 KiB of one byte takes 4. The window stays at the library's limit of 128 MiB.
  most: 2 ** 15,
  unfold: () => createZstdDecompress && (() => createZstdDecompress({ chunkSize: CHUNK_BYTES })),
  frames: zstdFrames,
};

export function openGzip(path: string, options: ReadOptions): Promise<StepContainer> {
  return openCompressed(path, GZIP, options);
}

/** @throws FileError too where this Node cannot unpack zstd */
export function openZstd(path: string, options: ReadOptions): Promise<StepContainer> {
  return openCompressed(path, ZSTD, options);
}

async function openCompressed(path: string, compression: Compression, { signal }: ReadOptions): Promise<StepContainer> {
  const { format, magicBytes, begins, most, frames } = compression;
  const unfold = compression.unfold();
  if (unfold === undefined) {
    const problem = `unpacking ${format} needs Node 22.15 or later, this is ${process.version}: run a newer Node, or unpack it (zstd -d) or write it as .gz`;
    throw new FileError({ path }, problem);
  }
  const unpacking = async (expected?: string) => {
    const base = await openBytes(path, { expected, signal });
    const packed = {
      source: base,
      begin: 0,
      packedBytes: base.bytes,
      unfold,
      format,
      owned: true,
      ...(frames && { frames }),
    };
    return { base, source: new UnfoldedSource(packed, base.bytes * most) };
  };
  const { base, source } = await unpacking();
  try {
    const start = Buffer.alloc(Math.min(magicBytes, base.bytes));
    await base.read(start, 0, { signal });
    if (!begins(start)) {
      throw new FileError(
        { path, offset: 0 },
        `it does not begin as ${format} data do: it is empty, truncated or something else`,
      );
    }
    const lengthBytes = Buffer.allocUnsafe(LENGTH_BYTES);
    await source.read(lengthBytes, 0, { signal });
    const length = headerLength(path, lengthBytes, source.bytes);
    checkHeader(path, length, base.bytes);
    const json = Buffer.allocUnsafe(length);
    await source.read(json, LENGTH_BYTES, { signal });
    const { tensors, metadata, bytes } = parseHeader(path, json, undefined);
    checkUnfolding(path, tensors, bytes, base.bytes, most);
    source.promise(bytes);
    return {
      source,
      tensors,
      metadata,
      bytes,
      digest: headerDigest(json),
      headerAt: LENGTH_BYTES,
      reopen: async () => (await unpacking(base.revision)).source.promise(bytes),
    };
  } catch (error) {
    await source.close();
    throw error;
  }
}

/** Headers of a folder are read side by side. */
const HEADER_LIMIT = 4 * 2 ** 20;

/** Refuses a header that a small file unpacks to: by its length alone it may have 100 MB. */
function checkHeader(path: string, length: number, packedBytes: number): void {
  const limit = Math.max(HEADER_LIMIT, PACKED_LIMIT * packedBytes);
  if (length <= limit) return;
  const problem = `a header of ${length} bytes, unpacked from ${packedBytes}: more than the ${limit} that are taken from a compressed file. If that is meant, decompress it first`;
  throw new FileError({ path, offset: 0 }, problem);
}
