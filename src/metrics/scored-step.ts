// Sums the scores of the measured rows and columns over tokens, and lets the engine measure each row of the sums.
import { types } from 'node:util';
import type { Engine } from '../engine/engine.js';
import type { RowStats } from '../engine/operations/row-stats.js';
import { DeviceTensor } from '../engine/tensor/device-tensor.js';
import type { Tensor } from '../engine/tensor/tensor.js';
import { type Columns, countSignatures, isIdentity } from './columns.js';
import type { MetricOptions } from './cross-scores.js';
import { rowsByEquivalents } from './figures/chance.js';
import type { MeasuredStep } from './measured-step.js';
import type { CheckedScores, Lengths } from './metric-arguments.js';
import type { RowSelection } from './sampling/row-selection.js';
import { aboveZeroError, isAboveZero } from './sums-above-zero.js';

interface SummedScores {
  /** [R, P] */
  sums: Tensor;
  /** Column of `sums` of each canonical column; undefined if they are in canonical order already. */
  order: Int32Array | undefined;
  /** Where the same call has already measured the whole step. */
  measured?: ScoredStep;
}

/** The scores as sums over tokens. */
export async function summed(
  engine: Engine,
  given: CheckedScores['given'],
  lengths: Lengths,
  columns: Columns,
  selection: RowSelection,
  { signal, onProgress }: MetricOptions,
): Promise<SummedScores> {
  const { kind, tensor } = given;
  if (kind === 'sums') {
    const { data, dtype, shape, strides } = tensor;
    if (!(data instanceof DeviceTensor)) return { sums: tensor, order: columns.order };
    // Rows and columns are picked, and intervals computed, on the CPU.
    const { data: host } = await data.download({ signal });
    return { sums: { data: host, dtype, shape, ...(strides && { strides }) }, order: columns.order };
  }
  const prompts = tensor.shape[0] as number;
  const whole = isIdentity(selection.rows, lengths.length) && isIdentity(selection.columns, prompts);
  // On a GPU the statistics are made of the sums where those are; a step that is sampled or out of order takes two
  // calls.
  if (tensor.data instanceof DeviceTensor && whole && isIdentity(columns.position, prompts)) {
    const { own, signatures } = selection;
    const { sums, stats } = await engine.tokenRowStats(tensor, lengths, { own, signatures, signal, onProgress });
    const measured = scoredFrom(sums, stats, lengths, selection);
    refuseAboveZero(measured, selection, selection.columns);
    return { sums, order: undefined, measured };
  }
  // Token sums are written in canonical order.
  const { sums } = await engine.sumTokens(tensor, lengths, { columns: columns.position, signal, onProgress });
  return { sums, order: undefined };
}

/** Scores of the selected rows and columns through the engine. */
export async function measure(
  engine: Engine,
  sums: Tensor,
  order: Int32Array | undefined,
  allLengths: Lengths,
  selection: RowSelection,
  signal: AbortSignal | undefined,
): Promise<ScoredStep> {
  const [rowCount, columnCount] = sums.shape as [number, number];
  const sourceColumns = order ? selection.columns.map((at) => order[at] as number) : selection.columns;
  const dense = sums.dtype === 'float64' && sums.strides === undefined;
  const whole = isIdentity(selection.rows, rowCount) && isIdentity(sourceColumns, columnCount);
  const scores =
    dense && whole ? sums : await engine.gatherScores(sums, { rows: selection.rows, columns: sourceColumns, signal });
  const lengths = lengthsOf(allLengths, selection.rows);
  const { own, signatures } = selection;
  const stats = await engine.scoreStats(scores, { own, lengths, signatures, signal });
  const found = scoredFrom(scores, stats, lengths, selection);
  refuseAboveZero(found, selection, sourceColumns);
  return found;
}

/**
 * @param columns of the given scores that the measured ones are
 * @throws {ArgumentError} naming the first row whose highest sum is above 0
 */
function refuseAboveZero(
  { sums, stats, lengths }: ScoredStep,
  { rows }: RowSelection,
  columns: ArrayLike<number>,
): void {
  const data = sums.data as Float64Array;
  stats.argmax.forEach((column, at) => {
    const sum = data[at * stats.columns + column] as number;
    const tokens = Number(lengths[at]);
    if (!isAboveZero(sum, tokens)) return;
    throw aboveZeroError('scores', `row ${rows[at]} under prompt ${columns[column]}`, sum, tokens);
  });
}

/** What the moments of a step, and its intervals, are made of. */
export type ScoredStep = Omit<MeasuredStep, 'moments'>;

/** @param lengths of the selected rows, as those of `sums` and `stats` are */
function scoredFrom(
  sums: Tensor,
  stats: RowStats,
  lengths: Lengths,
  { own, signatures, prompts }: RowSelection,
): ScoredStep {
  const signatureCounts = countSignatures(signatures);
  const distinct = signatureCounts.filter((count) => count > 0).length;
  const rows = rowsByEquivalents(own, signatures, signatureCounts);
  return { sums, stats, own, lengths, signatures, rowsByEquivalents: rows, distinct, prompts };
}

/** Lengths of some rows. */
export function lengthsOf(lengths: Lengths, rows: Int32Array): Lengths {
  if (isIdentity(rows, lengths.length)) return lengths;
  return types.isInt32Array(lengths)
    ? Int32Array.from(rows, (row) => lengths[row] as number)
    : BigInt64Array.from(rows, (row) => lengths[row] as bigint);
}
