// Which rows and columns of a step its metrics are computed on, by profile and sampler (metrics.md §1, §3).
import type { Columns } from './columns.js';
import { renumber } from './columns.js';
import { effectiveSize, firstTurnRows, type SamplerOptions, sampleRows } from './samplers.js';
import type { Profile } from './step-metrics.js';

export interface RowSelection {
  /** Rows of the step, in order of use; the trajectory sampler may name one more than once. */
  readonly rows: Int32Array;
  /** Canonical columns; a sampler with draws names a prompt once for every draw, which weighs its share of the marginal. */
  readonly columns: Int32Array;
  /** Position in `columns` of each selected row's own prompt. */
  readonly own: Int32Array;
  /** Of each selected column. */
  readonly signatures: Int32Array;
  /** Prompts that the selection covers, equivalent ones apart. */
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
  const usable = Array.from({ length: rowCount }, (_, row) => row).filter(hasReasoning);
  if (sampler === undefined || trajectories === undefined) {
    const rows = Int32Array.from(usable);
    // The reference knows only prompts that have rows; strict keeps every column that was scored as a distractor.
    const kept = profile === 'ragen' ? columnsWithRows(rows, columns.own) : Int32Array.from(columns.order.keys());
    return select(columns, rows, kept, rowCount, usable.length);
  }
  const { episodes, turns } = trajectories;
  const rows = sampleRows(episodes, turns, sampler, hasReasoning);
  if (sampler.kind === 'first_turn') {
    const first = firstTurnRows(episodes, turns);
    const valid = first.filter(hasReasoning).length;
    return select(columns, rows, columnsWithRows(rows, columns.own), first.length, valid);
  }
  // One column a draw: the prompts' marginal is the sampler's own distribution. `ragen` calls each draw its own prompt;
  // strict names the first draw of the prompt, so that groups are kept (metrics.md §3, repair 5).
  const drawn = rows.map((row) => columns.own[row] as number);
  const selection = select(columns, rows, drawn, rowCount, usable.length);
  return profile === 'ragen' ? { ...selection, own: Int32Array.from(rows.keys()) } : selection;
}

function select(columns: Columns, rows: Int32Array, kept: Int32Array, total: number, valid: number): RowSelection {
  const firstAt = new Map<number, number>();
  kept.forEach((column, at) => {
    if (!firstAt.has(column)) firstAt.set(column, at);
  });
  return {
    rows,
    columns: kept,
    own: rows.map((row) => firstAt.get(columns.own[row] as number) as number),
    signatures: renumber(kept.map((column) => columns.signatures[column] as number)),
    prompts: firstAt.size,
    total,
    valid,
    effectiveRows: effectiveSize(rows),
  };
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
