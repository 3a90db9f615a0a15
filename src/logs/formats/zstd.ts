// Zstandard (RFC 8878): what its frames promise, and their bytes, unpacked a block at a time.
import { FileError } from '../../checks/errors.js';
import type { ByteSource } from '../stores/byte-source.js';

/** The most that a block unpacks to. */
export const ZSTD_BLOCK_BYTES = 2 ** 17;

const FRAME = 0xfd2fb528;
/** The longest header of a frame, with its magic number. */
const MOST_HEADER_BYTES = 18;
const BLOCK_HEADER_BYTES = 3;
const CHECKSUM_BYTES = 4;

/** As `zstd` packs without --ultra and --long. */
const MOST_WINDOW_BYTES = 2 ** 23;

/** Each block moves the window: no writer makes this many blocks with so little in them. */
const MANY_BLOCKS = 4096;
const LEAST_MEAN_BLOCK = 64;

export interface ZstdFrame {
  /** Of the header, with its magic number; of a frame to skip, all of it. */
  readonly bytes: number;
  readonly isSkipped: boolean;
  /** Of its content, where it says so. */
  readonly size: number | undefined;
  readonly windowBytes: number;
  readonly hasChecksum: boolean;
}

/** What begins at `at`; undefined if the bytes end before the header. @throws {Error} if it is not a frame */
export function zstdFrame(packed: Uint8Array, at: number): ZstdFrame | undefined {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  if (at + 8 > packed.length) return undefined;
  const magic = view.getUint32(at, true);
  const skipped = { isSkipped: true, size: 0, windowBytes: 0, hasChecksum: false };
  if ((magic & 0xfffffff0) >>> 0 === 0x184d2a50) return { ...skipped, bytes: 8 + view.getUint32(at + 4, true) };
  if (magic !== FRAME) throw new Error('no zstd');
  const head = packed[at + 4] as number;
  const isSingle = (head & 0x20) !== 0;
  const sizeAt = 5 + (isSingle ? 0 : 1) + ([0, 1, 2, 4][head & 3] as number);
  const sizeBytes = head >> 6 === 0 ? Number(isSingle) : 2 ** (head >> 6);
  if (at + sizeAt + sizeBytes > packed.length) return undefined;
  let size: number | undefined;
  if (sizeBytes === 1) size = view.getUint8(at + sizeAt);
  if (sizeBytes === 2) size = view.getUint16(at + sizeAt, true) + 256;
  if (sizeBytes === 4) size = view.getUint32(at + sizeAt, true);
  if (sizeBytes === 8) size = Number(view.getBigUint64(at + sizeAt, true));
  const said = packed[at + 5] as number;
  const windowBytes = isSingle ? (size ?? 0) : 2 ** (10 + (said >> 3)) * (1 + (said & 7) / 8);
  return { bytes: sizeAt + sizeBytes, isSkipped: false, size, windowBytes, hasChecksum: (head & 4) !== 0 };
}

/** The header of a block: its bytes behind it, and the most that it unpacks to. */
export function zstdBlock(header: Uint8Array, at: number): { isLast: boolean; bytes: number; most: number } {
  const said = (header[at] as number) | ((header[at + 1] as number) << 8) | ((header[at + 2] as number) << 16);
  const [kind, bytes] = [(said >> 1) & 3, said >> 3];
  return {
    isLast: (said & 1) === 1,
    bytes: kind === 1 ? 1 : bytes,
    most: kind === 2 ? ZSTD_BLOCK_BYTES : bytes,
  };
}

/**
 * Unpacked bytes in pieces of a block each. Ends where the packed ones do, also within a frame: a log that is being
 * written is cut anywhere.
 * @throws {FileError} for what is damaged, or takes more memory than `zstd` packs with by itself
 */
export async function* unpackedZstd(source: ByteSource): AsyncGenerator<Buffer, void, undefined> {
  const { Decompress } = await import('fzstd');
  const { path } = source;
  const packed = new Packed(source);
  const ready: Buffer[] = [];
  const unpacker = new Decompress((piece) => ready.push(Buffer.from(piece.buffer, piece.byteOffset, piece.length)));
  const damaged = (why: string, cause?: unknown): FileError =>
    new FileError({ path, offset: packed.position }, `the zstd data are damaged: ${why}`, { cause });
  const push = (bytes: Buffer): void => {
    try {
      unpacker.push(bytes);
    } catch (error) {
      throw damaged((error as Error).message, error);
    }
  };
  let [blocks, unpacked] = [0, 0];
  for (;;) {
    let frame: ZstdFrame | undefined;
    try {
      frame = zstdFrame(await packed.peek(MOST_HEADER_BYTES), 0);
    } catch (error) {
      throw damaged((error as Error).message, error);
    }
    if (frame === undefined) return;
    if (frame.isSkipped) {
      packed.skip(frame.bytes);
      continue;
    }
    if (frame.windowBytes > MOST_WINDOW_BYTES && (frame.size ?? Number.POSITIVE_INFINITY) > MOST_WINDOW_BYTES) {
      const problem = `its zstd has a window of ${frame.windowBytes} bytes, more than the ${MOST_WINDOW_BYTES} that are read: pack it without --long and --ultra`;
      throw new FileError({ path, offset: packed.position }, problem);
    }
    push(await packed.take(frame.bytes));
    for (let isLast = false; !isLast; ) {
      const header = await packed.take(BLOCK_HEADER_BYTES);
      if (header.length < BLOCK_HEADER_BYTES) return;
      const block = zstdBlock(header, 0);
      if (Math.max(block.bytes, block.most) > ZSTD_BLOCK_BYTES) throw damaged(`a block of ${block.bytes} bytes`);
      const content = await packed.take(block.bytes);
      if (content.length < block.bytes) return;
      push(header);
      push(content);
      for (const piece of ready) unpacked += piece.length;
      if (++blocks > MANY_BLOCKS && unpacked < LEAST_MEAN_BLOCK * blocks) {
        throw damaged(`${blocks} blocks unpack to ${unpacked} bytes`);
      }
      yield* ready.splice(0);
      isLast = block.isLast;
    }
    if (frame.hasChecksum) push(await packed.take(CHECKSUM_BYTES));
  }
}

const READ_BYTES = 256 * 2 ** 10;

/** Bytes of a source one after the other. */
class Packed {
  #held: Buffer = Buffer.alloc(0);
  #next = 0;

  constructor(private readonly source: ByteSource) {}

  /** Of the byte that comes next. */
  get position(): number {
    return this.#next - this.#held.length;
  }

  /** Fewer at the end. */
  async take(count: number): Promise<Buffer> {
    const taken = await this.peek(count);
    this.#held = this.#held.subarray(taken.length);
    return taken;
  }

  async peek(count: number): Promise<Buffer> {
    if (this.#held.length < count && this.#next < this.source.bytes) {
      const more = Buffer.allocUnsafe(Math.min(Math.max(READ_BYTES, count), this.source.bytes - this.#next));
      await this.source.read(more, this.#next);
      this.#next += more.length;
      this.#held = Buffer.concat([this.#held, more]);
    }
    return this.#held.subarray(0, count);
  }

  skip(count: number): void {
    const held = Math.min(count, this.#held.length);
    this.#held = this.#held.subarray(held);
    this.#next = Math.min(this.source.bytes, this.#next + count - held);
  }
}
