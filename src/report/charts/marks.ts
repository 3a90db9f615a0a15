// Lines, bands and hatches that several charts draw.
import { type ChartOption, drawnSeries, type Shape } from './chart-option.js';
import { type Point, unbroken } from './visible-points.js';

/** Which axes a series belongs to. */
export type Place = Readonly<Record<'xAxisIndex' | 'yAxisIndex', number>>;

interface LineLook {
  readonly color: string;
  readonly width?: number;
  readonly type?: 'solid' | 'dashed' | 'dotted' | readonly number[];
  /** Every point of it, where they are few. */
  readonly points?: boolean;
  readonly label?: string;
}

export function line(points: readonly Point[], look: LineLook, place: Place): ChartOption {
  const { color, width = 1.6, type = 'solid', label } = look;
  return {
    type: 'line',
    silent: true,
    data: points.map(([step, value]) => [step, Number.isNaN(value) ? null : value]),
    showSymbol: look.points === true,
    symbol: 'circle',
    symbolSize: 4,
    connectNulls: false,
    lineStyle: { color, width, type },
    itemStyle: { color },
    ...(label === undefined
      ? {}
      : { endLabel: { show: true, formatter: label, color, fontSize: 11, distance: 4, padding: 0 } }),
    ...place,
  };
}

export function band(
  points: readonly (readonly [number, number, number])[],
  color: string,
  place: Place,
  opacity = 0.2,
): ChartOption {
  const parts = unbroken(points);
  return drawnSeries(
    parts.length,
    (at, drawing) => {
      const part = parts[at] as (readonly [number, number, number])[];
      const upper = part.map(([step, , high]) => drawing.coord([step, high]));
      const lower = part.map(([step, low]) => drawing.coord([step, low])).reverse();
      return { type: 'polygon', shape: { points: [...upper, ...lower] }, style: { fill: color, opacity } };
    },
    { ...place, z: 1 },
  );
}

/** Circles that are not filled. */
export function hollowPoints(points: readonly Point[], color: string, surface: string, place: Place): ChartOption {
  return {
    type: 'scatter',
    silent: true,
    data: points,
    symbolSize: 7,
    itemStyle: { color: surface, borderColor: color, borderWidth: 1.5 },
    z: 4,
    ...place,
  };
}

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** Marks that distinguish states without colours: T is hatched, L hatched both ways, C dotted across. */
const HATCHES: Readonly<Record<string, readonly ('/' | '\\' | '-')[]>> = {
  template_collapse: ['/'],
  low_entropy_collapse: ['/', '\\'],
  compressed: ['-'],
};

const HATCH_GAP = 7;
/** A line of hatch every few pixels would fill a file. */
const MOST_HATCHES = 400;

export function hatch(state: string, { x, y, width, height }: Box, color: string): Shape[] {
  const gap = Math.max(HATCH_GAP, width / MOST_HATCHES);
  const stroke = (x1: number, y1: number, x2: number, y2: number): Shape => {
    return {
      type: 'line',
      silent: true,
      shape: { x1, y1, x2, y2 },
      style: { stroke: color, lineWidth: 1, opacity: 0.5 },
    };
  };
  return (HATCHES[state] ?? []).flatMap((way) => {
    if (way === '-') return [stroke(x, y + height / 2, x + width, y + height / 2)];
    const lines: Shape[] = [];
    // From the lower edge up; where it would leave the box at a side, it ends there.
    for (let at = -height; at < width; at += gap) {
      const [begin, end] = [Math.max(0, at), Math.min(width, at + height)];
      if (end <= begin) continue;
      const [from, to] = [begin - at, end - at];
      lines.push(
        way === '/'
          ? stroke(x + begin, y + height - from, x + end, y + height - to)
          : stroke(x + begin, y + from, x + end, y + to),
      );
    }
    return lines;
  });
}
