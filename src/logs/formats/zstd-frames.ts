// Where the frames of zstd data begin (RFC 8878, 3.1): several may follow one another, as pzstd and seekable formats
// write them, and between them may stand frames that hold no data. Before Node 26 its decompressor ends with the first
// frame.
import type { ByteSource } from '../stores/byte-source.js';
import type { FrameSearch } from './unfolded-source.js';

const MAGIC = 0xfd2fb528;
/** Of frames that hold no data: sixteen numbers. */
const SKIPPED_MAGIC = 0x184d2a50;
/** Number and size of such a frame. */
const SKIPPED_HEADER_BYTES = 8;
/** More of them in a row are nobody's: each is looked at alone. */
const MAX_SKIPPED = 2 ** 16;

export const ZSTD_MAGIC_BYTES = 4;

export function beginsZstd(first: Buffer): boolean {
  if (first.length < ZSTD_MAGIC_BYTES) return false;
  const magic = first.readUInt32LE(0);
  return magic === MAGIC || isSkipped(magic);
}

function isSkipped(magic: number): boolean {
  return (magic & 0xfffffff0) === SKIPPED_MAGIC;
}

export const zstdFrames: FrameSearch = async (source, from, end, { signal }) => {
  let at = from;
  for (let skipped = 0; skipped <= MAX_SKIPPED; skipped++) {
    // At the end there is nothing to unpack: that is found only where something was passed over.
    if (at === end) return skipped > 0 ? end : undefined;
    const first = await head(source, at, end, signal);
    if (first.length < ZSTD_MAGIC_BYTES) return undefined;
    const magic = first.readUInt32LE(0);
    if (magic === MAGIC) return at;
    if (!isSkipped(magic) || first.length < SKIPPED_HEADER_BYTES) return undefined;
    at += SKIPPED_HEADER_BYTES + first.readUInt32LE(ZSTD_MAGIC_BYTES);
    if (at > end) return undefined;
  }
  return undefined;
};

async function head(source: ByteSource, at: number, end: number, signal: AbortSignal | undefined): Promise<Buffer> {
  const first = Buffer.alloc(Math.min(SKIPPED_HEADER_BYTES, end - at));
  await source.read(first, at, { signal });
  return first;
}
