// Draws further figures of a run's logs: format validity beside MI, and how long and how repetitive responses are.
import type { RunData } from '../report.js';
import { baseOption, type ChartOption, type ChartTable, plainAxis } from './chart-option.js';
import { lastMeasured } from './measured-points.js';
import { percentText } from './number-text.js';
import { miAxis } from './step-words.js';
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
    yAxis: { ...plainAxis(theme), ...middle, nameGap: 34, name: `${miAxis(run.head)}, nats` },
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

/** What the last measured step cost, and what was left out of it. */
export function costSentence(run: RunData): string | undefined {
  const { steps, figures } = run;
  const at = lastMeasured(run);
  const value = (name: string): number => figures[name]?.[at] ?? Number.NaN;
  const [total, used, pairs, saved, bound] = ['rows', 'rows_used', 'pairs', 'pairs_saved', 'bound'].map(value) as [
    number,
    number,
    number,
    number,
    number,
  ];
  if (run.head.instrument === 'texts' || Number.isNaN(total)) return undefined;
  const rows = `${total} rows, ${total - used} of them left out`;
  if (!Number.isNaN(pairs)) {
    const share = percentText(1 - saved);
    return `Step ${steps[at]}: ${rows}; ${pairs} pairs of row and prompt were scored, ${share} of all.`;
  }
  if (Number.isNaN(bound)) return `Step ${steps[at]}: ${rows}.`;
  const prompts = Math.round(Math.exp(bound));
  return `Step ${steps[at]}: ${rows}; scored under each of ${prompts} prompts, ${total * prompts} pairs.`;
}

export function healthTable({ steps, figures }: RunData): ChartTable {
  const names = ['mi', 'valid', 'rows', 'rows_used', 'length', 'repetition', 'template', 'pairs', 'pairs_saved'].filter(
    (name) => name in figures,
  );
  const rows = [...steps].map((step, at) => [step, ...names.map((name) => figures[name]?.[at] ?? Number.NaN)]);
  return { columns: ['step', ...names.map((name) => name.replaceAll('_', ' '))], rows };
}
