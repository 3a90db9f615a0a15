// A block's pieces of leaves, which must wait for the rest of their leaf -> copies of them there.
import type { BegunRow, WaitingLeaf } from './begun-row.js';
import type { Engine } from './engine.js';
import { holdsLeaf, LEAF_TOKENS, leafLength } from './leaf-grid.js';
import type { TensorData } from './tensor.js';
import { type CheckedBlock, expectMemory, type PartOfRow } from './token-block.js';
import type { WaitingLeaves } from './waiting-leaves.js';

// Elements, and pieces, that are copied before the event loop gets its turn: about a millisecond.
const COPIED_AT_ONCE = 2 ** 18;
const PIECES_AT_ONCE = 2 ** 12;

interface Piece {
  readonly leaf: WaitingLeaf;
  readonly tokens: number;
}

/** Pieces are copied until copySome() has no more; then all of them are taken in or dropped. */
export class BlockPieces {
  readonly #engine: Engine;
  readonly #waiting: WaitingLeaves;
  readonly #block: CheckedBlock;
  readonly #begun: readonly BegunRow[];
  readonly #lengths: Float64Array;
  /** What has been copied. */
  readonly #pieces: Piece[] = [];
  /** Where to go on: the position of the prompt in the block, and the part of a row under it. */
  #column = 0;
  #part = 0;

  /**
   * @param begun the rows of the block's parts, prompt by prompt
   * @param lengths tokens of each row of the step
   */
  constructor(
    engine: Engine,
    waiting: WaitingLeaves,
    block: CheckedBlock,
    begun: readonly BegunRow[],
    lengths: Float64Array,
  ) {
    this.#engine = engine;
    this.#waiting = waiting;
    this.#block = block;
    this.#begun = begun;
    this.#lengths = lengths;
  }

  /**
   * Copies on, for about a millisecond.
   * @returns whether there may be more
   * @throws {ArgumentError} if the memory has gone away since the block was checked
   */
  copySome(): boolean {
    expectMemory(this.#block);
    const { prompts } = this.#block;
    const left = { tokens: COPIED_AT_ONCE, pieces: PIECES_AT_ONCE };
    for (; this.#column < prompts.indices.length; this.#column++) {
      this.#part = this.#copyParts(this.#column, this.#part, left);
      if (left.tokens <= 0 || left.pieces <= 0) return true;
      this.#part = 0;
    }
    return false;
  }

  takeIn(): void {
    const waiting = this.#waiting;
    for (const { leaf, tokens } of this.#pieces) waiting.takeIn(leaf, tokens);
  }

  drop(): void {
    for (const { leaf } of this.#pieces) this.#waiting.drop(leaf);
  }

  /**
   * Copies parts of rows under one prompt until nothing is left to copy or of the allowance. Leaves that a part holds whole
   * are not for this.
   * @returns the part to go on with
   */
  #copyParts(column: number, next: number, left: { tokens: number; pieces: number }): number {
    const { view, prompts, parts, firstToken } = this.#block;
    const { data } = view;
    const [promptStride, rowStride, tokenStride] = view.strides as [number, number, number];
    const [engine, waiting, lengths, pieces] = [this.#engine, this.#waiting, this.#lengths, this.#pieces];
    const first = (prompts.indices[column] as number) * lengths.length;
    let at = next;
    for (; at < parts.length && left.tokens > 0 && left.pieces > 0; at++) {
      const part = parts[at] as PartOfRow;
      const begun = this.#begun[column * parts.length + at] as BegunRow;
      const length = lengths[part.row] as number;
      const start = column * promptStride + part.at * rowStride - firstToken * tokenStride;
      for (let leaf = Math.floor(part.from / LEAF_TOKENS); leaf * LEAF_TOKENS < part.to; leaf++) {
        if (holdsLeaf(part, leaf, length)) continue;
        const begin = Math.max(part.from, leaf * LEAF_TOKENS);
        const tokens = Math.min(part.to, (leaf + 1) * LEAF_TOKENS) - begin;
        const written = waiting.write(engine, begun, first + part.row, leaf, leafLength(leaf, length));
        pieces.push({ leaf: written, tokens });
        const { slab, offset } = written.place;
        const place = offset + begin - leaf * LEAF_TOKENS;
        copyTokens(data, start + begin * tokenStride, tokenStride, slab.tensor.data, place, tokens);
        left.tokens -= tokens;
        left.pieces--;
      }
    }
    return at;
  }
}

/** Copies `count` elements that stand `stride` apart. */
function copyTokens(
  from: TensorData,
  start: number,
  stride: number,
  to: TensorData,
  offset: number,
  count: number,
): void {
  // A view costs about as much as so many elements.
  if (stride === 1 && count >= 24) to.set(from.subarray(start, start + count), offset);
  else for (let at = 0; at < count; at++) to[offset + at] = from[start + at * stride] as number;
}
