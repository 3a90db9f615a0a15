// Entropy against MI, both as a share of the run's own start: the plane of RAGEN-2's first figure, with the way that a
// run took through it. Top left is template collapse.
import type { RunData } from '../report.js';
import { baseOption, type ChartOption, type ChartTable, drawnSeries, plainAxis, type Shape } from './chart-option.js';
import { dot, stroke, words } from './pixel-drawing.js';
import { distinctWords, miAxis, miName, varietyAxis, varietyName } from './step-words.js';
import type { Theme } from './theme.js';
import { nearestPlace } from './visible-points.js';

/** Percent of the start; what is less is drawn at the edge. */
const LEAST = 2;
const MOST_POINTS = 240;

interface Trail {
  readonly run: RunData;
  readonly points: readonly TrailPoint[];
}

interface TrailPoint {
  readonly step: number;
  /** Percent of the start. */
  readonly mi: number;
  readonly low: number;
  readonly high: number;
  readonly entropy: number;
}

/** A run without a start has no place in the plane. */
export const hasTrail = ({ head }: RunData): boolean =>
  head.start !== null && head.start.mi > 0 && head.start.entropy > 0;

function trailOf(run: RunData): Trail {
  const { steps, figures, head } = run;
  const start = head.start ?? { mi: Number.NaN, entropy: Number.NaN };
  const count = Math.min(steps.length, MOST_POINTS);
  const places = Array.from({ length: count }, (_, at) =>
    Math.round((at * (steps.length - 1)) / Math.max(1, count - 1)),
  );
  const share = (name: string, at: number, of: number): number => (100 * (figures[name]?.[at] ?? Number.NaN)) / of;
  const points = places.map((at) => ({
    step: steps[at] as number,
    mi: share('mi', at, start.mi),
    low: share('mi_low', at, start.mi),
    high: share('mi_high', at, start.mi),
    entropy: share('entropy', at, start.entropy),
  }));
  return { run, points: points.filter(({ mi, entropy }) => !Number.isNaN(mi) && !Number.isNaN(entropy)) };
}

const QUADRANTS = [
  ['template collapse', 'left', 'top'],
  ['diverse', 'right', 'top'],
  ['low-entropy collapse', 'left', 'bottom'],
  ['compressed', 'right', 'bottom'],
] as const;

export function planeOption(runs: readonly RunData[], theme: Theme): ChartOption {
  const trails = runs.filter(hasTrail).map(trailOf);
  const all = trails.flatMap(({ points }) => points);
  const range = (values: number[], least: number, most: number): [number, number] => {
    const low = Math.max(LEAST, Math.min(least, ...values));
    return [2 ** Math.floor(Math.log2(low)), 2 ** Math.ceil(Math.log2(Math.max(most, ...values)))];
  };
  const [left, right] = range(
    all.map(({ mi }) => mi),
    16,
    200,
  );
  const [bottom, top] = range(
    all.map(({ entropy }) => entropy),
    16,
    200,
  );
  const logAxis = (name: string, min: number, max: number) => ({
    ...plainAxis(theme),
    type: 'log',
    logBase: 2,
    min,
    max,
    name,
    nameLocation: 'middle',
    nameGap: 32,
    axisLabel: { ...plainAxis(theme).axisLabel, formatter: (value: number) => `${value}%` },
  });
  const names = (words: typeof miAxis): string =>
    distinctWords(
      trails.map(({ run }) => run),
      words,
    ).join(' or ');
  const inPlane = (value: number, low: number): number => Math.max(low, value);
  return {
    ...baseOption(theme),
    grid: { left: 60, right: 16, top: 10, bottom: 44 },
    xAxis: logAxis(`${names(miAxis)}, % of start`, left, right),
    yAxis: logAxis(`${names(varietyAxis)}, % of start`, bottom, top),
    series: [
      drawnSeries(1, (_, { coord }) => {
        const [x, y] = coord([50, 50]);
        const [x1, y1] = coord([left, top]);
        const [x2, y2] = coord([right, bottom]);
        return {
          type: 'group',
          children: [
            stroke([x, y1], [x, y2], theme.guide, 1, [4, 4]),
            stroke([x1, y], [x2, y], theme.guide, 1, [4, 4]),
            ...QUADRANTS.map(([text, side, edge]) =>
              words(text, side === 'left' ? x1 + 6 : x2 - 6, edge === 'top' ? y1 + 10 : y2 - 10, theme, {
                align: side,
              }),
            ),
          ],
        };
      }),
      ...trails.map(({ run, points }, at) =>
        drawnSeries(
          1,
          (_, { coord }) => {
            const color = theme.runs[at % theme.runs.length] as string;
            const pixels = points.map(({ mi, entropy }) => coord([inPlane(mi, left), inPlane(entropy, bottom)]));
            return {
              type: 'group',
              children: trailShapes(run, points, pixels, color, theme, (mi, entropy) =>
                coord([inPlane(mi, left), inPlane(entropy, bottom)]),
              ),
            };
          },
          { z: 3 },
        ),
      ),
    ],
  };
}

function trailShapes(
  run: RunData,
  points: readonly TrailPoint[],
  pixels: readonly [number, number][],
  color: string,
  theme: Theme,
  toPixel: (mi: number, entropy: number) => [number, number],
): Shape[] {
  const lines = pixels.slice(1).map((to, at): Shape => {
    const from = pixels[at] as [number, number];
    const line = stroke(from, to, color, 1.5);
    // The past fades.
    return { ...line, style: { ...(line.style as object), opacity: 0.25 + (0.75 * (at + 1)) / pixels.length } };
  });
  const { grade, since } = run.head.status;
  const isAlarm = grade === 'critical' || grade === 'warning';
  const place = nearestPlace(
    points.map(({ step }) => step),
    since ?? 0,
  );
  const last = points.length - 1;
  const name = run.head.name.length > 24 ? `${run.head.name.slice(0, 23)}…` : run.head.name;
  // Runs begin at one place, so they are named at their ends.
  const marks: [text: string, at: number][] = [
    ['', 0],
    ...(isAlarm && since !== null && place < last - 1 ? [[`since ${since}`, place] as [string, number]] : []),
    [`${name}, ${points[last]?.step}`, last],
  ];
  return [
    ...lines,
    ...arrowheads(pixels, color),
    ...marks.flatMap(([text, at]): Shape[] => {
      const [point, pixel] = [points[at], pixels[at]];
      if (point === undefined || pixel === undefined) return [];
      const { low, high, entropy } = point;
      const interval =
        Number.isNaN(low) || Number.isNaN(high)
          ? []
          : [stroke(toPixel(low, entropy), toPixel(high, entropy), color, 2)];
      return [
        ...interval,
        dot(pixel[0], pixel[1], at === points.length - 1 ? 5 : 3.5, at === 0 ? theme.surface : color, color),
        words(text, pixel[0] + 8, pixel[1] - 9, theme, { color: theme.text }),
      ];
    }),
  ];
}

const ARROW_EVERY = 90;
const MOST_ARROWS = 6;
const ARROW = 5;

/** Which way a trail goes: heads at even lengths of it, on parts that are long enough to show a direction. */
function arrowheads(pixels: readonly (readonly [number, number])[], color: string): Shape[] {
  const parts = pixels.slice(1).map((to, at) => ({ from: pixels[at] as readonly [number, number], to }));
  const lengths = parts.map(({ from, to }) => Math.hypot(to[0] - from[0], to[1] - from[1]));
  const total = lengths.reduce((sum, length) => sum + length, 0);
  const every = Math.max(ARROW_EVERY, total / MOST_ARROWS);
  const heads: Shape[] = [];
  let [gone, next] = [0, every / 2];
  for (const [at, { from, to }] of parts.entries()) {
    const length = lengths[at] as number;
    gone += length;
    if (gone < next || length < 2 * ARROW) continue;
    next = gone + every;
    const [x, y] = [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2];
    const [dx, dy] = [((to[0] - from[0]) / length) * ARROW, ((to[1] - from[1]) / length) * ARROW];
    const points = [
      [x + dx, y + dy],
      [x - dx - 0.7 * dy, y - dy + 0.7 * dx],
      [x - dx + 0.7 * dy, y - dy - 0.7 * dx],
    ];
    heads.push({ type: 'polygon', shape: { points }, style: { fill: color } });
  }
  return heads;
}

export function planeTable(runs: readonly RunData[]): ChartTable {
  return {
    columns: [
      ...['run', 'step'],
      ...[miName, varietyName].map((name) => `${distinctWords(runs, name).join(' or ')}, % of start`),
    ],
    rows: runs
      .filter(hasTrail)
      .map(trailOf)
      .flatMap(({ run, points }) => points.map(({ step, mi, entropy }) => [run.head.name, step, mi, entropy])),
  };
}
