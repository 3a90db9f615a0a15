// Numbers prompts so that equal token ids share a number. Compares bytes found by checksum: writing ids as text takes
// ten times as long, and V8 hashes a text of more than 16,383 characters by its length only.
import { types } from 'node:util';
import { crc32 } from 'node:zlib';
import type { Integers } from '../../engine/tensor/tensor.js';

/** Numbers from 0 on, in the order in which different prompts come. */
export class EqualPrompts {
  readonly #known = new Map<number, { bytes: Uint8Array; number: number }[]>();
  /** Ids that 32 bits do not hold: hashes of prompts, say. */
  readonly #wide = new Map<string, number>();
  #count = 0;

  /** @param wide the ids of a prompt with one that 32 bits do not hold, looked at */
  numberOf(tokens: Integers, wide: () => ArrayLike<number | bigint>): number {
    const words = types.isInt32Array(tokens) ? tokens : narrowed(tokens);
    if (words === undefined) return this.#numberOfWide(Array.from(wide()).join(','));
    const bytes = Buffer.from(words.buffer, words.byteOffset, words.byteLength);
    const checksum = crc32(bytes);
    const candidates = this.#known.get(checksum) ?? [];
    const same = candidates.find((other) => bytes.equals(other.bytes));
    if (same !== undefined) return same.number;
    candidates.push({ bytes, number: this.#count });
    this.#known.set(checksum, candidates);
    return this.#count++;
  }

  #numberOfWide(text: string): number {
    const known = this.#wide.get(text);
    if (known !== undefined) return known;
    this.#wide.set(text, this.#count);
    return this.#count++;
  }
}

/** The same ids in 32 bits; undefined if one is not an integer, or does not fit. */
export function narrowed(tokens: Exclude<Integers, Int32Array>): Int32Array | undefined {
  const words = new Int32Array(tokens.length);
  for (let at = 0; at < words.length; at++) {
    const id: unknown = tokens[at];
    const value = typeof id === 'bigint' ? Number(id) : id;
    if (typeof value !== 'number' || value !== (value | 0)) return undefined;
    words[at] = value;
  }
  return words;
}
