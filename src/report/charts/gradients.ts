// Draws the sources of each bucket's gradient (RAGEN-2's gradient analysis), a row per analysed step: the spread of
// rewards of the bucket's prompts, and the norms of the task's gradient and of KL and entropy together.
import type { GradientBucket, GradientStep } from '../report.js';
import type { ChartOption, ChartTable, Shape, Size } from './chart-option.js';
import { shortNumber } from './number-text.js';
import { dot, pixelDrawing, stroke, words } from './pixel-drawing.js';
import { roundUp } from './story.js';
import type { Theme } from './theme.js';

const ROW = 112;
const HEAD = 22;
const FOOT = 30;
/** Left of each panel, for its scale. */
const SCALE = 46;
const GAP = 14;

/** More rows could not be distinguished. */
const MOST_ROWS = 5;

/** The first, the last, and evenly between. */
export function shownGradients(steps: readonly GradientStep[]): readonly GradientStep[] {
  if (steps.length <= MOST_ROWS) return steps;
  const place = (row: number): number => Math.round((row * (steps.length - 1)) / (MOST_ROWS - 1));
  return Array.from({ length: MOST_ROWS }, (_, row) => steps[place(row)] as GradientStep);
}

export const gradientsHeight = (steps: readonly GradientStep[]): number =>
  HEAD + FOOT + ROW * shownGradients(steps).length;

/** Without the one that has every group. */
const split = ({ buckets }: GradientStep): readonly GradientBucket[] => buckets.filter(({ name }) => name !== 'all');

const TITLES = ['spread of reward (std)', 'task gradient, norm', 'KL + entropy gradient, norm'] as const;

export function gradientsOption(steps: readonly GradientStep[], theme: Theme, size: Size): ChartOption {
  const shown = shownGradients(steps);
  const all = shown.flatMap(split);
  const width = (size.width - GAP * 2) / 3;
  const spreads = all.flatMap(({ spread }) => [spread.least, spread.mean, spread.most]).filter((value) => value > 0);
  // A logarithm has no 0: it lies on the floor.
  const [low, high] = [
    10 ** Math.floor(Math.log10(Math.min(1, ...spreads))),
    10 ** Math.ceil(Math.log10(Math.max(1e-3, ...spreads))),
  ];
  const decades = Math.max(1, Math.log10(high / low));
  const most = roundUp(1.04 * Math.max(1e-12, ...all.flatMap(({ task, regularization }) => [task, regularization])));
  const shapes: Shape[] = TITLES.map((title, at) =>
    words(title, at * (width + GAP) + SCALE, 8, theme, { color: theme.text }),
  );
  for (const [row, step] of shown.entries()) {
    const [top, bottom] = [HEAD + row * ROW + 6, HEAD + (row + 1) * ROW - 14];
    const buckets = split(step);
    const isLast = row === shown.length - 1;
    const spreadY = (value: number): number => {
      const share = value <= 0 ? 0 : Math.max(0, Math.log10(value / low) / decades);
      return bottom - share * (bottom - top);
    };
    const normY = (value: number): number => bottom - (value / most) * (bottom - top);
    for (let panel = 0; panel < TITLES.length; panel++) {
      const [left, right] = [panel * (width + GAP) + SCALE, panel * (width + GAP) + width];
      const slot = (right - left) / Math.max(1, buckets.length);
      const ticks: [number, string][] =
        panel === 0
          ? [low, high].map((value) => [spreadY(value), String(Number(value.toPrecision(1)))])
          : [0, most / 2, most].map((value) => [normY(value), shortNumber(value)]);
      for (const [y, text] of ticks)
        shapes.push(stroke([left, y], [right, y], theme.grid), words(text, left - 6, y, theme, { align: 'right' }));
      if (panel === 0)
        shapes.push(
          words(`step ${step.step}`, left - SCALE + 8, (top + bottom) / 2, theme, {
            align: 'center',
            turned: true,
            color: theme.text,
          }),
        );
      for (const [at, bucket] of buckets.entries()) {
        const x = left + (at + 0.5) * slot;
        shapes.push(...marks(bucket, panel, x, Math.min(26, slot * 0.6), { theme, spreadY, normY, bottom }));
        if (isLast) shapes.push(words(String(at + 1), x, bottom + 12, theme, { align: 'center' }));
      }
    }
  }
  shapes.push(words('bucket of prompts, the least spread first', SCALE, size.height - 8, theme));
  return pixelDrawing(theme, size, shapes);
}

interface Panels {
  readonly theme: Theme;
  readonly spreadY: (value: number) => number;
  readonly normY: (value: number) => number;
  readonly bottom: number;
}

function marks(
  { spread, task, regularization }: GradientBucket,
  panel: number,
  x: number,
  width: number,
  { theme, spreadY, normY, bottom }: Panels,
): Shape[] {
  if (panel === 0) {
    return [
      stroke([x, spreadY(spread.least)], [x, spreadY(spread.most)], theme.reward, 2),
      dot(x, spreadY(spread.mean), 3.5, spread.mean > 0 ? theme.reward : theme.surface, theme.reward),
    ];
  }
  const value = panel === 1 ? task : regularization;
  const y = normY(value);
  const fill = panel === 1 ? theme.mi : theme.entropy;
  return [
    {
      type: 'rect',
      shape: { x: x - width / 2, y, width, height: Math.max(1, bottom - y) },
      style: { fill, opacity: 0.85 },
    },
  ];
}

/** Of the last step: how many buckets regularisation moves at least as much as the task does. */
export function gradientSentence(steps: readonly GradientStep[]): string {
  const last = steps.at(-1);
  if (last === undefined) return '';
  const buckets = split(last).filter(({ task, regularization }) => task + regularization > 0);
  const dominated = buckets.filter(({ task, regularization }) => regularization >= task);
  const names = dominated.map(({ name }) => name.replace('bucket_', '')).join(', ');
  return dominated.length === 0
    ? `At step ${last.step} the task's gradient is the larger one in every bucket that has one.`
    : `At step ${last.step} KL and entropy move the policy at least as much as the task does in ${dominated.length} of ${buckets.length} buckets (${names}): such prompts pull it towards its template.`;
}

export function gradientsTable(steps: readonly GradientStep[]): ChartTable {
  return {
    columns: ['step', 'bucket', 'spread', 'least', 'most', 'task', 'KL + entropy', 'share of the task'],
    rows: steps.flatMap(({ step, buckets }) =>
      buckets.map(({ name, spread: { mean, least, most }, task, regularization }) => {
        const total = task + regularization;
        return [
          step,
          name.replace('bucket_', ''),
          mean,
          least,
          most,
          task,
          regularization,
          total > 0 ? task / total : Number.NaN,
        ];
      }),
    ),
  };
}
