// Reads a log of lines, plain or compressed, forwards in blocks of whole lines, so that memory does not grow with the
// file. JSON that is not in lines comes as lines of a value each.
import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { FileError } from '../../../checks/errors.js';
import { unzippedJson } from '../../formats/zipped-json.js';
import { unpackedZstd } from '../../formats/zstd.js';
import type { ByteSource } from '../../stores/byte-source.js';
import { openBytes } from '../../stores/store.js';
import { isCompressed, zippedMembers } from '../format.js';
import { type JsonShape, jsonShape, SHAPE_BYTES, ValueLines } from './json-values.js';

export interface LineBlock {
  readonly bytes: Buffer;
  /** Of its first byte, in the unpacked file. */
  readonly offset: number;
  /** Nothing comes after it. */
  readonly isLast: boolean;
  /** Instead of bytes: a line was longer than is read. */
  readonly tooLong?: number;
}

/** Lines parsed at a time: enough that handing them to a thread costs nothing beside it. */
const BLOCK_BYTES = 2 * 2 ** 20;
/** A step of ROLL is one line. V8 has no longer strings than 512 MiB, so no text or list in it is longer. */
const LONGEST_LINE = 2 ** 30;
/** However little memory there is. */
const LEAST_LONGEST_LINE = 2 ** 24;
/** A line is held as it grows, as it is handed over, and as its texts, and some of that until it is cleared away. */
const LINE_COPIES = 8;

const LINE_END = 0x0a;
/** A row in it has a name and a value: shorter lines say nothing. */
export const SHORTEST_ROW = '{"a":1}'.length;

/** Less is not worth a whole block. */
const LEAST_BLOCK_BYTES = BLOCK_BYTES / 16;

/**
 * Finished blocks for reuse: new memory has the system clear each page of it, and the collector run for what is outside
 * its heap.
 */
const SPARE: ArrayBuffer[] = [];
const MOST_SPARE = 16;

/** Gives a block's memory back: it may not be used any more. */
export function giveBack(memory: ArrayBufferLike): void {
  if (memory.byteLength === BLOCK_BYTES && SPARE.length < MOST_SPARE) SPARE.push(memory as ArrayBuffer);
}

/** A buffer of at least `bytes` bytes. */
export function newBlock(bytes: number): Buffer {
  if (bytes > BLOCK_BYTES || bytes < LEAST_BLOCK_BYTES) return Buffer.allocUnsafeSlow(bytes);
  const spare = SPARE.pop();
  return spare === undefined ? Buffer.allocUnsafeSlow(BLOCK_BYTES) : Buffer.from(spare);
}

/** Bytes of a file one after the other. */
interface Feed {
  /** Fills `target` from the feed's position on. @returns fewer bytes only at the end */
  fill(target: Buffer, signal: AbortSignal | undefined): Promise<number>;
  readonly position: number;
}

/** What the lines are. */
export type LineKind = 'json' | 'csv';

export class LineFile {
  #feed: Feed | undefined;
  #shape: JsonShape | undefined;

  private constructor(
    private readonly source: ByteSource,
    /** Of the file as it lies there. */
    readonly storedBytes: number,
    /** Lines of more bytes are stepped over. */
    readonly longestLine: number,
    readonly maxMemory: number | undefined,
    private readonly kind: LineKind,
  ) {}

  /** @param maxMemory bytes that reading may take, about */
  static async open(
    path: string,
    signal?: AbortSignal,
    maxMemory?: number,
    kind: LineKind = 'json',
  ): Promise<LineFile> {
    const source = await openBytes(path, { signal });
    const fitting = (maxMemory ?? Number.POSITIVE_INFINITY) / LINE_COPIES;
    const longest = Math.floor(Math.min(LONGEST_LINE, Math.max(LEAST_LONGEST_LINE, fitting)));
    return new LineFile(source, source.bytes, longest, maxMemory, kind);
  }

  get path(): string {
    return this.source.path;
  }

  /** Whether the bytes that are read are those that lie there. */
  get isPlain(): boolean {
    return !isCompressed(this.path);
  }

  get stamp(): string {
    return this.source.stamp;
  }

  close(): Promise<void> {
    return this.source.close();
  }

  /**
   * Blocks of whole lines from `begin` to `end`. Of a compressed file ranges should come in their order: going back
   * unpacks it again.
   * @throws FileError when the file cannot be read
   */
  async *blocks(
    begin: number,
    end: number,
    signal?: AbortSignal,
    blockBytes = BLOCK_BYTES,
  ): AsyncGenerator<LineBlock, void, undefined> {
    const feed = await this.#linesFrom(begin, signal);
    const shortest = this.kind === 'csv' ? 1 : SHORTEST_ROW;
    let offset = begin;
    let block: Buffer = newBlock(Math.min(blockBytes, Math.min(end - begin, this.#most(begin)) + 1));
    let held = 0;
    let tooLong = 0;
    for (;;) {
      if (held === block.length) block = grown(block, held, this.longestLine);
      const wanted = Math.min(block.length - held, end - offset - held);
      const got = wanted === 0 ? 0 : await feed.fill(block.subarray(held, held + wanted), signal);
      const fresh = held;
      held += got;
      const isEnd = got < block.length - fresh;
      if (held >= BLOCK_BYTES && saysNothing(block.subarray(0, held), shortest)) throw emptyProblem(this.path);
      const lastEnd = isEnd ? held : block.lastIndexOf(LINE_END, held - 1) + 1;
      if (tooLong > 0) {
        // The rest of a line that is not read.
        const lineEnd = block.subarray(0, held).indexOf(LINE_END);
        const passed = lineEnd < 0 ? held : lineEnd + 1;
        tooLong += passed;
        if (lineEnd >= 0 || isEnd) {
          yield { bytes: Buffer.alloc(0), offset: offset + passed, isLast: isEnd && passed === held, tooLong };
          tooLong = 0;
        }
        block.copy(block, 0, passed, held);
        held -= passed;
        offset += passed;
        if (isEnd && held === 0) return;
        if (tooLong > 0 || !isEnd) continue;
      }
      if (isEnd) {
        yield { bytes: block.subarray(0, held), offset, isLast: true };
        return;
      }
      if (lastEnd > 0) {
        // The caller may hand the block's memory to another thread: what is still needed of it is copied first.
        const rest = held - lastEnd;
        const next = newBlock(Math.max(blockBytes, Math.min(2 * rest, this.longestLine + 1)));
        block.copy(next, 0, lastEnd, held);
        yield { bytes: block.subarray(0, lastEnd), offset, isLast: false };
        offset += lastEnd;
        held = rest;
        block = next;
      } else if (held > this.longestLine) {
        tooLong = held;
        offset += held;
        held = 0;
        block = newBlock(blockBytes);
      }
    }
  }

  /** All of its bytes, unpacked, in pieces that end anywhere. */
  async *pieces(signal?: AbortSignal): AsyncGenerator<Buffer, undefined, undefined> {
    const feed = await this.#feedAt(0, signal);
    for (;;) {
      const piece = Buffer.allocUnsafe(LEAST_BLOCK_BYTES);
      const got = await feed.fill(piece, signal);
      if (got > 0) yield piece.subarray(0, got);
      if (got < piece.length) return;
    }
  }

  /** Bytes that may come from `begin` on. */
  #most(begin: number): number {
    return isCompressed(this.path) ? Number.POSITIVE_INFINITY : Math.max(0, this.source.bytes - begin);
  }

  /** The feed, in lines: `begin` is where one does. */
  async #linesFrom(begin: number, signal: AbortSignal | undefined): Promise<Feed> {
    if (this.kind === 'csv') return this.#feedAt(begin, signal);
    if (this.#shape === undefined) {
      const head = Buffer.allocUnsafe(SHAPE_BYTES);
      const got = await (await this.#feedAt(0, signal)).fill(head, signal);
      this.#shape = jsonShape(head.subarray(0, got));
    }
    const feed = await this.#feedAt(begin, signal);
    if (this.#shape === 'lines') return feed;
    const lines = new ValueLines(this.#shape, begin > 0);
    return {
      get position() {
        return feed.position;
      },
      fill: async (target, aborted) => {
        const got = await feed.fill(target, aborted);
        lines.take(target.subarray(0, got));
        return got;
      },
    };
  }

  async #feedAt(begin: number, signal: AbortSignal | undefined): Promise<Feed> {
    if (!isCompressed(this.path)) return plainFeed(this.source, begin);
    if (this.#feed === undefined || this.#feed.position > begin) this.#feed = packedFeed(this.source);
    const skipped = Buffer.allocUnsafe(Math.min(BLOCK_BYTES, begin));
    while (this.#feed.position < begin) {
      const wanted = Math.min(skipped.length, begin - this.#feed.position);
      if ((await this.#feed.fill(skipped.subarray(0, wanted), signal)) < wanted) break;
    }
    return this.#feed;
  }
}

/** Whether no line in it is long enough for a row, but for spaces. */
function saysNothing(bytes: Buffer, shortestRow: number): boolean {
  for (let begin = 0; begin < bytes.length; ) {
    const found = bytes.indexOf(LINE_END, begin);
    const end = found < 0 ? bytes.length : found;
    if (end - begin >= shortestRow && !isBlank(bytes, begin, end)) return false;
    begin = end + 1;
  }
  return true;
}

export function isBlank(bytes: Buffer, begin: number, end: number): boolean {
  for (let at = begin; at < end; at++) {
    const byte = bytes[at] as number;
    if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0d) return false;
  }
  return true;
}

/** No log has this many: a few packed bytes unpack to gigabytes of them. */
function emptyProblem(path: string): FileError {
  return new FileError(
    { path },
    `has ${BLOCK_BYTES} bytes of lines in a row that are blank or too short for a row: no log has, it is damaged or made to fill memory`,
  );
}

function grown(block: Buffer, held: number, longest: number): Buffer {
  const larger = Buffer.allocUnsafeSlow(Math.min(2 * block.length, longest + 1));
  block.copy(larger, 0, 0, held);
  return larger;
}

function plainFeed(source: ByteSource, begin: number): Feed {
  let position = begin;
  return {
    get position() {
      return position;
    },
    fill: async (target, signal) => {
      const count = Math.max(0, Math.min(target.length, source.bytes - position));
      if (count > 0) await source.read(target.subarray(0, count), position, { signal });
      position += count;
      return count;
    },
  };
}

const PACKED_READ_BYTES = 256 * 2 ** 10;

function packedFeed(source: ByteSource): Feed {
  const { path } = source;
  const chunks = unpacked(source);
  let chunk: Buffer = Buffer.alloc(0);
  let position = 0;
  return {
    get position() {
      return position;
    },
    fill: async (target, signal) => {
      let done = 0;
      while (done < target.length) {
        signal?.throwIfAborted();
        if (chunk.length === 0) {
          const next = await nextChunk(chunks, path);
          if (next === undefined) break;
          chunk = next;
        }
        const count = chunk.copy(target, done);
        chunk = chunk.subarray(count);
        done += count;
        position += count;
      }
      return done;
    },
  };
}

function unpacked(source: ByteSource): AsyncIterator<Buffer> {
  if (source.path.endsWith('.zst')) return unpackedZstd(source);
  const members = zippedMembers(source.path);
  if (members !== undefined) return unzippedJson(source, members);
  const stream = createGunzip();
  async function* pieces(): AsyncGenerator<Buffer> {
    for (let at = 0; at < source.bytes; at += PACKED_READ_BYTES) {
      const piece = Buffer.allocUnsafe(Math.min(PACKED_READ_BYTES, source.bytes - at));
      await source.read(piece, at);
      yield piece;
    }
  }
  pipeline(Readable.from(pieces()), stream, () => undefined);
  return stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
}

/** Undefined at the end; also where the compressed data are cut, as those of a log that is being written are. */
async function nextChunk(chunks: AsyncIterator<Buffer>, path: string): Promise<Buffer | undefined> {
  try {
    const { value, done } = await chunks.next();
    return done ? undefined : value;
  } catch (error) {
    if (error instanceof FileError) throw error;
    const { code, message } = error as { code?: string; message: string };
    if (code === 'Z_BUF_ERROR') return undefined;
    throw new FileError({ path }, `the compressed data are damaged: ${message}`, { cause: error });
  }
}
