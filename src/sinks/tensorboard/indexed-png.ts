// Encodes palette indices as a PNG (RFC 2083), the same for the same input.
import { crc32, deflateSync } from 'node:zlib';

export interface IndexedImage {
  readonly width: number;
  readonly height: number;
  /** [height·width], row-major. */
  readonly pixels: Uint8Array;
  /** Red, green and blue of each index, at most 256. */
  readonly palette: readonly (readonly [red: number, green: number, blue: number])[];
}

const SIGNATURE = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);
const BITS = 8;
const PALETTE_COLOUR = 3;

export function indexedPng({ width, height, pixels, palette }: IndexedImage): Uint8Array {
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([BITS, PALETTE_COLOUR, 0, 0, 0], 8);
  // A line begins with its filter: none.
  const lines = Buffer.alloc(height * (width + 1));
  for (let row = 0; row < height; row++) {
    lines.set(pixels.subarray(row * width, (row + 1) * width), row * (width + 1) + 1);
  }
  const parts = [
    chunk('IHDR', head),
    chunk('PLTE', Uint8Array.from(palette.flat())),
    chunk('IDAT', deflateSync(lines)),
    chunk('IEND', new Uint8Array()),
  ];
  return Buffer.concat([SIGNATURE, ...parts]);
}

/** Length, name, data, and the checksum of both. */
function chunk(name: string, data: Uint8Array): Uint8Array {
  const bytes = Buffer.alloc(12 + data.length);
  bytes.writeUInt32BE(data.length);
  bytes.write(name, 4, 'latin1');
  bytes.set(data, 8);
  bytes.writeUInt32BE(crc32(bytes.subarray(4, 8 + data.length)), 8 + data.length);
  return bytes;
}
