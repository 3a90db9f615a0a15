// Runs side by side: one panel a figure, one scale for all.
import type { RunData } from '../report.js';
import { axisText, baseOption, type ChartOption, type ChartTable, plainAxis, type Size } from './chart-option.js';
import { line } from './marks.js';
import { measuredPoints } from './measured-points.js';
import { shortNumber, withInterval } from './number-text.js';
import { roundUp } from './story.js';
import type { Theme } from './theme.js';
import { visiblePoints } from './visible-points.js';

const PANELS = [
  ['mi', 'I(X;Z), nats a response'],
  ['entropy', 'H(Z|X), nats a token'],
  ['retrieval', 'Retrieval'],
] as const;

/** Runs are told apart by these as well as by their colours. */
const DASHES = ['solid', 'dashed', 'dotted'] as const;

export function compareOption(runs: readonly RunData[], theme: Theme, size: Size): ChartOption {
  const [top, gap, foot, left, right] = [18, 24, 40, 44, 16];
  const height = (size.height - top - foot - gap * (PANELS.length - 1)) / PANELS.length;
  const ends = runs.flatMap(({ steps }) => (steps.length === 0 ? [] : [steps[0] as number, steps.at(-1) as number]));
  const [first, last] = [Math.min(...ends), Math.max(...ends)];
  const most = (name: string): number =>
    Math.max(
      1e-9,
      ...runs.map(({ figures }) => (figures[name] ?? new Float32Array()).reduce((a, b) => (b > a ? b : a), 0)),
    );
  return {
    ...baseOption(theme),
    grid: PANELS.map((_, at) => ({ left, right, top: top + at * (height + gap), height })),
    xAxis: PANELS.map((_, at) => ({
      ...plainAxis(theme),
      gridIndex: at,
      min: first,
      max: last === first ? first + 1 : last,
      axisLabel: { ...axisText(theme), show: at === PANELS.length - 1, hideOverlap: true },
    })),
    yAxis: PANELS.map(([name, title], at) => {
      const max = name === 'retrieval' ? 1 : roundUp(1.04 * most(name));
      const nameTextStyle = { ...axisText(theme), color: theme.text, align: 'left' };
      return {
        ...plainAxis(theme),
        gridIndex: at,
        min: 0,
        max,
        interval: max / 2,
        name: title,
        nameGap: 5,
        nameTextStyle,
      };
    }),
    series: PANELS.flatMap(([name], at) =>
      runs.map((run, place) => {
        const { steps, values } = measuredPoints(run, name);
        const whole = { from: 0, to: steps.length };
        return line(
          visiblePoints(steps, values, whole, Math.max(1, size.width - left - right)),
          {
            color: theme.runs[place % theme.runs.length] as string,
            type: DASHES[Math.floor(place / theme.runs.length + place) % DASHES.length] ?? 'solid',
          },
          { xAxisIndex: at, yAxisIndex: at },
        );
      }),
    ),
  };
}

/** The last step that all of them have; undefined where there is none. */
export function lastCommonStep(runs: readonly RunData[]): number | undefined {
  const [first, ...others] = runs;
  const sets = others.map(({ steps }) => new Set(steps));
  return first?.steps.findLast((step) => sets.every((set) => set.has(step)));
}

/** Facts of each run, with the interval for prompts drawn like these: runs are compared by what they were drawn from. */
export function compareTable(runs: readonly RunData[]): ChartTable {
  const common = lastCommonStep(runs);
  return {
    columns: [
      'run',
      'steps',
      'state',
      `MI at step ${common ?? '—'}, population interval`,
      'H(Z|X)',
      'retrieval',
      'reward',
    ],
    rows: runs.map(({ head, steps, figures }) => {
      const at = common === undefined ? -1 : steps.indexOf(common);
      const value = (name: string): number => figures[name]?.[at] ?? Number.NaN;
      const mi = withInterval(value('mi'), value('mi_population_low'), value('mi_population_high'));
      const others = ['entropy', 'retrieval', 'reward'].map((name) => shortNumber(value(name)));
      return [head.name, head.count, head.status.state, mi, ...others];
    }),
  };
}

/** What two runs differ by at the last step that both have, where their populations' intervals say so. */
export function differenceSentence(a: RunData, b: RunData): string | undefined {
  const common = lastCommonStep([a, b]);
  if (common === undefined) return undefined;
  const at = (run: RunData, name: string): number => run.figures[name]?.[run.steps.indexOf(common)] ?? Number.NaN;
  const [low, high] = [at(a, 'mi_population_low'), at(a, 'mi_population_high')];
  const [otherLow, otherHigh] = [at(b, 'mi_population_low'), at(b, 'mi_population_high')];
  const difference = at(a, 'mi') - at(b, 'mi');
  if ([low, high, otherLow, otherHigh, difference].some(Number.isNaN)) return undefined;
  // Independent runs: half-widths add as the sides of a right angle.
  const width = Math.hypot((high - low) / 2, (otherHigh - otherLow) / 2);
  const interval = `[${shortNumber(difference - width)}, ${shortNumber(difference + width)}]`;
  const verdict = Math.abs(difference) > width ? 'they differ' : 'they cannot be told apart';
  return `MI of ${a.head.name} less that of ${b.head.name} at step ${common}: ${shortNumber(difference)} ${interval}; ${verdict}.`;
}
