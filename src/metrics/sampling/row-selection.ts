// Selects the rows and columns of a step for its metrics, by profile and sampler (docs/reference/metrics.md).

import { ArgumentError } from '../../checks/errors.js';
import { maxBufferBytes } from '../../engine/memory.js';
import type { Columns } from '../columns.js';
import { renumber } from '../columns.js';
import type { Profile } from '../step-metrics.js';
import { effectiveSize, firstTurnRows, type SamplerOptions, sampleRows } from './samplers.js';
import { trajectoryIds } from './trajectory-ids.js';

export interface RowSelection {
  /** Rows of the step, in order of use; the trajectory sampler may name one more than once. */
  readonly rows: Int32Array;
  /**
   * Canonical columns, ascending; a sampler with draws names a prompt once for every draw, which weighs its share of
   * the marginal (`ragen`: in the order of the draws).
   */
  readonly columns: Int32Array;
  /** Position in `columns` of each selected row's own prompt. */
  readonly own: Int32Array;
  /** Signature of each selected column. */
  readonly signatures: Int32Array;
  /** Prompts that the selection covers, equivalent ones apart (`ragen`: draws). */
  readonly prompts: number;
  /** Rows that were there to choose from, and how many of those have reasoning. */
  readonly total: number;
  readonly valid: number;
  /** Kish's effective number of rows. */
  readonly effectiveRows: number;
}

export interface Trajectories {
  readonly episodes: ArrayLike<number | bigint>;
  readonly turns: ArrayLike<number | bigint>;
}

/** Prompts that the selected rows were sampled from, ascending, once each. */
function columnsWithRows(rows: Int32Array, own: Int32Array): Int32Array {
  return Int32Array.from(new Set(Array.from(rows, (row) => own[row] as number))).sort();
}

export function selectRows(
  columns: Columns,
  hasReasoning: (row: number) => boolean,
  profile: Profile,
  sampler: SamplerOptions | undefined,
  trajectories: Trajectories | undefined,
): RowSelection {
  const rowCount = columns.own.length;
  const usable = usableRows(rowCount, hasReasoning);
  if (sampler === undefined || trajectories === undefined) {
    // The reference knows only prompts that have rows; strict keeps every column that was scored as a distractor.
    const kept = profile === 'ragen' ? columnsWithRows(usable, columns.own) : Int32Array.from(columns.order.keys());
    // Each row is there once.
    return select(columns, usable, kept, rowCount, usable.length, usable.length);
  }
  const { turns } = trajectories;
  const episodes = trajectoryIds(columns.own, trajectories.episodes, turns);
  const rows = sampleRows(episodes, turns, sampler, hasReasoning, profile);
  if (sampler.kind === 'first_turn') {
    const first = firstTurnRows(episodes, turns);
    const valid = first.filter(hasReasoning).length;
    return select(columns, rows, columnsWithRows(rows, columns.own), first.length, valid, effectiveSize(rows));
  }
  // One column a draw: the prompts' marginal is the sampler's own distribution. `ragen` calls each draw its own prompt;
  // strict names the first draw of the prompt, so that groups are kept (docs/reference/metrics.md).
  if (rows.length ** 2 * Float64Array.BYTES_PER_ELEMENT > maxBufferBytes) {
    const most = Math.floor(Math.sqrt(maxBufferBytes / Float64Array.BYTES_PER_ELEMENT));
    const problem = `${rows.length} draws among as many prompts are more scores than one array can hold: draw at most ${most}`;
    throw new ArgumentError('sampler.n', problem);
  }
  const drawn = rows.map((row) => columns.own[row] as number);
  if (profile === 'strict') drawn.sort();
  const selection = select(columns, rows, drawn, rowCount, usable.length, effectiveSize(rows));
  return profile === 'ragen' ? { ...selection, own: Int32Array.from(rows.keys()), prompts: rows.length } : selection;
}

function usableRows(rowCount: number, hasReasoning: (row: number) => boolean): Int32Array {
  const usable = new Int32Array(rowCount);
  let count = 0;
  for (let row = 0; row < rowCount; row++) if (hasReasoning(row)) usable[count++] = row;
  return count === rowCount ? usable : usable.slice(0, count);
}

function select(
  columns: Columns,
  rows: Int32Array,
  kept: Int32Array,
  total: number,
  valid: number,
  effectiveRows: number,
): RowSelection {
  const firstAt = new Int32Array(columns.order.length).fill(-1);
  let prompts = 0;
  for (let at = 0; at < kept.length; at++) {
    const column = kept[at] as number;
    if (firstAt[column] !== -1) continue;
    firstAt[column] = at;
    prompts++;
  }
  const own = new Int32Array(rows.length);
  for (let at = 0; at < own.length; at++) own[at] = firstAt[columns.own[rows[at] as number] as number] as number;
  return {
    rows,
    columns: kept,
    own,
    signatures: renumber(kept.map((column) => columns.signatures[column] as number)),
    prompts,
    total,
    valid,
    effectiveRows,
  };
}

/** The same rows among each prompt once, however often a sampler drew it: what retrieval is asked of under `strict`. */
export function eachPromptOnce(selection: RowSelection): RowSelection {
  const { columns, own, signatures, prompts } = selection;
  if (prompts === columns.length) return selection;
  const first = Int32Array.from(columns.keys()).filter((at) => at === 0 || columns[at] !== columns[at - 1]);
  const position = new Int32Array(columns.length);
  first.forEach((at, prompt) => {
    position[at] = prompt;
  });
  return {
    ...selection,
    columns: first.map((at) => columns[at] as number),
    own: own.map((at) => position[at] as number),
    signatures: first.map((at) => signatures[at] as number),
  };
}

/** Each row once, however often a sampler drew it: what intervals and p-values are of. Columns stay. */
export function eachRowOnce(selection: RowSelection): RowSelection {
  const { rows } = selection;
  // As most are: a map of a million rows takes a third of a second.
  if (isRising(rows)) return selection;
  const first = new Map<number, number>();
  rows.forEach((row, at) => {
    if (!first.has(row)) first.set(row, at);
  });
  return first.size === rows.length ? selection : withoutRows(selection, (at) => first.get(rows[at] as number) !== at);
}

function isRising(rows: Int32Array): boolean {
  for (let at = 1; at < rows.length; at++) if ((rows[at] as number) <= (rows[at - 1] as number)) return false;
  return true;
}

/** The selection without some of its rows (given as a mask over selected rows); columns stay. */
export function withoutRows(selection: RowSelection, drop: (at: number) => boolean): RowSelection {
  const keep = Array.from(selection.rows.keys()).filter((at) => !drop(at));
  const rows = Int32Array.from(keep, (at) => selection.rows[at] as number);
  return {
    ...selection,
    rows,
    own: Int32Array.from(keep, (at) => selection.own[at] as number),
    effectiveRows: effectiveSize(rows),
  };
}
