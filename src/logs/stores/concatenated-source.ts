// Joins several sources into one: each has its own range of positions, far enough apart that no read takes two.
import { FileError } from '../../checks/errors.js';
import type { ByteSource, ReadOptions } from './byte-source.js';

/** Positions between parts: more than a reader skips to read two tensors at once. */
const GAP = 2 ** 20;

/** A source that stays open, or one that is opened for each read: a step of many small files then holds one handle. */
export type Part = {
  readonly path: string;
  readonly bytes: number;
} & (
  | { readonly source: ByteSource; readonly open?: undefined }
  | { readonly open: () => Promise<ByteSource>; readonly source?: undefined }
);

export class ConcatenatedSource implements ByteSource {
  readonly path: string;
  readonly bytes: number;
  readonly revision: string;
  readonly stamp: string;
  /** In rising order of `begin`. */
  readonly #parts: { begin: number; part: Part }[] = [];
  #end = 0;

  /** `first` lies at its own positions; it is what the others must stay unchanged with. */
  constructor(private readonly first: ByteSource) {
    const { path, bytes, revision, stamp } = first;
    this.path = path;
    this.bytes = bytes;
    this.revision = revision;
    this.stamp = stamp;
    this.add({ path, bytes, source: first });
  }

  /** @returns the position of its first byte */
  add(part: Part): number {
    const begin = this.#end;
    this.#parts.push({ begin, part });
    this.#end = begin + Math.ceil(part.bytes / GAP) * GAP + GAP;
    return begin;
  }

  async read(target: Uint8Array, position: number, options: ReadOptions = {}): Promise<void> {
    const { begin, part } = this.#at(position);
    if (position + target.length > begin + part.bytes) {
      const problem = `${target.length} bytes are wanted from here, but it has only ${part.bytes}`;
      throw new FileError({ path: part.path, offset: position - begin }, problem);
    }
    if (part.source !== undefined) return part.source.read(target, position - begin, options);
    const source = await part.open();
    try {
      await source.read(target, position - begin, options);
      await source.checkUnchanged();
    } finally {
      await source.close();
    }
  }

  placeOf(position: number): { path: string; offset: number } {
    const { begin, part } = this.#at(position);
    return { path: part.path, offset: position - begin };
  }

  openFile(position: number): { fd: number; offset: number } | undefined {
    const { begin, part } = this.#at(position);
    return part.source?.openFile?.(position - begin);
  }

  checkUnchanged(): Promise<void> {
    return this.first.checkUnchanged();
  }

  async close(): Promise<void> {
    for (const { part } of this.#parts.slice(1)) await part.source?.close();
    await this.first.close();
  }

  #at(position: number): { begin: number; part: Part } {
    const found = this.#parts.findLast(({ begin }) => begin <= position);
    if (found === undefined) throw new RangeError(`position ${position}`);
    return found;
  }
}
