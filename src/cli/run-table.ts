// The reports of one run -> what a person reads: a line a step, the trend of every figure, and what to know about them.
import { dirname } from 'node:path';
import type { StepReport } from '../analysis/step-report.js';
import type { StepMetrics } from '../metrics/step-metrics.js';
import { shortNumber } from './number-format.js';
import { runVerdicts } from './run-verdicts.js';
import { sparkline } from './sparkline.js';
import { chosenColumns, type StepColumn, usualColumns } from './step-columns.js';
import { type Cell, type Column, layoutTable } from './table.js';
import type { Paint } from './text-style.js';
import { wrap } from './text-wrap.js';

export interface TableOptions {
  /** Show every n-th step (and the last); trends are over all. */
  readonly every: number;
  /** Whether the user chose metrics: then those are shown, not the usual ones. */
  readonly chosen: boolean;
  readonly unicode: boolean;
  readonly paint: Paint;
}

/** Wide enough for the usual columns, narrow enough for a terminal beside a notebook. */
export const TABLE_WIDTH = 100;
const SPARKLINE_WIDTH = 60;

/** @param reports of one run, in order, at least one */
export function runTable(reports: readonly StepReport[], options: TableOptions): string {
  const first = reports[0] as StepReport;
  const labels = [...new Set(reports.flatMap(({ metrics }) => metrics.map(({ label }) => label)))];
  const parts = labels.map((label) => {
    const steps = reports.flatMap((report) => {
      const metrics = report.metrics.find((sample) => sample.label === label);
      return metrics === undefined ? [] : [{ report, metrics }];
    });
    return sampleTable(steps, labels.length > 1 ? label : undefined, options);
  });
  const verdicts = runVerdicts(reports, options.paint);
  return [heading(first, reports, options), ...parts, ...(verdicts === undefined ? [] : [verdicts])].join('\n\n');
}

function heading(first: StepReport, reports: readonly StepReport[], { paint }: TableOptions): string {
  const prompts = [...new Set(reports.map(({ metrics }) => metrics[0]?.columns.total ?? 0))].sort((a, b) => a - b);
  const range = prompts.length > 1 ? `${prompts[0]} to ${prompts.at(-1)}` : `${prompts[0]}`;
  const profile = first.metrics[0]?.profile ?? 'strict';
  const steps = reports.length === 1 ? '1 step' : `${reports.length} steps`;
  const facts = `${steps}, ${range} prompts a step, profile ${profile}`;
  return `${paint('bold', first.run)}  ${paint('dim', `${dirname(first.file)}: ${facts}`)}`;
}

interface SampledStep {
  readonly report: StepReport;
  readonly metrics: StepMetrics;
}

function sampleTable(steps: readonly SampledStep[], label: string | undefined, options: TableOptions): string {
  const { every, chosen, paint } = options;
  const shownColumns = chosen
    ? chosenColumns(chosenKeys(steps, label))
    : usualColumns((steps[0] as SampledStep).metrics);
  const shown = steps.filter((_, at) => at % every === 0 || at === steps.length - 1);
  const footnotes = new Footnotes();
  // Over all steps, shown or not: a remark about a step left out must not get lost.
  const marks = new Map(steps.map((step) => [step, footnotes.marks(step)]));
  const column = (title: string, align: Column['align'], cellOf: (step: SampledStep) => Cell): Column => ({
    title,
    align,
    cells: shown.map(cellOf),
  });
  const columns: Column[] = [
    column('step', 'right', ({ report }) => ({ text: String(report.step) })),
    ...shownColumns.map((c) => column(c.title, c.align, ({ report, metrics }) => c.cell(report, metrics))),
  ];
  if (footnotes.any) {
    columns.push(column('notes', 'left', (step) => ({ text: marks.get(step) as string, style: 'yellow' })));
  }
  const parts = [layoutTable(columns, TABLE_WIDTH, paint)];
  if (steps.length > 1) parts.push(trends(steps, shownColumns, options));
  if (footnotes.any) parts.push(footnotes.text());
  return (label === undefined ? '' : `  ${label}\n`) + parts.join('\n');
}

/** Keys of this sample that the user chose, in the order in which they are logged; common ones stand with every sample. */
function chosenKeys(steps: readonly SampledStep[], label: string | undefined): string[] {
  const keys = new Set<string>();
  for (const { report, metrics } of steps) {
    for (const key of Object.keys(report.record)) {
      if (key in metrics.logged || key in (report.filter?.metrics ?? {})) keys.add(key);
    }
    for (const key of Object.keys(report.record.absent ?? {})) {
      if (label === undefined || key.startsWith(`${label}/`)) keys.add(key);
    }
  }
  return [...keys];
}

function trends(
  steps: readonly SampledStep[],
  columns: readonly StepColumn[],
  { unicode, paint }: TableOptions,
): string {
  const series = columns.flatMap(({ title, figure }) =>
    figure === undefined ? [] : [{ title, values: steps.map(({ report, metrics }) => figure(report, metrics)) }],
  );
  const widest = Math.max(...series.map(({ title }) => title.length), 0);
  const arrow = unicode ? '→' : '->';
  const lines = series.flatMap(({ title, values }) => {
    const finite = values.filter((value) => value !== undefined && Number.isFinite(value));
    if (finite.length === 0) return [];
    const line = sparkline(values, SPARKLINE_WIDTH, unicode);
    return [`    ${title.padEnd(widest)}  ${line}  ${shortNumber(finite[0])} ${arrow} ${shortNumber(finite.at(-1))}`];
  });
  const from = (steps[0] as SampledStep).report.step;
  const to = (steps.at(-1) as SampledStep).report.step;
  return [paint('dim', `  trend, step ${from} to ${to}`), ...lines].join('\n');
}

/** Remarks about steps, each kind under one letter. */
class Footnotes {
  /** By the remark with its numbers taken out: remarks that differ in nothing else are of one kind. */
  readonly #kinds = new Map<string, { mark: string; example: string; steps: number[] }>();

  get any(): boolean {
    return this.#kinds.size > 0;
  }

  marks({ report, metrics }: SampledStep): string {
    return metrics.notes.map((note) => this.#mark(note, report.step)).join('');
  }

  #mark(note: string, step: number): string {
    const kind = note.replace(/[0-9][0-9.,e+-]*/g, '#');
    let entry = this.#kinds.get(kind);
    if (entry === undefined) {
      entry = { mark: String.fromCharCode('a'.charCodeAt(0) + this.#kinds.size), example: note, steps: [] };
      this.#kinds.set(kind, entry);
    }
    entry.steps.push(step);
    return entry.mark;
  }

  text(): string {
    return [...this.#kinds.values()]
      .map(({ mark, example, steps }) => {
        const where = steps.length === 1 ? `step ${steps[0]}` : `${steps.length} steps, first step ${steps[0]}`;
        return wrap(`${where}: ${example}`, TABLE_WIDTH, `  ${mark}  `);
      })
      .join('\n');
  }
}
