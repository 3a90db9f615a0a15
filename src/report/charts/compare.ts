// Runs side by side: one panel for what is measured alike, one scale for all.
import type { RunData } from '../report.js';
import { axisText, baseOption, type ChartOption, type ChartTable, plainAxis, type Size } from './chart-option.js';
import { line } from './marks.js';
import { measuredPoints } from './measured-points.js';
import { shortNumber, withInterval } from './number-text.js';
import { distinctWords, miName, miTitle, varietyName, varietyTitle } from './step-words.js';
import { roundUp, titledAxis } from './story.js';
import type { Theme } from './theme.js';
import { visiblePoints } from './visible-points.js';

interface ComparePanel {
  readonly figure: string;
  readonly title: string;
  readonly has: (run: RunData) => boolean;
}

function panelsOf(runs: readonly RunData[]): ComparePanel[] {
  const panels = (figure: string, titleOf: typeof miTitle): ComparePanel[] =>
    distinctWords(runs, titleOf).map((title) => ({
      figure,
      title,
      has: ({ head }) => titleOf(head) === title,
    }));
  return [...panels('mi', miTitle), ...panels('entropy', varietyTitle), ...panels('retrieval', () => 'Retrieval')];
}

const PANEL = 110;
const [TOP, GAP, FOOT] = [18, 24, 40];

/** Pixels that the chart is high. */
export function compareHeight(runs: readonly RunData[]): number {
  const count = panelsOf(runs).length;
  return TOP + FOOT + PANEL * count + GAP * Math.max(0, count - 1);
}

/** Runs are distinguished by these as well as by their colours. */
const DASHES = ['solid', 'dashed', 'dotted'] as const;

export function compareOption(runs: readonly RunData[], theme: Theme, size: Size): ChartOption {
  const [left, right] = [44, 16];
  const panels = panelsOf(runs);
  const height = (size.height - TOP - FOOT - GAP * (panels.length - 1)) / panels.length;
  const ends = runs.flatMap(({ steps }) => (steps.length === 0 ? [] : [steps[0] as number, steps.at(-1) as number]));
  const [first, last] = [Math.min(...ends), Math.max(...ends)];
  const limits = ({ figure, has }: ComparePanel): { min: number; max: number } => {
    if (figure === 'retrieval') return { min: 0, max: 1 };
    const values = runs.filter(has).flatMap(({ figures }) => [...(figures[figure] ?? [])]);
    const known = values.filter((value) => !Number.isNaN(value));
    const most = known.reduce((a, b) => Math.max(a, b), 1e-9);
    return { min: known.reduce((a, b) => Math.min(a, b), 0), max: roundUp(1.04 * most) };
  };
  return {
    ...baseOption(theme),
    grid: panels.map((_, at) => ({ left, right, top: TOP + at * (height + GAP), height })),
    xAxis: panels.map((_, at) => ({
      ...plainAxis(theme),
      gridIndex: at,
      min: first,
      max: last === first ? first + 1 : last,
      axisLabel: { ...axisText(theme), show: at === panels.length - 1, hideOverlap: true },
    })),
    yAxis: panels.map((panel, at) => ({
      ...plainAxis(theme),
      gridIndex: at,
      ...titledAxis(theme, panel.title, limits(panel)),
    })),
    series: panels.flatMap(({ figure, has }, at) =>
      runs.flatMap((run, place) => {
        if (!has(run)) return [];
        const { steps, values } = measuredPoints(run, figure);
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

/** The last step that all of them have; undefined if there is none. */
export function lastCommonStep(runs: readonly RunData[]): number | undefined {
  const [first, ...others] = runs;
  const sets = others.map(({ steps }) => new Set(steps));
  return first?.steps.findLast((step) => sets.every((set) => set.has(step)));
}

/** Facts of each run, with the interval for prompts drawn like these: runs are compared by what they were drawn from. */
export function compareTable(runs: readonly RunData[]): ChartTable {
  const common = lastCommonStep(runs);
  const [bounds, varieties] = [distinctWords(runs, miName), distinctWords(runs, varietyName)];
  return {
    columns: [
      ...['run', 'steps', 'state'],
      ...bounds.map((name) => `${name} at step ${common ?? '—'}, population interval`),
      ...varieties,
      ...['retrieval', 'reward'],
    ],
    rows: runs.map(({ head, steps, figures }) => {
      const at = common === undefined ? -1 : steps.indexOf(common);
      const value = (name: string): number => figures[name]?.[at] ?? Number.NaN;
      const mi = withInterval(value('mi'), value('mi_population_low'), value('mi_population_high'));
      const entropy = shortNumber(value('entropy'));
      return [
        ...[head.name, head.count, head.status.state],
        ...bounds.map((name) => (name === miName(head) ? mi : '')),
        ...varieties.map((name) => (name === varietyName(head) ? entropy : '')),
        ...['retrieval', 'reward'].map((name) => shortNumber(value(name))),
      ];
    }),
  };
}

/** What two runs differ by at the last step that both have, where their populations' intervals say so, measured alike. */
export function differenceSentence(a: RunData, b: RunData): string | undefined {
  const common = lastCommonStep([a, b]);
  if (common === undefined || miName(a.head) !== miName(b.head)) return undefined;
  const at = (run: RunData, name: string): number => run.figures[name]?.[run.steps.indexOf(common)] ?? Number.NaN;
  const [low, high] = [at(a, 'mi_population_low'), at(a, 'mi_population_high')];
  const [otherLow, otherHigh] = [at(b, 'mi_population_low'), at(b, 'mi_population_high')];
  const difference = at(a, 'mi') - at(b, 'mi');
  if ([low, high, otherLow, otherHigh, difference].some(Number.isNaN)) return undefined;
  // Independent runs: half-widths add as the sides of a right angle.
  const width = Math.hypot((high - low) / 2, (otherHigh - otherLow) / 2);
  const interval = `[${shortNumber(difference - width)}, ${shortNumber(difference + width)}]`;
  const verdict = Math.abs(difference) > width ? 'they differ' : 'they cannot be told apart';
  return `${miName(a.head)} of ${a.head.name} less that of ${b.head.name} at step ${common}: ${shortNumber(difference)} ${interval}; ${verdict}.`;
}
