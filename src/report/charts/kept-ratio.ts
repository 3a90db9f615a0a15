// The share of prompts that the filter keeps, over the steps.
import type { RunData } from '../report.js';
import { baseOption, type ChartOption, type ChartTable, plainAxis, type Size } from './chart-option.js';
import { line } from './marks.js';
import type { Theme } from './theme.js';
import { visiblePoints } from './visible-points.js';

export const hasKeptRatio = ({ figures }: RunData): boolean =>
  figures.kept?.some((value) => !Number.isNaN(value)) === true;

export function keptRatioOption({ steps, figures }: RunData, theme: Theme, { width }: Size): ChartOption {
  const [first = 0, last = 0] = [steps[0], steps.at(-1)];
  const kept = figures.kept ?? new Float32Array(steps.length).fill(Number.NaN);
  const points = visiblePoints(steps, kept, { from: 0, to: steps.length }, Math.max(1, width - 60));
  const axis = plainAxis(theme);
  return {
    ...baseOption(theme),
    grid: { left: 44, right: 16, top: 8, bottom: 24 },
    xAxis: {
      ...axis,
      min: first,
      max: last === first ? first + 1 : last,
      axisLabel: { ...axis.axisLabel, hideOverlap: true },
    },
    yAxis: { ...axis, min: 0, max: 1, interval: 0.5 },
    series: [line(points, { color: theme.reward }, { xAxisIndex: 0, yAxisIndex: 0 })],
  };
}

export function keptRatioTable({ steps, figures }: RunData): ChartTable {
  const rows = [...steps].map((step, at) => [step, figures.kept?.[at] ?? Number.NaN, figures.gate?.[at] ?? Number.NaN]);
  return { columns: ['step', 'kept', 'filter gate'], rows };
}
