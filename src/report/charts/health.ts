// What else a run's logs tell: format validity beside MI, and how long and how repetitive responses are.
import type { RunData } from '../report.js';
import { baseOption, type ChartOption, type ChartTable, plainAxis } from './chart-option.js';
import type { Theme } from './theme.js';

/** Whatever is logged beside MI that a glance at a dashboard would take for health. */
const BESIDE = [
  ['valid', 'share of valid formats'],
  ['length', 'response length, tokens'],
] as const;

export function healthFigure({ figures }: RunData): (typeof BESIDE)[number] | undefined {
  return BESIDE.find(([name]) => figures[name]?.some((value) => !Number.isNaN(value)));
}

/** A dot a step: a figure that cannot see a collapse has it at every height. */
export function healthOption(run: RunData, theme: Theme): ChartOption {
  const [name, title] = healthFigure(run) ?? BESIDE[0];
  const beside = run.figures[name] ?? new Float32Array();
  const points = [...beside].flatMap((value, at): [number, number][] => {
    const mi = run.figures.mi?.[at] ?? Number.NaN;
    return Number.isNaN(value) || Number.isNaN(mi) ? [] : [[value, mi]];
  });
  const middle = { nameLocation: 'middle', nameGap: 28 };
  return {
    ...baseOption(theme),
    grid: { left: 52, right: 16, top: 10, bottom: 42 },
    xAxis: {
      ...plainAxis(theme),
      ...middle,
      name: title,
      scale: true,
      ...(name === 'valid' ? { min: 0, max: 1 } : {}),
    },
    yAxis: { ...plainAxis(theme), ...middle, nameGap: 34, name: 'I(X;Z), nats' },
    series: [
      {
        type: 'scatter',
        silent: true,
        data: points.slice(-4000),
        symbolSize: 6,
        itemStyle: { color: theme.mi, opacity: 0.55 },
      },
    ],
  };
}

export function healthTable({ steps, figures }: RunData): ChartTable {
  const names = ['mi', 'valid', 'rows', 'rows_used', 'length', 'repetition', 'template'].filter(
    (name) => name in figures,
  );
  const rows = [...steps].map((step, at) => [step, ...names.map((name) => figures[name]?.[at] ?? Number.NaN)]);
  return { columns: ['step', ...names.map((name) => name.replaceAll('_', ' '))], rows };
}
