// Makes charts as options of ECharts from data and a theme only, so that the page, an image of it and a
// figure from Node are the same. None has a tooltip, which would take HTML: the page has its own words beside a chart.
import type { Theme } from './theme.js';

/** An option of ECharts. */
export type ChartOption = Readonly<Record<string, unknown>>;

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** What a chart draws, as a table: for those who do not see it, and for CSV. */
export interface ChartTable {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly (string | number)[])[];
}

/** What all charts have in common. */
export function baseOption(theme: Theme): ChartOption {
  return {
    animation: false,
    backgroundColor: theme.surface,
    textStyle: { fontFamily: theme.font, color: theme.text },
  };
}

/** Beside an axis, in small. */
export const axisText = (theme: Theme) => ({ color: theme.muted, fontSize: 11, fontFamily: theme.font });

/** An axis that draws only its numbers and faint lines. */
export function plainAxis(theme: Theme) {
  return {
    type: 'value',
    axisLine: { show: false },
    axisTick: { show: false },
    axisLabel: axisText(theme),
    splitLine: { lineStyle: { color: theme.grid } },
    nameTextStyle: { ...axisText(theme), color: theme.text },
  };
}

/** An element of a custom series. */
export type Shape = Readonly<Record<string, unknown>>;

/** Converts data of a custom series to pixels. */
export interface Drawing {
  coord(point: readonly number[]): [number, number];
}

/** A series that draws `count` items with our own code. */
export function drawnSeries(
  count: number,
  draw: (at: number, drawing: Drawing) => Shape | undefined,
  place: Readonly<Record<string, unknown>> = {},
): ChartOption {
  return {
    type: 'custom',
    silent: true,
    clip: true,
    // The values are looked up by their place: the item that is drawn is not a point.
    data: Array.from({ length: count }, (_, at) => at),
    encode: { x: [], y: [] },
    renderItem: (params: { dataIndex: number }, api: Drawing) => draw(params.dataIndex, api),
    ...place,
  };
}
