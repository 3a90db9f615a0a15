// Draws charts that place their shapes themselves, in pixels, without an axis of the library.
import { baseOption, type ChartOption, drawnSeries, type Shape, type Size } from './chart-option.js';
import type { Theme } from './theme.js';

export function pixelDrawing(theme: Theme, { width, height }: Size, shapes: readonly Shape[]): ChartOption {
  const axis = { type: 'value', show: false, min: 0 };
  return {
    ...baseOption(theme),
    grid: { left: 0, right: 0, top: 0, bottom: 0 },
    xAxis: { ...axis, max: width },
    yAxis: { ...axis, max: height },
    series: [drawnSeries(shapes.length, (at) => shapes[at])],
  };
}

interface WordsLook {
  readonly color?: string;
  readonly align?: 'left' | 'center' | 'right';
  readonly bold?: boolean;
  /** Quarter turns against the clock. */
  readonly turned?: boolean;
}

export function words(text: string, x: number, y: number, theme: Theme, look: WordsLook = {}): Shape {
  return {
    type: 'text',
    x,
    y,
    rotation: look.turned ? Math.PI / 2 : 0,
    style: {
      text,
      fill: look.color ?? theme.muted,
      font: `${look.bold ? '600 ' : ''}11px ${theme.font}`,
      align: look.align ?? 'left',
      verticalAlign: 'middle',
    },
  };
}

export function stroke(
  [x1, y1]: readonly [number, number],
  [x2, y2]: readonly [number, number],
  color: string,
  width = 1,
  dash?: readonly number[],
): Shape {
  return {
    type: 'line',
    shape: { x1, y1, x2, y2 },
    style: { stroke: color, lineWidth: width, ...(dash === undefined ? {} : { lineDash: dash }) },
  };
}

export const dot = (x: number, y: number, r: number, fill: string, border = fill): Shape => {
  return { type: 'circle', shape: { cx: x, cy: y, r }, style: { fill, stroke: border, lineWidth: 1.5 } };
};
