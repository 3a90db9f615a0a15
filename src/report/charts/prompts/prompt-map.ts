// Every prompt of every step as a cell: which prompts still teach something, and when that ends.
import type { PromptTable } from '../../report.js';
import type { ChartOption, ChartTable, Shape, Size } from '../chart-option.js';
import { viridis } from '../colour-scales.js';
import { pixelDrawing, stroke, words } from '../pixel-drawing.js';
import type { Theme } from '../theme.js';
import { idsRecur, type PromptLayer, stepsOf } from './prompt-rows.js';

export const LAYERS: Readonly<Record<PromptLayer, string>> = {
  rewardStd: 'reward spread (std)',
  rewardMean: 'reward mean',
  mi: 'MI, nats a response',
  kept: 'kept by the filter',
};

export interface PromptMapData {
  readonly table: PromptTable;
  readonly layer: PromptLayer;
  /** Rows are prompts, where their ids recur; else ranks within each step, the largest first. */
  readonly by: 'rank' | 'prompt';
}

const LEFT = 40;
const FOOT = 40;
const MOST_ROWS = 128;

/** Columns of values from the top down, a step each. */
function columnsOf({ table, layer, by }: PromptMapData): { step: number; values: number[] }[] {
  const value = (at: number): number => {
    if (layer !== 'kept') return table[layer][at] as number;
    return table.kept[at] === 2 ? Number.NaN : (table.kept[at] as number);
  };
  return [...stepsOf(table)].map(([step, rows]) => {
    if (by === 'prompt' && idsRecur(table)) {
      const values = new Array<number>(table.ids.length).fill(Number.NaN);
      for (const at of rows) values[table.prompt[at] as number] = value(at);
      return { step, values };
    }
    const sorted = rows.map(value).sort((a, b) => (Number.isNaN(a) ? 1 : Number.isNaN(b) ? -1 : b - a));
    return { step, values: sorted };
  });
}

export function promptMapOption(data: PromptMapData, theme: Theme, size: Size): ChartOption {
  const columns = columnsOf(data);
  const rows = Math.min(MOST_ROWS, Math.max(1, ...columns.map(({ values }) => values.length)));
  const [width, height] = [size.width - LEFT - 4, size.height - FOOT - 4];
  const [cellWidth, cellHeight] = [width / Math.max(1, columns.length), height / rows];
  const all = columns.flatMap(({ values }) => values).filter((value) => !Number.isNaN(value));
  const [least, most] = [Math.min(0, ...all), Math.max(1e-9, ...all)];
  const colour = (value: number): string => viridis((value - least) / (most - least));
  const cells = columns.flatMap(({ values }, at): Shape[] => {
    const shapes: Shape[] = [];
    for (let row = 0; row < Math.min(values.length, rows); ) {
      const fill = Number.isNaN(values[row]) ? theme.grid : colour(values[row] as number);
      let end = row + 1;
      while (end < Math.min(values.length, rows)) {
        const next = Number.isNaN(values[end]) ? theme.grid : colour(values[end] as number);
        if (next !== fill) break;
        end++;
      }
      const shape = {
        x: LEFT + at * cellWidth,
        y: 4 + row * cellHeight,
        width: cellWidth + 0.3,
        height: (end - row) * cellHeight + 0.3,
      };
      shapes.push({ type: 'rect', shape, style: { fill } });
      row = end;
    }
    return shapes;
  });
  const bottom = size.height - FOOT;
  const legend = 60;
  return pixelDrawing(theme, size, [
    ...cells,
    words(String(columns[0]?.step ?? ''), LEFT, bottom + 12, theme),
    words(String(columns.at(-1)?.step ?? ''), LEFT + width, bottom + 12, theme, { align: 'right' }),
    words(data.by === 'rank' ? 'rank in the step' : 'prompt', 12, 4 + height / 2, theme, {
      align: 'center',
      turned: true,
    }),
    ...Array.from({ length: 20 }, (_, at) => ({
      type: 'rect',
      shape: { x: LEFT + (at * legend) / 20, y: bottom + 24, width: legend / 20 + 0.5, height: 8 },
      style: { fill: colour(least + ((at + 0.5) / 20) * (most - least)) },
    })),
    words(`${trimmed(least)} to ${trimmed(most)}: ${LAYERS[data.layer]}`, LEFT + legend + 8, bottom + 28, theme),
  ]);
}

const trimmed = (value: number): string => String(Number(value.toPrecision(3)));

/** Shares of what each prompt's rewards are like, one above the other over the steps. */
export function triageOption(table: PromptTable, theme: Theme, size: Size): ChartOption {
  const steps = [...stepsOf(table)];
  const [width, height] = [size.width - LEFT - 4, size.height - FOOT - 4];
  const order = table.causes.map((cause, at) => ({ cause, at })).sort((a, b) => (a.cause < b.cause ? -1 : 1));
  const x = (at: number): number => LEFT + (steps.length < 2 ? 0 : (at / (steps.length - 1)) * width);
  const floor = new Float64Array(steps.length);
  const bottom = 4 + height;
  const shapes = order.flatMap(({ cause, at: code }, place): Shape[] => {
    const below = floor.map((share) => bottom - share * height);
    for (const [at, [, rows]] of steps.entries()) {
      floor[at] = (floor[at] as number) + rows.filter((row) => table.cause[row] === code).length / rows.length;
    }
    const above = floor.map((share) => bottom - share * height);
    const points = [...[...above].map((y, at) => [x(at), y]), ...[...below].map((y, at) => [x(at), y]).reverse()];
    const fill = causeColour(cause, place, theme);
    return [{ type: 'polygon', shape: { points }, style: { fill, opacity: 0.75 } }];
  });
  let left = LEFT;
  const legend = order.flatMap(({ cause }, place): Shape[] => {
    const text = cause === '' ? 'not known' : cause.replaceAll('_', ' ');
    const at = left;
    left += 22 + 6.4 * text.length;
    const fill = causeColour(cause, place, theme);
    return [
      { type: 'rect', shape: { x: at, y: bottom + 22, width: 10, height: 10 }, style: { fill } },
      words(text, at + 14, bottom + 27, theme),
    ];
  });
  return pixelDrawing(theme, size, [
    ...shapes,
    ...[0, 0.5, 1].flatMap((share) => [
      stroke([LEFT, bottom - share * height], [LEFT + width, bottom - share * height], theme.grid),
      words(`${100 * share}%`, LEFT - 6, bottom - share * height, theme, { align: 'right' }),
    ]),
    words(String(steps[0]?.[0] ?? ''), LEFT, bottom + 10, theme),
    words(String(steps.at(-1)?.[0] ?? ''), LEFT + width, bottom + 10, theme, { align: 'right' }),
    ...legend,
  ]);
}

/** What needs no attention is as calm as the state that does not. */
function causeColour(cause: string, place: number, theme: Theme): string | undefined {
  if (cause === '') return theme.grid;
  return cause === 'varied' ? theme.regimes.diverse : theme.runs[place % theme.runs.length];
}

/** How the reward spread is spread: the first fifth of the steps against the last, as RAGEN-2 shows it. */
export function spreadOption(table: PromptTable, theme: Theme, size: Size): ChartOption {
  const steps = [...stepsOf(table).keys()];
  const fifth = Math.max(1, Math.floor(steps.length / 5));
  const [early, late] = [new Set(steps.slice(0, fifth)), new Set(steps.slice(-fifth))];
  const values = (of: ReadonlySet<number>): number[] =>
    [...table.rewardStd].filter((value, at) => of.has(table.step[at] as number) && !Number.isNaN(value));
  const sets = [values(early), values(late)] as const;
  const most = Math.max(1e-9, ...sets.flat());
  const bins = 12;
  const shares = sets.map((set) => {
    const counts = new Float64Array(bins);
    for (const value of set) (counts[Math.min(bins - 1, Math.floor((value / most) * bins))] as number)++;
    return counts.map((count) => count / Math.max(1, set.length));
  });
  const tallest = Math.max(1e-9, ...shares.flatMap((counts) => [...counts]));
  const [width, height] = [size.width - LEFT - 4, size.height - FOOT - 4];
  const bottom = 4 + height;
  const colours = [theme.runs[0], theme.runs[1]] as string[];
  const titles = [`first fifth (steps to ${steps[fifth - 1]})`, `last fifth (from ${steps.at(-fifth)})`];
  return pixelDrawing(theme, size, [
    stroke([LEFT, bottom], [LEFT + width, bottom], theme.guide),
    ...shares.flatMap((counts, set) =>
      [...counts].map((share, bin) => ({
        type: 'rect',
        shape: {
          x: LEFT + (bin * width) / bins + (set * width) / bins / 2.4 + 1,
          y: bottom - (share / tallest) * height,
          width: width / bins / 2.4 - 1,
          height: (share / tallest) * height,
        },
        style: { fill: colours[set] },
      })),
    ),
    words('0', LEFT, bottom + 10, theme),
    words(trimmed(most), LEFT + width, bottom + 10, theme, { align: 'right' }),
    words(`${Math.round(100 * tallest)}%`, LEFT - 4, 10, theme, { align: 'right' }),
    ...titles.flatMap((text, set) => [
      {
        type: 'rect',
        shape: { x: LEFT + set * (width / 2), y: bottom + 22, width: 10, height: 10 },
        style: { fill: colours[set] },
      },
      words(text, LEFT + set * (width / 2) + 14, bottom + 27, theme),
    ]),
  ]);
}

export function promptMapTable({ table }: Pick<PromptMapData, 'table'>): ChartTable {
  return {
    columns: ['step', 'prompt', 'rows', 'MI', 'reward mean', 'reward std', 'kept', 'cause'],
    rows: [...table.step].map((step, at) => [
      step,
      table.ids[table.prompt[at] as number] ?? '',
      table.rows[at] as number,
      table.mi[at] as number,
      table.rewardMean[at] as number,
      table.rewardStd[at] as number,
      ['no', 'yes', ''][table.kept[at] as number] as string,
      table.causes[table.cause[at] as number] ?? '',
    ]),
  };
}
