// Sums of a block that cannot be right -> the tokens that made them so: the first NaN or +inf of a row.
import type { Engine } from './engine.js';
import { LEAF_TOKENS } from './leaf-grid.js';
import type { Tensor } from './tensor.js';
import type { HostView } from './tensor-view.js';
import { type CheckedBlock, expectMemory } from './token-block.js';

/** A NaN or +inf. */
export interface InvalidToken {
  /** prompt·R + row */
  readonly pair: number;
  readonly token: number;
}

/** What was summed of a block. */
interface SummedRows {
  readonly view: HostView;
  /** [r] tokens of each row that were summed. */
  readonly lengths: BigInt64Array;
  sumAt(row: number, prompt: number): number;
  /** Which leaf of the rows; undefined: whole rows. */
  readonly leaf: number | undefined;
}

/**
 * The engine goes by the block's order of prompts and rows; this by the step's. Of whole rows it gives the first pair, of
 * leaves every pair, as the others of a block may be undone by themselves.
 * @param stepRows R
 */
export async function findInvalid(
  engine: Engine,
  stepRows: number,
  block: CheckedBlock,
  { view, lengths, sumAt, leaf }: SummedRows,
  signal: AbortSignal,
): Promise<InvalidToken[]> {
  const { prompts, rows, packed } = block;
  const all: InvalidToken[] = [];
  const offsets = new Float64Array(lengths.length);
  for (let at = 1; at < lengths.length; at++) offsets[at] = (offsets[at - 1] as number) + Number(lengths[at - 1]);
  const [promptStride, second, third] = view.strides as [number, number, number];
  const [rowStride, tokenStride] = packed ? [0, second] : [second, third];
  const suspects: { pair: number; at: number; column: number }[] = [];
  rows.indices.forEach((row, at) => {
    if (lengths[at] === 0n) return;
    prompts.indices.forEach((prompt, column) => {
      if (!(sumAt(at, column) < Infinity)) suspects.push({ pair: prompt * stepRows + row, at, column });
    });
  });
  suspects.sort((a, b) => a.pair - b.pair);
  for (const { pair, at, column } of suspects) {
    expectMemory(block);
    const start = column * promptStride + at * rowStride + (packed ? (offsets[at] as number) * tokenStride : 0);
    const one: Tensor = {
      data: view.data.subarray(start),
      dtype: view.dtype,
      shape: [1, 1, Number(lengths[at])],
      strides: [0, 0, tokenStride],
    };
    const { firstInvalid } = await engine.sumTokens(one, lengths.subarray(at, at + 1), { signal });
    // Otherwise its sum has merely overflowed.
    if (firstInvalid !== null) all.push({ pair, token: (leaf ?? 0) * LEAF_TOKENS + firstInvalid.token });
    if (leaf === undefined && all.length > 0) return all;
  }
  return all;
}
