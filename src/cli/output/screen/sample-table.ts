// Shows the reports of one run under one sample label: a table of some of its steps, the trend of every figure, and
// remarks. Holds only what may be shown: cells of possible lines, and the figures behind trends.

import { MISSING } from '../../../checks/numbers.js';
import { EMPTY_FILTER_KEYS } from '../../../step/run.js';
import { allFigures } from '../../../step/step-record.js';
import type { StepReport } from '../../../step/step-report.js';
import { type Cell, type Column, layoutTable } from '../table.js';
import { type Look, plain } from '../text-style.js';
import { wrap } from '../text-wrap.js';
import { Footnotes } from './footnotes.js';
import { RowChoice } from './row-choice.js';
import { type ShownMetrics, TEXT_LABEL } from './shown-metrics.js';
import { chosenColumn, rowsColumn, type StepColumn, usualColumns } from './step-columns.js';
import { type Scales, Trends } from './trends.js';

export interface TableOptions extends Look {
  /** Rows of a run's table; undefined if the user did not say. */
  readonly rows?: number | undefined;
  /** Whether the user chose metrics: then those are shown, not the usual ones. */
  readonly chosen: boolean;
  /** Behind each p-value; 0 for none. */
  readonly permutations: number;
}

/** A run on one screen. */
const USUAL_ROWS = 12;

/** What a line of the table shows of a step. */
interface Line {
  readonly step: number;
  /** By column; where the user chose metrics, by their index in `keys`, with gaps. */
  readonly cells: readonly (Cell | undefined)[];
  readonly rows: Cell;
  readonly marks: string;
}

export class SampleTable {
  readonly trends: Trends;
  readonly #options: TableOptions;
  readonly #usual: readonly StepColumn[];
  /** If the user chose metrics: those that any step has, in the order in which they are logged. */
  readonly #keys = new Map<string, StepColumn>();
  readonly #footnotes = new Footnotes();
  readonly #lines: RowChoice<Line>;
  #lacksRows = false;

  constructor(first: ShownMetrics, options: TableOptions, scales: Scales) {
    this.#options = options;
    this.#usual = usualColumns(first, options.permutations);
    this.#lines = new RowChoice(options.rows ?? USUAL_ROWS);
    this.trends = new Trends(scales);
  }

  /** @param rank how severe the change at this step is; 0 if nothing changes */
  add(report: StepReport, metrics: ShownMetrics, rank: number): void {
    const { chosen } = this.#options;
    if (chosen)
      for (const key of chosenKeys(report, metrics)) this.#keys.set(key, this.#keys.get(key) ?? chosenColumn(key));
    const columns = this.#columns;
    // Over all steps, shown or not: a remark about a step left out must not get lost.
    const isFirst = metrics.label === (report.stepMetrics?.label ?? TEXT_LABEL);
    const ofStep = isFirst ? report.remarks : [];
    const marks = this.#footnotes.marks(report.step, [...ofStep, ...metrics.notes]);
    this.trends.add(columns, report, metrics);
    if (metrics.rows.used < metrics.rows.total) this.#lacksRows = true;
    const cells = columns.map((column) => column.cell(report, metrics));
    this.#lines.add({ step: report.step, marks, cells, rows: rowsColumn.cell(report, metrics) }, rank);
  }

  get #columns(): readonly StepColumn[] {
    return this.#options.chosen ? [...this.#keys.values()] : this.#usual;
  }

  columns(): Column[] {
    const { chosen, unicode } = this.#options;
    const shown = this.#lines.rows();
    const column = (
      { title, align, dispensable }: Pick<StepColumn, 'title' | 'align' | 'dispensable'>,
      of: (line: Line) => Cell,
    ) => {
      const cells = shown.map(of).map((cell) => (unicode ? cell : { ...cell, text: plain(cell.text) }));
      return { title, align, cells: aligned(cells), ...(dispensable !== undefined && { dispensable }) };
    };
    return [
      column({ title: 'step', align: 'right' }, ({ step }) => ({ text: String(step) })),
      ...this.#columns.map((of, at) => column(of, ({ cells }) => cells[at] ?? { text: MISSING })),
      ...(this.#lacksRows && !chosen ? [column(rowsColumn, ({ rows }) => rows)] : []),
      // Without a title, which would often be what does not fit beside the rest.
      ...(this.#footnotes.any
        ? [column({ title: '', align: 'left', dispensable: -1 }, ({ marks }) => ({ text: marks, style: 'yellow' }))]
        : []),
    ];
  }

  table(): string {
    const { chosen, paint, width } = this.#options;
    const columns = this.columns();
    const { text, leftOut } = layoutTable(columns, width, paint);
    const shown = columns[0]?.cells.length ?? 0;
    const isDoubtful = columns.some(({ cells }) => cells.some(({ text: cell }) => cell.endsWith('?')));
    const notes = [
      ...(shown < this.#lines.count ? [`${shown} of ${this.#lines.count} steps; all: --rows all.`] : []),
      ...(isDoubtful ? ['? p above 0.05: chance may have made it.'] : []),
      ...(chosen && leftOut.length > 0
        ? [`${leftOut.length} more do not fit into ${width} columns: see the trends, or --jsonl.`]
        : []),
    ];
    return [text, ...(notes.length > 0 ? [paint('dim', wrap(notes.join(' '), width, '  '))] : [])].join('\n');
  }

  get footnotes(): Footnotes {
    return this.#footnotes;
  }
}

/** A mark behind some figures of a column does not move the others. */
function aligned(cells: readonly Cell[]): Cell[] {
  if (!cells.some(({ text }) => text.endsWith('?'))) return [...cells];
  return cells.map((cell) => (cell.text.endsWith('?') ? cell : { ...cell, text: `${cell.text} ` }));
}

/** Keys of this sample that the user chose; common ones are with every sample. */
function* chosenKeys({ record, filter }: StepReport, { logged, label }: ShownMetrics): Generator<string> {
  const common = new Set<string>([...Object.keys(filter?.metrics ?? {}), ...EMPTY_FILTER_KEYS]);
  for (const key of Object.keys(allFigures(record))) if (key in logged || common.has(key)) yield key;
  for (const key of Object.keys(record.absent ?? {})) if (key.startsWith(`${label}/`)) yield key;
}
