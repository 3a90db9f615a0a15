// The leaves of a row: runs of tokens that are summed by themselves, and which of them a part of the row holds whole.
import type { PartOfRow } from './token-block.js';

/**
 * Tokens of a row that native code adds up by themselves before it adds them to the row's sum (kLeafTokens in
 * native/engine/simd/kernel_table.h): the sum of a row is the sum of its leaves' sums in order, to the bit.
 */
export const LEAF_TOKENS = 4096;

/** Tokens of one leaf; the row's last may be short. */
export function leafLength(leaf: number, rowLength: number): number {
  return Math.min(LEAF_TOKENS, rowLength - leaf * LEAF_TOKENS);
}

export function holdsLeaf({ from, to }: Pick<PartOfRow, 'from' | 'to'>, leaf: number, rowLength: number): boolean {
  const begin = leaf * LEAF_TOKENS;
  return begin < rowLength && from <= begin && to >= begin + leafLength(leaf, rowLength);
}

/** Leaves that the block holds whole of some row, ascending. */
export function wholeLeaves(parts: readonly PartOfRow[], lengths: Float64Array): number[] {
  const leaves = new Set<number>();
  for (const part of parts) {
    for (let leaf = Math.ceil(part.from / LEAF_TOKENS); leaf * LEAF_TOKENS < part.to; leaf++) {
      if (holdsLeaf(part, leaf, lengths[part.row] as number)) leaves.add(leaf);
    }
  }
  return [...leaves].sort((a, b) => a - b);
}
