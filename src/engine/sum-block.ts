// What a block holds whole, rows and leaves of longer rows -> their sums, read where they stand.
import type { Engine } from './engine.js';
import { findInvalid, type InvalidToken } from './invalid-tokens.js';
import { holdsLeaf, LEAF_TOKENS, leafLength, wholeLeaves } from './leaf-grid.js';
import type { StepSums } from './step-sums.js';
import type { HostTensor } from './tensor.js';
import type { HostView } from './tensor-view.js';
import { type CheckedBlock, expectMemory } from './token-block.js';

/** What a block gives before it is taken in. */
export interface BlockSums {
  /** Positions of the rows, their leaf (undefined: whole rows), and sums [r, p] at all positions of the block. */
  readonly at: readonly number[];
  readonly leaf: number | undefined;
  readonly sums: HostTensor;
}

/**
 * @param lengths tokens of each row of the step
 * @param step takes sums of whole rows straight where it can; the others are returned
 */
export async function sumBlock(
  engine: Engine,
  block: CheckedBlock,
  lengths: Float64Array,
  step: StepSums,
  signal: AbortSignal,
): Promise<{ summed: BlockSums[]; invalid: InvalidToken[] }> {
  const summed: BlockSums[] = [];
  const invalid: InvalidToken[] = [];
  if (block.whole.length > 0)
    invalid.push(...(await sumWholeRows(engine, block, step, lengths.length, summed, signal)));
  for (const leaf of wholeLeaves(block.parts, lengths)) {
    for (const found of await sumLeaf(engine, block, lengths, leaf, summed, signal)) invalid.push(found);
  }
  return { summed, invalid };
}

async function sumWholeRows(
  engine: Engine,
  block: CheckedBlock,
  step: StepSums,
  stepRows: number,
  summed: BlockSums[],
  signal: AbortSignal,
): Promise<InvalidToken[]> {
  const { view, prompts, rows, whole, wholeLengths: lengths } = block;
  const columns = prompts.indices;
  // Straight into the result where no cell in between belongs to another block.
  if (rows.first !== undefined && block.parts.length === 0 && whole.length === rows.indices.length) {
    const out = step.rows(engine, rows.first, lengths.length);
    const stepPrompts = out.shape[1] as number;
    const { firstInvalid } = await engine.sumTokens(view, lengths, { out, columns, signal });
    if (firstInvalid === null) return [];
    const sumAt = (at: number, column: number) => out.data[at * stepPrompts + (columns[column] as number)] as number;
    return findInvalid(engine, stepRows, block, { view, lengths, sumAt, leaf: undefined }, signal);
  }
  const { sums, firstInvalid } = await engine.sumTokens(view, lengths, { signal });
  summed.push({ at: whole, leaf: undefined, sums });
  if (firstInvalid === null) return [];
  const sumAt = (at: number, column: number) => sums.data[at * columns.length + column] as number;
  return findInvalid(engine, stepRows, block, { view, lengths, sumAt, leaf: undefined }, signal);
}

/** One leaf of all rows of which the block holds that leaf whole. */
async function sumLeaf(
  engine: Engine,
  block: CheckedBlock,
  lengths: Float64Array,
  leaf: number,
  summed: BlockSums[],
  signal: AbortSignal,
): Promise<InvalidToken[]> {
  const { view, firstToken, rows, prompts, parts } = block;
  const leafLengths = new BigInt64Array(rows.indices.length);
  const at: number[] = [];
  for (const part of parts) {
    const length = lengths[part.row] as number;
    if (!holdsLeaf(part, leaf, length)) continue;
    leafLengths[part.at] = BigInt(leafLength(leaf, length));
    at.push(part.at);
  }
  const [promptCount, rowCount, tokenCount] = view.shape as [number, number, number];
  const skipped = leaf * LEAF_TOKENS - firstToken;
  expectMemory(block);
  const from: HostView = {
    ...view,
    data: view.data.subarray(skipped * (view.strides[2] as number)),
    shape: [promptCount, rowCount, Math.min(LEAF_TOKENS, tokenCount - skipped)],
  };
  const { sums, firstInvalid } = await engine.sumTokens(from, leafLengths, { signal });
  summed.push({ at, leaf, sums });
  if (firstInvalid === null) return [];
  const sumAt = (row: number, column: number) => sums.data[row * prompts.indices.length + column] as number;
  return findInvalid(engine, lengths.length, block, { view: from, lengths: leafLengths, sumAt, leaf }, signal);
}
