// Leaves of rows that come in pieces: begun with their first piece, ready when no token is missing, then summed a slab at
// a time.
import type { BegunRow, WaitingLeaf } from './begun-row.js';
import type { Engine } from './engine.js';
import type { InvalidToken } from './invalid-tokens.js';
import { LEAF_TOKENS } from './leaf-grid.js';
import { LeafSlabs } from './leaf-slabs.js';
import type { HostTensor } from './tensor.js';

/** Leaves that are ready, all of one slab. */
export interface ReadyLeaves {
  readonly slab: HostTensor;
  readonly leaves: WaitingLeaf[];
}

export class WaitingLeaves {
  #slabs: LeafSlabs | undefined;
  #tokens = 0;
  #ready: WaitingLeaf[] = [];

  /** Tokens that were taken in, of leaves that are not summed. */
  get tokens(): number {
    return this.#tokens;
  }

  /** Memory set aside for the leaves. */
  get bytes(): number {
    return this.#slabs?.bytes ?? 0;
  }

  get hasReady(): boolean {
    return this.#ready.length > 0;
  }

  /**
   * A leaf to write to, begun unless it is; end with takeIn() or drop().
   * @param length tokens of the leaf
   */
  write(engine: Engine, row: BegunRow, pair: number, leaf: number, length: number): WaitingLeaf {
    for (const begun of row.waiting) {
      if (begun.leaf !== leaf) continue;
      begun.writers++;
      return begun;
    }
    this.#slabs ??= new LeafSlabs((dtype, elements) => engine.alloc(dtype, [elements]));
    const place = this.#slabs.reserve(row.dtype, length);
    const waiting: WaitingLeaf = { pair, row, leaf, length, place, missing: length, writers: 1 };
    row.waiting.push(waiting);
    return waiting;
  }

  /** A writer's tokens count as there. */
  takeIn(leaf: WaitingLeaf, tokens: number): void {
    leaf.writers--;
    leaf.missing -= tokens;
    this.#tokens += tokens;
    if (leaf.missing === 0) this.#ready.push(leaf);
  }

  /** A writer's tokens do not count; a leaf that has no others has not begun. */
  drop(leaf: WaitingLeaf): void {
    leaf.writers--;
    if (leaf.writers === 0 && leaf.missing === leaf.length) this.#release(leaf);
  }

  /** What is ready, to be summed; afterwards summed() or putBack(). */
  takeReady(): ReadyLeaves[] {
    const bySlab = new Map<HostTensor, ReadyLeaves>();
    for (const leaf of this.#ready) {
      const slab = leaf.place.slab.tensor;
      const ready = bySlab.get(slab);
      if (ready === undefined) bySlab.set(slab, { slab, leaves: [leaf] });
      else ready.leaves.push(leaf);
    }
    this.#ready = [];
    return [...bySlab.values()];
  }

  putBack({ leaves }: ReadyLeaves): void {
    for (const leaf of leaves) this.#ready.push(leaf);
  }

  /** A leaf's sum is known: its tokens need wait no longer. */
  summed(leaf: WaitingLeaf): void {
    this.#tokens -= leaf.length;
    this.#release(leaf);
  }

  /** All that waits of these rows, none of which is being written. */
  forget(rows: readonly BegunRow[]): void {
    const gone = new Set(rows);
    this.#ready = this.#ready.filter(({ row }) => !gone.has(row));
    for (const { waiting } of rows) {
      for (const leaf of waiting) {
        this.#tokens -= leaf.length - leaf.missing;
        this.#slabs?.release(leaf.place);
      }
    }
  }

  clear(): void {
    this.#ready = [];
    this.#slabs = undefined;
    this.#tokens = 0;
  }

  #release(leaf: WaitingLeaf): void {
    leaf.row.waiting.splice(leaf.row.waiting.indexOf(leaf), 1);
    this.#slabs?.release(leaf.place);
  }
}

/** @returns the sums of the leaves, in their order, and what they hold of NaN and +inf */
export async function sumReadyLeaves(
  engine: Engine,
  { slab, leaves }: ReadyLeaves,
  signal: AbortSignal,
): Promise<{ sums: HostTensor['data']; invalid: InvalidToken[] }> {
  const lengths = Int32Array.from(leaves, ({ length }) => length);
  const offsets = Int32Array.from(leaves, ({ place }) => place.offset);
  const packed: HostTensor = { ...slab, shape: [1, slab.data.length] };
  const { sums, firstInvalid } = await engine.sumTokens(packed, lengths, { offsets, signal });
  const invalid: InvalidToken[] = [];
  for (const [at, { pair, leaf }] of firstInvalid === null ? [] : leaves.entries()) {
    if ((sums.data[at] as number) < Infinity) continue;
    const [length, offset] = [lengths, offsets].map((of) => of.subarray(at, at + 1)) as [Int32Array, Int32Array];
    const { firstInvalid: found } = await engine.sumTokens(packed, length, { offsets: offset, signal });
    if (found !== null) invalid.push({ pair, token: leaf * LEAF_TOKENS + found.token });
  }
  return { sums: sums.data, invalid };
}
