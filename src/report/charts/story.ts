// The story of a run: MI, entropy, retrieval and reward on one axis of steps, and below them the state and the
// verdicts, so that one sees what happened when.
import { REGIME_CODES, type RunData, type Stretch } from '../report.js';
import {
  axisText,
  baseOption,
  type ChartOption,
  drawnSeries,
  plainAxis,
  type Shape,
  type Size,
} from './chart-option.js';
import { band, hatch, hollowPoints, line, type Place } from './marks.js';
import { measuredPoints } from './measured-points.js';
import { inWords } from './number-text.js';
import { miTitle, varietyTitle } from './step-words.js';
import { LETTERS, type Theme } from './theme.js';
import { type Point, type Span, spanOf, visibleBand, visiblePoints } from './visible-points.js';

export interface StoryData {
  readonly run: RunData;
  /** Steps to show; all without. */
  readonly range?: readonly [number, number] | undefined;
}

export interface Panel {
  readonly name: 'mi' | 'entropy' | 'retrieval' | 'reward' | 'state' | 'verdicts';
  readonly top: number;
  readonly height: number;
}

export interface StoryLayout {
  readonly left: number;
  readonly right: number;
  readonly panels: readonly Panel[];
  /** Verdicts, a lane each. */
  readonly lanes: readonly Stretch[][];
}

const TITLE = 18;
const RIBBON = 18;
const LANE = 15;
const FOOT = 22;
const MOST_LANES = 4;
/** What the panels of figures get of the height. */
const SHARES = { mi: 40, entropy: 24, retrieval: 24, reward: 18 } as const;

/** Points are drawn one by one where they are fewer. */
const FEW = 130;

export function storyLayout({ run }: StoryData, { width, height }: Size): StoryLayout {
  const lanes = lanesOf(run.head.verdicts);
  const drawn = (Object.keys(SHARES) as (keyof typeof SHARES)[]).filter((name) => hasFigure(run, name));
  const total = drawn.reduce((sum, name) => sum + SHARES[name], 0);
  const below = RIBBON + 6 + Math.max(1, lanes.length) * LANE + FOOT;
  const room = height - below - drawn.length * TITLE - 6;
  const panels: Panel[] = [];
  let top = 0;
  for (const name of drawn) {
    const tall = Math.max(20, Math.floor((room * SHARES[name]) / total));
    panels.push({ name, top: top + TITLE, height: tall });
    top += TITLE + tall;
  }
  panels.push({ name: 'state', top: top + 8, height: RIBBON });
  panels.push({ name: 'verdicts', top: top + 8 + RIBBON + 4, height: Math.max(1, lanes.length) * LANE });
  const isNarrow = width < 480;
  return { left: isNarrow ? 38 : 52, right: isNarrow ? 40 : 62, panels, lanes };
}

const hasFigure = ({ figures }: RunData, name: string): boolean =>
  figures[name]?.some((value) => !Number.isNaN(value)) === true;

/** A lane a kind, alarms first; what there is no room for is in the list of verdicts. */
function lanesOf(verdicts: readonly Stretch[]): Stretch[][] {
  const lanes = new Map<string, Stretch[]>();
  const weight = { critical: 0, warning: 1, info: 2 } as const;
  for (const verdict of [...verdicts].sort((a, b) => weight[a.severity] - weight[b.severity])) {
    const lane = lanes.get(verdict.kind) ?? [];
    lane.push(verdict);
    lanes.set(verdict.kind, lane);
  }
  return [...lanes.values()].slice(0, MOST_LANES);
}

export function storyOption(data: StoryData, theme: Theme, size: Size): ChartOption {
  const { run, range } = data;
  const layout = storyLayout(data, size);
  const [first = 0, last = 0] = range ?? [run.steps[0], run.steps.at(-1)];
  const span = spanOf(run.steps, [first, last]);
  const pixels = Math.max(1, size.width - layout.left - layout.right);
  const drawing: PanelDrawing = { run, theme, span, pixels, first, last };
  const grids: ChartOption[] = [];
  const xAxes: ChartOption[] = [];
  const yAxes: ChartOption[] = [];
  const series: ChartOption[] = [];
  for (const [at, panel] of layout.panels.entries()) {
    const isLast = at === layout.panels.length - 1;
    grids.push({ left: layout.left, right: layout.right, top: panel.top, height: panel.height });
    xAxes.push({
      ...plainAxis(theme),
      gridIndex: at,
      min: first,
      max: last === first ? first + 1 : last,
      axisLabel: { ...axisText(theme), show: isLast, showMinLabel: true, showMaxLabel: true, hideOverlap: true },
      splitLine: { show: panel.name !== 'state' && panel.name !== 'verdicts', lineStyle: { color: theme.grid } },
      splitNumber: Math.max(2, Math.round(pixels / 90)),
    });
    const place = { xAxisIndex: at, yAxisIndex: yAxes.length };
    const { axes, drawn } = PANELS[panel.name](drawing, place, layout);
    for (const axis of axes) yAxes.push({ ...plainAxis(theme), gridIndex: at, ...axis });
    series.push(...drawn);
  }
  return { ...baseOption(theme), grid: grids, xAxis: xAxes, yAxis: yAxes, series };
}

interface PanelDrawing {
  readonly run: RunData;
  readonly theme: Theme;
  readonly span: Span;
  readonly pixels: number;
  readonly first: number;
  readonly last: number;
}

interface DrawnPanel {
  readonly axes: readonly ChartOption[];
  readonly drawn: readonly ChartOption[];
}

type Draw = (drawing: PanelDrawing, place: Place, layout: StoryLayout) => DrawnPanel;

const PANELS: Readonly<Record<Panel['name'], Draw>> = {
  mi(drawing, place) {
    const { run, theme } = drawing;
    const { start } = run.head;
    const most = Math.max(...extent(drawing, ['mi', 'mi_high', 'mi_most']), 1e-9);
    const bound = lastOf(run, 'bound');
    const showsBound = bound < 2.2 * most;
    const top = roundUp(1.04 * Math.max(most, showsBound ? bound : 0));
    const guides = start === null ? [] : guideLines(drawing, start.mi, place);
    return {
      axes: [
        titledAxis(theme, miTitle(run.head), {
          min: Math.min(0, ...extent(drawing, ['mi', 'mi_low', 'mi_least', 'mi_within'])),
          max: top,
        }),
      ],
      drawn: [
        ...bandOf(drawing, 'mi', theme.mi, place),
        ...guides,
        ...(showsBound
          ? [line(visible(drawing, 'bound'), { color: theme.guide, width: 1, type: 'dashed', label: 'ln P' }, place)]
          : []),
        figureLine(drawing, 'mi', theme.mi, place),
        hollow(drawing, 'mi', theme.mi, place),
        // What the start is of, where batches mix environments.
        ...(hasFigure(run, 'mi_within')
          ? [line(visible(drawing, 'mi_within'), { color: theme.mi, type: 'dotted', label: 'within' }, place)]
          : []),
      ],
    };
  },
  entropy(drawing, place) {
    const { run, theme } = drawing;
    const start = run.head.start?.entropy;
    const most = Math.max(...extent(drawing, ['entropy', 'entropy_most']), 1e-9);
    const title = varietyTitle(run.head);
    const top = roundUp(1.04 * most);
    const share = { position: 'right', min: 0, splitLine: { show: false } };
    return {
      axes: [
        titledAxis(theme, start ? `${title} · right: % of start` : title, { min: 0, max: top }),
        ...(start
          ? [
              {
                ...share,
                max: (100 * top) / start,
                interval: (100 * top) / start > 400 ? 200 : 100,
                axisLabel: { ...axisText(theme), showMaxLabel: false, formatter: percentLabel },
              },
            ]
          : []),
      ],
      drawn: [
        ...bandOf(drawing, 'entropy', theme.entropy, place),
        figureLine(drawing, 'entropy', theme.entropy, place),
      ],
    };
  },
  retrieval(drawing, place) {
    const { theme } = drawing;
    const chance = visible(drawing, 'chance');
    return {
      axes: [titledAxis(theme, 'Retrieval of the own prompt, share of responses', { min: 0, max: 1 })],
      drawn: [
        {
          ...line(chance, { color: theme.chance, width: 1, label: 'chance' }, place),
          areaStyle: { color: theme.chance, opacity: 0.25 },
        },
        ...bandOf(drawing, 'retrieval', theme.retrieval, place),
        figureLine(drawing, 'retrieval', theme.retrieval, place),
        hollow(drawing, 'retrieval', theme.retrieval, place),
      ],
    };
  },
  reward(drawing, place) {
    const { theme } = drawing;
    const [least, most] = extent(drawing, ['reward', 'reward_least', 'reward_most']);
    const isShare = least >= 0 && most <= 1;
    const [low, high] = isShare ? [0, 1] : [Math.min(0, least), Math.max(most, 0)];
    return {
      axes: [titledAxis(theme, 'Reward, mean of the batch', { min: low, max: high === low ? low + 1 : high })],
      drawn: [...bandOf(drawing, 'reward', theme.reward, place), figureLine(drawing, 'reward', theme.reward, place)],
    };
  },
  state(drawing, place) {
    const stretches = stateStretches(drawing);
    return {
      axes: [hidden(1)],
      drawn: [
        drawnSeries(
          stretches.length,
          (at, { coord }) => ribbonPart(stretches[at] as StateStretch, coord, drawing.theme),
          place,
        ),
      ],
    };
  },
  verdicts(drawing, place, { lanes }) {
    const { theme } = drawing;
    const count = Math.max(1, lanes.length);
    const verdicts = lanes.flatMap((lane, row) => lane.map((verdict) => ({ verdict, row })));
    const heightOf = (row: number): number => count - row - 0.5;
    return {
      axes: [hidden(count)],
      drawn: [
        drawnSeries(
          verdicts.length,
          (at, { coord }) => {
            const { verdict, row } = verdicts[at] as (typeof verdicts)[number];
            return laneBar(verdict, (step) => coord([step, heightOf(row)]), drawing, theme);
          },
          place,
        ),
        drawnSeries(
          lanes.length,
          (row, { coord }) => laneName(lanes[row] as Stretch[], (step) => coord([step, heightOf(row)]), drawing, theme),
          place,
        ),
      ],
    };
  },
};

const percentLabel = (value: number): string => `${Math.round(value)}%`;

/** An axis of values with its title above it; figures may lie below 0. */
export const titledAxis = (theme: Theme, name: string, limits: { min: number; max: number }): ChartOption => ({
  ...limits,
  name,
  nameLocation: 'end',
  nameGap: 5,
  nameTextStyle: { ...axisText(theme), color: theme.text, align: 'left' },
  axisTick: { show: false, customValues: [0, limits.max / 2, limits.max] },
  axisLabel: { ...axisText(theme), customValues: [0, limits.max / 2, limits.max], formatter: shortLabel },
});

/** The next number that halves well: 1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8 with any power of ten. */
export function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * (ROUND.find((step) => step * power >= value * (1 - 1e-9)) ?? 10);
}

const ROUND = [1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8];

const shortLabel = (value: number): string => String(Number(value.toPrecision(3)));

/** A hidden axis of rows. */
const hidden = (rows: number): ChartOption => ({ min: 0, max: rows, show: false });

function visible({ run, pixels, first, last }: PanelDrawing, name: string): Point[] {
  const { steps, values } = measuredPoints(run, name);
  return visiblePoints(steps, values, spanOf(steps, [first, last]), pixels);
}

function figureLine(drawing: PanelDrawing, name: string, color: string, place: Place): ChartOption {
  const points = visible(drawing, name);
  return { ...line(points, { color, points: points.length <= FEW }, place), z: 3 };
}

/** Its interval; where steps are drawn together, their range. */
function bandOf({ run, pixels, first, last }: PanelDrawing, name: string, color: string, place: Place): ChartOption[] {
  const [lower, upper] = `${name}_low` in run.figures ? ['low', 'high'] : ['least', 'most'];
  if (!(`${name}_${lower}` in run.figures) || !(`${name}_${upper}` in run.figures)) return [];
  const { steps, values: low } = measuredPoints(run, `${name}_${lower}`);
  const { values: high } = measuredPoints(run, `${name}_${upper}`);
  return [band(visibleBand(steps, low, high, spanOf(steps, [first, last]), pixels), color, place)];
}

/** Range in which chance explains the figure, as far as can be known. */
function hollow({ run, span, theme }: PanelDrawing, name: string, color: string, place: Place): ChartOption {
  const [values, ps] = [run.figures[name], run.figures[`${name}_p`]];
  const points: Point[] = [];
  if (values !== undefined && ps !== undefined && span.to - span.from <= 3 * FEW) {
    for (let at = span.from; at < span.to; at++) {
      if ((ps[at] as number) > 0.05) points.push([run.steps[at] as number, values[at] as number]);
    }
  }
  return hollowPoints(points, color, theme.surface, place);
}

function guideLines({ first, last, theme }: PanelDrawing, start: number, place: Place): ChartOption[] {
  const at = (share: number, label: string): ChartOption =>
    line(
      [
        [first, share * start],
        [last, share * start],
      ],
      { color: theme.guide, width: 1, type: [2, 3], label },
      place,
    );
  return [at(0.5, '½ of start'), at(0.75, '¾')];
}

/** Least and largest of some figures; 0 if they have no value. */
function extent({ run, span }: PanelDrawing, names: readonly string[]): [number, number] {
  let [least, most] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const name of names) {
    const column = run.figures[name];
    if (column === undefined) continue;
    for (let at = span.from; at < span.to; at++) {
      const value = column[at] as number;
      if (value < least) least = value;
      if (value > most) most = value;
    }
  }
  return least <= most ? [least, most] : [0, 0];
}

function lastOf({ figures }: RunData, name: string): number {
  return figures[name]?.findLast((value) => !Number.isNaN(value)) ?? Number.NaN;
}

interface StateStretch {
  readonly state: string;
  readonly from: number;
  readonly to: number;
}

/** Each state reaches half way to the steps beside it. */
function stateStretches({ run, first, last }: PanelDrawing): StateStretch[] {
  const { steps, values: regimes } = measuredPoints(run, 'regime');
  const span = spanOf(steps, [first, last]);
  const stretches: StateStretch[] = [];
  const edge = (at: number): number => {
    if (at <= 0) return first;
    return at >= steps.length ? last : ((steps[at - 1] as number) + (steps[at] as number)) / 2;
  };
  let begin = span.from;
  for (let at = span.from + 1; at <= span.to; at++) {
    if (at < span.to && regimes[at] === regimes[begin]) continue;
    const state = REGIME_CODES[regimes[begin] ?? 0] ?? '';
    stretches.push({ state, from: Math.max(first, edge(begin)), to: Math.min(last, edge(at)) });
    begin = at;
  }
  return stretches.filter(({ from, to }) => to > from);
}

type Coord = (point: readonly number[]) => [number, number];

function ribbonPart({ state, from, to }: StateStretch, coord: Coord, theme: Theme): Shape {
  const [x, y] = coord([from, 1]);
  const [end, bottom] = coord([to, 0]);
  const box = { x, y, width: Math.max(1, end - x), height: bottom - y };
  const fill = theme.regimes[state] ?? theme.grid;
  const letter = LETTERS[state] ?? '?';
  return {
    type: 'group',
    children: [
      { type: 'rect', shape: box, style: { fill } },
      ...hatch(state, box, theme.text),
      ...(box.width < 12
        ? []
        : [
            {
              type: 'rect',
              shape: { x: x + box.width / 2 - 7, y: y + 2, width: 14, height: box.height - 4 },
              style: { fill },
            },
            {
              type: 'text',
              style: {
                text: letter,
                x: x + box.width / 2,
                y: y + box.height / 2 + 0.5,
                fill: theme.text,
                font: `600 12px ${theme.font}`,
                align: 'center',
                verticalAlign: 'middle',
              },
            },
          ]),
    ],
  };
}

const SIGNS = { critical: '✖', warning: '▲', info: '·' } as const;

type OnLane = (step: number) => [number, number];

/** In pixels: from where to where, and the mark of the step at which it was said; undefined if none of it is shown. */
function barOf({ since, raised, until, holds }: Stretch, at: OnLane, { first, last }: PanelDrawing) {
  if (since > last || until < first) return undefined;
  const [x, y] = at(Math.max(first, since));
  const [end] = at(holds ? last : Math.min(last, until));
  const [said] = at(Math.min(last, Math.max(first, raised)));
  return { x, y, end: Math.max(x + 3, end), said };
}

function laneBar(verdict: Stretch, at: OnLane, drawing: PanelDrawing, theme: Theme): Shape | undefined {
  const bar = barOf(verdict, at, drawing);
  if (bar === undefined) return undefined;
  const { x, y, end, said } = bar;
  return {
    type: 'group',
    children: [
      {
        type: 'rect',
        shape: { x, y: y - 3.5, width: end - x, height: 7 },
        style: { fill: theme[verdict.severity], opacity: 0.8 },
      },
      {
        type: 'line',
        shape: { x1: said, y1: y - 6.5, x2: said, y2: y + 6.5 },
        style: { stroke: theme.text, lineWidth: 2 },
      },
    ],
  };
}

/** About how wide a letter is. */
const LETTER = 6.6;
const BESIDE = 5;

/**
 * What a lane is about: before its first bar, else behind its last, else between marks, else over the longest bar. Never
 * over a mark as long as there is such a place.
 */
function laneName(lane: readonly Stretch[], at: OnLane, drawing: PanelDrawing, theme: Theme): Shape | undefined {
  const bars = lane.flatMap((verdict) => barOf(verdict, at, drawing) ?? []).sort((a, b) => a.x - b.x);
  const [first, verdict] = [bars[0], lane[0]];
  if (first === undefined || verdict === undefined) return undefined;
  const words = `${SIGNS[verdict.severity]} ${inWords(verdict.kind)}`;
  const width = LETTER * words.length;
  const [[left], [right]] = [at(drawing.first), at(drawing.last)];
  const end = Math.max(...bars.map((bar) => bar.end));
  // What must stay visible: marks, and the edges of the panel.
  const marks = [left, ...bars.map(({ said }) => said), right].sort((a, b) => a - b);
  const gaps = marks.slice(1).map((to, place) => ({ from: (marks[place] as number) + BESIDE, to: to - BESIDE }));
  const gap = gaps.sort((a, b) => b.to - b.from - (a.to - a.from))[0];
  const x =
    first.x - left > width + BESIDE
      ? first.x - BESIDE - width
      : right - end > width + BESIDE
        ? end + BESIDE
        : (gap?.from ?? left);
  const isOver = bars.some((bar) => x < bar.end && x + width > bar.x);
  const isBefore = !isOver && x < first.x;
  return {
    type: 'text',
    style: {
      text: words,
      x: isBefore ? first.x - BESIDE : x,
      y: first.y,
      fill: theme.text,
      font: `11px ${theme.font}`,
      align: isBefore ? 'right' : 'left',
      verticalAlign: 'middle',
      ...(isOver ? { backgroundColor: theme.surface, padding: [0, 2] } : {}),
    },
  };
}
