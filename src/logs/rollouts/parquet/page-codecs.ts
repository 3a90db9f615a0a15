// Unpacks the pages of each codec. First checks the unpacked size that a page declares against its packed bytes:
// libraries take memory and time for the declared size.
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { loadAddon } from '../../../engine/addon.js';
import { ZSTD_BLOCK_BYTES, zstdBlock, zstdFrame } from '../../formats/zstd.js';

/** What frames of zstd unpack to at most, by their headers or, where these do not say, by their blocks. RFC 8878, 3.1.1. */
export function mostUnpacked(packed: Uint8Array): number {
  const cut = (): never => {
    throw new Error('a page whose zstd is cut');
  };
  let total = 0;
  for (let at = 0; at < packed.length; ) {
    const frame = zstdFrame(packed, at) ?? cut();
    at += frame.bytes;
    if (frame.isSkipped) continue;
    let blocks = 0;
    for (let isLast = false; !isLast; ) {
      if (at + 3 > packed.length) return cut();
      const block = zstdBlock(packed, at);
      isLast = block.isLast;
      blocks += block.most;
      at += 3 + block.bytes;
    }
    total += frame.size ?? blocks;
    if (frame.hasChecksum) at += 4;
  }
  return total;
}

/**
 * Walks through the sequences of a block of LZ4 (lz4_Block_format.md), of which every length is known then.
 * @throws {Error} unless it unpacks to exactly this many bytes
 */
export function checkLz4(packed: Uint8Array, length: number): void {
  let at = 0;
  let total = 0;
  const extended = (nibble: number): number => {
    let size = nibble;
    for (let byte = nibble === 15 ? 255 : 0; byte === 255; size += byte) {
      if (at >= packed.length) throw new Error('a page whose LZ4 is cut');
      byte = packed[at++] as number;
    }
    return size;
  };
  while (at < packed.length && total <= length) {
    const token = packed[at++] as number;
    const literals = extended(token >> 4);
    at += literals;
    total += literals;
    // The last sequence has no match.
    if (at === packed.length) break;
    if (at + 2 > packed.length) throw new Error('a page whose LZ4 is cut');
    at += 2;
    total += extended(token & 15) + 4;
  }
  if (total !== length || at !== packed.length)
    throw new Error(`a page of ${length} bytes whose LZ4 unpacks to ${total} or more`);
}

/** Blocks as Hadoop frames them, each with its two lengths before it; undefined if there are no such frames. */
function lz4Frames(packed: Uint8Array, length: number): { packed: Uint8Array; length: number }[] | undefined {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  const frames: { packed: Uint8Array; length: number }[] = [];
  let total = 0;
  for (let at = 0; at < packed.length; ) {
    if (at + 8 > packed.length) return undefined;
    const [unpacked, bytes] = [view.getUint32(at), view.getUint32(at + 4)];
    at += 8;
    total += unpacked;
    if (bytes === 0 || bytes > packed.length - at || total > length) return undefined;
    frames.push({ packed: packed.subarray(at, at + bytes), length: unpacked });
    at += bytes;
  }
  return total === length ? frames : undefined;
}

type Unpacker = (packed: Uint8Array, length: number) => Uint8Array;

/** Snappy, gzip and brotli are unpacked by what is there; zstd and LZ4 with a package that is loaded only for them. */
export async function unpackerOf(codec: string): Promise<Unpacker | undefined> {
  switch (codec) {
    case 'UNCOMPRESSED':
      return undefined;
    case 'SNAPPY':
      return (packed, length) => {
        // Its best is 64 bytes for 3.
        if (length > 22 * packed.length + 64)
          throw new Error(`a page of ${packed.length} bytes that unpacks to ${length}`);
        const page = Buffer.allocUnsafeSlow(length);
        if (!loadAddon().unpackSnappy(packed, page)) throw new Error('a page whose Snappy is damaged');
        return page;
      };
    case 'GZIP':
      return (packed, length) => gunzipSync(packed, { maxOutputLength: Math.max(1, length) });
    case 'BROTLI':
      return (packed, length) => brotliDecompressSync(packed, { maxOutputLength: Math.max(1, length) });
    case 'ZSTD': {
      const { compressors } = await import('hyparquet-compressors');
      return (packed, length) => {
        // It takes memory for what the frames say, whatever the page does.
        const most = mostUnpacked(packed);
        if (most > length + ZSTD_BLOCK_BYTES * 8)
          throw new Error(`a page of ${length} bytes whose zstd may unpack to ${most}`);
        return (compressors.ZSTD as Unpacker)(packed, length);
      };
    }
    case 'LZ4':
    case 'LZ4_RAW': {
      const { compressors } = await import('hyparquet-compressors');
      const block: Unpacker = (packed, length) => {
        checkLz4(packed, length);
        // The library takes the token of an empty block for a match.
        return length === 0 ? new Uint8Array(0) : (compressors.LZ4_RAW as Unpacker)(packed, length);
      };
      if (codec === 'LZ4_RAW') return block;
      return (packed, length) => {
        const frames = lz4Frames(packed, length);
        if (frames === undefined) return block(packed, length);
        return Buffer.concat(frames.map((frame) => block(frame.packed, frame.length)));
      };
    }
    default:
      throw new Error(`unsupported compression ${codec}: read are snappy, gzip, brotli, zstd and LZ4`);
  }
}
