// Rows in; for each column (prompt of the batch), what the sums over the other columns' rows would be if it did not exist: what
// the jackknife over prompts needs.
import { type EachFigure, eachFigure, PLANNED_FIGURES, type PlannedFigure } from './figures.js';
import type { PlanLayout } from './plan.js';
import type { RowMarginal } from './row.js';
import type { RowLabels } from './row-labels.js';
import type { Interruptible } from './slices.js';
import type { Stratum } from './strata.js';

/** How many rows each canonical column has, and each signature. */
export interface RowCounts {
  readonly ofColumn: Int32Array;
  readonly ofSignature: Int32Array;
}

/** A column that is left out: its place among the row's scored prompts. */
interface LeftOut {
  readonly column: number;
  readonly at: number;
}

/** By figure, in the order of PLANNED_FIGURES: the values, then their expectations. */
type Figures = readonly number[];

const FIGURES = PLANNED_FIGURES.length;

/** Adds to each of the columns but those of one signature. Of P prompts this is done for P of them: where the time goes. */
function addToAll(
  totals: Float64Array,
  columns: Int32Array,
  signatures: Int32Array,
  but: number | undefined,
  value: number,
): void {
  for (let at = 0; at < columns.length; at++) {
    const column = columns[at] as number;
    if (signatures[column] !== but) totals[column] = (totals[column] as number) + value;
  }
}

export class ColumnSums {
  /** [columns] sums over the rows of the other columns. */
  readonly #without: EachFigure<Float64Array>;
  readonly #expectedWithout: EachFigure<Float64Array>;
  /** Canonical columns of each signature. */
  readonly #columnsOf: readonly (readonly number[])[];
  /** By own column: its strata, and of each the sums over its rows with any one of the columns left out that were not drawn. */
  readonly #unscored = new Map<number, { readonly strata: readonly Stratum[]; readonly sums: number[][] }>();

  constructor(
    private readonly layout: PlanLayout,
    private readonly counts: RowCounts,
  ) {
    const columns = layout.signatures.length;
    this.#without = eachFigure(() => new Float64Array(columns));
    this.#expectedWithout = eachFigure(() => new Float64Array(columns));
    const columnsOf: number[][] = Array.from(layout.counts, () => []);
    for (const [column, signature] of layout.signatures.entries()) columnsOf[signature]?.push(column);
    this.#columnsOf = columnsOf;
  }

  /**
   * The row's values and expectations with each column but its own left out. Columns of a stratum that were not drawn all
   * do the same: they are gathered in `#unscored` and handed out at the end.
   */
  add(row: RowLabels, expectation: EachFigure<number>): void {
    const { ownColumn, strata } = row.planned;
    const bases = strata.map(({ size }, h) => {
      if (row.scored.filter(({ stratum }) => stratum === h).length === size) return undefined;
      const base = this.#withColumnOut(row, expectation, undefined, ({ drops }) => drops.unscored[h] as number);
      const gathered = this.#unscored.get(ownColumn) ?? { strata, sums: strata.map(() => base.map(() => 0)) };
      this.#unscored.set(ownColumn, gathered);
      const sum = gathered.sums[h] as number[];
      base.forEach((value, i) => {
        sum[i] = (sum[i] as number) + value;
      });
      return base;
    });
    row.scored.forEach(({ signature, stratum }, at) => {
      const drop = ({ drops }: RowMarginal): number => (at === 0 ? drops.twin : (drops.scored[at - 1] as number));
      for (const column of this.#columnsOf[signature] ?? []) {
        if (column === ownColumn) continue;
        this.#add(column, this.#withColumnOut(row, expectation, { column, at }, drop), bases[stratum]);
      }
    });
  }

  /** To be called once, after the last row. */
  *finish(): Interruptible<{
    readonly without: EachFigure<Float64Array>;
    readonly expectedWithout: EachFigure<Float64Array>;
  }> {
    const { signatures } = this.layout;
    const columnsListed = new Map<Int32Array, Int32Array>();
    for (const { strata, sums } of this.#unscored.values()) {
      yield;
      strata.forEach(({ listed, gap }, h) => {
        const columns =
          columnsListed.get(listed) ?? Int32Array.from([...listed].flatMap((of) => [...(this.#columnsOf[of] ?? [])]));
        columnsListed.set(listed, columns);
        const sum = sums[h] as number[];
        PLANNED_FIGURES.forEach((figure, f) => {
          addToAll(this.#without[figure], columns, signatures, listed[gap], sum[f] as number);
          addToAll(this.#expectedWithout[figure], columns, signatures, listed[gap], sum[f + FIGURES] as number);
        });
      });
    }
    return { without: this.#without, expectedWithout: this.#expectedWithout };
  }

  /** @param base what the column gets at the end all the same, with those of its stratum that were not drawn */
  #add(column: number, found: Figures, base: Figures | undefined): void {
    PLANNED_FIGURES.forEach((figure, f) => {
      const [sums, expected] = [this.#without[figure], this.#expectedWithout[figure]];
      sums[column] = (sums[column] as number) + (found[f] as number) - (base?.[f] ?? 0);
      expected[column] = (expected[column] as number) + (found[f + FIGURES] as number) - (base?.[f + FIGURES] ?? 0);
    });
  }

  /** @param left undefined for a column that was not drawn */
  #withColumnOut(
    row: RowLabels,
    expectation: EachFigure<number>,
    left: LeftOut | undefined,
    drop: (marginal: RowMarginal) => number,
  ): Figures {
    const { length } = row.planned;
    const seq = drop(row.seq);
    const token = drop(row.token);
    const drops: EachFigure<number> = {
      miSeq: seq,
      miSeqLoo: drop(row.loo),
      miPerToken: seq / length,
      miToken: token,
      entropySeq: seq,
      entropyToken: token,
    };
    const own = (figure: PlannedFigure): number => row.values[figure][0] as number;
    const expect = (figure: 'miSeq' | 'miToken'): number => {
      const others = left === undefined ? expectation[figure] : this.#others(row, figure, expectation[figure], left);
      return (Number.isNaN(others) ? own(figure) : others) + drops[figure];
    };
    const expectSeq = expect('miSeq');
    const expected: EachFigure<number> = {
      miSeq: expectSeq,
      miSeqLoo: 0,
      miPerToken: expectSeq / length,
      miToken: expect('miToken'),
      entropySeq: 0,
      entropyToken: 0,
    };
    return [
      ...PLANNED_FIGURES.map((figure) => own(figure) + drops[figure]),
      ...PLANNED_FIGURES.map((figure) => expected[figure]),
    ];
  }

  /** Expectation over the labels other than the column; NaN if no other is conceivable. */
  #others(row: RowLabels, figure: PlannedFigure, whole: number, { column, at }: LeftOut): number {
    const share = row.posterior[at] as number;
    if (share === 0) return whole;
    const signature = this.layout.signatures[column] as number;
    // Columns of one prompt have their part of its weight.
    const part = (this.counts.ofColumn[column] as number) / (this.counts.ofSignature[signature] as number);
    const gone = share * part;
    if (gone === 0) return whole;
    const value = row.values[figure][at] as number;
    if (gone <= 0.5) return (whole - gone * value) / (1 - gone);
    let sum = 0;
    let left = 0;
    row.posterior.forEach((weight, i) => {
      const kept = i === at ? share * (1 - part) : weight;
      if (kept === 0) return;
      left += kept;
      sum += kept * (row.values[figure][i] as number);
    });
    return left > 0 ? sum / left : Number.NaN;
  }
}
