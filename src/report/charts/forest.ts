// Draws what correlates with success over a run's steps: RAGEN-2's correlations, with their intervals.
import type { RunHead } from '../report.js';
import type { ChartOption, ChartTable, Shape, Size } from './chart-option.js';
import { inWords } from './number-text.js';
import { dot, pixelDrawing, stroke, words } from './pixel-drawing.js';
import type { Theme } from './theme.js';

type Correlations = NonNullable<RunHead['correlations']>;

const ROW = 18;
const FOOT = 26;
const MOST = 24;
/** Left of the field, in pixels. */
const NAMES = 250;

/** Those that are drawn: the strongest first. */
const shown = ({ figures }: Correlations): Correlations['figures'] => figures.slice(0, MOST);

export const forestHeight = (correlations: Correlations): number => shown(correlations).length * ROW + FOOT;

export function forestOption(correlations: Correlations, theme: Theme, size: Size): ChartOption {
  const names = Math.min(NAMES, size.width * 0.5);
  const [left, right] = [names, size.width - 24];
  const at = (value: number): number => left + ((value + 1) / 2) * (right - left);
  const rows = shown(correlations);
  const bottom = rows.length * ROW;
  const ticks = [-1, -0.5, 0, 0.5, 1];
  return pixelDrawing(theme, size, [
    ...ticks.flatMap((value): Shape[] => [
      stroke([at(value), 0], [at(value), bottom], value === 0 ? theme.guide : theme.grid),
      words(String(value), at(value), bottom + 10, theme, { align: 'center' }),
    ]),
    ...rows.flatMap(({ figure, estimate, low, high, effectiveSteps }, row): Shape[] => {
      const y = row * ROW + ROW / 2;
      const color = familyColour(figure, theme);
      const isClear = low > 0 || high < 0;
      const label = `${inWords(figure)} (${Math.round(effectiveSteps)})`;
      // Longer names would run into the field.
      const most = Math.floor(names / 6.2);
      return [
        words(label.length > most ? `${label.slice(0, most - 1)}…` : label, names - 8, y, theme, {
          align: 'right',
          color: theme.text,
        }),
        stroke([at(low), y], [at(high), y], color, 2),
        dot(at(estimate), y, 4, isClear ? color : theme.surface, color),
      ];
    }),
  ]);
}

function familyColour(figure: string, theme: Theme): string {
  if (/entropy|novelty/.test(figure)) return theme.entropy;
  return /^(mi_|retrieval|specificity|half_split|margin|posterior)|information/.test(figure) ? theme.mi : theme.muted;
}

export function forestTable(correlations: Correlations): ChartTable {
  return {
    columns: ['figure', 'Spearman', 'low', 'high', 'steps', 'effective steps'],
    rows: correlations.figures.map(({ figure, estimate, low, high, steps, effectiveSteps }) => {
      return [figure, estimate, low, high, steps, effectiveSteps];
    }),
  };
}
