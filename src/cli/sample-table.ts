// The reports of one run under one sample label -> a line a step, and below it the trend of every figure. Of each step no more is
// held than is shown: the cells of those that have a line, and the figures behind the trends.
import type { StepReport } from '../analysis/step-report.js';
import type { StepMetrics } from '../metrics/step-metrics.js';
import { Footnotes } from './footnotes.js';
import { MISSING, shortNumber } from './number-format.js';
import { sparkline } from './sparkline.js';
import { chosenColumn, type StepColumn, usualColumns } from './step-columns.js';
import { type Cell, type Column, layoutTable, TABLE_WIDTH } from './table.js';
import type { Paint } from './text-style.js';

export interface TableOptions {
  /** Show every n-th step (and the last); trends are over all. Default: every step, of long runs as few as make 200 lines. */
  readonly every?: number | undefined;
  /** Whether the user chose metrics: then those are shown, not the usual ones. */
  readonly chosen: boolean;
  readonly unicode: boolean;
  /** Most characters in a line. */
  readonly width: number;
  readonly paint: Paint;
}

/** Bars of a trend in a line of TABLE_WIDTH; a narrower one has as many fewer, but enough to show a shape. */
const SPARKLINE_WIDTH = 60;
const LEAST_SPARKLINE = 12;
/** Of a table whose user did not say how many steps it shall show. Even, see SampleTable.add. */
const MOST_LINES = 200;

/** What a line of the table shows of a step. */
interface Line {
  readonly step: number;
  /** By column; where the user chose metrics, by their index in `keys`, with gaps. */
  readonly cells: readonly (Cell | undefined)[];
  readonly marks: string;
}

export class SampleTable {
  readonly #options: TableOptions;
  readonly #usual: readonly StepColumn[];
  /** Where the user chose metrics: those that any step has, in the order in which they are logged. */
  readonly #keys = new Map<string, StepColumn>();
  readonly #footnotes = new Footnotes();
  #lines: Line[] = [];
  #every: number;
  /** The last step, where it has no line yet: it gets one if no other follows. */
  #pending: Line | undefined;
  /** By column: a figure a step, undefined where it has none. */
  readonly #figures: (number | undefined)[][] = [];
  #steps = 0;
  #firstStep = 0;
  #lastStep = 0;

  constructor(first: StepMetrics, options: TableOptions) {
    this.#options = options;
    this.#every = options.every ?? 1;
    this.#usual = usualColumns(first);
  }

  add(report: StepReport, metrics: StepMetrics): void {
    const { chosen } = this.#options;
    if (chosen)
      for (const key of chosenKeys(report, metrics)) this.#keys.set(key, this.#keys.get(key) ?? chosenColumn(key));
    const columns = chosen ? [...this.#keys.values()] : this.#usual;
    // Over all steps, shown or not: a remark about a step left out must not get lost.
    const ofStep = metrics === report.metrics[0] ? (report.notes ?? []) : [];
    const marks = this.#footnotes.marks(report.step, [...ofStep, ...metrics.notes]);
    for (const [at, { figure }] of columns.entries()) {
      if (figure === undefined) continue;
      const figures = this.#figures[at] ?? new Array<undefined>(this.#steps).fill(undefined);
      this.#figures[at] = figures;
      figures.push(figure(report, metrics));
    }
    const line = { step: report.step, marks, cells: columns.map((column) => column.cell(report, metrics)) };
    this.#pending = this.#steps % this.#every === 0 ? undefined : line;
    if (this.#pending === undefined) this.#lines.push(line);
    if (this.#options.every === undefined && this.#lines.length > MOST_LINES) {
      // The first and, as MOST_LINES is even, the newest stay.
      this.#lines = this.#lines.filter((_, at) => at % 2 === 0);
      this.#every *= 2;
    }
    if (this.#steps === 0) this.#firstStep = report.step;
    this.#lastStep = report.step;
    this.#steps++;
  }

  /** @param label where there are several samples */
  text(label: string | undefined): string {
    const { chosen, paint, unicode, width } = this.#options;
    const shown = this.#pending === undefined ? this.#lines : [...this.#lines, this.#pending];
    const shownColumns = chosen ? [...this.#keys.values()] : this.#usual;
    const column = (title: string, align: Column['align'], cellOf: (line: Line) => Cell): Column => ({
      title,
      align,
      cells: shown.map(cellOf).map((cell) => (cell.text === MISSING && !unicode ? { ...cell, text: '-' } : cell)),
    });
    const columns: Column[] = [
      column('step', 'right', ({ step }) => ({ text: String(step) })),
      ...shownColumns.map((c, at) => column(c.title, c.align, ({ cells }) => cells[at] ?? { text: MISSING })),
    ];
    // Without a title, which would often be what does not fit beside the rest.
    if (this.#footnotes.any) columns.push(column('', 'left', ({ marks }) => ({ text: marks, style: 'yellow' })));
    const parts = [layoutTable(columns, width, paint)];
    if (this.#every > (this.#options.every ?? 1)) {
      parts.push(paint('dim', `  one of every ${this.#every} steps is shown, and the last; --every 1 shows all`));
    }
    if (this.#steps > 1) parts.push(...this.#trends(shownColumns));
    if (this.#footnotes.any) parts.push(this.#footnotes.text(width));
    return (label === undefined ? '' : `  ${label}\n`) + parts.join('\n');
  }

  #trends(columns: readonly StepColumn[]): string[] {
    const { unicode, paint, width } = this.#options;
    const series = columns.flatMap(({ title, figure }, at) =>
      figure === undefined ? [] : [{ title, values: this.#figures[at] ?? [] }],
    );
    const widest = Math.max(...series.map(({ title }) => title.length), 0);
    const arrow = unicode ? '→' : '->';
    const bars = Math.max(LEAST_SPARKLINE, SPARKLINE_WIDTH - (TABLE_WIDTH - width));
    const lines = series.flatMap(({ title, values }) => {
      const finite = values.filter((value) => value !== undefined && Number.isFinite(value));
      if (finite.length === 0) return [];
      const line = sparkline(values, bars, unicode);
      return [`    ${title.padEnd(widest)}  ${line}  ${shortNumber(finite[0])} ${arrow} ${shortNumber(finite.at(-1))}`];
    });
    if (lines.length === 0) return [];
    return [paint('dim', `  trend, step ${this.#firstStep} to ${this.#lastStep}`), ...lines];
  }
}

/** Keys of this sample that the user chose; common ones stand with every sample. */
function* chosenKeys({ record, filter }: StepReport, { logged, label }: StepMetrics): Generator<string> {
  for (const key of Object.keys(record)) if (key in logged || key in (filter?.metrics ?? {})) yield key;
  for (const key of Object.keys(record.absent ?? {})) if (key.startsWith(`${label}/`)) yield key;
}
