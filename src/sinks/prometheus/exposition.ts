// The text that Prometheus scrapes (text/plain; version=0.0.4) of the last known value of every figure.
import type { StepReport } from '../../step/step-report.js';
import { LastFigures } from './last-figures.js';
import { METRIC_TABLE, type MetricRow } from './metric-table.js';

export const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

export class Exposition {
  readonly #figures = new LastFigures();

  /** @param time when the step was measured, Unix seconds */
  take(report: StepReport, time?: number): void {
    this.#figures.take(report, time);
  }

  text(): string {
    const lines: string[] = [];
    for (const row of METRIC_TABLE) {
      const values = [...this.#figures.of(row)];
      if (values.length === 0) continue;
      const { name, type, help } = row;
      lines.push(`# HELP ${name} ${help.replaceAll('\\', '\\\\')}`, `# TYPE ${name} ${type}`);
      for (const { labels, value } of values) lines.push(`${name}${labelText(row, labels)} ${numberText(value)}`);
    }
    return `${lines.join('\n')}\n`;
  }
}

function labelText({ labels }: MetricRow, values: readonly string[]): string {
  return `{${labels.map((name, at) => `${name}="${escapedLabel(values[at] as string)}"`).join(',')}}`;
}

function escapedLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}

function numberText(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  return Number.isFinite(value) ? String(value) : value > 0 ? '+Inf' : '-Inf';
}
