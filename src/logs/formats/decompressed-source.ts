// Unpacks a compressed range of a source as it is read forwards: skipped bytes are dropped, going back starts over, and
// memory stays constant. At the end the checksum is checked, and nothing may follow it.
import { pipeline, Readable, type Transform } from 'node:stream';
import { crc32 } from 'node:zlib';
import { FileError } from '../../checks/errors.js';
import { Turns } from '../../checks/turns.js';
import type { ByteSource, ReadOptions } from '../stores/byte-source.js';
import { systemProblem } from '../stores/system-problem.js';

/** Bytes of compressed data read at a time. */
const PACKED_READ_BYTES = 256 * 2 ** 10;

export interface Packed {
  readonly source: ByteSource;
  /** Where the compressed bytes lie in it. */
  readonly begin: number;
  readonly packedBytes: number;
  /** A new decompressor. */
  readonly decompress: () => Transform & { readonly bytesWritten: number };
  /** For messages: gzip, deflate. */
  readonly format: string;
  /** CRC-32 of the unpacked bytes, for formats that do not hold it themselves. */
  readonly crc?: number;
  /** Closes `source` too. */
  readonly owned: boolean;
}

export class DecompressedSource implements ByteSource {
  readonly path: string;
  readonly revision: string;
  readonly stamp: string;
  /** The unpacked bytes that there must be, or that there can be at most until `promise` says. */
  bytes: number;
  #promised = false;
  #stream: (Transform & { readonly bytesWritten: number }) | undefined;
  #chunks: AsyncIterator<Buffer> | undefined;
  /** What was unpacked last, and its position: going back within it costs nothing. */
  #chunk: Buffer = Buffer.alloc(0);
  #chunkAt = 0;
  /** Position of the next byte to give, within the chunk or at its end. */
  #position = 0;
  #crc = 0;
  #signal: AbortSignal | undefined;
  /** Reads take turns: there is one stream. */
  readonly #turns = new Turns();

  /** @param most more unpacked bytes than there can be */
  constructor(
    private readonly packed: Packed,
    most: number,
  ) {
    const { path, revision, stamp } = packed.source;
    this.path = path;
    this.revision = revision;
    this.stamp = stamp;
    this.bytes = most;
  }

  /** From now on there must be exactly this number of bytes. */
  promise(bytes: number): this {
    this.bytes = bytes;
    this.#promised = true;
    return this;
  }

  read(target: Uint8Array, position: number, options: ReadOptions = {}): Promise<void> {
    return this.#turns.take(() => this.#read(target, position, options));
  }

  checkUnchanged(): Promise<void> {
    return this.packed.source.checkUnchanged();
  }

  async close(): Promise<void> {
    this.#stop();
    // A read that was under way may have restarted the decompressor.
    await this.#turns.take(async () => this.#stop());
    if (this.packed.owned) await this.packed.source.close();
  }

  async #read(target: Uint8Array, position: number, { tensor, signal }: ReadOptions): Promise<void> {
    signal?.throwIfAborted();
    this.#signal = signal;
    try {
      if (this.#chunks === undefined || position < this.#chunkAt) this.#begin();
      else if (position < this.#position) this.#position = position;
      while (this.#position < position) this.#take(await this.#more(position - this.#position, position));
      for (let done = 0; done < target.length; ) {
        const piece = this.#take(await this.#more(target.length - done, position + target.length));
        target.set(piece, done);
        done += piece.length;
      }
      if (this.#promised && this.#position === this.bytes) await this.#finish();
    } catch (error) {
      // Before it is stopped: it knows how far it came.
      const failure = this.#failure(error, tensor);
      this.#stop();
      if (signal?.aborted) throw signal.reason;
      throw failure;
    }
  }

  #begin(): void {
    this.#stop();
    this.#chunk = Buffer.alloc(0);
    this.#chunkAt = 0;
    this.#position = 0;
    this.#crc = 0;
    const stream = this.packed.decompress();
    // The reader sees a failure of either through the iterator.
    pipeline(Readable.from(this.#packedPieces()), stream, () => undefined);
    this.#stream = stream;
    this.#chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  }

  /** Unpacked bytes that come next, undefined after the last. */
  async #nextChunk(): Promise<Buffer | undefined> {
    this.#signal?.throwIfAborted();
    const next = await (this.#chunks as AsyncIterator<Buffer>).next();
    return next.done ? undefined : next.value;
  }

  #stop(): void {
    this.#stream?.destroy();
    this.#stream = undefined;
    this.#chunks = undefined;
  }

  async *#packedPieces(): AsyncGenerator<Buffer, void, undefined> {
    const { source, begin, packedBytes } = this.packed;
    for (let at = 0; at < packedBytes; at += PACKED_READ_BYTES) {
      const piece = Buffer.allocUnsafe(Math.min(PACKED_READ_BYTES, packedBytes - at));
      await source.read(piece, begin + at, { signal: this.#signal });
      yield piece;
    }
  }

  /** Up to `wanted` bytes of what comes next, at least one. */
  async #more(wanted: number, needed: number): Promise<Buffer> {
    while (this.#left === 0) {
      const next = await this.#nextChunk();
      if (next === undefined) {
        const problem = `the compressed data end after ${this.#position} bytes, ${needed - this.#position} short of what is needed: the file is truncated or still being written`;
        throw new FileError(this.#here(undefined), problem);
      }
      this.#chunk = next;
      this.#chunkAt = this.#position;
      if (this.packed.crc !== undefined) this.#crc = crc32(next, this.#crc);
    }
    const from = this.#position - this.#chunkAt;
    return this.#chunk.subarray(from, from + wanted);
  }

  get #left(): number {
    return this.#chunkAt + this.#chunk.length - this.#position;
  }

  #take(piece: Buffer): Buffer {
    this.#position += piece.length;
    return piece;
  }

  /** At the end: nothing may follow, and the checksum must be right. */
  async #finish(): Promise<void> {
    if (this.#chunks === undefined) return;
    const { packedBytes, begin, crc, format } = this.packed;
    const surplus = this.#left || ((await this.#nextChunk())?.length ?? 0);
    if (surplus > 0)
      throw new FileError(this.#here(undefined), `more data come than the header promises (${this.bytes} bytes)`);
    const used = this.#used;
    if (used !== packedBytes) {
      throw new FileError(
        { path: this.path, offset: begin + used },
        `${packedBytes - used} bytes after the end of the ${format} data belong to nothing`,
      );
    }
    if (crc !== undefined && this.#crc !== crc) {
      throw new FileError({ path: this.path, offset: begin }, 'the checksum (CRC-32) is wrong: the file is damaged');
    }
  }

  /** Compressed bytes that have been unpacked. */
  get #used(): number {
    return this.#stream?.bytesWritten ?? 0;
  }

  #here(tensor: string | undefined) {
    const offset = this.packed.begin + this.#used;
    return tensor === undefined ? { path: this.path, offset } : { path: this.path, tensor, offset };
  }

  #failure(error: unknown, tensor: string | undefined): unknown {
    if (error instanceof FileError || !(error instanceof Error) || !('code' in error)) return error;
    const code = String(error.code);
    const { format } = this.packed;
    if (code === 'Z_BUF_ERROR') {
      const problem = `the ${format} data end too early: the file is truncated or still being written`;
      return new FileError(this.#here(tensor), problem, { cause: error });
    }
    if (code.startsWith('Z_')) {
      return new FileError(this.#here(tensor), `the ${format} data are damaged: ${error.message}`, { cause: error });
    }
    return new FileError(this.#here(tensor), systemProblem(error), { cause: error });
  }
}
